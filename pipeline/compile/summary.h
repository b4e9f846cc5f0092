/* What replicas exchange, in the lists of one pipeline on its own. */
#ifndef PST_PIPELINE_COMPILE_SUMMARY_H
#define PST_PIPELINE_COMPILE_SUMMARY_H
#include "pipeline/compile/flush_replicas.h"

/* A group of parameters that replicas exchange. Their elements; of the replica that has most to add
 * up, or step, its own and the pieces that these are. */
struct pst_summary {
    uint64_t all, own, pieces;
    uint32_t param;    /* the first of them; PST_NONE: there are none */
    uint32_t segments; /* into which it may be cut */
};

/* As flush_replicas.h and head.h have it, of a lane on its own. Of the sums: how many numbers are
 * noted. */
pst_status pst_summary_open(pst_job_builder *b); /* fills b->shared_out */
void pst_summary_head(pst_job_builder *b);
void pst_summary_send_round(pst_job_builder *b, pst_round *round);
void pst_summary_add_round(pst_job_builder *b, pst_round *round);
uint32_t pst_summary_sums(const pst_job_builder *b);
void pst_summary_reduce(pst_job_builder *b, pst_flush_sums *sums, int shared, uint32_t ready);
void pst_summary_spread_sums(pst_job_builder *b, const pst_flush_sums *sums, const uint32_t *lent,
                             uint32_t received[2]);
#endif
