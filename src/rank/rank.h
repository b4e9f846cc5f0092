/* One rank at work: its arena, device, executor and the hooks that turn instructions into kernel
 * calls. A process has one of these, or all of a job's with transport `self`. */
#ifndef PST_RANK_RANK_H
#define PST_RANK_RANK_H
#include "base/arena.h"
#include "base/transport.h"
#include "comm/collective/collective.h"
#include "pipeline/draw/timeline.h"
#include "pipeline/execute/executor.h"
#include "prepare/prepare.h"
#include "rank/exchange.h"
#include "rank/replay.h"
#include "rank/work.h"

/* Argument block of a launch: the kernel's own block, which kernel, and of which step. */
typedef struct {
    pst_call call;
    const pst_kernel_row *kernel;
    void *arg[PST_MAX_ARG];
    uint64_t *spent; /* nanoseconds are added to it */
    pst_rank *rank;
    const pst_step *step;
    uint32_t chunk, micro;
} pst_rank_call;

/* Argument block of a flush launch. */
typedef struct {
    pst_rank *rank;
    const pst_instr *instr;
    pst_launch_fn fn;
} pst_rank_flush;

struct pst_rank {
    const pst_prepared *p; /* borrowed */
    uint32_t rank;
    pst_grid_place at;
    const pst_graph *graph; /* what this tensor rank computes; as what follows, borrowed from p */
    const pst_cut *cut, *eval_cut; /* eval_cut NULL where there is no evaluation */
    /* borrowed from p; eval_slots NULL where there is no evaluation */
    const pst_slots *slots, *eval_slots;
    /* of a step's micro-batches, the first that this rank computes, and how many */
    uint32_t micro, n_micro;
    uint32_t eval_micro, n_eval_micro; /* likewise of an evaluation pass */
    /* of its micro-batches, the first of each so many begins an accumulator anew */
    uint32_t part_micros;
    const pst_memory_map *memory; /* borrowed from p */
    pst_arena arena; /* base: the device's address, with which the host only reckons where `far` */
    int far;         /* the host reads and writes it through pst_rank_read and _write alone */
    void *room;      /* [PST_RANK_ROOM] where far: what pst_rank_peek shows */
    /* memory->norm_own and what lies behind it up to the answer's end: there, or where far a copy
     * of the host's (rank/norm.c) */
    uint8_t *control;
    pst_device *device;
    pst_transport *transport; /* borrowed */
    /* for the executor's messages, where far and `transport` moves the host's memory only */
    pst_transport *staged;
    const pst_direct_ops *direct; /* NULL: `staged` is none of a device's own */
    int adds_fast;                /* parallel.collectives: tensor ranks' sums are the library's */
    pst_coll *coll;
    /* of the tensor group; NULL where there is one tensor rank, and with device timed */
    pst_exchanger *exchanger;
    const pst_step *exchange_step; /* the exchange under way, its micro-batch and when it began */
    uint32_t exchange_micro;
    uint64_t exchange_ns;
    struct pst_far_exchanger *far_exchanger; /* in its place for the steps of a pass, where far */
    void *partial; /* staging: where far, the accumulators that the tensor group adds up */
    /* of a throttled rank: it has yet to sleep for so long; negative: it slept too long */
    double owed_ns;
    pst_executor *executor;
    pst_position *position; /* borrowed; may be NULL */
    const pst_arith *arith;
    pst_arith_param *stepping; /* [n_param] room for what STEP changes at once */
    const float **piece;       /* room for the pieces of which NORM adds squares, and */
    uint64_t *piece_n;         /* their elements */
    /* rank 0: [n_term] offsets of the pieces' sums of squares, by parameter in name order; else
     * NULL */
    uint64_t *term;
    uint32_t n_term;
    pst_rank_call call;
    pst_rank_flush flush;
    /* State of the step or evaluation under way, set before it starts. */
    int train;       /* 1: the training job, 0: the evaluation job */
    uint64_t sample; /* global index of the first sample of the batch that this rank computes */
    uint64_t step;   /* its number */
    pst_optim_hyper hyper; /* lr, t, corrections of this step */
    /* post-validation: STEP has not waited for the answer; that was wrong */
    int stepped, rolled_back;
    uint64_t targets;  /* of this step's batch: its loss is the mean over them */
    double loss_scale; /* of this step's gradients (scaler.h); the norm is without it */
    /* [room_op] launches of operators in that job, the first n_op; absolute nanoseconds */
    pst_op_span *op;
    uint32_t n_op, room_op;
    /* times: training jobs time each operator, also on a device that runs ahead, where that costs
     * something (else op and work are left empty there); each: the one under way does */
    int times, each;
    /* the list under way is one in which the host may wait for the device at any launch: run for
     * the first time, when kernels are loaded, or under the checker; of how many before this was
     * said, of training and others */
    int careful;
    uint32_t n_begun[2];
    pst_work work; /* time in kernels since the training job under way was started */
    /* the step is repeated under the checker (replay.h): the weights stay as they are */
    int replay;
    pst_culprit culprit; /* of the last replay */
    /* A checkpoint under way (saving.c): 1 when the parameter may be changed; else it has waited a
     * little, and is asked again. NULL: always. */
    int (*may_change)(void *arg, uint32_t param);
    void *may_change_arg;
    /* Results of the last step, on every rank: sum of the token losses, norm before clipping, clip
     * factor. */
    double loss_sum, grad_norm, clip_scale;
};

/* Where a rank tells the others what it does; each may be NULL. */
typedef struct {
    volatile uint64_t *last_instr; /* as in pst_executor_config */
    pst_position *position;
} pst_rank_watch;
/* Opens device, arena and executor. transport: this rank's end; canary: see base/arena.h. Weights
 * are not filled yet. */
pst_status pst_rank_open(const pst_prepared *p, uint32_t rank, pst_transport *transport, int canary,
                         const pst_rank_watch *watch, pst_rank **out);
void pst_rank_close(pst_rank *r);
/* rank/transport.c: opens `staged` where it is needed; goes on with connecting it, which all ranks
 * of the job do before the first step. BUSY: there is more to do. */
pst_status pst_rank_transport_open(pst_rank *r);
pst_status pst_rank_connect(pst_rank *r);
/* 1 when that transport moves the device's memory itself. */
int pst_rank_is_reached(const pst_transport *t, const pst_device_ops *device);
/* rank/weights.c. Initial weights from the seed, zero optimizer state, of what is stepped here. */
pst_status pst_rank_init_weights(pst_rank *r);

/* rank/memory.c. The rank's memory from the host, at addresses of the arena; on the thread that
 * drives the rank, behind what is queued to compute. EINTERNAL when the device fails. */
enum { PST_RANK_ROOM = 256 << 10 };
pst_status pst_rank_memory_open(pst_rank *r, int canary);
void pst_rank_memory_close(pst_rank *r);
pst_status pst_rank_read(const pst_rank *r, void *to, const void *from, uint64_t bytes);
/* On another thread, of a rank that is far: what nobody writes meanwhile. */
pst_status pst_rank_read_aside(void *rank, void *to, const void *from, uint64_t bytes);
pst_status pst_rank_write(const pst_rank *r, void *to, const void *from, uint64_t bytes);
/* From place to place in it, as a launch that may still be under way on return. */
pst_status pst_rank_copy(const pst_rank *r, void *to, const void *from, uint64_t bytes);
pst_status pst_rank_fill(const pst_rank *r, void *to, uint8_t value, uint64_t bytes);
/* All that was begun there, copies and fills included, has ended: other threads may read it. */
pst_status pst_rank_wait(const pst_rank *r);
/* At most PST_RANK_ROOM bytes of it, to read until the next call. */
pst_status pst_rank_peek(const pst_rank *r, const void *at, uint64_t bytes, const void **host);
/* An array of any size: itself, or where far a copy, filled when `reads`. Ended by pst_rank_unmap,
 * which copies it to where it belongs when `writes`. ENOMEM. */
pst_status pst_rank_map(const pst_rank *r, void *at, uint64_t bytes, int reads, void **host);
pst_status pst_rank_unmap(const pst_rank *r, void *at, uint64_t bytes, int writes, void *host);
/* As pst_arena_touched, up to the end of the arena, and pst_arena_intact. The first reads what lies
 * behind the last byte that was written, which may be much. */
pst_status pst_rank_touched(const pst_rank *r, uint64_t from, uint64_t *end);
pst_status pst_rank_intact(const pst_rank *r, int *intact);

/* rank/norm.c: NORM; GATHER on rank 0, which adds every piece's sum in name order, whichever rank
 * it came from, so that the norm has the same bits in every layout, and answers with the clip
 * factor; where rank 0 finds these sums, and room for all that, once; the part of `control` at an
 * offset as the device has it now, and the other way. */
pst_status pst_rank_norm(pst_device *device, const void *block);
pst_status pst_rank_gather(pst_device *device, const void *block);
pst_status pst_rank_norm_open(pst_rank *r);
void pst_rank_norm_close(pst_rank *r);
pst_status pst_rank_pull(const pst_rank *r, uint64_t offset, uint64_t bytes,
                         const double **control);
/* rank/step.c: STEP and VALIDATE. */
pst_status pst_rank_step(pst_device *device, const void *block);
pst_status pst_rank_validate(pst_device *device, const void *block);
/* rank/capture.c: a hook of the executor. */
uint32_t pst_rank_captures(void *arg, const void *block, uint64_t words[PST_EXECUTOR_WORDS],
                           uint64_t *sample);
/* rank/exchange_hooks.c: hooks of the executor, and what they need. */
pst_status pst_rank_exchange_open(pst_rank *r);
void pst_rank_exchange_close(pst_rank *r);
pst_status pst_rank_exchange(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro);
pst_status pst_rank_exchanged(void *arg);
/* rank/address.c: where a step's operand lies. rank/work.c: a launch that the timeline shows. */
void *pst_rank_operand(const pst_rank *r, uint32_t chunk, const pst_step *step, uint32_t operand,
                       uint32_t micro);
const pst_cut *pst_rank_cut(const pst_rank *r);
/* The memory map with the cut and slots of the job under way. */
pst_memory_view pst_rank_view(const pst_rank *r);
void pst_rank_note(pst_rank *r, const pst_step *step, uint32_t micro, uint64_t began,
                   uint64_t ended);

/* rank/address.c. Of the elements of a parameter that are stepped here, from memory->step_from on:
 * the fp32 weight; state i < optim->n_state. NULL: there are none. */
float *pst_rank_weight(const pst_rank *r, uint32_t param);
float *pst_rank_state(const pst_rank *r, uint32_t param, uint32_t i);
/* A use's accumulator, from element memory->grad_from on; NULL when there is none on this rank. */
float *pst_rank_grad(const pst_rank *r, uint32_t param, uint32_t use);
/* Once gradients are added up: that of elements from `from` on, of those that this rank counts and
 * steps. */
const float *pst_rank_sum(const pst_rank *r, uint32_t param, uint64_t from);
/* rank/weights.c. After weights were written from outside: kernels read their copies in the graph's
 * dtype. */
pst_status pst_rank_refresh(pst_rank *r);
/* 1 when this rank is the one that answers for the parameter as a whole: its use 0 lives here, and
 * its first element is this rank's. */
int pst_rank_owns(const pst_rank *r, uint32_t param);
/* 1 when elements [memory->own_from, own_to) of what is held here of the parameter are this rank's
 * to count and store. */
int pst_rank_stores(const pst_rank *r, uint32_t param);
/* Where micro-batch `micro` of a data or output tensor lies; NULL when not on this rank. */
void *pst_rank_data(const pst_rank *r, uint32_t tensor, uint32_t micro);
void *pst_rank_output(const pst_rank *r, uint32_t tensor, uint32_t micro);
/* The sum of a micro-batch's token losses of the job just run, one by one in the order of samples;
 * 0 where there are none. */
pst_status pst_rank_losses(const pst_rank *r, uint32_t micro, double *sum);

/* How many operators a rank launches in a training step; 0 when they are too many to be noted one
 * by one. */
uint32_t pst_rank_launches(const pst_prepared *p, uint32_t rank);
/* Queues the training (train 1) or evaluation job; drive with pst_executor_drive. */
pst_status pst_rank_start(pst_rank *r, int train);
/* Likewise the head of the training job: weights that other ranks have stepped come here. */
pst_status pst_rank_start_head(pst_rank *r);
/* 1: the device's kernels choose their algorithms by measuring (parallel.products). */
int pst_rank_autotunes(const pst_prepared *p);
/* What the plan has of such choices, to a rank's device before kernels are prepared. EINPUT: the
 * plan has what does not run here. */
pst_status pst_rank_give_autotuned(const pst_prepared *p, pst_device *device);
#endif
