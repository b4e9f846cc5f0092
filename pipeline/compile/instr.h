/* Instruction lists. The search, the checker, the simulator, the timeline and the executor all use
 * them. A schedule and a cut are compiled into one list per rank: actions become F/B/W/BW
 * instructions, values that cross chunk boundaries become SEND and RECV, and the flush (REDUCE,
 * NORM, GATHER, STEP; flush.h) follows. If replicas shard the optimizer states, the list begins
 * with the transfers of updated weights (the head).
 *
 * Semantics: the compute queue runs one instruction after another in list order, and so does the
 * SIDE queue, beside it: the additions of delayed updates (flush.h) run between the operators of
 * passes. The SEND, RECV and HEAD queues issue transfers in list order without waiting for earlier
 * transfers to complete.
 * Between queues only dependencies (deps) define an order. A dependency names an earlier
 * instruction of the same rank, and is satisfied when this instruction has completed. */
#ifndef PST_PIPELINE_COMPILE_INSTR_H
#define PST_PIPELINE_COMPILE_INSTR_H
#include "base/device.h"
#include "base/opcode.h"

typedef struct {
    uint8_t opcode, queue; /* pst_opcode, pst_queue */
    uint16_t chunk;        /* 0 in the flush */
    uint32_t micro;
    /* 1: a pass of the step's first micro-batch, or SEND or RECV of one of its values, if it has
     * fewer samples than the others (pst_cut.rest) */
    uint32_t rest;
    /* SEND, RECV: the message is identified by (source, destination, channel, seq); peer: the other
     * rank */
    uint32_t peer, channel, seq;
    uint32_t local; /* SEND, RECV of a value of a micro-batch: index of the local; else PST_NONE */
    /* flush: SEND, RECV, PACK, UNPACK or REDUCE of the gradient accumulator of this use of a
     * parameter; head: SEND or RECV of the weight of the parameter (use PST_NONE); behind STEP: all
     * but REDUCE, of the weight's changes (use PST_NONE); else PST_NONE */
    uint32_t param, use;
    /* elements [from, from + n) of the parameter; n 0: all. With several accumulators per use
     * (job.parts), `micro` is the accumulator that is sent or added, `chunk` the accumulator to
     * which it is added. For a pass: the range of steps of the program (early.h); n 0: all */
    uint32_t from, n;
    /* reductions over replicas: a RECV writes receive buffer `buffer` - 1; a REDUCE adds receive
     * buffer `buffer` - 1 to receive buffer `into` - 1. 0 instead of a receive buffer: the
     * accumulator; with sharded gradients: the gradient slot of (chunk, micro), and
     * PST_INTO_ACCUMULATOR is the accumulator */
    uint32_t buffer, into;
    /* 1: a gradient that is packed with the job's codec (pst_job.up): the message of a SEND or
     * RECV; receive buffer `buffer` - 1 of a REDUCE, which unpacks and adds it, or of an UNPACK,
     * which makes it fp32. Changes of a weight: as packed (pst_job.down) in the message of a SEND
     * or RECV, by a PACK, and added to the weight by an UNPACK; 0: the weight itself. With `outer`:
     * the difference of an island, packed with pst_job.islands_codec, in the message of a SEND or
     * RECV, by a PACK, and read by an OUTER */
    uint32_t packed;
    /* 1: SEND or RECV of fp32 weights for an outer step (outer.h): a RECV with a `buffer` is of
     * another island's weights, at the owner. PST_OUTER_KEPT: the message is in the memory of kept
     * weights. OUTER of a piece: 0, or PST_OUTER_KEEP, PST_OUTER_APPLY */
    uint32_t outer;
    uint32_t dep, n_dep; /* the dependencies are pst_instr_list.dep[dep .. dep + n_dep) */
    /* size of the transfer; predicted duration. REDUCE: bytes is not 0 if one operand is this
     * rank's own gradient, which is then rounded like the gradients that were sent */
    uint64_t bytes, ns;
    /* SEND, RECV: part of ns in which the links of both ranks are busy
     * (pipeline/simulate/links.h) */
    uint64_t wire_ns;
} pst_instr;

enum { PST_INTO_ACCUMULATOR = INT32_MAX };
enum { PST_OUTER_KEPT = 2, PST_OUTER_KEEP = 3, PST_OUTER_APPLY = 4 };

typedef struct {
    /* the first n_head instructions are the head, the last n_flush are the flush */
    uint32_t n_instr, n_dep, n_head, n_flush;
    pst_instr *instr;
    uint32_t *dep; /* [n_dep] instruction indices */
} pst_instr_list;

/* Return 1 if an instruction is in the head, or in the flush. */
static inline int pst_instr_is_head(const pst_instr_list *list, uint32_t i) {
    return i < list->n_head;
}
static inline int pst_instr_is_flush(const pst_instr_list *list, uint32_t i) {
    return i >= list->n_instr - list->n_flush;
}

/* Returns 1 for a transfer of a replica's gradient that is fp32 in memory and bf16 in the message:
 * the SEND rounds the gradient in place (it is not read again), and the RECV converts it to
 * fp32. */
static inline int pst_instr_is_narrow(const pst_instr *in) {
    return (in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV) && in->param != PST_NONE &&
           in->use != PST_NONE && in->n && !in->packed && in->bytes == 2 * (uint64_t)in->n;
}

/* Durations of transfers and of the flush. A transfer takes latency_ns + bytes * 1e9 / bytes_per_s
 * ns (bytes_per_s 0: latency_ns). The bytes of several messages of a rank are sent one after
 * another, and received one after another; latencies overlap. */
typedef struct {
    uint64_t latency_ns;
    double bytes_per_s;
    uint64_t norm_ns, gather_ns, step_ns; /* durations of NORM, GATHER and STEP; set by prepare */
    double reduce_ns, pack_ns;            /* duration of REDUCE and UNPACK, of PACK, per element */
    /* 1: for transports without tags: the messages between two ranks are received in the order in
     * which they are sent. With several chunks per rank some values then occupy their slots
     * longer */
    int fifo;
    int flush; /* 0: no flush (studies of schedules) */
    int post;  /* 1: post-validation */
} pst_instr_cost;

typedef struct pst_job pst_job; /* job.h */
/* Formats an instruction, such as "rank 1 SEND c1 m3 -> rank 2 channel 4" (chunk 1, micro-batch 3),
 * into buffer[0..bytes). Returns `buffer`. */
const char *pst_instr_text(const pst_job *job, uint32_t rank, uint32_t index, char *buffer,
                           uint32_t bytes);
#endif
