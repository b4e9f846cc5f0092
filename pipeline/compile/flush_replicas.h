/* Messages with gradients between the replicas of a stage. */
#ifndef PST_PIPELINE_COMPILE_FLUSH_REPLICAS_H
#define PST_PIPELINE_COMPILE_FLUSH_REPLICAS_H
#include "pipeline/compile/rounds.h"

/* Append the SENDs of a round, and the RECVs and REDUCEs of a round, to the list. */
void pst_flush_send_round(pst_job_builder *b, pst_round *round);
void pst_flush_add_round(pst_job_builder *b, pst_round *round);

/* Appends the gradient messages and reductions before part `part` of the last pass (early.h), or,
 * if `part` is the number of parts, after the last one. */
void pst_flush_early(pst_job_builder *b, uint32_t part);

/* State of the gradient messages between the replicas of a stage in the flush. These use the
 * channels b->channel and b->channel + 1, which the caller reserves. */
typedef struct {
    /* [pieces of all parameters] the SEND of this rank's gradient, or the REDUCE that completes the
     * sum; PST_NONE: neither */
    uint32_t *at;
} pst_flush_sums;
pst_status pst_flush_sums_open(const pst_job_builder *b, pst_flush_sums *sums);
void pst_flush_sums_close(pst_flush_sums *sums);
/* Appends the reductions of all parameters with several uses (shared 1) or one use (shared 0).
 * ready: the compute instruction after which the accumulators of this rank are complete. A
 * parameter with one use and one accumulator may be reduced earlier, after the pass that completes
 * the gradient. */
void pst_flush_reduce(pst_job_builder *b, pst_flush_sums *sums, int shared, uint32_t ready);
/* With eager updates (flush.h), before the reductions: appends the RECVs of the weights that other
 * ranks update. passes: number of instructions before the flush. */
void pst_flush_receive_weights(pst_job_builder *b, uint32_t passes);
/* With delayed updates (flush.h), before the passes: appends the exchange of the gradients that
 * STEP applies, in the HEAD and SIDE queues. */
void pst_flush_beside(pst_job_builder *b);
/* For zero 0: appends the SENDs of sums to all ranks with the parameter, and the RECVs. lent:
 * [n_param] the last SEND of the first use's accumulator to another stage, or the pass to wait for
 * instead (pst_builder_wait_lent). Sets received[0..2) to the range of instructions with the RECVs
 * (SENDs are among them); PST_NONE: there are no RECVs. */
void pst_flush_spread_sums(pst_job_builder *b, const pst_flush_sums *sums, const uint32_t *lent,
                           uint32_t received[2]);
#endif
