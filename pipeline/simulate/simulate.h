/* Simulation: one longest-path pass over the instruction lists. The executor on the `timed` device
 * and transport with the virtual clock gives every instruction the same start and end.
 *
 * Timing: a compute instruction starts at the later of its deps' ends and the end of the one
 * before; it takes instr.ns. SEND and RECV issue when their deps have ended and all earlier ones of
 * their queue have been issued; the transfer starts when both ends have issued (rendezvous), takes
 * the SEND's ns, and completes both at once. Bytes that leave a rank, and that come to it, take
 * turns (wire_ns of links.h), in the order in which both ends have issued. */
#ifndef PST_PIPELINE_SIMULATE_SIMULATE_H
#define PST_PIPELINE_SIMULATE_SIMULATE_H
#include "pipeline/compile/job.h"

typedef struct {
    uint64_t start, end;
} pst_span; /* ns since the start of the step; start of a transfer: when both ends
              had issued, and its turn had come */

typedef struct {
    uint32_t n_rank;
    pst_span **span;  /* [n_rank][n_instr] */
    uint64_t step_ns; /* end of the last instruction */
    /* part of it before the first F of all ranks: waiting for weights of other replicas */
    uint64_t head_ns;
    uint64_t flush_ns; /* part of it after the last F/B/W/BW of all ranks */
    /* 1 - busy/span of the rank with the longest span from its first to its last F/B/W/BW */
    double bubble;
    uint32_t bubble_rank;
    uint64_t *busy_ns;    /* [n_rank] sum of F, B, W, BW durations */
    uint64_t *span_ns;    /* [n_rank] */
    uint32_t *peak_stash; /* [n_rank] most micro-batches with F done and B (BW) not done */
} pst_timing;

/* EINPUT (deadlock) when the lists cannot finish. */
pst_status pst_simulate(const pst_job *job, pst_timing **timing);
/* Derives step_ns, bubble, ... from spans that were measured instead; same struct. */
pst_status pst_timing_from_spans(const pst_job *job, pst_span *const *span, pst_timing **timing);
/* No order of the same passes on the same ranks can end earlier, flush left out: a rank starts when
 * the first micro-batch reaches it and then has all its work to do, and the one micro-batch has to
 * go there and back, in the pipeline that takes longest; messages take no time. */
uint64_t pst_simulate_bound(const pst_job *job);
void pst_timing_close(pst_timing *timing);
#endif
