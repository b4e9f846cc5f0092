/* Instructions: what is scored, checked, simulated, drawn and executed. A schedule and a cut model
 * are compiled into one list per rank: actions become F/B/W/BW instructions, values that cross
 * boundaries become SEND and RECV, and the flush (REDUCE, NORM, GATHER, STEP; flush.h) follows. If
 * replicas shard the optimizer step, updated weights come first.
 *
 * Semantics: the compute queue runs one instruction after another in list order. The SEND, RECV and
 * HEAD queues issue in list order without waiting for earlier transfers to complete. Between queues
 * only dependencies (deps) set an order. A dependency is satisfied when its instruction has
 * completed. It always names an earlier instruction of the same rank. */
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
    /* its elements [from, from + n); n 0: all. With several accumulators of a use (job.parts),
     * `micro` is the one that is sent or added, `chunk` the one that is added to. Of a pass: the
     * steps of its program, n 0: all (early.h) */
    uint32_t from, n;
    /* replica sums: a RECV writes, and a REDUCE adds, receive buffer `buffer` - 1; REDUCE adds
     * it to receive buffer `into` - 1. 0: the accumulator; if gradients are sharded, the
     * gradient slot of `micro` of `chunk`, and PST_INTO_ACCUMULATOR: the accumulator */
    uint32_t buffer, into;
    uint32_t dep, n_dep; /* deps[dep .. dep + n_dep) */
    /* transfer size; predicted duration. REDUCE: bytes not 0 if one operand is this rank's own
     * gradient, to be rounded like those that were sent */
    uint64_t bytes, ns;
    /* SEND, RECV: part of ns for which both ends' links are busy (pipeline/simulate/links.h) */
    uint64_t wire_ns;
} pst_instr;

enum { PST_INTO_ACCUMULATOR = INT32_MAX };

typedef struct {
    uint32_t n_instr, n_dep, n_head, n_flush; /* the first n_head instructions are the head, the
                                                 last n_flush the flush */
    pst_instr *instr;
    uint32_t *dep; /* instruction indices */
} pst_instr_list;

/* Whether an instruction is in the head; in the flush. */
static inline int pst_instr_is_head(const pst_instr_list *list, uint32_t i) {
    return i < list->n_head;
}
static inline int pst_instr_is_flush(const pst_instr_list *list, uint32_t i) {
    return i >= list->n_instr - list->n_flush;
}

/* A replica's gradient that is fp32 in memory and bf16 in the message: the SEND rounds it in place,
 * where it is not read again, and the RECV widens it. */
static inline int pst_instr_is_narrow(const pst_instr *in) {
    return (in->opcode == PST_OP_SEND || in->opcode == PST_OP_RECV) && in->param != PST_NONE &&
           in->use != PST_NONE && in->n && in->bytes == 2 * (uint64_t)in->n;
}

/* Duration of a transfer: ns = latency_ns + bytes * 1e9 / bytes_per_s (bytes_per_s 0: bytes take no
 * time). Bytes that a rank sends, or receives, take turns on its link; latencies overlap. */
typedef struct {
    uint64_t latency_ns;
    double bytes_per_s;
    uint64_t norm_ns, gather_ns, step_ns; /* flush; set by prepare */
    double reduce_ns;                     /* per element */
    /* 1: between any two ranks, messages are received in the order in which they are sent, for
     * transports without tags; with several chunks per rank some then hold their slots for
     * longer */
    int fifo;
    int flush; /* 0: without flush (studies of schedules) */
    int post;  /* 1: post-validation */
} pst_instr_cost;

typedef struct pst_job pst_job; /* job.h */
/* One instruction as text: "rank 1 SEND c1 m3 -> rank 2 channel 4". Returns buffer. */
const char *pst_instr_text(const pst_job *job, uint32_t rank, uint32_t index, char *buffer,
                           uint32_t bytes);
#endif
