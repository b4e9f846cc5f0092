/* Schedules with F and a fused BW. Sources: GPipe (Huang et al., NeurIPS 2019); 1F1B
 * (PipeDream-Flush, Narayanan et al., ICML 2021); interleaved 1F1B (Narayanan et al., SC 2021).
 * 1f1b-early is 1F1B with B and W apart, so that the input gradient is sent before W runs. */
#include "pipeline/schedule/build.h"
#include "pipeline/schedule/flight.h"
#include "pipeline/schedule/rows.h"

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

/* Rank s warms up with one F per later stage, then alternates, then drains. It stashes at most p -
 * s micro-batches. With B and W apart, W directly after its B is optimal for equal stages: rank s
 * ends F of micro-batch k + 1 + (p-1-s) exactly when B of k + 1 may start, so W never delays a B,
 * and the makespan is m(F+B+W) + (p-1)(F+B). */
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

static uint64_t saturation_gpipe(uint32_t n_rank, uint32_t n_micro) {
    (void)n_rank;
    return n_micro;
}

static int in_flight_gpipe(pst_schedule_flight *f) {
    for (uint32_t k = 0; k < f->n_chunk; k++) pst_schedule_flight_set(f, k, f->n_micro, f->n_micro);
    return 1;
}

const pst_schedule_rules pst_schedule_gpipe_rules = {.saturation = saturation_gpipe,
                                                     .in_flight = in_flight_gpipe};

static int in_flight_1f1b(pst_schedule_flight *f) {
    for (uint32_t k = 0; k < f->n_chunk; k++) {
        pst_schedule_flight_set(f, k, f->n_chunk - k, f->n_chunk - k);
        f->b_to_w[k] = (uint32_t)f->split;
    }
    return 1;
}

static uint64_t warm_up_1f1b(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    (void)nth;
    return size->n_rank - stage;
}

const pst_schedule_rules pst_schedule_1f1b_rules = {.in_flight = in_flight_1f1b,
                                                    .warm_up = warm_up_1f1b};

/* --- several chunks per rank
 * ---------------------------------------------------------------------------------- */

/* Rounds of p micro-batches go through the first chunk of every rank, then through the second, and
 * so on. If p does not divide their number, the first rounds get one or more each of those that
 * remain: a short last round would delay the rounds before it. */
typedef struct {
    uint32_t rounds, size, longer; /* the first `longer` rounds have one more than `size` */
    /* the next pass: of micro-batch first + i, in the rank's k-th chunk */
    uint32_t round, k, i, first;
} round_cursor;

static round_cursor rounds_of(uint32_t n_rank, uint32_t n_micro) {
    uint32_t rounds = n_micro < n_rank ? 1 : n_micro / n_rank;
    return (round_cursor){.rounds = rounds, .size = n_micro / rounds, .longer = n_micro % rounds};
}

static uint32_t size_of_round(const round_cursor *w) { return w->size + (w->round < w->longer); }

static void add_next(pst_schedule *s, uint32_t rank, round_cursor *w, int backward) {
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
        round_cursor forward = rounds_of(n_rank, n_micro), backward = forward;
        uint64_t warm =
            2 * (uint64_t)(n_rank - 1 - r) + (uint64_t)(n_virtual - 1) * size_of_round(&forward);
        for (uint64_t i = 0; i < warm && forward.round < forward.rounds; i++)
            add_next(*schedule, r, &forward, 0);
        while (backward.round < backward.rounds) {
            add_next(*schedule, r, &forward, 0);
            add_next(*schedule, r, &backward, 1);
        }
    }
    return PST_OK;
}

/* A round has p micro-batches, plus its part of the remainder. */
static uint64_t saturation_interleaved(uint32_t p, uint32_t n_micro) {
    uint32_t over = n_micro % p;
    return (over + 4) * (uint64_t)p + over;
}

/* One B follows each F of the steady state, which begins with the first F after the warm-up. */
static uint64_t warm_up_interleaved(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    round_cursor w = rounds_of(size->n_rank, size->n_micro);
    uint64_t n = 0, left = 2 * (uint64_t)(size->n_rank - 1 - stage) +
                           (uint64_t)(size->n_virtual - 1) * size_of_round(&w) + 1;
    for (; w.round < w.rounds && left; w.round++)
        for (uint32_t k = 0; k < size->n_virtual && left; k++) {
            uint64_t here = size_of_round(&w), now = here < left ? here : left;
            n += k == nth ? now : 0;
            left -= now;
        }
    return n;
}

const pst_schedule_rules pst_schedule_interleaved_rules = {.saturation = saturation_interleaved,
                                                           .warm_up = warm_up_interleaved};

/* --- evaluation ------------------------------------------------------------------------------- */

/* A single micro-batch k would enter chunk c at c + k * (chunks per rank); an order by such times
 * cannot deadlock. */
void pst_schedule_fill_forward(pst_schedule *s) {
    for (uint32_t r = 0; r < s->n_rank; r++) {
        pst_pass_series series[PST_SCHEDULE_MAX_VIRTUAL];
        uint32_t n = 0;
        for (uint32_t c = 0; c < s->n_chunk; c++)
            if (s->rank_of_chunk[c] == r)
                series[n++] = (pst_pass_series){
                    .opcode = PST_OP_F, .chunk = c, .start = c, .period = s->n_chunk / s->n_rank};
        pst_schedule_add_series(s, r, series, n);
    }
}

pst_status pst_schedule_forward_row(const pst_schedule_row *row, uint32_t n_rank,
                                    uint32_t n_virtual, uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    pst_schedule_fill_forward(*schedule);
    return PST_OK;
}
