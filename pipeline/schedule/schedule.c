/* Schedules: the list of generators, what every schedule must fulfil, and its text.
 * pipeline/schedule/classic.c and pipeline/schedule/zero.c generate. */
#include "pipeline/schedule/parts.h"
#include <stdlib.h>
#include <string.h>

static const pst_schedule_row rows[] = {
    {"gpipe", "all F, then all BW; stashes every micro-batch", 0, 1, PST_PLACE_ROUND,
     pst_schedule_gpipe},
    {"1f1b",
     "one F, one fused BW in turn; stashes at most one micro-batch per later stage, plus one", 0, 1,
     PST_PLACE_ROUND, pst_schedule_1f1b},
    {"1f1b-early",
     "1f1b with W apart: the input gradient leaves before W, so the bubble is (p-1)(F+B)", 1, 1,
     PST_PLACE_ROUND, pst_schedule_1f1b},
    {"interleaved",
     "1f1b over several chunks per rank (2, or --chunks): the bubble is (p-1)(F+B+W)/chunks", 0, 0,
     PST_PLACE_ROUND, pst_schedule_interleaved},
    {"zb-h1", "W fills what 1f1b leaves idle, with its memory: the bubble is (p-1)(F+B-W)", 1, 1,
     PST_PLACE_ROUND, pst_schedule_zb_h},
    {"zb-h2",
     "twice the warm-up of zb-h1: no bubble where F = B = W, stashes up to 2p-1 micro-batches", 1,
     1, PST_PLACE_ROUND, pst_schedule_zb_h},
    {"zb-v",
     "two chunks per rank, there and back: no bubble where F = B = W, with the memory of 1f1b", 1,
     2, PST_PLACE_THERE_AND_BACK, pst_schedule_zb_v},
    {"v-half", "there and back, with half the memory of 1f1b and half its bubble", 1, 2,
     PST_PLACE_THERE_AND_BACK, pst_schedule_v},
    {"v-min", "there and back, with a third of the memory of 1f1b and two thirds of its bubble", 1,
     2, PST_PLACE_THERE_AND_BACK, pst_schedule_v},
    {"dualpipev", "there and back, F beside B of another micro-batch; stashes p+1/2 micro-batches",
     1, 2, PST_PLACE_THERE_AND_BACK, pst_schedule_dualpipev},
    {"forward", "F only: evaluation and generation", 0, 1, PST_PLACE_ROUND,
     pst_schedule_forward_row},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Found by name, but made from more than sizes. */
static const pst_schedule_row others[] = {
    {"custom", "from a CSV file (parallel.schedule_file)", 0, 0, PST_PLACE_ROUND, NULL},
    {"solved", "made for the durations and the memory of these stages", 1, 0, PST_PLACE_ROUND,
     NULL},
};

const pst_schedule_row *pst_schedule_rows(uint32_t *n) {
    *n = ROWS;
    return rows;
}

/* --- lookup ----------------------------------------------------------------------------------- */

/* Levenshtein distance; the names of rows are short, longer input counts as far away. */
static uint32_t distance(const char *a, const char *b) {
    enum { MAX = 32 };
    size_t n = strlen(a), k = strlen(b);
    uint32_t row[MAX + 1];
    if (n > MAX || k > MAX) return UINT32_MAX;
    for (uint32_t j = 0; j <= k; j++) row[j] = j;
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t corner = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= k; j++) {
            uint32_t best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[k];
}

pst_status pst_schedule_find(const char *name, const pst_schedule_row **row) {
    const pst_schedule_row *near = NULL;
    uint32_t least = 4;
    char list[256] = "";
    for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i].name, name)) {
            *row = &others[i];
            return PST_OK;
        }
    for (uint32_t i = 0; i < ROWS; i++) {
        if (!strcmp(rows[i].name, name)) {
            *row = &rows[i];
            return PST_OK;
        }
        uint32_t d = distance(name, rows[i].name);
        if (d < least) {
            least = d;
            near = &rows[i];
        }
        if (strcmp(rows[i].name, "forward")) /* which trains nothing */
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
                     rows[i].name);
    }
    if (near)
        return pst_fail(
            PST_EINPUT,
            "no schedule is called \"%.64s\"; did you mean \"%s\"? There are %s, custom, solved",
            name, near->name, list);
    return pst_fail(PST_EINPUT, "no schedule is called \"%.64s\"; there are %s, custom, solved",
                    name, list);
}

pst_status pst_schedule_virtual(const pst_schedule_row *row, uint32_t asked, uint32_t *n_virtual) {
    if (asked && row->n_virtual && asked != row->n_virtual)
        return pst_fail(PST_EINPUT,
                        "schedule %s has %u chunk%s per rank, not %u; leave the number of chunks "
                        "out, or use interleaved "
                        "or solved",
                        row->name, row->n_virtual, row->n_virtual == 1 ? "" : "s", asked);
    *n_virtual = asked ? asked : row->n_virtual ? row->n_virtual : 2;
    return PST_OK;
}

pst_status pst_schedule_generate(const char *name, uint32_t n_rank, uint32_t n_virtual,
                                 uint32_t n_micro, pst_schedule **schedule) {
    const pst_schedule_row *row;
    PST_TRY(pst_schedule_find(name, &row));
    PST_TRY(pst_schedule_virtual(row, n_virtual, &n_virtual));
    if (!row->generate)
        return pst_fail(
            PST_EINPUT,
            "schedule %s is not made from the numbers of stages and micro-batches alone", name);
    return row->generate(row, n_rank, n_virtual, n_micro, schedule);
}

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
                        "schedule %s: %u ranks, %u chunks, %u micro-batches are out of range",
                        s->name, s->n_rank, s->n_chunk, s->n_micro);
    }
    if (s->split && !s->backward)
        return pst_fail(PST_EINPUT, "schedule %s: split without a backward pass", s->name);
    for (uint32_t c = 0; c < s->n_chunk; c++) {
        if (s->rank_of_chunk[c] >= s->n_rank) {
            return pst_fail(PST_EINPUT, "schedule %s: chunk %u is on rank %u of %u", s->name, c,
                            s->rank_of_chunk[c], s->n_rank);
        }
    }
    return PST_OK;
}

/* done: bits 1 << opcode per (chunk, micro-batch); next: first micro-batch whose W (BW) has not
 * come, per chunk. */
static pst_status check_action(const pst_schedule *s, uint32_t rank, uint32_t i, uint8_t *done,
                               uint32_t *next) {
    const pst_action *a = &s->action[rank][i];
    const char *op = pst_opcode_name((pst_opcode)a->opcode);
    uint32_t allowed = 1u << PST_OP_F;
    if (s->backward) allowed |= s->split ? 1u << PST_OP_B | 1u << PST_OP_W : 1u << PST_OP_BW;
    if (a->opcode >= PST_OP_COUNT || !(allowed >> a->opcode & 1)) {
        return pst_fail(PST_EINPUT, "schedule %s: rank %u action %u: %s has no place here", s->name,
                        rank, i, op);
    }
    if (a->chunk >= s->n_chunk || a->micro >= s->n_micro || s->rank_of_chunk[a->chunk] != rank) {
        return pst_fail(PST_EINPUT, "schedule %s: rank %u action %u: %s c%u m%u is not this rank's",
                        s->name, rank, i, op, a->chunk, a->micro);
    }
    uint8_t *bits = &done[(size_t)a->chunk * s->n_micro + a->micro];
    if (*bits >> a->opcode & 1) {
        return pst_fail(PST_EINPUT, "schedule %s: rank %u runs %s c%u m%u twice", s->name, rank, op,
                        a->chunk, a->micro);
    }
    pst_opcode before = a->opcode == PST_OP_W ? PST_OP_B : PST_OP_F;
    if (a->opcode != PST_OP_F && !(*bits >> before & 1)) {
        return pst_fail(PST_EINPUT, "schedule %s: rank %u runs %s c%u m%u before its %s", s->name,
                        rank, op, a->chunk, a->micro, pst_opcode_name(before));
    }
    *bits |= (uint8_t)(1u << a->opcode);
    if (a->opcode != PST_OP_W && a->opcode != PST_OP_BW) return PST_OK;
    if (a->micro != next[a->chunk]) {
        return pst_fail(PST_EINPUT,
                        "schedule %s: rank %u runs %s c%u m%u where m%u is next: gradients add in "
                        "micro-batch order",
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
        status = pst_fail(PST_ENOMEM, "schedule %s: no memory to check it", s->name);
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
        status = pst_fail(PST_EINPUT, "schedule %s: %s c%zu m%zu never runs", s->name,
                          pst_opcode_name(op), k / s->n_micro, k % s->n_micro);
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
    return ferror(out) ? pst_fail(PST_ENOMEM, "the schedule cannot be written") : PST_OK;
}
