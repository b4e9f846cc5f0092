/* Exchanges between the replicas of a stage. */
#ifndef PST_PIPELINE_COMPILE_FLUSH_REPLICAS_H
#define PST_PIPELINE_COMPILE_FLUSH_REPLICAS_H
#include "pipeline/compile/rounds.h"

/* Emits the SENDs of a round; its RECVs and REDUCEs. */
void pst_flush_send_round(pst_job_builder *b, pst_round *round);
void pst_flush_add_round(pst_job_builder *b, pst_round *round);

/* Emits what precedes part `part` of the last pass (early.h), or follows the last part. */
void pst_flush_early(pst_job_builder *b, uint32_t part);

/* Exchanges between the replicas of a stage. They use two channels from b->channel on, which the
 * caller reserves. */
typedef struct {
    /* [pieces of all parameters] this rank's SEND of its gradient, or the REDUCE that completed
     * the sum; PST_NONE: neither */
    uint32_t *at;
} pst_flush_sums;
pst_status pst_flush_sums_open(const pst_job_builder *b, pst_flush_sums *sums);
void pst_flush_sums_close(pst_flush_sums *sums);
/* Emits the sums of all parameters with several uses (shared 1), or of all others. ready: the
 * compute instruction after which this rank's accumulators of them are complete (with one use and
 * part: the pass that completes each one, while later passes follow). */
void pst_flush_reduce(pst_job_builder *b, pst_flush_sums *sums, int shared, uint32_t ready);
/* zero 0: sends sums to all ranks with the parameter. lent: [n_param] this rank's last SEND of its
 * first use's accumulator to another stage, or its substitute (pst_builder_wait_lent). The RECVs of
 * sums are in [received[0], received[1]), among SENDs; PST_NONE: there are none. */
void pst_flush_spread_sums(pst_job_builder *b, const pst_flush_sums *sums, const uint32_t *lent,
                           uint32_t received[2]);
#endif
