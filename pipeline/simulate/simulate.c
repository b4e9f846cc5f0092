/* Simulation: a walk gives every instruction its start and end; the figures of a step follow from
 * these in the same way for simulated and measured spans. */
#include "pipeline/simulate/simulate.h"
#include "pipeline/simulate/walk.h"
#include <stdlib.h>
#include <string.h>

static int is_pass(uint8_t opcode) { return opcode <= PST_OP_BW; }

/* The figures of one rank. passes: start of the first and end of the last F, B, W or BW so far,
 * over all ranks. */
static void measure_rank(const pst_job *job, uint32_t rank, pst_timing *t, pst_span *passes) {
    const pst_instr_list *list = &job->list[rank];
    uint64_t first = UINT64_MAX, last = 0;
    uint32_t stash = 0;
    for (uint32_t i = 0; i < list->n_instr; i++) {
        const pst_span *s = &t->span[rank][i];
        uint8_t op = list->instr[i].opcode;
        if (s->end > t->step_ns) t->step_ns = s->end;
        if (!is_pass(op)) continue;
        t->busy_ns[rank] += s->end - s->start;
        if (s->start < first) first = s->start;
        if (s->end > last) last = s->end;
        if (op == PST_OP_F && job->backward && ++stash > t->peak_stash[rank])
            t->peak_stash[rank] = stash;
        int ends = (op == PST_OP_B || op == PST_OP_BW) && pst_instr_begins(&list->instr[i]);
        if (ends && stash) stash--;
    }
    t->span_ns[rank] = last > first ? last - first : 0;
    if (first < passes->start) passes->start = first;
    if (last > passes->end) passes->end = last;
}

static void measure(const pst_job *job, pst_timing *t) {
    pst_span passes = {.start = UINT64_MAX};
    for (uint32_t r = 0; r < job->n_rank; r++) {
        measure_rank(job, r, t, &passes);
        if (t->span_ns[r] > t->span_ns[t->bubble_rank]) t->bubble_rank = r;
    }
    uint64_t busy = t->busy_ns[t->bubble_rank], span = t->span_ns[t->bubble_rank];
    t->bubble = span ? 1 - (double)busy / (double)span : 0;
    t->head_ns = passes.start < passes.end ? passes.start : 0;
    t->flush_ns = t->step_ns - passes.end;
}

static pst_status open_timing(const pst_job *job, pst_timing **timing) {
    pst_timing *t = calloc(1, sizeof *t);
    if (!t) goto no_memory;
    t->n_rank = job->n_rank;
    t->span = calloc(job->n_rank, sizeof *t->span);
    t->busy_ns = calloc(job->n_rank, sizeof *t->busy_ns);
    t->span_ns = calloc(job->n_rank, sizeof *t->span_ns);
    t->peak_stash = calloc(job->n_rank, sizeof *t->peak_stash);
    if (!t->span || !t->busy_ns || !t->span_ns || !t->peak_stash) goto no_memory;
    *timing = t;
    return PST_OK;
no_memory:
    pst_timing_close(t);
    return pst_fail(PST_ENOMEM, "no memory for the timing of %u ranks", job->n_rank);
}

pst_status pst_simulate(const pst_job *job, pst_timing **timing) {
    pst_walk *walk;
    pst_timing *t;
    PST_TRY(pst_walk_open(job, &walk));
    pst_status status = pst_walk_run(walk);
    if (status == PST_OK) status = open_timing(job, &t);
    if (status == PST_OK) {
        pst_span **span = t->span; /* the timing owns the walk's spans from here on */
        t->span = walk->span;
        walk->span = span;
        measure(job, t);
        *timing = t;
    }
    pst_walk_close(walk);
    return status;
}

pst_status pst_timing_from_spans(const pst_job *job, pst_span *const *span, pst_timing **timing) {
    pst_timing *t;
    PST_TRY(open_timing(job, &t));
    for (uint32_t r = 0; r < job->n_rank; r++) {
        uint32_t n = job->list[r].n_instr;
        t->span[r] = malloc((n + 1) * sizeof **t->span);
        if (!t->span[r]) {
            pst_timing_close(t);
            return pst_fail(PST_ENOMEM, "no memory for the spans of rank %u", r);
        }
        memcpy(t->span[r], span[r], n * sizeof **t->span);
    }
    measure(job, t);
    *timing = t;
    return PST_OK;
}

/* Durations of the chunk's passes for one micro-batch: passes[0] F, [1] B (BW), [2] W. */
static void find_passes(const pst_job *job, uint32_t chunk, uint32_t lane, uint64_t passes[3]) {
    const pst_instr_list *list =
        &job->list[pst_grid_in_lane(job->grid, job->rank_of_chunk[chunk], lane)];
    uint32_t left = 1;
    if (job->backward) left = job->split ? 3 : 2;
    memset(passes, 0, 3 * sizeof *passes);
    for (uint32_t i = 0; i < list->n_instr && left; i++) {
        const pst_instr *in = &list->instr[i];
        if (!is_pass(in->opcode) || in->chunk != chunk || in->micro) continue;
        uint32_t at = in->opcode == PST_OP_W ? 2 : 1;
        passes[in->opcode == PST_OP_F ? 0 : at] += in->ns;
        left -= !in->n; /* a pass in parts is added up to the end of the list */
    }
}

static uint64_t bound_of_lane(const pst_job *job, uint32_t lane) {
    uint64_t there = 0, path = 0, last_w = 0, bound = 0, passes[3];
    for (uint32_t c = 0; c < job->n_chunk; c++) {
        uint64_t work = 0;
        for (uint32_t k = c; k < job->n_chunk; k++) {
            if (job->rank_of_chunk[k] != job->rank_of_chunk[c]) continue;
            find_passes(job, k, lane, passes);
            work += (passes[0] + passes[1] + passes[2]) * job->micros[lane / job->grid.tensor];
        }
        if (there + work > bound)
            /* for the first chunk of a rank all of the rank's work, for others less */
            bound = there + work;
        find_passes(job, c, lane, passes);
        there += passes[0];
        path += passes[0] + passes[1];
        if (c == 0) last_w = passes[2];
    }
    return path + last_w > bound ? path + last_w : bound;
}

uint64_t pst_simulate_bound(const pst_job *job) {
    uint64_t bound = 0;
    for (uint32_t lane = pst_job_first_lane(job); lane < pst_job_end_lane(job); lane++) {
        uint64_t own = bound_of_lane(job, lane);
        if (own > bound) bound = own;
    }
    return bound;
}

void pst_timing_close(pst_timing *timing) {
    if (!timing) return;
    for (uint32_t r = 0; timing->span && r < timing->n_rank; r++) free(timing->span[r]);
    free(timing->span);
    free(timing->busy_ns);
    free(timing->span_ns);
    free(timing->peak_stash);
    free(timing);
}
