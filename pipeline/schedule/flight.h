/* How many micro-batches a schedule has in flight: by a rule in closed form, because generating a
 * schedule takes long where there are many stages, or counted in a generated order. */
#ifndef PST_PIPELINE_SCHEDULE_FLIGHT_H
#define PST_PIPELINE_SCHEDULE_FLIGHT_H
#include "pipeline/schedule/schedule.h"

typedef struct {
    uint32_t n_rank, n_virtual, n_micro;
} pst_schedule_size;

/* The most micro-batches in flight at once. The caller zeroes the lists. */
typedef struct {
    uint32_t n_rank, n_chunk, n_micro;
    int split;             /* B and W are separate */
    const uint32_t *stage; /* [n_chunk] of each chunk */
    /* [n_chunk] from F to the end of W; from F to the end of B; from B to the end of W (0 if
     * fused) */
    uint32_t *f_to_w, *f_to_b, *b_to_w;
    uint32_t *held; /* [n_rank] from F to B, over all chunks of the stage */
} pst_schedule_flight;

/* A schedule's rules. Members may be NULL; the function that calls one says what NULL means. */
struct pst_schedule_rules {
    uint64_t (*saturation)(uint32_t n_rank, uint32_t n_micro);
    int (*in_flight)(pst_schedule_flight *flight);
    uint64_t (*warm_up)(const pst_schedule_size *size, uint32_t stage, uint32_t nth);
};

/* The number of micro-batches from which on a larger number puts no more in flight; at most
 * n_micro. Without rules: n_micro, because nothing is known. With rules but without this one: 2p +
 * 2, which keeps both chunks of every stage busy in a V-shaped placement. */
uint32_t pst_schedule_saturation(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_micro);
/* Fills the lists by the row's rule; 0: there is none, so the caller has to count. */
int pst_schedule_flight_rule(const pst_schedule_row *row, pst_schedule_flight *flight);
/* Fills the lists by counting in the schedule's order. */
pst_status pst_schedule_flight_count(const pst_schedule *schedule, pst_schedule_flight *flight);
/* For rules: sets f_to_w and f_to_b of a chunk, limited to n_micro, and adds to `held`. */
void pst_schedule_flight_set(pst_schedule_flight *flight, uint32_t chunk, uint32_t f_to_w,
                             uint32_t f_to_b);
/* The number of F of a stage's nth chunk before the stage's first B, at most; n_micro without a
 * rule. */
uint32_t pst_schedule_warm_up(const pst_schedule_row *row, const pst_schedule_size *size,
                              uint32_t stage, uint32_t nth);
/* Rough figures, which only decide in which order the search evaluates candidates: the schedule's
 * bubble as a fraction of that of 1F1B, if F, B and W take about the same time, and how many
 * micro-batches of a whole stage the first stage holds. From the row's `bubble` and `held` (in
 * stages). */
void pst_schedule_estimate(const pst_schedule_row *row, const pst_schedule_size *size,
                           double *bubble, double *held);
#endif
