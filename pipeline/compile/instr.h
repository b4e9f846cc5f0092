/* Instructions: the one artifact that is scored, checked, simulated, drawn and executed. A schedule
 * and a cut model are compiled into one list per rank: actions become F/B/W/BW instructions,
 * boundary values become SEND and RECV, and the flush (REDUCE, NORM, GATHER, STEP; flush.h)
 * follows. Where replicas share out the step, new weights stand before.
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
