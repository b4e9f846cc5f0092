/* Schedules: copy, check and print. */
#include "pipeline/schedule/build.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_schedule_copy(const pst_schedule *from, pst_schedule **schedule) {
    pst_schedule *s = calloc(1, sizeof *s);
    if (!s) goto no_memory;
    *s = *from;
    s->rank_of_chunk = malloc(s->n_chunk * sizeof *s->rank_of_chunk);
    s->n_action = malloc(s->n_rank * sizeof *s->n_action);
    s->action = calloc(s->n_rank, sizeof *s->action);
    if (!s->rank_of_chunk || !s->n_action || !s->action) goto no_memory;
    memcpy(s->rank_of_chunk, from->rank_of_chunk, s->n_chunk * sizeof *s->rank_of_chunk);
    memcpy(s->n_action, from->n_action, s->n_rank * sizeof *s->n_action);
    for (uint32_t r = 0; r < s->n_rank; r++) {
        if (!(s->action[r] = malloc(s->n_action[r] * sizeof **s->action))) goto no_memory;
        memcpy(s->action[r], from->action[r], s->n_action[r] * sizeof **s->action);
    }
    *schedule = s;
    return PST_OK;
no_memory:
    pst_schedule_close(s);
    return pst_fail(PST_ENOMEM, "schedule %s: no memory for a copy", from->name);
}

void pst_schedule_close(pst_schedule *schedule) {
    if (!schedule) return;
    for (uint32_t r = 0; schedule->action && r < schedule->n_rank; r++) free(schedule->action[r]);
    free(schedule->action);
    free(schedule->n_action);
    free(schedule->rank_of_chunk);
    free(schedule);
}

/* --- check and print -------------------------------------------------------------------------- */

static pst_status check_sizes(const pst_schedule *s) {
    if (!s->n_rank || !s->n_chunk || !s->n_micro || s->n_chunk > PST_SCHEDULE_MAX_CHUNK ||
        s->n_micro > PST_SCHEDULE_MAX_MICRO) {
        return pst_fail(PST_EINPUT,
                        "schedule %s: %u ranks, %u chunks, %u micro-batches: one of these numbers "
                        "is 0 or too large",
                        s->name, s->n_rank, s->n_chunk, s->n_micro);
    }
    if (s->split && !s->backward)
        return pst_fail(
            PST_EINPUT,
            "schedule %s: a schedule without backward passes cannot have separate B and W",
            s->name);
    for (uint32_t c = 0; c < s->n_chunk; c++) {
        if (s->rank_of_chunk[c] >= s->n_rank) {
            return pst_fail(PST_EINPUT,
                            "schedule %s: chunk %u is on rank %u; expected a rank below %u",
                            s->name, c, s->rank_of_chunk[c], s->n_rank);
        }
    }
    return PST_OK;
}

/* done: bits 1 << opcode per (chunk, micro-batch); next, per chunk: first micro-batch whose W (BW)
 * has not run. */
static pst_status check_action(const pst_schedule *s, uint32_t rank, uint32_t i, uint8_t *done,
                               uint32_t *next) {
    const pst_action *a = &s->action[rank][i];
    const char *op = pst_opcode_name((pst_opcode)a->opcode);
    uint32_t allowed = 1u << PST_OP_F;
    if (s->backward) allowed |= s->split ? 1u << PST_OP_B | 1u << PST_OP_W : 1u << PST_OP_BW;
    if (a->opcode >= PST_OP_COUNT || !(allowed >> a->opcode & 1)) {
        return pst_fail(PST_EINPUT,
                        "schedule %s: rank %u, action %u: this schedule does not allow %s", s->name,
                        rank, i, op);
    }
    if (a->chunk >= s->n_chunk || a->micro >= s->n_micro || s->rank_of_chunk[a->chunk] != rank) {
        return pst_fail(PST_EINPUT,
                        "schedule %s: rank %u, action %u: %s of chunk %u, micro-batch %u does not "
                        "exist or belongs to another rank",
                        s->name, rank, i, op, a->chunk, a->micro);
    }
    uint8_t *bits = &done[(size_t)a->chunk * s->n_micro + a->micro];
    if (*bits >> a->opcode & 1) {
        return pst_fail(PST_EINPUT,
                        "schedule %s: rank %u runs %s of chunk %u, micro-batch %u twice", s->name,
                        rank, op, a->chunk, a->micro);
    }
    pst_opcode before = a->opcode == PST_OP_W ? PST_OP_B : PST_OP_F;
    if (a->opcode != PST_OP_F && !(*bits >> before & 1)) {
        return pst_fail(PST_EINPUT,
                        "schedule %s: rank %u runs %s of chunk %u, micro-batch %u before the %s",
                        s->name, rank, op, a->chunk, a->micro, pst_opcode_name(before));
    }
    *bits |= (uint8_t)(1u << a->opcode);
    if (a->opcode != PST_OP_W && a->opcode != PST_OP_BW) return PST_OK;
    if (a->micro != next[a->chunk]) {
        return pst_fail(
            PST_EINPUT,
            "schedule %s: rank %u runs %s of chunk %u, micro-batch %u before micro-batch "
            "%u; gradients are added in micro-batch order",
            s->name, rank, op, a->chunk, a->micro, next[a->chunk]);
    }
    next[a->chunk]++;
    return PST_OK;
}

pst_status pst_schedule_check(const pst_schedule *s) {
    uint32_t rank, action;
    return pst_schedule_check_at(s, &rank, &action);
}

pst_status pst_schedule_check_at(const pst_schedule *s, uint32_t *rank, uint32_t *action) {
    *rank = *action = UINT32_MAX;
    PST_TRY(check_sizes(s));
    pst_status status = PST_OK;
    size_t pairs = (size_t)s->n_chunk * s->n_micro;
    uint8_t *done = calloc(pairs, 1);
    uint32_t *next = calloc(s->n_chunk, sizeof *next);
    if (!done || !next) {
        status = pst_fail(PST_ENOMEM, "no memory to check schedule %s", s->name);
        goto free_marks;
    }
    for (uint32_t r = 0; r < s->n_rank && status == PST_OK; r++) {
        for (uint32_t i = 0; i < s->n_action[r] && status == PST_OK; i++)
            if ((status = check_action(s, r, i, done, next)) != PST_OK) {
                *rank = r;
                *action = i;
            }
    }
    uint32_t all = 1u << PST_OP_F;
    if (s->backward) all |= s->split ? 1u << PST_OP_B | 1u << PST_OP_W : 1u << PST_OP_BW;
    for (size_t k = 0; k < pairs && status == PST_OK; k++) {
        if (done[k] == all) continue;
        pst_opcode op = PST_OP_F;
        while (!(all >> op & 1) || done[k] >> op & 1) op++;
        *rank = s->rank_of_chunk[k / s->n_micro];
        status = pst_fail(PST_EINPUT, "schedule %s: %s of chunk %zu, micro-batch %zu is missing",
                          s->name, pst_opcode_name(op), k / s->n_micro, k % s->n_micro);
    }
free_marks:
    free(next);
    free(done);
    return status;
}

pst_status pst_schedule_print(const pst_schedule *s, FILE *out) {
    fprintf(out, "schedule %s: %u ranks, %u chunks, %u micro-batches\n", s->name, s->n_rank,
            s->n_chunk, s->n_micro);
    for (uint32_t r = 0; r < s->n_rank; r++) {
        fprintf(out, "rank %u:", r);
        for (uint32_t i = 0; i < s->n_action[r]; i++) {
            const pst_action *a = &s->action[r][i];
            fprintf(out, " %s.c%u.m%u", pst_opcode_name((pst_opcode)a->opcode), a->chunk, a->micro);
        }
        fputc('\n', out);
    }
    return ferror(out) ? pst_fail(PST_ENOMEM, "the schedule could not be written") : PST_OK;
}
