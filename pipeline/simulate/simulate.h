/* Simulates the instruction lists of a job, as a longest-path computation. The executor on the
 * `timed` device and transport with the virtual clock gives every instruction the same start and
 * end.
 *
 * Timing: a compute instruction starts when its dependencies and the previous compute instruction
 * have ended, and takes instr.ns. SEND and RECV are issued when their dependencies have ended and
 * all earlier instructions of the same queue have been issued. A transfer starts when SEND and RECV
 * are issued (rendezvous), and takes the ns of the SEND; then both end. The bytes that a rank
 * sends, or receives, follow each other (wire_ns in links.h) in the order in which both ends were
 * issued. */
#ifndef PST_PIPELINE_SIMULATE_SIMULATE_H
#define PST_PIPELINE_SIMULATE_SIMULATE_H
#include "pipeline/compile/job.h"

/* Start and end of an instruction, in ns since the start of the step. A transfer starts when both
 * ends are issued and the link is free. */
typedef struct {
    uint64_t start, end;
} pst_span;

typedef struct {
    uint32_t n_rank;
    pst_span **span;  /* [n_rank][n_instr] */
    uint64_t step_ns; /* end of the last instruction */
    /* part of step_ns before the first F of all ranks: waiting for weights from other replicas */
    uint64_t head_ns;
    uint64_t flush_ns; /* part of step_ns after the last pass of all ranks */
    /* 1 - busy_ns / span_ns of bubble_rank, the rank with the longest span */
    double bubble;
    uint32_t bubble_rank;
    uint64_t *busy_ns; /* [n_rank] sum of the durations of all passes */
    uint64_t *span_ns; /* [n_rank] time from the start of the first pass to the end of the last pass
                        */
    /* [n_rank] maximum number of micro-batches with F done and B (BW) not done */
    uint32_t *peak_stash;
} pst_timing;

/* Simulates a job. The caller frees *timing with pst_timing_close. EINPUT: the lists deadlock;
 * ENOMEM. */
pst_status pst_simulate(const pst_job *job, pst_timing **timing);
/* Computes a timing from given (measured) spans, span[n_rank][n_instr]. The caller frees *timing.
 * ENOMEM. */
pst_status pst_timing_from_spans(const pst_job *job, pst_span *const *span, pst_timing **timing);
/* Returns a lower bound in ns of the step without the flush, over all orders of the same passes on
 * the same ranks: the maximum over all ranks of the time until the first micro-batch reaches the
 * rank plus the work of the rank, and over all lanes of the forward and backward time of one
 * micro-batch. Messages take no time. */
uint64_t pst_simulate_bound(const pst_job *job);
void pst_timing_close(pst_timing *timing);
#endif
