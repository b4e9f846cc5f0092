/* Building a schedule: used by generators, the CSV reader and the solver. */
#include "pipeline/schedule/build.h"
#include <stdlib.h>
#include <string.h>

static uint32_t rank_of(pst_placement placement, uint32_t n_rank, uint32_t chunk) {
    if (placement == PST_PLACE_ROUND_ROBIN) return chunk % n_rank;
    return chunk < n_rank ? chunk : 2 * n_rank - 1 - chunk;
}

static pst_status check_shape(const char *name, uint32_t n_rank, uint32_t n_virtual,
                              uint32_t n_micro) {
    if (n_rank < 1 || n_rank > PST_SCHEDULE_MAX_RANK)
        return pst_fail(PST_EINPUT, "schedule %s: %u stages; expected 1 to %d", name, n_rank,
                        PST_SCHEDULE_MAX_RANK);
    if (n_virtual < 1 || n_virtual > PST_SCHEDULE_MAX_VIRTUAL)
        return pst_fail(PST_EINPUT, "schedule %s: %u chunks per rank; expected 1 to %d", name,
                        n_virtual, PST_SCHEDULE_MAX_VIRTUAL);
    if (n_virtual > PST_SCHEDULE_MAX_CHUNK / n_rank)
        return pst_fail(PST_EINPUT,
                        "schedule %s: %u chunks on each of %u ranks; expected at most %d in all",
                        name, n_virtual, n_rank, PST_SCHEDULE_MAX_CHUNK);
    if (n_micro < 1 || n_micro > PST_SCHEDULE_MAX_MICRO)
        return pst_fail(PST_EINPUT, "schedule %s: %u micro-batches; expected 1 to %d", name,
                        n_micro, PST_SCHEDULE_MAX_MICRO);
    return PST_OK;
}

pst_status pst_schedule_open(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule) {
    uint32_t per_micro = row->split ? 3 : 2;
    if (row->kind == PST_SCHEDULE_FORWARD) per_micro = 1;
    PST_TRY(check_shape(row->name, n_rank, n_virtual, n_micro));
    pst_schedule *s = calloc(1, sizeof *s);
    if (!s) goto no_memory;
    s->n_rank = n_rank;
    s->n_chunk = n_rank * n_virtual;
    s->n_micro = n_micro;
    s->backward = per_micro > 1;
    s->split = per_micro > 2;
    strncpy(s->name, row->name, sizeof s->name - 1);
    s->rank_of_chunk = malloc(s->n_chunk * sizeof *s->rank_of_chunk);
    s->n_action = calloc(n_rank, sizeof *s->n_action);
    s->action = calloc(n_rank, sizeof *s->action);
    if (!s->rank_of_chunk || !s->n_action || !s->action) goto no_memory;
    for (uint32_t c = 0; c < s->n_chunk; c++)
        s->rank_of_chunk[c] = rank_of(row->placement, n_rank, c);
    for (uint32_t r = 0; r < n_rank; r++)
        if (!(s->action[r] = malloc((size_t)n_micro * n_virtual * per_micro * sizeof **s->action)))
            goto no_memory;
    *schedule = s;
    return PST_OK;
no_memory:
    pst_schedule_close(s);
    return pst_fail(PST_ENOMEM, "schedule %s: no memory for %u stages x %u micro-batches",
                    row->name, n_rank, n_micro);
}

void pst_schedule_add(pst_schedule *s, uint32_t rank, pst_opcode op, uint32_t chunk,
                      uint32_t micro) {
    if (micro >= s->n_micro) return;
    s->action[rank][s->n_action[rank]++] =
        (pst_action){.opcode = (uint8_t)op, .chunk = (uint16_t)chunk, .micro = micro};
}

void pst_schedule_add_backward(pst_schedule *s, uint32_t rank, uint32_t chunk, uint32_t micro) {
    pst_schedule_add(s, rank, s->split ? PST_OP_B : PST_OP_BW, chunk, micro);
    if (s->split) pst_schedule_add(s, rank, PST_OP_W, chunk, micro);
}

void pst_schedule_add_series(pst_schedule *s, uint32_t rank, const pst_pass_series *series,
                             uint32_t n) {
    uint32_t next[PST_SCHEDULE_MAX_VIRTUAL] = {0};
    uint64_t at[PST_SCHEDULE_MAX_VIRTUAL]; /* UINT64_MAX: none is left */
    for (uint32_t i = 0; i < n; i++) at[i] = series[i].start;
    for (uint64_t left = (uint64_t)n * s->n_micro; left; left--) {
        uint32_t first = 0;
        for (uint32_t i = 1; i < n; i++) first = at[i] < at[first] ? i : first;
        pst_schedule_add(s, rank, (pst_opcode)series[first].opcode, series[first].chunk,
                         next[first]);
        at[first] = ++next[first] < s->n_micro ? at[first] + series[first].period : UINT64_MAX;
    }
}
