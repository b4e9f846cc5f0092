/* The number of micro-batches that a schedule has in flight: by a closed formula (generating a
 * schedule with many stages takes long), or by counting in a generated schedule. */
#ifndef PST_PIPELINE_SCHEDULE_FLIGHT_H
#define PST_PIPELINE_SCHEDULE_FLIGHT_H
#include "pipeline/schedule/schedule.h"

typedef struct {
    uint32_t n_rank, n_virtual, n_micro; /* n_virtual: chunks per rank */
} pst_schedule_size;

/* Maximum numbers of micro-batches in flight. The caller allocates the lists and sets them to 0. */
typedef struct {
    uint32_t n_rank, n_chunk, n_micro;
    int split;             /* 1: B and W are separate passes */
    const uint32_t *stage; /* [n_chunk] stage of each chunk */
    /* [n_chunk] micro-batches from F to the end of W; from F to the end of B; from B to the end of
     * W (0 for a fused BW) */
    uint32_t *f_to_w, *f_to_b, *b_to_w;
    uint32_t *held; /* [n_rank] micro-batches from F to B, summed over the chunks of the stage */
} pst_schedule_flight;

/* The closed formulas of a schedule. Members may be NULL; the functions below say what that
 * means. */
struct pst_schedule_rules {
    uint64_t (*saturation)(uint32_t n_rank, uint32_t n_micro);
    int (*in_flight)(pst_schedule_flight *flight);
    uint64_t (*warm_up)(const pst_schedule_size *size, uint32_t stage, uint32_t nth);
};

/* Returns the smallest number of micro-batches, at most n_micro, above which the number in flight
 * does not increase. Without rules: n_micro, because nothing is known. Without rules->saturation: 2
 * n_rank + 2, which is enough for both chunks of every stage in a V-shaped placement. */
uint32_t pst_schedule_saturation(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_micro);
/* Sets the lists by rules->in_flight. Returns 0 if the row has no such rule; the caller then has to
 * count. */
int pst_schedule_flight_rule(const pst_schedule_row *row, pst_schedule_flight *flight);
/* Sets the lists by counting in the order of a generated schedule. ENOMEM. */
pst_status pst_schedule_flight_count(const pst_schedule *schedule, pst_schedule_flight *flight);
/* For implementations of rules->in_flight: sets f_to_w and f_to_b of a chunk to at most n_micro,
 * and adds f_to_b to `held` of the stage. */
void pst_schedule_flight_set(pst_schedule_flight *flight, uint32_t chunk, uint32_t f_to_w,
                             uint32_t f_to_b);
/* Returns the maximum number of F of the nth chunk of a stage before the first B of the stage;
 * without a rule n_micro. */
uint32_t pst_schedule_warm_up(const pst_schedule_row *row, const pst_schedule_size *size,
                              uint32_t stage, uint32_t nth);
/* Sets rough estimates, which the search only uses to order candidates: *bubble is the bubble of
 * the schedule divided by that of 1F1B if F, B and W take the same time; *held is the number of
 * micro-batches (of a whole stage) in flight on the first stage. They are computed from `bubble`
 * and `held` of the row. */
void pst_schedule_estimate(const pst_schedule_row *row, const pst_schedule_size *size,
                           double *bubble, double *held);
#endif
