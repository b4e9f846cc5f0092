/* The flush, the end of a step: gradients are added up, their norm is taken, weights are stepped.
 * All ranks have it in this order:
 *
 * 1. Tensor ranks with parts of the sequence: a REDUCE without a parameter. The group adds up the
 *    accumulators of partial parameters (graph/graph.h), together, as it does exchanges.
 * 2. Parameters with several uses, by index. Their owner is the stage of use 0. It adds every other
 *    use's accumulator to its own with a REDUCE. The operand is the use's accumulator where that is
 *    on this rank; else the owner first RECVs it into the join buffer. That RECV waits for every
 *    transfer of the lists, because join lies over their memory.
 * 3. With one replica: the owner SENDs the sum to each other rank of the parameter, which RECVs it
 *    into the accumulator of its first use. With several, no sum is sent back yet.
 * 4. With several replicas, piece by piece from the last parameter to the first, those of one use
 *    before the shared ones: all replicas SEND their accumulators to the one that answers for the
 *    piece (share.h). It RECVs them into receive buffers and REDUCEs them in the order of a fixed
 *    binary tree. zero 0: it SENDs the sum to every rank that holds the parameter.
 * 5. NORM. Ranks other than 0 SEND their norm message to rank 0 (param and use PST_NONE). Rank 0
 *    RECVs them all, GATHERs, and SENDs the answer back.
 * 6. STEP. zero 0: on every rank that holds the parameter. zero 1 and 2: on the one that answers
 *    for the piece; the others get the new weight at the head of the next list.
 *
 * A use with several accumulators: steps 2 to 4 join each by itself. Then they are added up into
 * the first, as a binary tree over the parts (the lower half of the tree over all replicas' parts).
 *
 * The head of a list, with zero 1 and 2:
 *
 * 1. Every rank SENDs the weights that it steps to all ranks that hold them, and RECVs the others
 *    where they belong, piece by piece in the order in which chunks need them.
 * 2. The head has a queue of its own, SENDs first. They are posted at once; RECVs as many as a
 *    window of bytes allows.
 * 3. A chunk's first pass waits for its own weights only. STEP waits for the SENDs.
 *
 * Gradients shared out (zero 2, parameters that pst_job_shares_out names):
 *
 * 1. The pass that computes a chunk's weight gradients of a micro-batch writes them into a gradient
 *    slot, anew.
 * 2. The k-th micro-batches of all replicas that have so many are a round. Piece by piece they go
 *    to the one that answers for it, which adds them as a tree over these replicas.
 * 3. It adds the sum to its accumulator of its own pieces; the first round's is copied there.
 * 4. SENDs follow the pass. RECVs and REDUCEs stand where the slot is needed again, or before the
 *    flush (rounds.c). All name chunk and micro-batch.
 *
 * Post-validation (2401.10241, section 4):
 *
 * 1. STEP follows NORM at once, with what the rank knows, and keeps what it changes. That lies over
 *    the memory of the lists, for which STEP waits.
 * 2. The norm travels meanwhile. Rank 0 GATHERs before its STEP where no other rank's passes end
 *    later.
 * 3. VALIDATE waits for the answer. Where STEP was wrong it puts back what was kept and steps
 *    again. */
#ifndef PST_PIPELINE_COMPILE_FLUSH_H
#define PST_PIPELINE_COMPILE_FLUSH_H
#include "pipeline/compile/builder.h"

/* Appends the flush to the list at hand. */
void pst_builder_flush(pst_job_builder *b);
#endif
