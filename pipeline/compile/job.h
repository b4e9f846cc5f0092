/* A job: the instruction lists of all ranks, made of a schedule and a cut for every replica, or of
 * those of one pipeline that is only to be scored. What lists say is in instr.h. */
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
    uint32_t n_rank, n_chunk, n_micro; /* n_micro: the most of any replica */
    int backward, split;
    /* the stage that has a chunk; borrowed from the schedule, which outlives this */
    const uint32_t *rank_of_chunk;
    pst_instr_list *list;      /* [n_rank] */
    pst_grid grid;             /* n_rank of them */
    uint32_t *micros;          /* [grid.data] micro-batches of each replica */
    uint32_t n_seq;            /* seq of every message is below it */
    int zero;                  /* the stage of ZeRO, 0 with one replica */
    uint32_t parts;            /* accumulators of each use on every rank: as many equal parts of its
                                  micro-batches; 1 with zero 2 */
    int post;                  /* post-validation: VALIDATE follows STEP */
    int narrow;                /* replicas' gradients travel in bf16 */
    pst_share **share;         /* [grid.tensor] */
    uint32_t n_param, *pieces; /* [n_param] pieces of a parameter, the most of any tensor rank: by
                                  these, all lanes number their messages alike */
    /* [n_rank] what it computes takes so many times as long as the cut says; NULL: 1 */
    double *slow;
    int alone; /* 1: `lane` alone has lists, to be scored (pst_job_spec) */
    uint32_t lane;
    uint32_t *host; /* [n_rank] first rank of each rank's host: all of them share its link to
                       others. NULL: each has one of its own */
    double *host_bytes_per_s; /* [n_rank] of each rank's host: its NICs together; NULL: a host's
                                 link is as fast as a rank's */
};
/* A duration by the cut, on a rank. Sums of steps are slowed as a whole, so that they come out as
 * their program. */
static inline uint64_t pst_job_slowed(const pst_job *job, uint32_t rank, uint64_t ns) {
    return job->slow && job->slow[rank] != 1 ? (uint64_t)((double)ns * job->slow[rank]) : ns;
}

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
    uint64_t message;   /* pst_share.message; 0: a piece */
    const double *slow; /* [ranks of the grid] as in pst_job, copied; NULL */
    /* 1: lists of one pipeline alone, to be scored and checked, never run: what its replicas
     * exchange is as few messages, of a rank to itself, as tell how long it takes (summary.c), and
     * all replicas are taken to do the same at the same time. What lies in its memory, and all
     * else, is as in the whole job. cut: of other tensor ranks than the lane's, pst_cut_open_uses
     * is enough; slots: [lane] alone is set. */
    int alone;
    uint32_t lane;
    /* [grid.pipeline] alone: what a rank of the stage has for all that it exchanges with other
     * replicas; NULL: as cost says */
    const pst_cluster_link *exchange;
} pst_job_spec;
/* slots: [lanes of the grid], each owned by the caller, who has the room. */
pst_status pst_job_build_grid(const pst_job_spec *spec, pst_job **job, pst_slots **slots);
/* Receive buffers of replica sums: as many pieces are under way at a time, each from all other
 * replicas. */
enum { PST_PIECES_IN_FLIGHT = 4 };
static inline uint32_t pst_job_buffers(const pst_job *job) {
    return job->grid.data > 1 ? PST_PIECES_IN_FLIGHT * (job->grid.data - 1) : 0;
}
/* Bytes of a number of a replica's gradient on its way. */
static inline uint32_t pst_job_gradient_bytes(const pst_job *job) { return job->narrow ? 2 : 4; }
static inline uint32_t pst_job_pieces(const pst_job *job) {
    uint32_t n = 0;
    for (uint32_t p = 0; p < job->n_param; p++) n += job->pieces[p];
    return n;
}
/* 1: the gradient of a parameter is shared out, of which this tensor rank has `param`. */
static inline int pst_job_shares_out(const pst_job *job, uint32_t tensor, uint32_t param) {
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
/* A piece of a gradient before the flush (zero 2, pipeline/check/rounds.c). */
static inline int pst_job_is_piece(const pst_job *job, const pst_instr_list *list, uint32_t i) {
    const pst_instr *in = &list->instr[i];
    return job->zero == 2 && list->n_flush && !pst_instr_is_head(list, i) &&
           !pst_instr_is_flush(list, i) && in->opcode > PST_OP_BW && in->param != PST_NONE &&
           in->local == PST_NONE;
}
#endif
