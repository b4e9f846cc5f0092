/* Schedules with F and a fused BW in turn, and what all generators build with. Sources: GPipe
 * (Huang et al., NeurIPS 2019); 1F1B (PipeDream-Flush, Narayanan et al., ICML 2021); interleaved
 * 1F1B (Narayanan et al., SC 2021); 1f1b-early is 1F1B with B and W apart, so that the input
 * gradient leaves before W runs. */
#include "pipeline/schedule/parts.h"
#include <stdlib.h>
#include <string.h>

/* --- building --------------------------------------------------------------------------------- */

static uint32_t rank_of(pst_placement placement, uint32_t n_rank, uint32_t chunk) {
    if (placement == PST_PLACE_ROUND) return chunk % n_rank;
    return chunk < n_rank ? chunk : 2 * n_rank - 1 - chunk;
}

static pst_status check_shape(const char *name, uint32_t n_rank, uint32_t n_virtual,
                              uint32_t n_micro) {
    if (n_rank < 1 || n_rank > PST_SCHEDULE_MAX_RANK)
        return pst_fail(PST_EINPUT, "schedule %s: %u stages; 1 to %d are possible", name, n_rank,
                        PST_SCHEDULE_MAX_RANK);
    if (n_virtual < 1 || n_virtual > PST_SCHEDULE_MAX_VIRTUAL)
        return pst_fail(PST_EINPUT, "schedule %s: %u chunks per rank; 1 to %d are possible", name,
                        n_virtual, PST_SCHEDULE_MAX_VIRTUAL);
    if (n_virtual > PST_SCHEDULE_MAX_CHUNK / n_rank)
        return pst_fail(PST_EINPUT,
                        "schedule %s: %u chunks on each of %u ranks; %d in all are possible", name,
                        n_virtual, n_rank, PST_SCHEDULE_MAX_CHUNK);
    if (n_micro < 1 || n_micro > PST_SCHEDULE_MAX_MICRO)
        return pst_fail(PST_EINPUT, "schedule %s: %u micro-batches; 1 to %d are possible", name,
                        n_micro, PST_SCHEDULE_MAX_MICRO);
    return PST_OK;
}

pst_status pst_schedule_open(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule) {
    uint32_t per_micro = row->generate == pst_schedule_forward_row ? 1 : row->split ? 3 : 2;
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

void pst_schedule_add_beats(pst_schedule *s, uint32_t rank, const pst_beat *beat, uint32_t n) {
    uint32_t next[PST_SCHEDULE_MAX_VIRTUAL] = {0};
    uint64_t at[PST_SCHEDULE_MAX_VIRTUAL]; /* UINT64_MAX: all have been added */
    for (uint32_t i = 0; i < n; i++) at[i] = beat[i].start;
    for (uint64_t left = (uint64_t)n * s->n_micro; left; left--) {
        uint32_t first = 0;
        for (uint32_t i = 1; i < n; i++) first = at[i] < at[first] ? i : first;
        pst_schedule_add(s, rank, (pst_opcode)beat[first].opcode, beat[first].chunk, next[first]);
        at[first] = ++next[first] < s->n_micro ? at[first] + beat[first].every : UINT64_MAX;
    }
}

/* --- one chunk per rank ----------------------------------------------------------------------- */

pst_status pst_schedule_gpipe(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                              uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    for (uint32_t r = 0; r < n_rank; r++) {
        for (uint32_t m = 0; m < n_micro; m++) pst_schedule_add(*schedule, r, PST_OP_F, r, m);
        for (uint32_t m = 0; m < n_micro; m++) pst_schedule_add_backward(*schedule, r, r, m);
    }
    return PST_OK;
}

/* Rank s warms up with one F per later stage, then alternates, then drains. At most p - s stashes
 * are alive. With B and W apart, W directly after its B is optimal for equal stages: rank s ends F
 * of micro-batch k + 1 + (p-1-s) exactly when B of k + 1 may start, so W never delays a B, and the
 * makespan is m(F+B+W) + (p-1)(F+B). */
pst_status pst_schedule_1f1b(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                             uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    for (uint32_t r = 0; r < n_rank; r++) {
        uint32_t warm = n_rank - 1 - r;
        for (uint32_t m = 0; m < warm; m++) pst_schedule_add(*schedule, r, PST_OP_F, r, m);
        for (uint32_t m = 0; m < n_micro; m++) {
            pst_schedule_add(*schedule, r, PST_OP_F, r, warm + m);
            pst_schedule_add_backward(*schedule, r, r, m);
        }
    }
    return PST_OK;
}

/* --- several ---------------------------------------------------------------------------------- */

/* Rounds of p micro-batches go through the first chunk of every rank, then through the next ones.
 * Micro-batches that are left over are shared out among the rounds, the first ones: a short last
 * round would hold up those before it. */
typedef struct {
    uint32_t rounds, size, longer; /* the first `longer` rounds have one more than `size` */
    uint32_t round, k, i, first;   /* the pass that is next: of micro-batch first + i, in the rank's
                                      k-th chunk */
} walk;

static walk walk_of(uint32_t n_rank, uint32_t n_micro) {
    uint32_t rounds = n_micro < n_rank ? 1 : n_micro / n_rank;
    return (walk){.rounds = rounds, .size = n_micro / rounds, .longer = n_micro % rounds};
}

static uint32_t size_of_round(const walk *w) { return w->size + (w->round < w->longer); }

static void add_next(pst_schedule *s, uint32_t rank, walk *w, int backward) {
    uint32_t v = s->n_chunk / s->n_rank,
             chunk = (backward ? v - 1 - w->k : w->k) * s->n_rank + rank;
    if (w->round == w->rounds) return;
    if (backward) pst_schedule_add_backward(s, rank, chunk, w->first + w->i);
    else pst_schedule_add(s, rank, PST_OP_F, chunk, w->first + w->i);
    if (++w->i < size_of_round(w)) return;
    w->i = 0;
    if (++w->k < v) return;
    w->k = 0;
    w->first += size_of_round(w);
    w->round++;
}

pst_status pst_schedule_interleaved(const pst_schedule_row *row, uint32_t n_rank,
                                    uint32_t n_virtual, uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    for (uint32_t r = 0; r < n_rank; r++) {
        walk there = walk_of(n_rank, n_micro), back = there;
        uint64_t warm =
            2 * (uint64_t)(n_rank - 1 - r) + (uint64_t)(n_virtual - 1) * size_of_round(&there);
        for (uint64_t i = 0; i < warm && there.round < there.rounds; i++)
            add_next(*schedule, r, &there, 0);
        while (back.round < back.rounds) {
            add_next(*schedule, r, &there, 0);
            add_next(*schedule, r, &back, 1);
        }
    }
    return PST_OK;
}

/* --- evaluation ------------------------------------------------------------------------------- */

/* Micro-batch k enters chunk c at c + k * (chunks of a rank), were there no others: any order of
 * such times can run. */
static void fill_forward(pst_schedule *s) {
    for (uint32_t r = 0; r < s->n_rank; r++) {
        pst_beat beat[PST_SCHEDULE_MAX_VIRTUAL];
        uint32_t n = 0;
        for (uint32_t c = 0; c < s->n_chunk; c++)
            if (s->rank_of_chunk[c] == r)
                beat[n++] = (pst_beat){
                    .opcode = PST_OP_F, .chunk = c, .start = c, .every = s->n_chunk / s->n_rank};
        pst_schedule_add_beats(s, r, beat, n);
    }
}

pst_status pst_schedule_forward_row(const pst_schedule_row *row, uint32_t n_rank,
                                    uint32_t n_virtual, uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    fill_forward(*schedule);
    return PST_OK;
}

pst_status pst_schedule_forward(const pst_schedule *like, uint32_t n_micro,
                                pst_schedule **schedule) {
    const pst_schedule_row *row;
    PST_TRY(pst_schedule_find("forward", &row));
    PST_TRY(pst_schedule_open(row, like->n_rank, like->n_chunk / like->n_rank, n_micro, schedule));
    memcpy((*schedule)->rank_of_chunk, like->rank_of_chunk,
           like->n_chunk * sizeof *like->rank_of_chunk);
    fill_forward(*schedule);
    return PST_OK;
}
