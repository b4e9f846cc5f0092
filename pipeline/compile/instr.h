/* Instructions: the one artifact that is scored, checked, simulated, drawn and executed. A schedule
 * and a cut model are compiled into one list per rank: actions become F/B/W/BW instructions,
 * boundary values become SEND and RECV, and the flush (REDUCE, NORM, GATHER, STEP) follows. Where
 * replicas share out the step, new weights stand before.
 *
 * Semantics: the compute queue runs one instruction after another in list order. SEND, RECV and
 * HEAD queues issue in list order without waiting for earlier transfers to complete. Between queues
 * only deps order. A dep is satisfied when that instruction has completed. Deps always name earlier
 * instructions of the same rank. */
#ifndef PST_PIPELINE_COMPILE_INSTR_H
#define PST_PIPELINE_COMPILE_INSTR_H
#include "base/device.h"
#include "base/opcode.h"

typedef struct {
    uint8_t opcode, queue; /* pst_opcode, pst_queue */
    uint16_t chunk;        /* 0 in the flush */
    uint32_t micro;
    uint32_t peer, channel, seq; /* SEND, RECV: message = (src, dst, channel, seq); peer is a rank
                                    of the job */
    uint32_t local; /* SEND, RECV of a micro-batch's value: the local that moves; else PST_NONE */
    uint32_t param, use; /* flush: SEND/RECV/REDUCE of the accumulator of a parameter's use; head:
                            of its weight (use PST_NONE); else PST_NONE */
    /* elements [from, from + n) of it; n 0: all. Of several accumulators of a use (job.parts) then
     * `micro` says which is moved or added, `chunk` to which it is added */
    uint32_t from, n;
    uint32_t buffer, into; /* replica sums: RECV writes and REDUCE adds receive buffer `buffer` - 1,
                              into receive buffer `into` - 1; 0: the accumulator; where gradients
                              are shared out, what `micro` of `chunk` left in its gradient slot, and
                              PST_INTO_ACCUMULATOR: the accumulator */
    uint32_t dep, n_dep;   /* deps[dep .. dep + n_dep) */
    /* transfer size; predicted duration. REDUCE: bytes not 0 where one of the two that are added is
     * this rank's own gradient, and is rounded as others were on their way */
    uint64_t bytes, ns;
    /* SEND, RECV: that of its bytes, for which both ends' links are taken
     * (pipeline/simulate/links.h) */
    uint64_t wire_ns;
} pst_instr;

enum { PST_INTO_ACCUMULATOR = INT32_MAX };

typedef struct {
    uint32_t n_instr, n_dep, n_head, n_flush; /* the first n_head instructions are the head, the
                                                 last n_flush the flush */
    pst_instr *instr;
    uint32_t *dep; /* instruction indices */
} pst_instr_list;

/* Which part of a list an instruction is in. */
static inline int pst_instr_is_head(const pst_instr_list *list, uint32_t i) {
    return i < list->n_head;
}
static inline int pst_instr_is_flush(const pst_instr_list *list, uint32_t i) {
    return i >= list->n_instr - list->n_flush;
}

/* A message of a replica's gradient that is fp32 at both ends and bf16 on its way: its SEND rounds
 * what it sends where it lies, which nobody reads again, and its RECV widens. */
static inline int pst_instr_is_narrow(const pst_instr *in) {
    return (in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV) && in->param != PST_NONE &&
           in->use != PST_NONE && in->n && in->bytes == 2 * (uint64_t)in->n;
}

/* The flush, in list order on every rank. Where tensor ranks have parts of the sequence, first a
 * REDUCE without a parameter: the group adds up the accumulators of partial parameters
 * (graph/graph.h), which it does together as it does exchanges. Where a use has several
 * accumulators, each is joined by itself as said below, and then they are added up as a binary tree
 * over the parts (the lower half of the tree over all replicas' parts), into the first. With one
 * replica:
 *   shared parameters, by index: the owner (stage of use 0) REDUCEs every other use's accumulator
 * into its own, first RECVing it into the join buffer when it is another rank's; then it SENDs the
 * sum to each other rank, which RECVs it into the accumulator of its first use. REDUCE's operand is
 * use's accumulator when that is on this rank, else the join buffer. RECV into join waits for every
 * transfer of the lists, for join overlays their memory. NORM; ranks other than 0 SEND their norm
 * message to rank 0 (param and use PST_NONE), which RECVs them all, GATHERs and SENDs the answer
 * back; STEP. With several, every pipeline first adds up its own shared parameters, without sending
 * sums back. Then, piece by piece from the last parameter to the first (those of one use before the
 * shared ones), all replicas SEND their accumulators to the one that answers for the piece
 * (share.h), which RECVs them into receive buffers and REDUCEs them in the order of a fixed binary
 * tree. zero 0: it SENDs the sum to every rank that holds the parameter, and all STEP it. zero 1
 * and 2: it alone STEPs it, and the others get the new weight at the head of the next list.
 *
 * The head, with zero 1 and 2: every rank SENDs the weights that it steps to all ranks that hold
 * them, and RECVs the others where they belong, piece by piece in the order in which chunks need
 * them. It has a queue of its own, in which SENDs come first: they are posted at once, RECVs as
 * many as a window of bytes allows. A chunk's first pass waits for its own weights only; STEP waits
 * for the SENDs.
 *
 * Gradients shared out (zero 2, parameters that pst_job_shares_out names): the pass that computes a
 * chunk's weight gradients of a micro-batch writes them into a gradient slot, anew. The k-th
 * micro-batches of all replicas that have so many are a round: piece by piece they go to the one
 * that answers for it, which adds them as a tree over these replicas, and the sum to its
 * accumulator of its own pieces (the first round's is copied there). SENDs follow the pass; RECVs
 * and REDUCEs stand where the slot is needed again, or before the flush (rounds.c). All name chunk
 * and micro-batch.
 *
 * Post-validation (2401.10241, section 4): STEP follows NORM at once, with what the rank knows, and
 * keeps what it changes; the norm travels meanwhile (rank 0 GATHERs before its STEP where no other
 * rank's passes end later); VALIDATE waits for the answer, and where STEP was wrong puts back what
 * was kept and steps again. What is kept lies over the memory of the lists, for which STEP
 * waits. */

/* Transfer time model: ns = latency_ns + bytes * 1e9 / bytes_per_s (0 bytes_per_s: no time for the
 * bytes). Bytes that leave a rank, or come to it, take turns; latency does not. */
typedef struct {
    uint64_t latency_ns;
    double bytes_per_s;
    uint64_t norm_ns, gather_ns, step_ns; /* flush; prepare fills them by the costs */
    double reduce_ns;                     /* of an element that is added */
    int fifo; /* 1: of any two ranks, messages are received in the order in which they are sent, for
                 transports without tags; several chunks per rank then hold some for longer */
    int flush; /* 0: leave the flush out (studies of schedules) */
    int post;  /* 1: post-validation */
} pst_instr_cost;

typedef struct pst_job pst_job; /* job.h */
/* One instruction as text: "rank 1 SEND c1 m3 -> rank 2 channel 4". Returns buffer. */
const char *pst_instr_text(const pst_job *job, uint32_t rank, uint32_t index, char *buffer,
                           uint32_t bytes);
#endif
