/* parallel.schedule solved: of all schedules that keep every rank within its memory the one that is
 * predicted to be the shortest. What takes part: for every placement of chunks
 * (pst_solve_placements), the order that is solved for (prepare/problem.h), and the named ones.
 * Each is prepared as a run would be, so that memory and prediction are those of the run. Every
 * rank comes to the same result by itself, unless its launcher has handed it on (handoff.h):
 * nothing here depends on the machine, which is why the limit is parallel.memory, or else what the
 * schedule that sets the limit (pst_schedule_with_limit) needs on its fullest rank. */
#include "prepare/layout.h"
#include "prepare/problem.h"
#include "base/log.h"
#include "prepare/handoff.h"
#include <stdlib.h>
#include <string.h>

/* Of one placement, with less memory each time, until the layout holds the limit. */
enum { TRIES = 4 };

typedef struct {
    const pst_config *config;
    pst_prepare_options options;
    const pst_layout *layout;
    uint64_t limit;                /* bytes of any rank */
    uint32_t n_place, at, best_at; /* placements; the one at hand; that of the best */
    pst_solve_placement place[PST_SOLVE_PLACEMENTS];
    uint64_t bound_ns[PST_SOLVE_PLACEMENTS]; /* flush left out; 0: not solved for */
    pst_prepared *best;                      /* NULL: none fits yet */
    char from[32];                           /* what it was before it was called "solved" */
} contest;

static const char *solved_name(void) { return pst_schedule_name_of(PST_SCHEDULE_SOLVED); }

static uint64_t largest(const pst_prepared *p) {
    uint64_t most = 0;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->memory[r]->total > most) most = p->memory[r]->total;
    return most;
}

/* The layout with a schedule by name, or n that are given. */
static pst_status prepare_with(const contest *c, const char *name, uint32_t chunks,
                               pst_schedule *const *schedules, uint32_t n, pst_prepared **p) {
    pst_layout layout = *c->layout; /* shallow: only read below */
    pst_prepare_options options = c->options;
    snprintf(layout.schedule, sizeof layout.schedule, "%s", name);
    layout.chunks = layout.n_chunk ? layout.n_chunk / layout.pipeline : chunks;
    options.schedules = (const pst_schedule *const *)schedules;
    options.n_schedule = n;
    return pst_prepare_build(c->config, &options, &layout, p);
}

/* Takes p over. */
static void enter(contest *c, pst_prepared *p, const char *from) {
    uint32_t rank;
    if (pst_prepare_excess(p, c->limit, &rank) ||
        (c->best && c->best->timing->step_ns <= p->timing->step_ns)) {
        pst_prepared_close(p);
        return;
    }
    pst_prepared_close(c->best);
    c->best = p;
    c->best_at = c->at;
    snprintf(c->from, sizeof c->from, "%s", from);
}

/* --- who takes part --------------------------------------------------------------------------- */

/* EINPUT: chunks cannot lie like that, or not in this memory. */
static pst_status solve_place(contest *c, uint32_t budget_divisor) {
    const pst_solve_placement *place = &c->place[c->at];
    pst_prepared *first, *p = NULL;
    pst_prepare_problems x;
    contest apart = *c;
    apart.options.split = 1;
    PST_TRY(prepare_with(&apart, place->like, place->n_virtual, NULL, 0, &first));
    pst_status status = pst_prepare_problems_open(first, c->limit, &x);
    for (int i = 0, again = 1; again && i < TRIES && status == PST_OK; i++) {
        uint64_t bound = 0;
        status = pst_prepare_problems_solve(&x, budget_divisor, &bound);
        if (status != PST_OK) break;
        if (i == 0 && bound > c->bound_ns[c->at]) c->bound_ns[c->at] = bound;
        status = prepare_with(c, solved_name(), place->n_virtual, x.schedule, x.n, &p);
        if (status != PST_OK) break;
        again = pst_prepare_problems_tighten(p, c->limit, &x);
        enter(c, p, "an order of its own");
    }
    pst_prepare_problems_close(&x);
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

static pst_status enter_named(contest *c, const pst_schedule_row *row) {
    const pst_solve_placement *place = &c->place[c->at];
    pst_prepared *p;
    pst_status status = prepare_with(c, row->name, place->n_virtual, NULL, 0, &p);
    if (status != PST_OK) return pass_over(status, row->name);
    pst_log(PST_LOG_DEBUG, "schedule solved: %s, %u chunk%s per rank, takes %.3f ms and %.1f MiB",
            row->name, place->n_virtual, place->n_virtual == 1 ? "" : "s",
            (double)p->timing->step_ns * 1e-6, (double)largest(p) * 0x1p-20);
    enter(c, p, row->name);
    return PST_OK;
}

/* A little for every placement, its named schedules, then all that may be done for the placement of
 * the best. */
static pst_status hold(contest *c, uint32_t chunks) {
    uint32_t n_row;
    const pst_schedule_row *row = pst_schedule_rows(&n_row);
    c->n_place = pst_solve_placements(chunks, c->place);
    for (c->at = 0; c->at < c->n_place; c->at++) {
        const pst_solve_placement *place = &c->place[c->at];
        char text[64];
        snprintf(text, sizeof text, "%u chunks per rank as %s", place->n_virtual, place->like);
        PST_TRY(pass_over(solve_place(c, c->n_place > 1 ? PST_SOLVE_DIVISOR_EACH : 1), text));
        for (uint32_t i = 0; i < n_row; i++)
            if (pst_solve_placement_has(place, &row[i])) PST_TRY(enter_named(c, &row[i]));
    }
    if (!c->best || c->n_place == 1) return PST_OK;
    c->at = c->best_at;
    return pass_over(solve_place(c, PST_SOLVE_DIVISOR_BEST), c->place[c->at].like);
}

/* Chunks per rank that are asked for; a list of what is computed again has an item for each of
 * them. 0: any. */
static uint32_t asked_chunks(const pst_layout *l) {
    if (l->n_chunk) return l->n_chunk / l->pipeline;
    if (l->chunks || l->n_recompute <= 1 || l->n_recompute % l->pipeline) return l->chunks;
    return l->n_recompute / l->pipeline;
}

/* Of a cut whose chunks lie as those of the schedule that sets the limit: what that needs. 0: they
 * lie in another way. */
static pst_status find_limit_of_cut(contest *c) {
    uint32_t chunks = asked_chunks(c->layout);
    pst_prepared *p;
    pst_status status = prepare_with(c, pst_schedule_with_limit(chunks)->name, chunks, NULL, 0, &p);
    if (status == PST_EINPUT) {
        pst_error_clear();
        return PST_OK;
    }
    PST_TRY(status);
    c->limit = largest(p);
    pst_prepared_close(p);
    return PST_OK;
}

/* parallel.memory, or else what the schedule that sets the limit needs. Of recomputations
 * for several chunks per rank the one that keeps most counts, for all. */
static pst_status find_limit(contest *c) {
    pst_layout layout = *c->layout; /* shallow: only read below */
    contest one = *c;
    pst_prepared *p;
    uint8_t least = PST_RECOMPUTE_FULL;
    c->limit = (uint64_t)c->config->parallel.memory;
    if (!c->limit && layout.n_chunk) PST_TRY(find_limit_of_cut(c));
    if (c->limit) return PST_OK;
    one.layout = &layout;
    layout.n_chunk = 0; /* chunks of the cut may lie in another way */
    layout.first_item = layout.rank_of_chunk = NULL;
    for (uint32_t i = 0; i < layout.n_recompute; i++)
        if (layout.recompute[i] < least) least = layout.recompute[i];
    if (layout.n_recompute > 1 && layout.n_recompute != layout.pipeline) {
        layout.recompute = &least;
        layout.n_recompute = 1;
    }
    PST_TRY(prepare_with(&one, pst_schedule_with_limit(1)->name, 1, NULL, 0, &p));
    c->limit = largest(p);
    pst_prepared_close(p);
    return PST_OK;
}

/* The name, in all that is written and printed. */
static void name_solved(pst_prepared *p) {
    for (uint32_t k = 0; k < p->grid.data; k++)
        snprintf(p->schedules[k]->name, sizeof p->schedules[k]->name, "%s", solved_name());
    pst_layout *l = &p->plan->layout;
    snprintf(l->schedule, sizeof l->schedule, "%s", solved_name());
}

/* What became of it. */
static void describe(const contest *c) {
    pst_prepared *p = c->best;
    uint64_t bound = c->bound_ns[c->best_at], least = bound + p->timing->flush_ns;
    uint32_t chunks = p->schedule->n_chunk / p->schedule->n_rank, rank;
    int n = snprintf(
        p->solved, sizeof p->solved, "%s, %u chunk%s per rank, %s %.1f MiB each: %.3f ms as %s",
        c->from, chunks, chunks == 1 ? "" : "s",
        pst_prepare_excess(p, c->limit, &rank) ? "beyond" : "within", (double)c->limit * 0x1p-20,
        (double)p->timing->step_ns * 1e-6, *c->config->parallel.measured ? "measured" : "modelled");
    if (bound && least <= p->timing->step_ns)
        snprintf(p->solved + n, sizeof p->solved - (size_t)n,
                 ", no order of these chunks can take less than %.3f ms (gap %.2f%%)",
                 (double)least * 1e-6, ((double)p->timing->step_ns / (double)least - 1) * 100);
}

/* As the launcher has solved it. *handed: 0 when it has not. */
static pst_status take_handed(const contest *c, int *handed, pst_prepared **p) {
    pst_handoff h;
    PST_TRY(pst_handoff_open(&h));
    *handed = h.n > 0;
    pst_status status = h.n ? prepare_with(c, solved_name(), h.chunks, h.schedule, h.n, p) : PST_OK;
    if (h.n && status == PST_OK) {
        memcpy((*p)->solved, h.solved, sizeof h.solved);
        name_solved(*p);
    }
    pst_handoff_close(&h);
    return status;
}

pst_status pst_prepare_solved(const pst_config *config, const pst_prepare_options *options,
                              const pst_layout *layout, pst_prepared **prepared) {
    contest c = {.config = config, .options = *options, .layout = layout};
    c.options.score = 0; /* all pipelines together */
    int handed;
    pst_status status = take_handed(&c, &handed, prepared);
    if (handed || status != PST_OK) return status;
    status = find_limit(&c);
    if (status == PST_OK) status = hold(&c, asked_chunks(layout));
    if (status == PST_OK && !c.best) { /* pst_prepare_fits says what would fit */
        const pst_solve_placement *place = &c.place[0];
        snprintf(c.from, sizeof c.from, "%s",
                 place->n_virtual == 1 ? pst_schedule_single_stage()->name : place->like);
        status = prepare_with(&c, c.from, place->n_virtual, NULL, 0, &c.best);
    }
    if (status != PST_OK) {
        pst_prepared_close(c.best);
        return status;
    }
    describe(&c);
    name_solved(c.best);
    *prepared = c.best;
    return PST_OK;
}
