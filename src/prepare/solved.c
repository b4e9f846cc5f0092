/* parallel.schedule solved: of all schedules that keep every rank within its memory limit, the one
 * with the shortest predicted step. Candidates, for every placement of chunks
 * (pst_solve_placements): the solver's order (prepare/problem.h) and the named schedules. Each is
 * prepared as a run would be, so memory and prediction are those of the run. All ranks get the same
 * result, on their own or from their launcher (solved_file.h), because nothing here depends on the
 * machine. So the limit is parallel.memory, or else what the fullest rank needs with the schedule
 * that pst_schedule_with_limit names. */
#include "prepare/layout.h"
#include "prepare/problem.h"
#include "base/log.h"
#include "prepare/solved_file.h"
#include <stdlib.h>
#include <string.h>

/* attempts per placement, each with less memory, until the memory map is within the limit */
enum { TRIES = 4 };

typedef struct {
    const pst_config *config;
    pst_prepare_options options;
    const pst_layout *layout;
    uint64_t limit;                    /* memory limit of each rank, bytes */
    uint32_t n_placement, at, best_at; /* number of placements; the current one; the best one */
    pst_solve_placement placement[PST_SOLVE_PLACEMENTS];
    uint64_t bound_ns[PST_SOLVE_PLACEMENTS]; /* lower bound without the flush; 0: not solved */
    pst_prepared *best;                      /* NULL: none fits yet */
    char from[32];                           /* the best schedule's own name */
} selection;

static const char *solved_name(void) { return pst_schedule_name_of(PST_SCHEDULE_SOLVED); }

static uint64_t largest(const pst_prepared *p) {
    uint64_t most = 0;
    for (uint32_t r = 0; r < p->options.n_rank; r++)
        if (p->memory[r]->total > most) most = p->memory[r]->total;
    return most;
}

/* Prepares the layout with a named schedule, or with n given ones. */
static pst_status prepare_with(const selection *c, const char *name, uint32_t chunks,
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
static void consider(selection *c, pst_prepared *p, const char *from) {
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

/* --- the candidates --------------------------------------------------------------------------- */

/* EINPUT: the placement, or the memory limit, is infeasible. */
static pst_status try_solver(selection *c, uint32_t budget_divisor) {
    const pst_solve_placement *place = &c->placement[c->at];
    pst_prepared *first, *p = NULL;
    pst_prepare_problems x;
    selection split = *c;
    split.options.split = 1;
    PST_TRY(prepare_with(&split, place->like, place->n_virtual, NULL, 0, &first));
    pst_status status = pst_prepare_problems_open(first, c->limit, &x);
    for (int i = 0, again = 1; again && i < TRIES && status == PST_OK; i++) {
        uint64_t bound = 0;
        status = pst_prepare_problems_solve(&x, budget_divisor, &bound);
        if (status != PST_OK) break;
        if (i == 0 && bound > c->bound_ns[c->at]) c->bound_ns[c->at] = bound;
        status = prepare_with(c, solved_name(), place->n_virtual, x.schedule, x.n, &p);
        if (status != PST_OK) break;
        again = pst_prepare_problems_tighten(p, c->limit, &x);
        consider(c, p, "a new order of passes");
    }
    pst_prepare_problems_close(&x);
    pst_prepared_close(first);
    return status;
}

/* An infeasible candidate is skipped. */
static pst_status skip_infeasible(pst_status status, const char *name) {
    if (status != PST_EINPUT) return status;
    pst_log(PST_LOG_DEBUG, "schedule solved: %s skipped: %s", name, pst_error());
    pst_error_clear();
    return PST_OK;
}

static pst_status try_named(selection *c, const pst_schedule_row *row) {
    const pst_solve_placement *place = &c->placement[c->at];
    pst_prepared *p;
    pst_status status = prepare_with(c, row->name, place->n_virtual, NULL, 0, &p);
    if (status != PST_OK) return skip_infeasible(status, row->name);
    pst_log(
        PST_LOG_DEBUG,
        "schedule solved: candidate %s, %u chunk%s per rank: step %.3f ms, largest rank %.1f MiB",
        row->name, place->n_virtual, place->n_virtual == 1 ? "" : "s",
        (double)p->timing->step_ns * 1e-6, (double)largest(p) * 0x1p-20);
    consider(c, p, row->name);
    return PST_OK;
}

/* Solves every placement with a small budget and tries the named schedules that have this
 * placement; then solves the best placement with a large budget. */
static pst_status select_best(selection *c, uint32_t chunks) {
    uint32_t n_row;
    const pst_schedule_row *row = pst_schedule_rows(&n_row);
    c->n_placement = pst_solve_placements(chunks, c->placement);
    for (c->at = 0; c->at < c->n_placement; c->at++) {
        const pst_solve_placement *place = &c->placement[c->at];
        char text[64];
        snprintf(text, sizeof text, "%u chunks per rank as %s", place->n_virtual, place->like);
        PST_TRY(
            skip_infeasible(try_solver(c, c->n_placement > 1 ? PST_SOLVE_DIVISOR_EACH : 1), text));
        for (uint32_t i = 0; i < n_row; i++)
            if (pst_solve_placement_has(place, &row[i])) PST_TRY(try_named(c, &row[i]));
    }
    if (!c->best || c->n_placement == 1) return PST_OK;
    c->at = c->best_at;
    return skip_infeasible(try_solver(c, PST_SOLVE_DIVISOR_BEST), c->placement[c->at].like);
}

/* Chunks per rank from the run file: as given, or from the length of the list of recomputation
 * modes. 0: any number. */
static uint32_t asked_chunks(const pst_layout *l) {
    if (l->n_chunk) return l->n_chunk / l->pipeline;
    if (l->chunks || l->n_recompute <= 1 || l->n_recompute % l->pipeline) return l->chunks;
    return l->n_recompute / l->pipeline;
}

/* Bytes that the schedule which sets the limit needs; 0: the cut has another placement than that
 * schedule. */
static pst_status find_limit_of_cut(selection *c) {
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

/* Sets the memory limit: parallel.memory, or else what the schedule that sets the limit needs. If
 * modes of recomputation are given for several chunks per rank, the one that keeps most is used for
 * all. */
static pst_status find_limit(selection *c) {
    pst_layout layout = *c->layout; /* shallow: only read below */
    selection one = *c;
    pst_prepared *p;
    pst_recompute_way least = layout.n_recompute ? layout.recompute[0] : PST_RECOMPUTE_NONE;
    c->limit = (uint64_t)c->config->parallel.memory;
    if (!c->limit && layout.n_chunk) PST_TRY(find_limit_of_cut(c));
    if (c->limit) return PST_OK;
    one.layout = &layout;
    layout.n_chunk = 0; /* the cut may have another placement */
    layout.first_item = layout.rank_of_chunk = NULL;
    for (uint32_t i = 0; i < layout.n_recompute; i++)
        if (pst_recompute_keeps_more(layout.recompute[i], least)) least = layout.recompute[i];
    if (layout.n_recompute > 1 && layout.n_recompute != layout.pipeline) {
        layout.recompute = &least;
        layout.n_recompute = 1;
    }
    PST_TRY(prepare_with(&one, pst_schedule_with_limit(1)->name, 1, NULL, 0, &p));
    c->limit = largest(p);
    pst_prepared_close(p);
    return PST_OK;
}

/* Sets the name that is written and printed. */
static void name_solved(pst_prepared *p) {
    for (uint32_t k = 0; k < p->grid.data; k++)
        snprintf(p->schedules[k]->name, sizeof p->schedules[k]->name, "%s", solved_name());
    pst_layout *l = &p->plan->layout;
    snprintf(l->schedule, sizeof l->schedule, "%s", solved_name());
}

/* The result in a line. */
static void describe(const selection *c) {
    pst_prepared *p = c->best;
    uint64_t bound = c->bound_ns[c->best_at], least = bound + p->timing->flush_ns;
    uint32_t chunks = p->schedule->n_chunk / p->schedule->n_rank, rank;
    int n = snprintf(
        p->solved, sizeof p->solved,
        "%s, %u chunk%s per rank, %s %.1f MiB per rank: %.3f ms per step, from %s durations",
        c->from, chunks, chunks == 1 ? "" : "s",
        pst_prepare_excess(p, c->limit, &rank) ? "above" : "within", (double)c->limit * 0x1p-20,
        (double)p->timing->step_ns * 1e-6,
        *c->config->parallel.measured ? "measured" : "estimated");
    if (bound && least <= p->timing->step_ns)
        snprintf(p->solved + n, sizeof p->solved - (size_t)n, ", lower bound %.3f ms (gap %.2f%%)",
                 (double)least * 1e-6, ((double)p->timing->step_ns / (double)least - 1) * 100);
}

/* The launcher's solution. *found: 0 if there is none. */
static pst_status take_launchers(const selection *c, int *found, pst_prepared **p) {
    pst_solved_file h;
    PST_TRY(pst_solved_file_open(&h));
    *found = h.n > 0;
    pst_status status = h.n ? prepare_with(c, solved_name(), h.chunks, h.schedule, h.n, p) : PST_OK;
    if (h.n && status == PST_OK) {
        memcpy((*p)->solved, h.solved, sizeof h.solved);
        name_solved(*p);
    }
    pst_solved_file_close(&h);
    return status;
}

pst_status pst_prepare_solved(const pst_config *config, const pst_prepare_options *options,
                              const pst_layout *layout, pst_prepared **prepared) {
    selection c = {.config = config, .options = *options, .layout = layout};
    c.options.score = 0; /* needs all lanes together, */
    c.options.brief = 0; /* and their memory maps */
    int found;
    pst_status status = take_launchers(&c, &found, prepared);
    if (found || status != PST_OK) return status;
    status = find_limit(&c);
    if (status == PST_OK) status = select_best(&c, asked_chunks(layout));
    if (status == PST_OK && !c.best) { /* the caller's pst_prepare_fits will say what would fit */
        const pst_solve_placement *place = &c.placement[0];
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
