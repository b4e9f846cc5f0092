/* A job: the instruction lists of all ranks, compiled from a schedule and a cut for every replica,
 * or those of a single lane that is only scored. instr.h explains the lists. */
#ifndef PST_PIPELINE_COMPILE_JOB_H
#define PST_PIPELINE_COMPILE_JOB_H
#include "pipeline/cluster/cluster.h"
#include "pipeline/compile/cut.h"
#include "pipeline/compile/instr.h"
#include "pipeline/compile/share.h"
#include "pipeline/compile/slots.h"
#include "pipeline/layout/grid.h"
#include "pipeline/schedule/schedule.h"

/* Memory of one rank: offsets into its arena. See pipeline/memory/map.h. */
typedef struct pst_memory_map pst_memory_map;

struct pst_job {
    uint32_t n_rank, n_chunk, n_micro; /* n_micro: the largest of any replica */
    int backward, split;
    /* the stage of each chunk; borrowed from the schedule, which outlives this */
    const uint32_t *rank_of_chunk;
    pst_instr_list *list; /* [n_rank] */
    pst_grid grid;        /* the grid of n_rank ranks */
    uint32_t *micros;     /* [grid.data] micro-batches of each replica */
    uint32_t n_seq;       /* every message's seq is below this */
    int zero;             /* ZeRO stage, 0 with one replica */
    /* accumulators of each use, one for each of as many equal parts of a rank's micro-batches; 1
     * with zero 2 */
    uint32_t parts;
    int post;          /* post-validation: VALIDATE follows STEP */
    int narrow;        /* replicas send gradients in bf16 */
    pst_share **share; /* [grid.tensor] */
    /* [n_param] pieces of a parameter, on the tensor rank with most; all lanes number their
     * messages by these */
    uint32_t n_param, *pieces;
    /* [n_rank] factor on the cut's durations; NULL: 1 */
    double *slow;
    int alone; /* 1: only `lane` has lists, to be scored (pst_job_spec) */
    uint32_t lane;
    /* [n_rank] first rank of each rank's host; ranks of a host share its link to others. NULL:
     * each rank has its own link */
    uint32_t *host;
    /* [n_rank] rate of all NICs of each rank's host together; NULL: a host's link is as fast as
     * a rank's */
    double *host_bytes_per_s;
};
/* A duration of the cut, on a rank. Apply it to sums of steps, so that rounding agrees with that of
 * their program. */
static inline uint64_t pst_job_slowed(const pst_job *job, uint32_t rank, uint64_t ns) {
    return job->slow && job->slow[rank] != 1 ? (uint64_t)((double)ns * job->slow[rank]) : ns;
}

/* split and backward have to be the same in schedule and cut. The caller owns the outputs. */
pst_status pst_job_build(const pst_schedule *schedule, const pst_cut *cut,
                         const pst_instr_cost *cost, pst_job **job, pst_slots **slots);

/* Several lanes that train one model. Every replica has a schedule of grid.pipeline ranks with the
 * same placement of chunks; micro-batches may differ. Every tensor rank of the widest stage has a
 * cut of its own with the same chunks, that of its lane (grid.h); in a narrower stage it describes
 * what the rank of that lane computes. */
typedef struct {
    pst_grid grid;
    const pst_schedule *const *schedule; /* [grid.data] */
    const pst_cut *const *cut;           /* [grid.tensor] */
    const pst_instr_cost *cost;
    int zero;           /* 2 only with one accumulator per use */
    uint32_t parts;     /* 0 and 1: one accumulator per use */
    int narrow;         /* as in pst_job; only with one accumulator per use */
    uint64_t message;   /* pst_share.message; 0: a piece */
    const double *slow; /* [ranks of the grid] as in pst_job, copied; may be NULL */
    /* 1: lists of a single lane, to be scored and checked, but not run. Its exchanges with other
     * replicas are summarised as a few messages of a rank to itself, which take the same time
     * (summary.c), as if all replicas did the same at the same time. Its memory, and all else, is
     * as in the whole job. cut: for tensor ranks other than the lane's, pst_cut_open_uses is
     * enough; slots: only [lane] is set. */
    int alone;
    uint32_t lane;
    /* [grid.pipeline] link of a rank of the stage for all exchanges with other replicas; NULL: that
     * of cost */
    const pst_cluster_link *exchange;
} pst_job_spec;
/* slots: [lanes of the grid], allocated by the caller, who owns each. */
pst_status pst_job_build_grid(const pst_job_spec *spec, pst_job **job, pst_slots **slots);
/* Receive buffers of replica sums: that many pieces are in flight at a time, each from all other
 * replicas. */
enum { PST_PIECES_IN_FLIGHT = 4 };
static inline uint32_t pst_job_buffers(const pst_job *job) {
    return job->grid.data > 1 ? PST_PIECES_IN_FLIGHT * (job->grid.data - 1) : 0;
}
/* Bytes of an element of a replica's gradient in a message. */
static inline uint32_t pst_job_gradient_bytes(const pst_job *job) { return job->narrow ? 2 : 4; }
static inline uint32_t pst_job_pieces(const pst_job *job) {
    uint32_t n = 0;
    for (uint32_t p = 0; p < job->n_param; p++) n += job->pieces[p];
    return n;
}
/* 1: gradients of this tensor rank's parameter `param` are sharded. */
static inline int pst_job_shards_gradient(const pst_job *job, uint32_t tensor, uint32_t param) {
    return job->zero == 2 && job->backward && !job->share[tensor]->whole[param];
}
static inline uint32_t pst_job_stage(const pst_job *job, uint32_t rank) {
    return pst_grid_stage(job->grid, rank);
}
/* The lanes with lists: [first, end). */
static inline uint32_t pst_job_first_lane(const pst_job *job) { return job->alone ? job->lane : 0; }
static inline uint32_t pst_job_end_lane(const pst_job *job) {
    return job->alone ? job->lane + 1 : pst_grid_lanes(job->grid);
}
/* The next rank with a list; n_rank: there are no more. */
static inline uint32_t pst_job_next(const pst_job *job, uint32_t rank) {
    if (!job->alone) return rank + 1;
    uint32_t stage = pst_job_stage(job, rank) + 1;
    return stage < job->grid.pipeline ? pst_grid_in_lane(job->grid, stage, job->lane) : job->n_rank;
}
/* The rank that gathers norms: the first one with a list. */
static inline uint32_t pst_job_gathers(const pst_job *job) {
    return pst_grid_in_lane(job->grid, 0, pst_job_first_lane(job));
}
/* The number of micro-batches of a rank. */
static inline uint32_t pst_job_micros(const pst_job *job, uint32_t rank) {
    return job->micros[pst_grid_at(job->grid, rank).replica];
}
void pst_job_close(pst_job *job);
pst_status pst_job_print(const pst_job *job, FILE *out);
/* Whether an instruction exchanges a piece of a gradient before the flush: in a round (zero 2,
 * rounds.h), else early (early.h), without a chunk or micro-batch. */
static inline int pst_job_is_piece(const pst_instr_list *list, uint32_t i) {
    const pst_instr *in = &list->instr[i];
    return list->n_flush && !pst_instr_is_head(list, i) && !pst_instr_is_flush(list, i) &&
           in->opcode > PST_OP_BW && in->param != PST_NONE && in->local == PST_NONE;
}
/* The steps of a pass instruction: all of its program, or its part. */
static inline const pst_step *pst_job_steps(const pst_cut *cut, const pst_instr *in, uint32_t *n) {
    const pst_program *program = &cut->chunk[in->chunk].program[in->opcode];
    *n = in->n ? in->n : program->n_step;
    return program->step + (in->n ? in->from : 0);
}
/* 0: a part of a pass that is not its first one. */
static inline int pst_instr_begins(const pst_instr *in) {
    return in->opcode > PST_OP_BW || !in->n || !in->from;
}
#endif
