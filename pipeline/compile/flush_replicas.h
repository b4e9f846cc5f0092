/* What the replicas of a stage exchange. */
#ifndef PST_PIPELINE_COMPILE_FLUSH_REPLICAS_H
#define PST_PIPELINE_COMPILE_FLUSH_REPLICAS_H
#include "pipeline/compile/rounds.h"

/* SENDs of a round; its RECVs and REDUCEs. */
void pst_flush_send_round(pst_job_builder *b, pst_round *round);
void pst_flush_add_round(pst_job_builder *b, pst_round *round);

/* What the replicas of a stage exchange. Channels from b->channel on, two, which the caller
 * counts. */
typedef struct {
    uint32_t *at; /* [pieces of all parameters] where this rank's SEND of its gradient stands, or
                     the REDUCE that made the sum; PST_NONE: neither */
} pst_flush_sums;
pst_status pst_flush_sums_open(const pst_job_builder *b, pst_flush_sums *sums);
void pst_flush_sums_close(pst_flush_sums *sums);
/* The sums of all parameters with several uses (shared 1), or of all others; ready: the compute
 * instruction after which this rank's accumulators of them are there (of one use and part: the pass
 * that finishes it, while others may follow). */
void pst_flush_reduce(pst_job_builder *b, pst_flush_sums *sums, int shared, uint32_t ready);
/* zero 0: sums to all who have the parameter. lent: [n_param] this rank's last SEND of its first
 * use's accumulator to another stage, or what stands for it (pst_builder_wait_lent). RECVs of sums
 * stand in [received[0], received[1]), beside SENDs; PST_NONE: there are none. */
void pst_flush_spread_sums(pst_job_builder *b, const pst_flush_sums *sums, const uint32_t *lent,
                           uint32_t received[2]);
#endif
