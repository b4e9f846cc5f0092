/* parallel.schedule solved: of all schedules that keep every rank within its memory the one that is predicted to be the
 * shortest. What takes part: for one chunk per rank, and for two there and back, the order that is solved from the
 * modelled durations, messages and stashes of this plan's stages; and every named schedule. Each is prepared as a run
 * would be, so that memory and prediction are those of the run. Every rank comes to the same result by itself: nothing
 * here depends on the machine, which is why the limit is parallel.memory, or else what zb-h1 needs on its fullest
 * rank. */
#include "engine/prepare.h"
#include "base/arena.h"
#include "base/log.h"
#include "pipeline/schedule_solved.h"
#include <stdlib.h>
#include <string.h>

enum { TRIES = 4 }; /* of one placement, with less memory each time, until the layout holds the limit */

typedef struct {
    const pst_config *config;
    pst_prepare_options options;
    uint64_t limit;     /* bytes of any rank */
    pst_prepared *best; /* NULL: none fits yet */
    char from[32];      /* what it was before it was called "solved" */
    uint64_t bound_ns;  /* of the orders that were solved for; UINT64_MAX: none */
} contest;

static uint64_t largest(const pst_prepared *p) {
    uint64_t most = 0;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->layout[r]->total > most) most = p->layout[r]->total;
    return most;
}

/* As pst_prepare, with a schedule by name, or one that is given. */
static pst_status prepare_with(const contest *c, const char *name, uint32_t chunks, const pst_schedule *schedule,
                               pst_prepared **p) {
    pst_config changed = *c->config; /* shallow: only read below */
    pst_prepare_options options = c->options;
    pst_plan plan;
    changed.parallel.schedule = (char *)(uintptr_t)name;
    changed.parallel.chunks = chunks;
    options.schedule = schedule;
    if (options.plan) {
        plan = *options.plan;
        snprintf(plan.schedule, sizeof plan.schedule, "%s", name);
        options.plan = &plan;
    }
    PST_TRY(pst_prepare(&changed, &options, p));
    (*p)->config = c->config;
    return PST_OK;
}

/* Takes p over. */
static void enter(contest *c, pst_prepared *p, const char *from) {
    uint32_t rank;
    if (pst_prepare_excess(p, c->limit, &rank) || (c->best && c->best->timing->step_ns <= p->timing->step_ns)) {
        pst_prepared_close(p);
        return;
    }
    pst_prepared_close(c->best);
    c->best = p;
    snprintf(c->from, sizeof c->from, "%s", from);
}

/* --- a problem from what was prepared ----------------------------------------------------------------------------- */

typedef struct {
    pst_pass_ns *ns;
    pst_hop_ns *hop;
    pst_held *held;
    uint64_t *limit;
    pst_solve_problem problem;
} stages;

static void close_stages(stages *x) { free(x->ns), free(x->hop), free(x->held), free(x->limit); }

/* Which part of a chunk's stash a class is; NULL: it lives within one pass or is a message. */
static uint64_t *part_of(pst_held *held, const pst_cut_class *k) {
    int to_w = k->deaths >> PST_EV_W & 1, to_b = k->deaths >> PST_EV_B & 1;
    if (k->birth >= PST_EV_RECV_B) return to_w ? &held->b_w : NULL;
    return to_w ? &held->f_w : to_b ? &held->f_b : NULL;
}

/* The longest of the values that cross a boundary in one direction: they travel side by side. */
static void time_hops(const pst_prepared *p, pst_hop_ns *hop) {
    for (uint32_t r = 0; r < p->job->n_rank; r++) {
        const pst_instr_list *list = &p->job->list[r];
        for (uint32_t i = list->n_head; i < list->n_instr - list->n_flush; i++) {
            const pst_instr *in = &list->instr[i];
            if (in->opcode != PST_OP_SEND || in->local == PST_NONE || in->micro) continue;
            int down = p->cut->tape->value[p->cut->chunk[in->chunk].local[in->local].value].kind == PST_VALUE_GRAD;
            uint64_t *ns = down ? &hop[in->chunk - 1].back : &hop[in->chunk].there;
            if (in->ns > *ns) *ns = in->ns;
        }
    }
}

/* Of its ranks the one that may use least. */
static uint64_t stage_room(const contest *c, const pst_prepared *p, uint32_t stage) {
    uint64_t least = c->limit;
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        uint64_t room = pst_grid_at(p->grid, r).stage == stage ? pst_prepare_room(p, c->limit, r) : least;
        if (room < least) least = room;
    }
    return least;
}

/* What a rank may stash is what is left beside everything else that it has. */
static pst_status open_stages(const contest *c, const pst_prepared *p, stages *x) {
    uint32_t n = p->cut->n_chunk, ranks = p->grid.pipeline;
    *x = (stages){calloc(n, sizeof *x->ns),
                  calloc(n, sizeof *x->hop),
                  calloc(n, sizeof *x->held),
                  calloc(ranks, sizeof *x->limit),
                  {0}};
    if (!x->ns || !x->hop || !x->held || !x->limit) return pst_fail(PST_ENOMEM, "no memory to solve for %u chunks", n);
    for (uint32_t k = 0; k < n; k++) {
        const pst_program *program = p->cut->chunk[k].program;
        uint32_t rank = pst_grid_rank(p->grid, p->schedule->rank_of_chunk[k], 0, 0);
        x->ns[k] = (pst_pass_ns){pst_job_slowed(p->job, rank, program[PST_OP_F].ns),
                                 pst_job_slowed(p->job, rank, program[PST_OP_B].ns),
                                 pst_job_slowed(p->job, rank, program[PST_OP_W].ns)};
    }
    time_hops(p, x->hop);
    for (uint32_t r = 0; r < ranks; r++) x->limit[r] = p->plan->peak_bytes[r];
    for (uint32_t k = 0; k < p->cut->n_class; k++) {
        const pst_cut_class *class_ = &p->cut->class_[k];
        uint64_t *part = part_of(&x->held[class_->chunk], class_), bytes = pst_align(class_->bytes);
        if (!part) continue;
        *part += bytes;
        x->limit[p->job->rank_of_chunk[class_->chunk]] -= bytes * p->slots[0]->class_[k].n_slot;
    }
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t room = stage_room(c, p, r);
        x->limit[r] = x->limit[r] < room ? room - x->limit[r] : 0;
    }
    x->problem = (pst_solve_problem){ranks,   n,       p->schedule->n_micro, p->schedule->rank_of_chunk, x->ns, x->hop,
                                     x->held, x->limit};
    return PST_OK;
}

/* Less for each rank whose layout came out too large; 0: none is, or one cannot do with less. */
static int take_from_limits(const contest *c, const pst_prepared *p, stages *x) {
    int taken = 0;
    for (uint32_t r = 0; r < p->grid.pipeline; r++) {
        uint64_t room = stage_room(c, p, r);
        uint64_t over = p->plan->peak_bytes[r] > room ? p->plan->peak_bytes[r] - room : 0;
        if (!over) continue;
        if (over > x->limit[r]) return 0;
        x->limit[r] -= over;
        taken = 1;
    }
    return taken;
}

/* --- who takes part ----------------------------------------------------------------------------------------------- */

/* Chunks on the ranks where the named schedule has them. EINPUT: that cannot be, or not in this memory. */
static pst_status solve_like(contest *c, const char *like, uint32_t chunks) {
    pst_prepared *first, *p = NULL;
    stages x;
    PST_TRY(prepare_with(c, like, chunks, NULL, &first));
    pst_status status = open_stages(c, first, &x);
    for (int i = 0, again = 1; again && i < TRIES && status == PST_OK; i++) {
        pst_schedule *schedule;
        pst_solved found;
        status = pst_schedule_solve(&x.problem, &schedule, &found);
        if (status != PST_OK) break;
        if (i == 0 && found.bound_ns < c->bound_ns) c->bound_ns = found.bound_ns;
        status = prepare_with(c, "solved", chunks, schedule, &p);
        pst_schedule_close(schedule);
        if (status != PST_OK) break;
        again = take_from_limits(c, p, &x);
        enter(c, p, "an order of its own");
    }
    close_stages(&x);
    pst_prepared_close(first);
    return status;
}

/* What cannot be is passed over. */
static pst_status pass_over(pst_status status, const char *name) {
    if (status != PST_EINPUT) return status;
    pst_log(PST_LOG_DEBUG, "schedule solved: %s passed over: %s", name, pst_error());
    pst_error_clear();
    return PST_OK;
}

static pst_status enter_named(contest *c, const pst_schedule_row *row, uint32_t chunks) {
    pst_prepared *p;
    if (!strcmp(row->name, "forward") || (chunks && row->n_virtual && row->n_virtual != chunks)) return PST_OK;
    if (!row->n_virtual && chunks == 1) return PST_OK; /* interleaved, of one chunk, is 1f1b */
    pst_status status = prepare_with(c, row->name, chunks, NULL, &p);
    if (status != PST_OK) return pass_over(status, row->name);
    pst_log(PST_LOG_DEBUG, "schedule solved: %s takes %.3f ms and %.1f MiB", row->name,
            (double)p->timing->step_ns * 1e-6, (double)largest(p) * 0x1p-20);
    enter(c, p, row->name);
    return PST_OK;
}

static pst_status find_limit(contest *c) {
    pst_prepared *p;
    c->limit = (uint64_t)c->config->parallel.memory;
    if (c->limit) return PST_OK;
    pst_prepare_options options = c->options;
    c->options.plan = NULL; /* whose chunks may lie in another way */
    pst_status status = prepare_with(c, "zb-h1", 1, NULL, &p); /* the stashes of 1f1b, with W apart */
    c->options = options;
    PST_TRY(status);
    c->limit = largest(p);
    pst_prepared_close(p);
    return PST_OK;
}

/* The name, in all that is written and printed; and what became of it. */
static pst_prepared *name_solved(const contest *c) {
    pst_prepared *p = c->best;
    snprintf(p->schedules[0]->name, sizeof p->schedules[0]->name, "solved");
    snprintf(p->plan->schedule, sizeof p->plan->schedule, "solved");
    uint64_t least = c->bound_ns + p->timing->flush_ns;
    uint32_t chunks = p->schedule->n_chunk / p->schedule->n_rank;
    /* Chunks in rounds are not solved for, and what was proven for others says nothing of them. */
    int bounded = c->bound_ns != UINT64_MAX && least <= p->timing->step_ns && strcmp(c->from, "interleaved");
    if (!bounded)
        snprintf(p->solved, sizeof p->solved, "%s, %u chunk%s per rank: %.3f ms as %s", c->from, chunks,
                 chunks == 1 ? "" : "s", (double)p->timing->step_ns * 1e-6,
                 *c->config->parallel.measured ? "measured" : "modelled");
    else
        snprintf(
            p->solved, sizeof p->solved,
            "%s, %u chunk%s per rank: %.3f ms as %s, no order of these chunks can take less than %.3f ms (gap %.2f%%)",
            c->from, chunks, chunks == 1 ? "" : "s", (double)p->timing->step_ns * 1e-6,
            *c->config->parallel.measured ? "measured" : "modelled", (double)least * 1e-6,
            ((double)p->timing->step_ns / (double)least - 1) * 100);
    return p;
}

pst_status pst_prepare_solved(const pst_config *config, const pst_prepare_options *options, pst_prepared **prepared) {
    contest c = {.config = config, .options = *options, .bound_ns = UINT64_MAX};
    const pst_plan *plan = options->plan;
    uint32_t n, chunks = plan ? plan->n_chunk / plan->n_rank : (uint32_t)config->parallel.chunks;
    const pst_schedule_row *row = pst_schedule_rows(&n);
    if (chunks > 2) return pst_fail(PST_EINPUT, "schedule solved has 1 or 2 chunks per rank, not %u", chunks);
    pst_status status = find_limit(&c);
    if (status == PST_OK && chunks != 2) status = pass_over(solve_like(&c, "1f1b-early", 1), "one chunk per rank");
    if (status == PST_OK && chunks != 1) status = pass_over(solve_like(&c, "zb-v", 2), "there and back");
    for (uint32_t i = 0; status == PST_OK && i < n; i++) status = enter_named(&c, &row[i], chunks);
    if (status == PST_OK && !c.best)
        status = prepare_with(&c, "1f1b", 1, NULL, &c.best); /* pst_prepare_fits says what would fit */
    if (status != PST_OK) {
        pst_prepared_close(c.best);
        return status;
    }
    *prepared = name_solved(&c);
    return PST_OK;
}
