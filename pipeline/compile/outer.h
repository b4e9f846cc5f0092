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
 *    graphs of 16 bits.
 *
 * Packed differences (job.islands_codec), without a delay: every rank that exchanges a piece has
 * the old weights of the piece, and a residual. PACK, before 1., puts old weight - weight in the
 * place of the weight, and packs it, with the residual of the last outer step; what is left out is
 * the new residual. In every other island the packed difference is SENT instead of the weights. The
 * owner PACKs its own difference, too, and goes on with what the others would unpack, so that the
 * result does not depend on who is the owner. OUTER unpacks the others', and adds differences. The
 * end of the list copies the new weights to the old ones.
 *
 * Fragments (job.part): a list exchanges the pieces of some parameters only, and the fragments take
 * turns.
 *
 * Delay (Streaming DiLoCo, arXiv 2501.18512): an exchange takes job.delay lists, with the passes
 * of which its messages overlap. All its instructions are at the end of lists (PST_SYNC_TURN); its
 * messages are in the queue of the head and wait for nothing that the list computes.
 *
 * 0. The list before: OUTER (PST_OUTER_KEEP), after STEP, copies the weights of the pieces that the
 *    rank exchanges: the kept weights.
 * 1. Turns 1 to pst_job_outer_turn: kept weights are SENT to owners, each into a receive buffer of
 *    its own. The last of these turns ends with OUTER for every piece, which puts the result in
 *    place of the owner's kept weights.
 * 2. The turns after that (if the delay is 1: the same list, after OUTER): owners SEND the result,
 *    which is RECVed in place of kept weights, which must have been sent before.
 * 3. The last turn ends with OUTER (PST_OUTER_APPLY): weight = alpha weight + (1 - alpha) kept
 *    weight. zero 0: the rank SENDs the weight to the others of its island with the parameter. */
#ifndef PST_PIPELINE_COMPILE_OUTER_H
#define PST_PIPELINE_COMPILE_OUTER_H
#include "pipeline/compile/builder.h"

/* Sets job->outer and raises job->n_seq. ENOMEM. */
pst_status pst_outer_share(const pst_job_spec *spec, pst_job *job);
/* Appends the outer step to the list of the current rank; step: its STEP. */
void pst_builder_outer(pst_job_builder *b, uint32_t step);
#endif
