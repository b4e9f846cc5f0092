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
#include "pipeline/cluster/cluster.h"
#include "pipeline/compile/cut.h"
#include "pipeline/layout/grid.h"
#include "pipeline/compile/share.h"
#include "pipeline/schedule/schedule.h"

typedef struct {
    uint8_t opcode, queue; /* pst_opcode, pst_queue */
    uint16_t chunk;        /* 0 in the flush */
    uint32_t micro;
    uint32_t peer, channel, seq; /* SEND, RECV: message = (src, dst, channel, seq); peer is a rank
                                    of the job */
    uint32_t local; /* SEND, RECV of a micro-batch's value: the local that moves; else PST_NONE */
    uint32_t param, use; /* flush: SEND/RECV/REDUCE of the accumulator of a parameter's use; head:
                            of its weight (use PST_NONE); else PST_NONE */
    uint32_t from, n; /* elements [from, from + n) of it; n 0: all. Of several accumulators of a use
                         (job.parts) then `micro` says which is moved or added, `chunk` to which it
                         is added */
    uint32_t buffer, into; /* replica sums: RECV writes and REDUCE adds receive buffer `buffer` - 1,
                              into receive buffer `into` - 1; 0: the accumulator; where gradients
                              are shared out, what `micro` of `chunk` left in its gradient slot, and
                              PST_INTO_SHARD: the accumulator */
    uint32_t dep, n_dep;   /* deps[dep .. dep + n_dep) */
    uint64_t bytes, ns;    /* transfer size; predicted duration. REDUCE: bytes not 0 where one of
                              the two that are added is this rank's own gradient, and is rounded as
                              others were on their way */
    uint64_t wire_ns;      /* SEND, RECV: that of its bytes, for which both ends' links are taken
                              (pipeline/simulate/links.h) */
} pst_instr;

enum { PST_INTO_SHARD = INT32_MAX };

typedef struct {
    uint32_t n_instr, n_dep, n_head, n_flush; /* the first n_head instructions are the head, the
                                                 last n_flush the flush */
    pst_instr *instr;
    uint32_t *dep; /* instruction indices */
} pst_instr_list;

/* Memory of one rank: offsets into its arena. See pipeline/memory/map.h. */
typedef struct pst_memory_map pst_memory_map;

typedef struct {
    uint32_t n_rank, n_chunk, n_micro; /* n_micro: the most of any replica */
    int backward, split;
    const uint32_t *rank_of_chunk; /* the stage that has a chunk; borrowed from the schedule, which
                                      outlives this */
    pst_instr_list *list;          /* [n_rank] */
    pst_grid grid;                 /* n_rank of them */
    uint32_t *micros;              /* [grid.data] micro-batches of each replica */
    uint32_t n_seq;                /* seq of every message is below it */
    int zero;                      /* the stage of sharding, 0 with one replica */
    uint32_t parts;            /* accumulators of each use on every rank: as many equal parts of its
                                  micro-batches; 1 with zero 2 */
    int post;                  /* post-validation: VALIDATE follows STEP */
    int narrow;                /* replicas' gradients travel in bf16 */
    pst_share **share;         /* [grid.tensor] */
    uint32_t n_param, *pieces; /* [n_param] pieces of a parameter, the most of any tensor rank: by
                                  these, all lanes number their messages alike */
    double *slow; /* [n_rank] what it computes takes so many times as long as the cut says; NULL:
                     1 */
    int alone;    /* 1: `lane` alone has lists, to be scored (pst_job_spec) */
    uint32_t lane;
    uint32_t *host; /* [n_rank] first rank of each rank's host: all of them share its link to
                       others. NULL: each has one of its own */
    double *host_bytes_per_s; /* [n_rank] of each rank's host: its NICs together; NULL: a host's
                                 link is as fast as a rank's */
} pst_job;
/* A duration by the cut, on a rank. Sums of steps are slowed as a whole, so that they come out as
 * their program. */
static inline uint64_t pst_job_slowed(const pst_job *job, uint32_t rank, uint64_t ns) {
    return job->slow && job->slow[rank] != 1 ? (uint64_t)((double)ns * job->slow[rank]) : ns;
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
 * Gradients shared out (zero 2, parameters that pst_job_shards names): the pass that computes a
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

/* Slots: for every class which slot a micro-batch uses; computed together with the lists because
 * reuse of a slot is a dep on the last readers of the one before. A slot that a SEND reads is held
 * at least through the next compute instruction, so that sending overlaps with it, and until the
 * receiver can have posted its RECV (pace.c), so that no wait for it can close a cycle. A RECV
 * stands before the compute instruction that precedes its consumer: the next input arrives while
 * the current one computes. */
typedef struct pst_slots pst_slots;

/* The schedule's split and backward must be the cut's. Outputs are owned by the caller. */
pst_status pst_job_build(const pst_schedule *schedule, const pst_cut *cut,
                         const pst_instr_cost *cost, pst_job **job, pst_slots **slots);

/* Several pipelines that train one model. Every replica has a schedule of grid.pipeline ranks, all
 * of the same chunks on the same ranks; micro-batches may differ. Every tensor rank of the widest
 * stage has a cut of its own, all of the same chunks: that of its lane (grid.h), in which a stage
 * of fewer is what the rank computes through which the lane goes. */
typedef struct {
    pst_grid grid;
    const pst_schedule *const *schedule; /* [grid.data] */
    const pst_cut *const *cut;           /* [grid.tensor] */
    const pst_instr_cost *cost;
    int zero;           /* 2 only with one accumulator per use */
    uint32_t parts;     /* 0 and 1: one accumulator per use */
    int narrow;         /* as in pst_job; only with one accumulator per use */
    const double *slow; /* [ranks of the grid] as in pst_job, copied; NULL */
    /* 1: lists of one pipeline alone, to be scored and checked, never run: what its replicas
     * exchange is as few messages, of a rank to itself, as tell how long it takes (summary.c), and
     * all replicas are taken to do the same at the same time. What lies in its memory, and all
     * else, is as in the whole job. cut: of other tensor ranks than the lane's, pst_cut_open_uses
     * is enough; slots: [lane] alone is set. */
    int alone;
    uint32_t lane;
    const pst_cluster_link *exchange; /* [grid.pipeline] alone: what a rank of the stage has for all
                                         that it exchanges with other replicas; NULL: as cost
                                         says */
} pst_job_spec;
/* slots: [lanes of the grid], each owned by the caller, who has the room. */
pst_status pst_job_build_grid(const pst_job_spec *spec, pst_job **job, pst_slots **slots);
/* Receive buffers of replica sums: as many pieces are under way at a time, each from all other
 * replicas. */
enum { PST_PIECES_IN_FLIGHT = 4 };
static inline uint32_t pst_job_buffers(const pst_job *job) {
    return job->grid.data > 1 ? PST_PIECES_IN_FLIGHT * (job->grid.data - 1) : 0;
}
static inline uint32_t pst_job_pieces(const pst_job *job) {
    uint32_t n = 0;
    for (uint32_t p = 0; p < job->n_param; p++) n += job->pieces[p];
    return n;
}
/* 1: the gradient of a parameter is shared out, of which this tensor rank has `param`. */
static inline int pst_job_shards(const pst_job *job, uint32_t tensor, uint32_t param) {
    return job->zero == 2 && job->backward && !job->share[tensor]->whole[param];
}
static inline uint32_t pst_job_stage(const pst_job *job, uint32_t rank) {
    return pst_grid_stage(job->grid, rank);
}
/* The lanes that have lists: [first, end). */
static inline uint32_t pst_job_first_lane(const pst_job *job) { return job->alone ? job->lane : 0; }
static inline uint32_t pst_job_end_lane(const pst_job *job) {
    return job->alone ? job->lane + 1 : pst_grid_lanes(job->grid);
}
/* The next rank that has a list; n_rank: there are no more. */
static inline uint32_t pst_job_next(const pst_job *job, uint32_t rank) {
    if (!job->alone) return rank + 1;
    uint32_t stage = pst_job_stage(job, rank) + 1;
    return stage < job->grid.pipeline ? pst_grid_in_lane(job->grid, stage, job->lane) : job->n_rank;
}
/* The rank that gathers norms: the first that has a list. */
static inline uint32_t pst_job_gathers(const pst_job *job) {
    return pst_grid_in_lane(job->grid, 0, pst_job_first_lane(job));
}
/* Micro-batches that a rank computes. */
static inline uint32_t pst_job_micros(const pst_job *job, uint32_t rank) {
    return job->micros[pst_grid_at(job->grid, rank).replica];
}
void pst_job_close(pst_job *job);
pst_status pst_job_print(const pst_job *job, FILE *out);
/* One instruction as text: "rank 1 SEND c1 m3 -> rank 2 channel 4". Returns buffer. */
const char *pst_instr_text(const pst_job *job, uint32_t rank, uint32_t index, char *buffer,
                           uint32_t bytes);

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
/* Bytes of a number of a replica's gradient on its way. */
static inline uint32_t pst_job_gradient_bytes(const pst_job *job) { return job->narrow ? 2 : 4; }

/* A piece of a gradient before the flush (zero 2, pipeline/check/rounds.c). */
static inline int pst_instr_is_piece(const pst_job *job, const pst_instr_list *list, uint32_t i) {
    const pst_instr *in = &list->instr[i];
    return job->zero == 2 && list->n_flush && !pst_instr_is_head(list, i) &&
           !pst_instr_is_flush(list, i) && in->opcode > PST_OP_BW && in->param != PST_NONE &&
           in->local == PST_NONE;
}

/* --- slots ------------------------------------------------------------------------------------ */
/* A class of the cut (same index) with the slots that this job needs of it. */
typedef struct {
    uint32_t chunk;
    uint8_t birth, deaths;
    uint64_t bytes; /* of one slot; buffers lie in it at pst_buffer.offset */
    uint32_t n_slot;
    uint32_t *slot_of_micro; /* [n_micro] */
} pst_class;
struct pst_slots {
    uint32_t n_class, n_micro;
    pst_class *class_;  /* [n_class], as pst_cut.class_ */
    uint32_t *gradient; /* zero 2: [n_chunk][n_micro] the gradient slot that a chunk's weight
                           gradients are written to, on the chunk's rank; else NULL */
};
void pst_slots_close(pst_slots *slots);
#endif
