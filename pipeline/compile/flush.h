/* The flush, the end of a step: gradients are reduced, their norm is computed, weights are updated.
 * All ranks have these parts in this order:
 *
 * 1. Tensor ranks with parts of the sequence: a REDUCE without a parameter. The group reduces the
 *    accumulators of partial parameters (graph/graph.h), all together, as a collective.
 * 2. Parameters with several uses, by index. Their owner is the stage of use 0. It adds every other
 *    use's accumulator to its own with a REDUCE. The operand is the use's accumulator if that is on
 *    this rank; else the owner first RECVs it into a receive buffer that overlays the memory of the
 *    lists, so that RECV waits for all of their transfers.
 * 3. With one replica: the owner SENDs the sum to each other rank with the parameter, which RECVs
 * it into the accumulator of its first use. With several, no sum is sent back yet.
 * 4. With several replicas, piece by piece from the last parameter to the first, parameters of one
 *    use before the shared ones: all replicas SEND their accumulators to the piece's owner
 *    (share.h). It RECVs them into receive buffers and REDUCEs them in the order of a fixed binary
 *    tree. zero 0: it SENDs the sum to every rank with the parameter.
 *    Pieces that arrive in time were exchanged between parts of the rank's last pass (early.h).
 * 5. NORM. Ranks other than 0 SEND their norm message to rank 0 (param and use PST_NONE). Rank 0
 *    RECVs them all, GATHERs, and SENDs the answer back.
 * 6. STEP. zero 0: on every rank with the parameter. zero 1 and 2: on the piece's owner; the others
 *    get the new weight at the head of the next list.
 *
 * With several accumulators per use: parts 2 to 4 run for each of them. Then they are added into
 * the first, as a binary tree over the parts (the lower half of the tree over all replicas' parts).
 *
 * The head of a list, with zero 1 and 2:
 *
 * 1. Every rank SENDs the weights that it owns to all ranks that have them, and RECVs the others
 *    into place, piece by piece in the order in which chunks need them.
 * 2. The head has a queue of its own, SENDs first. They are posted at once; RECVs as far as a
 *    window of bytes allows.
 * 3. A chunk's first pass waits for its own weights only. STEP waits for the SENDs.
 *
 * Sharded gradients (zero 2, parameters that pst_job_shards_gradient names):
 *
 * 1. The pass that computes a chunk's weight gradients of a micro-batch writes them into a gradient
 *    slot, without adding.
 * 2. The k-th micro-batches of all replicas that have that many are a round. Piece by piece they
 *    are sent to the owner, which adds them as a tree over these replicas.
 * 3. The owner adds the sum to its accumulator, which only has its own pieces; the first round's
 *    sum is copied there.
 * 4. SENDs follow the pass. RECVs and REDUCEs come where the slot is needed again, or before the
 *    flush (rounds.c). All name chunk and micro-batch.
 *
 * Post-validation (2401.10241, section 4):
 *
 * 1. STEP follows NORM at once, with what the rank knows so far, and saves what it changes. The
 *    copy overlays the memory of the lists, for which STEP waits.
 * 2. Meanwhile the norm is exchanged. Rank 0 GATHERs before its STEP if no other rank's passes end
 *    later.
 * 3. VALIDATE waits for the answer. If STEP was wrong, it restores the copy and updates again. */
#ifndef PST_PIPELINE_COMPILE_FLUSH_H
#define PST_PIPELINE_COMPILE_FLUSH_H
#include "pipeline/compile/builder.h"

/* Appends the flush to the current list. */
void pst_builder_flush(pst_job_builder *b);
#endif
