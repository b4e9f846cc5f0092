/* Islands: groups of replicas that take several steps without each other (parallel.local). Each
 * island has weights and optimizer states of its own; its replicas exchange gradients in every step
 * (flush.h); the norm, the clip factor and the loss of a step are those of the island. Every so
 * many steps a list ends with the outer step (job.syncs), after STEP:
 *
 * 1. The weights before the first of these steps (the old weights) and the outer momentum of a
 *    piece are in the memory of one replica of one island, its owner (job.outer). In each island
 *    the replica with the same place among its replicas exchanges the piece: with zero 1 the one
 *    that has stepped it. In every other island it SENDs its fp32 weights of the piece to the
 *    owner.
 * 2. OUTER at the owner: the mean of (old weight - weight) over the islands, by micro-batches, in
 *    the order of the binary tree over islands (share.h), is the gradient of the outer optimizer
 *    (SGD with momentum). Its result becomes the weight and the old weight of the piece.
 * 3. The owner SENDs the new weights once to every other island, where the rank that has sent its
 *    weights RECVs them in place of those. zero 0: from there, or from the owner, they are sent on
 *    to all other ranks of the island with the parameter. zero 1: the head of the next list does
 *    that.
 * 4. OUTER without a parameter ends the list: it waits for all these RECVs, and rounds weights for
 *    graphs of 16 bits. */
#ifndef PST_PIPELINE_COMPILE_OUTER_H
#define PST_PIPELINE_COMPILE_OUTER_H
#include "pipeline/compile/builder.h"

/* Sets job->outer and raises job->n_seq. ENOMEM. */
pst_status pst_outer_share(const pst_job_spec *spec, pst_job *job);
/* Appends the outer step to the list of the current rank; step: its STEP. */
void pst_builder_outer(pst_job_builder *b, uint32_t step);
#endif
