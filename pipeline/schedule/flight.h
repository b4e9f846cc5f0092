/* How many micro-batches a schedule holds in flight: by its rules, since to make a schedule takes
 * long where there are many stages, or counted in the order that was made. */
#ifndef PST_PIPELINE_SCHEDULE_FLIGHT_H
#define PST_PIPELINE_SCHEDULE_FLIGHT_H
#include "pipeline/schedule/schedule.h"

typedef struct {
    uint32_t n_rank, n_virtual, n_micro;
} pst_schedule_size;

/* Micro-batches that are held, at most. The lists begin with zeros. */
typedef struct {
    uint32_t n_rank, n_chunk, n_micro;
    int split;                    /* B and W are apart */
    const uint32_t *stage;        /* [n_chunk] where it lies */
    uint32_t *most, *to_b, *to_w; /* [n_chunk] from F to the end of W, from F to that of B, and
                                     (where they are apart; else 0) from B to that of W */
    uint32_t *held;               /* [n_rank] F to B, of all chunks of the stage at once */
} pst_schedule_flight;

/* A member that is NULL: what the function below that reads it says. */
struct pst_schedule_rules {
    uint64_t (*full)(uint32_t n_rank, uint32_t n_micro);
    int (*hold)(pst_schedule_flight *flight);
    uint64_t (*warm)(const pst_schedule_size *size, uint32_t stage, uint32_t nth);
};

/* At most n_micro: micro-batches beyond which nothing more is in flight. A row without rules: all,
 * since nothing is known of it. With rules, but none for this, 2p + 2: once all stages are busy,
 * with both chunks of each where they go there and back. */
uint32_t pst_schedule_full(const pst_schedule_row *row, uint32_t n_rank, uint32_t n_micro);
/* Fills the lists by the row's rule; 0: without one, it has to be counted. */
int pst_schedule_flight_rule(const pst_schedule_row *row, pst_schedule_flight *flight);
/* Fills the lists from the order. */
pst_status pst_schedule_flight_count(const pst_schedule *schedule, pst_schedule_flight *flight);
/* For rules: `most` and `to_b` of a chunk, no more than there are micro-batches; adds to `held`. */
void pst_schedule_flight_set(pst_schedule_flight *flight, uint32_t chunk, uint32_t most,
                             uint32_t to_b);
/* F of the nth chunk of a stage before the stage's first B, at most. Without a rule all. */
uint32_t pst_schedule_warm(const pst_schedule_row *row, const pst_schedule_size *size,
                           uint32_t stage, uint32_t nth);
/* What of the bubble of 1F1B the schedule has where F, B and W are about the same, and how many
 * micro-batches of a whole stage its first stage holds: from the row's `bubble` and `held`, in
 * stages. About: only which layouts are looked at first is to depend on it. */
void pst_schedule_character(const pst_schedule_row *row, const pst_schedule_size *size,
                            double *bubble, double *held);
#endif
