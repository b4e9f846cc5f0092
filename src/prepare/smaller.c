/* Steps with other lists: the smaller batches with which a run begins (train.batch_warmup), and the
 * steps in which replicas pack nothing yet, or send more than later (parallel.compress), for each
 * size and phase the same layout with fewer micro-batches or other messages; with islands
 * (parallel.local), the steps without outer step, or with a part of an exchange. They are prepared
 * like the others, so that their instruction lists and memory maps are checked and simulated as
 * well. */
#include "partition/cost/replicas.h"
#include "prepare/layout.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* parallel.replicas gives the micro-batches of the whole batch: smaller ones are shared in
 * proportion. */
static pst_status share_in_proportion(const pst_prepared *p, pst_layout *l) {
    const uint32_t n = l->data;
    double *period = malloc(n * sizeof *period);
    if (!period) return pst_no_memory("for the micro-batches of the replicas");
    for (uint32_t k = 0; k < n; k++) period[k] = 1.0 / (p->micro[k + 1] - p->micro[k]);
    if (l->n_micro >= n) pst_replicas_share(period, n, l->n_micro, l->micros);
    free(period);
    return PST_OK;
}

/* The solver's order is for the whole batch; the named schedule with the same placement of chunks
 * is used for smaller ones. */
static void name_schedule(pst_layout *l) {
    if (pst_schedule_kind_of(l->schedule) != PST_SCHEDULE_SOLVED) return;
    const int v_shape = l->pipeline > 1 && l->rank_of_chunk &&
                        l->rank_of_chunk[l->n_chunk - 1] == l->rank_of_chunk[0];
    const pst_schedule_row *row = pst_schedule_with_placement(
        v_shape ? PST_PLACE_V_SHAPE : PST_PLACE_ROUND_ROBIN, l->n_chunk / l->pipeline);
    snprintf(l->schedule, sizeof l->schedule, "%s", row->name);
}

static pst_status layout_for(const pst_prepared *p, uint64_t samples, pst_layout *l) {
    PST_TRY(pst_layout_copy(&p->plan->layout, l));
    pst_status status = PST_OK;
    pst_layout_divide(l, samples);
    l->chunks = l->n_chunk / l->pipeline;
    name_schedule(l);
    if (p->config->parallel.n_replicas) status = share_in_proportion(p, l);
    if (p->config->parallel.n_replicas && status == PST_OK) return PST_OK;
    free(l->micros); /* by speed */
    l->micros = NULL;
    if (status != PST_OK) pst_layout_close(l);
    return status;
}

static pst_status prepare_for(const pst_prepared *p, uint64_t samples, uint32_t phase,
                              pst_prepared **out) {
    pst_layout l;
    pst_prepare_options options = p->options;
    PST_TRY(layout_for(p, samples, &l));
    options.layout = &l;
    options.n_eval_micro = 0;
    options.smaller = 0;
    options.phase = phase;
    options.quiet = 1;
    pst_status status = pst_prepare_build(p->config, &options, &l, out);
    pst_layout_close(&l);
    return status;
}

static int is_possible(const pst_prepared *p, uint64_t samples) {
    pst_prepared *other;
    if (prepare_for(p, samples, PST_PHASE_LAST, &other) != PST_OK) return 0;
    pst_prepared_close(other);
    return 1;
}

/* "4, 8, 16": first batches with which this layout can run; "none". */
static void list_possible(const pst_prepared *p, char *out, size_t size) {
    const uint64_t batch = (uint64_t)p->config->train.batch;
    const uint32_t most = 8;
    uint32_t n = 0;
    *out = 0;
    for (uint64_t d = 1; d < batch && n < most; d++) {
        if (batch % d || !is_possible(p, d)) continue;
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%" PRIu64, n++ ? ", " : "", d);
    }
    if (!n) snprintf(out, size, "none");
}

/* Adds what is possible to the message of the failed preparation. */
static pst_status refuse(const pst_prepared *p, uint64_t samples, pst_status status) {
    char why[400], values[200];
    if (status != PST_EINPUT || samples == (uint64_t)p->config->train.batch) return status;
    snprintf(why, sizeof why, "%s", pst_error());
    list_possible(p, values, sizeof values);
    status = pst_fail(PST_EINPUT,
                      "train.batch_warmup: batches of %" PRIu64
                      " samples are not possible in this layout: %s; values of from with which it "
                      "can run: %s",
                      samples, why, values);
    return pst_config_at(p->config, "train.batch_warmup", "from", status);
}

/* Weights and states stay where they are when a run goes on with other lists. */
static int keeps_state(const pst_memory_map *a, const pst_memory_map *b) {
    for (int region = PST_REGION_WEIGHT; region <= PST_REGION_OUTER; region++)
        if (a->start[region] != b->start[region] || a->bytes[region] != b->bytes[region]) return 0;
    return 1;
}

/* Makes the arenas as large as the job `other` needs them. */
static pst_status take_memory(pst_prepared *p, const pst_prepared *other) {
    for (uint32_t r = 0; r < p->options.n_rank; r++) {
        pst_memory_map *x = p->memory[r];
        const pst_memory_map *of = other->memory[r];
        if (!x || !of) continue; /* a single lane was prepared */
        if (!keeps_state(x, of))
            return pst_fail(PST_EINTERNAL,
                            "rank %u: weights or optimizer state move between two steps", r);
        if (of->total <= x->total) continue;
        x->bytes[PST_REGION_SCRATCH] += of->total - x->total;
        x->total = of->total;
        uint64_t *peak = &p->plan->peak_bytes[pst_grid_stage(p->grid, r)];
        if (x->total > *peak) *peak = x->total;
    }
    return PST_OK;
}

/* The phase of a step, if replicas pack anything in the last one. */
static uint32_t phase_at(const pst_prepared *p, uint64_t step) {
    return p->compression > 1 ? pst_prepare_phase(p->config, step) : PST_PHASE_LAST;
}

/* The first step behind `step` with another size or in another phase; UINT64_MAX: there is none. */
static uint64_t next_change(const pst_prepared *p, uint64_t step) {
    uint64_t begin[PST_PHASES], next = UINT64_MAX;
    const uint32_t n = p->compression > 1 ? pst_prepare_phases(p->config, begin) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (begin[i] > step && begin[i] < next) next = begin[i];
    for (uint32_t i = 0; i < p->batches.n; i++)
        if (p->batches.row[i].step > step && p->batches.row[i].step < next)
            next = p->batches.row[i].step;
    return next;
}

static int is_for(const pst_prepared *p, uint64_t size, uint32_t phase) {
    return pst_prepared_batch(p) == size && p->options.phase == phase;
}

/* Like prepare_for, with the whole batch and its schedules; part 0: without any exchange between
 * islands. */
static pst_status prepare_inner(pst_prepared *p, uint32_t part, uint32_t turn, pst_prepared **out) {
    pst_prepare_options options = p->options;
    options.layout = &p->plan->layout;
    options.schedules = (const pst_schedule *const *)p->schedules;
    options.n_schedule = p->grid.data;
    options.n_eval_micro = 0;
    options.smaller = 0;
    options.quiet = 1;
    options.inner = !part;
    options.part = part;
    options.turn = turn;
    PST_TRY(pst_prepare_build(p->config, &options, &p->plan->layout, out));
    return take_memory(p, *out);
}

static pst_status prepare_turns(pst_prepared *p) {
    const uint32_t n = (uint32_t)p->config->parallel.local.fragments,
                   turns = (uint32_t)p->config->parallel.local.delay + 1;
    if (n == 1 && turns == 1) return PST_OK;
    p->turns = calloc((size_t)n * turns, sizeof(pst_prepared *));
    if (!p->turns) return pst_no_memory("for the lists of exchanges between islands");
    for (; p->n_turns < n * turns; p->n_turns++)
        PST_TRY(
            prepare_inner(p, 1 + p->n_turns / turns, p->n_turns % turns, &p->turns[p->n_turns]));
    return PST_OK;
}

pst_status pst_prepare_inner(pst_prepared *p) {
    if (p->job->islands == 1 || p->inner) return PST_OK;
    PST_TRY(prepare_inner(p, 0, 0, &p->inner));
    PST_TRY(prepare_turns(p));
    p->plan->step_ns = (uint64_t)pst_prepared_step_ns(p);
    return PST_OK;
}

pst_prepared *pst_prepared_other(const pst_prepared *p, uint32_t i) {
    const uint32_t inner = p->inner != NULL;
    if (i < inner) return p->inner;
    i -= inner;
    if (i < p->n_turns) return p->turns[i];
    i -= p->n_turns;
    return i < p->n_smaller ? p->smaller[i] : NULL;
}

pst_prepared *pst_prepared_at(pst_prepared *p, uint64_t step) {
    const uint64_t size = pst_batches_size(&p->batches, step);
    if (p->inner) {
        const pst_local_step at = pst_prepare_local_step(p->config, step);
        const uint32_t turns = (uint32_t)p->config->parallel.local.delay + 1;
        if (at.kind == PST_LOCAL_NONE) return p->inner;
        return at.kind == PST_LOCAL_TURN ? p->turns[at.fragment * turns + at.turn] : p;
    }
    const uint32_t phase = p->n_smaller ? phase_at(p, step) : PST_PHASE_LAST;
    for (uint32_t i = 0; i < p->n_smaller; i++)
        if (is_for(p->smaller[i], size, phase)) return p->smaller[i];
    return p;
}

static pst_status add(pst_prepared *p, uint64_t size, uint32_t phase) {
    pst_status status = prepare_for(p, size, phase, &p->smaller[p->n_smaller]);
    if (status != PST_OK) return refuse(p, size, status);
    return take_memory(p, p->smaller[p->n_smaller++]);
}

pst_status pst_prepare_smaller(pst_prepared *p) {
    p->smaller = calloc(PST_BATCHES + PST_PHASES, sizeof(pst_prepared *));
    if (!p->smaller) return pst_no_memory("for the lists of the first steps");
    for (uint64_t step = 0; step != UINT64_MAX; step = next_change(p, step)) {
        const uint64_t size = pst_batches_size(&p->batches, step);
        const uint32_t phase = phase_at(p, step);
        if (is_for(p, size, phase) || pst_prepared_at(p, step) != p) continue;
        PST_TRY(add(p, size, phase));
    }
    return PST_OK;
}

double pst_prepared_time(pst_prepared *p, uint64_t steps) {
    double ns = 0;
    if (p->inner) return (double)steps * pst_prepared_step_ns(p);
    for (uint64_t step = 0, end; step < steps; step = end) {
        end = next_change(p, step);
        if (end > steps) end = steps;
        ns += (double)(end - step) * (double)pst_prepared_at(p, step)->mean_ns;
    }
    return ns;
}
