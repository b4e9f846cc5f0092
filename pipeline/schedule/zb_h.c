/* Schedules of one chunk per rank in which W fills idle time: ZB-H1, ZB-H2 (Qi et al., Zero Bubble
 * Pipeline Parallelism, arXiv 2401.10241). The order of F and B is generated first, in closed form;
 * then W is placed. */
#include "pipeline/schedule/build.h"
#include "pipeline/schedule/flight.h"
#include "pipeline/schedule/rows.h"
#include "pipeline/schedule/weights.h"

/* Rank s warms up with p - s F (zb-h1) or 2(p - s) - 1 (zb-h2), then B and F alternate. */
static pst_status generate(const pst_schedule_row *row, int twice, uint32_t n_rank,
                           uint32_t n_virtual, uint32_t n_micro, pst_schedule **schedule) {
    PST_TRY(pst_schedule_open(row, n_rank, n_virtual, n_micro, schedule));
    pst_schedule *s = *schedule;
    for (uint32_t r = 0; r < n_rank; r++) {
        uint32_t warm = twice ? 2 * (n_rank - r) - 1 : n_rank - r;
        for (uint32_t m = 0; m < warm; m++) pst_schedule_add(s, r, PST_OP_F, r, m);
        for (uint32_t m = 0; m < n_micro; m++) {
            pst_schedule_add(s, r, PST_OP_B, r, m);
            pst_schedule_add(s, r, PST_OP_F, r, warm + m);
        }
    }
    return pst_schedule_fill_weights(schedule, twice ? 2 * n_rank - 1 : n_rank);
}

pst_status pst_schedule_zb_h1(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                              uint32_t n_micro, pst_schedule **schedule) {
    return generate(row, 0, n_rank, n_virtual, n_micro, schedule);
}

pst_status pst_schedule_zb_h2(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_virtual,
                              uint32_t n_micro, pst_schedule **schedule) {
    return generate(row, 1, n_rank, n_virtual, n_micro, schedule);
}

/* --- micro-batches in flight: the most ----------------------------------------------------------
 */

static int in_flight_h1(pst_schedule_flight *f) {
    for (uint32_t k = 0; k < f->n_chunk; k++) {
        pst_schedule_flight_set(f, k, f->n_rank, f->n_rank - k);
        f->b_to_w[k] = f->f_to_w[k] - f->f_to_b[k] + 1;
    }
    return 1;
}

static int in_flight_h2(pst_schedule_flight *f) {
    uint32_t p = f->n_rank;
    for (uint32_t k = 0; k < f->n_chunk; k++) {
        pst_schedule_flight_set(f, k, 2 * p - 1, 2 * (p - k) - 1);
        uint32_t more = f->f_to_w[k] - f->f_to_b[k] + 1 + (f->n_micro >= 2 * p);
        f->b_to_w[k] = more < f->f_to_w[k] ? more : f->f_to_w[k];
    }
    return 1;
}

static uint64_t warm_up_h1(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    (void)nth;
    return size->n_rank - stage;
}

static uint64_t warm_up_h2(const pst_schedule_size *size, uint32_t stage, uint32_t nth) {
    (void)nth;
    return 2 * (uint64_t)(size->n_rank - 1 - stage) + 1;
}

const pst_schedule_rules pst_schedule_zb_h1_rules = {.in_flight = in_flight_h1,
                                                     .warm_up = warm_up_h1};
const pst_schedule_rules pst_schedule_zb_h2_rules = {.in_flight = in_flight_h2,
                                                     .warm_up = warm_up_h2};
