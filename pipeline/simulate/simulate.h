/* Simulation: a longest-path computation over the instruction lists. The executor on the `timed`
 * device and transport with the virtual clock gives every instruction the same start and end.
 *
 * Timing: a compute instruction starts when its dependencies and the previous one have ended; it
 * takes instr.ns. SEND and RECV are issued when their dependencies have ended and all earlier ones
 * of their queue have been issued. The transfer starts when both ends are issued (rendezvous),
 * takes the SEND's ns, and completes both at once. The bytes that a rank sends, and those that it
 * receives, take turns (wire_ns of links.h) in the order in which both ends were issued. */
#ifndef PST_PIPELINE_SIMULATE_SIMULATE_H
#define PST_PIPELINE_SIMULATE_SIMULATE_H
#include "pipeline/compile/job.h"

typedef struct {
    uint64_t start, end;
    /* ns since the start of the step; a transfer starts when both ends are issued and it is its
     * turn */
} pst_span;

typedef struct {
    uint32_t n_rank;
    pst_span **span;  /* [n_rank][n_instr] */
    uint64_t step_ns; /* end of the last instruction */
    /* part of it before the first F of all ranks: waiting for weights from other replicas */
    uint64_t head_ns;
    uint64_t flush_ns; /* part of it after the last F/B/W/BW of all ranks */
    /* 1 - busy/span of the rank with the longest span from its first to its last F/B/W/BW */
    double bubble;
    uint32_t bubble_rank;
    uint64_t *busy_ns;    /* [n_rank] sum of F, B, W, BW durations */
    uint64_t *span_ns;    /* [n_rank] */
    uint32_t *peak_stash; /* [n_rank] the most micro-batches with F done and B (BW) not done */
} pst_timing;

/* EINPUT: the lists deadlock. */
pst_status pst_simulate(const pst_job *job, pst_timing **timing);
/* The same figures from measured spans. */
pst_status pst_timing_from_spans(const pst_job *job, pst_span *const *span, pst_timing **timing);
/* Lower bound, without the flush, over all orders of the same passes on the same ranks: a rank
 * starts when the first micro-batch reaches it and then has all of its work to do, and a single
 * micro-batch takes its forward and backward time; of the slowest lane. Messages take no time. */
uint64_t pst_simulate_bound(const pst_job *job);
void pst_timing_close(pst_timing *timing);
#endif
