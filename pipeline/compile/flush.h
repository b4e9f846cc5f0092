/* The flush is the end of a step: gradients are reduced, the gradient norm is computed, and weights
 * are updated. The lists of all ranks have these parts in this order:
 *
 * 1. If tensor ranks shard activations along the sequence: a REDUCE without a parameter. The group
 *    reduces the accumulators of partial parameters (graph/graph.h) with one collective.
 * 2. Parameters with several uses, by index. The owner is the stage of use 0. It adds every other
 *    use's accumulator to its own with a REDUCE. The operand is the use's accumulator if that is on
 *    this rank; else the owner first RECVs it into a receive buffer. The buffer shares memory with
 *    the passes and messages of the step, so the RECV waits for all of these.
 * 3. With one replica: the owner SENDs the sum to each other rank with the parameter, which RECVs
 *    it into the accumulator of its first use. With several replicas no sum is sent back yet.
 * 4. With several replicas: all replicas SEND their accumulators to the owner of the piece
 *    (share.h), piece by piece from the last parameter to the first, parameters with one use before
 *    those with several. The owner RECVs them into receive buffers and REDUCEs them in the order of
 *    a fixed binary tree. zero 0: the owner SENDs the sum to every rank with the parameter. Pieces
 *    that are complete early were exchanged between parts of the rank's last pass (early.h). With a
 *    codec each replica, the owner too, PACKs its accumulator before; the owner UNPACKs a received
 *    gradient to which it adds another one; a REDUCE unpacks what it adds.
 *    With a two-level exchange (job.near) a replica SENDs its accumulator to the relay on its host
 *    for this owner. The relay RECVs and REDUCEs those of its host and SENDs the sum to the owner,
 *    which REDUCEs it where the tree has these replicas. A relay RECVs the sum (zero 0), or new
 *    weights at the head, and SENDs them to the other replicas of its host.
 * 5. NORM. Ranks other than 0 SEND their norm message to rank 0 (param and use PST_NONE). Rank 0
 *    RECVs all of them, GATHERs (computes the total norm), and SENDs the result back.
 * 6. STEP. zero 0: on every rank with the parameter. zero 1 and 2: on the owner of the piece; the
 *    other ranks get the new weights at the head of the next list.
 * 7. With a codec for weights (job.down, zero 1): the owner PACKs what the weight differs from the
 *    copy that all ranks with the parameter have, the owner too, and SENDs it to them; all add the
 *    unpacked change to their copy, the owner in PACK, the others in UNPACK. Pieces are in the
 *    order of the head, which lacks these parameters (head.c). Without an applied STEP the change
 * is zero. job.plain: the owner copies the weight in PACK and SENDs the copy; the others RECV it
 *    into theirs.
 *
 * Servers (pst_grid) are owners without passes. Parts 1 to 3 do not concern them. In part 4 a
 * server RECVs the gradient of replica 0 into its accumulator, and adds as replica 0 would.
 *
 * Eager updates (job.eager, only with servers): weights come back while gradients still arrive, so
 * that links are busy in both directions. There is no head.
 *
 * 1. After part 4 of a piece its owner STEPs it and SENDs the new weights to all ranks with the
 *    parameter, on the queue of the head. They RECV them once they have read the old ones for the
 *    last time.
 * 2. STEP saves a copy of what it changes, as with post-validation.
 * 3. VALIDATE takes the place of part 6. If the step must not be applied, it restores the copy; the
 *    run then sends all weights again (group/gather.c).
 *
 * Delayed updates (job.staleness, s): STEP applies the gradients of s steps before. The gradients
 * of a step have accumulators of their own until then, s + 1 sets in turn (pipeline/memory/map.h).
 *
 * 1. Part 4 is before the passes, in the HEAD and SIDE queues, and for the gradients of s steps
 *    before, which are complete: it runs beside the passes, and no pass waits for it. A rank SENDs
 *    all its gradients, then RECVs and REDUCEs the pieces that it owns; the sum of a piece follows
 *    a few pieces later, so that several are on their way.
 * 2. Parts 1 to 3 are for the gradients of this step. With one replica nothing else is exchanged.
 * 3. NORM waits for the last REDUCE, STEP for all sums. Losses are those of this step.
 *
 * Asynchronous updates (job.async): only servers own anything, and a replica is called a worker.
 * The norm, the loss and the clip factor are those of each worker.
 *
 * 1. In part 4 a worker SENDs its gradients to their owners; nothing is added. In part 5 the first
 *    rank of a worker computes its norm and SENDs it to the first server too, which announces the
 *    gradients. The worker's own STEP updates nothing.
 * 2. The flush of a server has one part for each worker (pst_job_worker_of): RECVs of its norm and
 *    its gradients, STEP with these gradients only. The first server SENDs the norm on to the other
 *    servers. The weights for the worker are in the head.
 * 3. The list has the parts in the order of the workers; a run executes them in the order in which
 *    norms arrive at the first server, one after another, in the same order at all servers
 *    (pipeline/execute/serve.h). For that an instruction of a part only depends on its own part, on
 *    a STEP of another part, or on SENDs of the head.
 *
 * With several accumulators per use (parallel.reproducible): parts 2 to 4 run for each accumulator.
 * Then all accumulators are added to the first one in the order of a binary tree, which is the
 * lower part of the tree over the accumulators of all replicas.
 *
 * The head of a list (zero 1 and 2):
 *
 * 1. Every rank SENDs the weights that it owns to all ranks that have them, and RECVs the other
 *    weights, piece by piece in the order in which the chunks need them.
 * 2. The head has a separate queue, SENDs first. SENDs are posted at once, RECVs within a window of
 *    bytes.
 * 3. The first pass of a chunk waits only for the weights of the chunk. STEP waits for the SENDs.
 *
 * Sharded gradients (zero 2; parameters for which pst_job_shards_gradient returns 1):
 *
 * 1. The pass that computes a chunk's weight gradients of a micro-batch writes them into a gradient
 *    slot, without adding.
 * 2. A round exchanges the gradients of the k-th micro-batch of all replicas that have one. Piece
 *    by piece the gradients are sent to the owner, which adds them in the order of a binary tree
 *    over these replicas.
 * 3. The owner adds the sum to its accumulator, which has only the owned pieces; the sum of the
 *    first round is copied there.
 * 4. SENDs follow the pass. RECVs and REDUCEs come before the slot is needed again, or before the
 *    flush (rounds.c). All these instructions name chunk and micro-batch.
 *
 * Post-validation (2401.10241, section 4):
 *
 * 1. STEP follows NORM at once, uses the norm that the rank knows so far, and saves a copy of all
 *    values that it changes. The copy shares memory with the passes and messages of the step, so
 *    STEP waits for all of these.
 * 2. Meanwhile the norm is exchanged. Rank 0 GATHERs before its STEP if no other rank's passes end
 *    later.
 * 3. VALIDATE waits for the total norm. If STEP was wrong, VALIDATE restores the copy and updates
 *    again. */
#ifndef PST_PIPELINE_COMPILE_FLUSH_H
#define PST_PIPELINE_COMPILE_FLUSH_H
#include "pipeline/compile/builder.h"

/* Appends the flush to the list of the current rank. */
void pst_builder_flush(pst_job_builder *b);
#endif
