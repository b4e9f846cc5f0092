/* Messages between replicas in the lists of a single lane (pst_job_spec.alone): a few messages of
 * a rank to itself that take the same time. */
#ifndef PST_PIPELINE_COMPILE_SUMMARY_H
#define PST_PIPELINE_COMPILE_SUMMARY_H
#include "pipeline/compile/flush_replicas.h"

/* A group of parameters that replicas exchange. all: number of elements of the group; own, pieces:
 * elements and pieces of the replica that owns the largest share. */
struct pst_summary {
    uint64_t all, own, pieces;
    /* mean over the group's parameters: bytes of an element in a message with a gradient, and the
     * share of elements that replicas pack (job.up) */
    double element_bytes, packed;
    uint32_t param;    /* the first parameter; PST_NONE: the group is empty */
    uint32_t segments; /* maximum number of messages for the group */
};

/* The functions of flush_replicas.h and head.h for a single lane. pst_summary_sums returns the
 * number of entries of sums->at. */
pst_status pst_summary_open(pst_job_builder *b); /* fills b->sharded */
void pst_summary_head(pst_job_builder *b);
/* That of pst_builder_changes. */
void pst_summary_changes(pst_job_builder *b, uint32_t step);
void pst_summary_early(pst_job_builder *b, uint32_t part);
void pst_summary_send_round(pst_job_builder *b, pst_round *round);
void pst_summary_add_round(pst_job_builder *b, pst_round *round);
uint32_t pst_summary_sums(const pst_job_builder *b);
void pst_summary_reduce(pst_job_builder *b, pst_flush_sums *sums, int shared, uint32_t ready);
void pst_summary_spread_sums(pst_job_builder *b, const pst_flush_sums *sums, const uint32_t *lent,
                             uint32_t received[2]);
#endif
