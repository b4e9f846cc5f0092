/* One rank at work: its arena, device, executor, and the hooks that turn instructions into kernel
 * calls. A process has one rank, or all of a job's with transport `self`. */
#ifndef PST_RANK_RANK_H
#define PST_RANK_RANK_H
#include "base/arena.h"
#include "base/transport.h"
#include "comm/collective/collective.h"
#include "pipeline/draw/timeline.h"
#include "pipeline/execute/executor.h"
#include "prepare/prepare.h"
#include "rank/exchange.h"
#include "rank/recorder.h"
#include "rank/replay.h"
#include "rank/work.h"

/* Argument block of a launch: the kernel's own block, the kernel, and the step. */
typedef struct {
    pst_call call;
    const pst_kernel_row *kernel;
    void *arg[PST_MAX_ARG];
    uint64_t *spent; /* the launch adds its duration in nanoseconds here */
    pst_rank *rank;
    const pst_step *step;
    uint32_t chunk, micro;
} pst_rank_call;

/* Argument block of a launch in the flush. */
typedef struct {
    pst_rank *rank;
    const pst_instr *instr;
    pst_launch_fn fn;
} pst_rank_flush;

struct pst_rank {
    const pst_prepared *p; /* borrowed */
    uint32_t rank;
    pst_grid_place place;
    const pst_graph *graph; /* the graph of this tensor rank; this and the following are borrowed
                               from p */
    const pst_cut *cut, *eval_cut; /* eval_cut: NULL without evaluation */
    /* borrowed from p; eval_slots: NULL without evaluation */
    const pst_slots *slots, *eval_slots;
    /* first of the step's micro-batches that this rank computes, and their number */
    uint32_t micro, n_micro;
    uint32_t eval_micro, n_eval_micro; /* first and number of them in an evaluation pass */
    /* micro-batches per accumulator: after so many, the next accumulator begins */
    uint32_t part_micros;
    const pst_memory_map *memory; /* borrowed from p */
    pst_arena arena; /* base: with `on_device` a device address, which the host can use for
                        arithmetic only */
    int on_device; /* the host cannot access the arena; it uses pst_rank_read and pst_rank_write */
    void *bounce;  /* [PST_RANK_BOUNCE] bounce buffer of pst_rank_peek; only with `on_device` */
    /* the memory from memory->norm_own to the end of the answer: in the arena, or with `on_device`
     * a copy on the host (rank/norm.c) */
    uint8_t *control;
    pst_device *device;
    pst_transport *transport; /* borrowed */
    /* for the executor's messages, if `on_device` and `transport` moves host memory only */
    pst_transport *staged;
    const pst_direct_ops *direct; /* NULL: `staged` is not a transport of the device */
    int library_adds; /* parallel.collectives: the communication library adds for tensor ranks */
    pst_coll *coll;
    /* exchanges within the tensor group; NULL with one tensor rank, and with device timed */
    pst_exchanger *exchanger;
    /* the exchange under way, its chunk and micro-batch, and when it began */
    const pst_step *exchange_step;
    uint32_t exchange_chunk, exchange_micro;
    uint64_t exchange_ns;
    struct pst_device_exchanger *device_exchanger; /* used instead for the steps of a pass, with
                                                      `on_device` */
    void *partial; /* host copy of the accumulators that the tensor group adds, with `on_device` */
    /* throttled rank: nanoseconds that it must still sleep; negative: it has slept too long */
    double sleep_ns;
    pst_executor *executor;
    pst_position *position; /* borrowed; may be NULL */
    const pst_arith *arith;
    pst_arith_param *step_param; /* [n_param] the parameters that STEP changes in one launch */
    const float **piece;         /* the pieces whose squares NORM adds, and */
    uint64_t *piece_n;           /* their numbers of elements */
    /* rank 0: [n_term] offsets of the pieces' sums of squares, by parameter in name order; else
     * NULL */
    uint64_t *term;
    uint32_t n_term;
    pst_rank_call call;
    pst_rank_flush flush;
    /* State of the step or evaluation under way, set before it starts. */
    int train;       /* 1: the training job, 0: the evaluation job */
    uint64_t sample; /* global index of the first sample that this rank computes in the batch */
    uint64_t step;   /* number of the step */
    pst_optim_hyper hyper; /* learning rate, t and corrections of this step */
    /* post-validation: STEP did not wait for the answer; the answer required an undo */
    int stepped, rolled_back;
    uint64_t targets;  /* targets in this step's batch: the loss is the mean over them */
    double loss_scale; /* loss scale of this step's gradients (scaler.h); grad_norm is without it */
    /* [max_op] launches of operators in the current job, the first n_op valid; absolute
     * nanoseconds */
    pst_op_span *op;
    uint32_t n_op, max_op;
    /* times: measure each operator in training jobs, also on an asynchronous device, where that
     * costs time (else op and work stay empty there); each: the current job does */
    int times, each;
    /* careful: the host may have to wait for the device at any launch of the current list, because
     * it runs for the first time (kernels are loaded) or under the checker; n_begun: lists begun,
     * evaluation and training */
    int careful;
    uint32_t n_begun[2];
    pst_work work; /* time in kernels since the current training job started */
    /* the step is repeated under the checker (replay.h): the weights stay unchanged */
    int replay;
    pst_culprit culprit;    /* what the last replay found */
    pst_recorder *recorder; /* NULL: nothing is recorded */
    /* For a checkpoint under way (saving.c): 1 when the parameter may be changed; else it has
     * waited briefly, and must be called again. NULL: always 1. */
    int (*may_change)(void *arg, uint32_t param);
    void *may_change_arg;
    /* Results of the last step, on every rank: sum of the token losses, norm before clipping, clip
     * factor. */
    double loss_sum, grad_norm, clip_scale;
};

/* Where a rank publishes what it does; each may be NULL. */
typedef struct {
    volatile uint64_t *last_instr; /* as in pst_executor_config */
    pst_position *position;
} pst_rank_watch;
/* Opens device, arena and executor. transport: this rank's end; canary: see base/arena.h. Weights
 * are not initialised yet. */
pst_status pst_rank_open(const pst_prepared *p, uint32_t rank, pst_transport *transport, int canary,
                         const pst_rank_watch *watch, pst_rank **out);
void pst_rank_close(pst_rank *r);
/* rank/transport.c: opens `staged` if needed. connect: continues to connect it; all ranks of the
 * job call it before the first step. BUSY: call again. */
pst_status pst_rank_transport_open(pst_rank *r);
pst_status pst_rank_connect(pst_rank *r);
/* 1 when that transport can move memory of that device directly. */
int pst_rank_transport_reaches(const pst_transport *t, const pst_device_ops *device);
/* rank/weights.c. Initial weights from the seed, and zero optimizer state, for the elements that
 * this rank steps. */
pst_status pst_rank_init_weights(pst_rank *r);

/* rank/memory.c. Access to the rank's memory from the host, by addresses of the arena; on the
 * thread that drives the rank, in order with the compute queue. EINTERNAL when the device fails. */
enum { PST_RANK_BOUNCE = 256 << 10 };
pst_status pst_rank_memory_open(pst_rank *r, int canary);
void pst_rank_memory_close(pst_rank *r);
pst_status pst_rank_read(const pst_rank *r, void *to, const void *from, uint64_t bytes);
/* From another thread, with `on_device`: memory that no other thread writes meanwhile. */
pst_status pst_rank_read_aside(void *rank, void *to, const void *from, uint64_t bytes);
pst_status pst_rank_write(const pst_rank *r, void *to, const void *from, uint64_t bytes);
/* Copies within the arena, as a launch that may still be running on return. */
pst_status pst_rank_copy(const pst_rank *r, void *to, const void *from, uint64_t bytes);
pst_status pst_rank_fill(const pst_rank *r, void *to, uint8_t value, uint64_t bytes);
/* Waits until all launches, copies and fills so far have ended: other threads may then read the
 * memory. */
pst_status pst_rank_wait(const pst_rank *r);
/* At most PST_RANK_BOUNCE bytes of the arena, readable until the next call. */
pst_status pst_rank_peek(const pst_rank *r, const void *at, uint64_t bytes, const void **host);
/* An array of any size: itself, or with `on_device` a host copy, filled if `reads`. pst_rank_unmap
 * ends the access, and copies the array back if `writes`. ENOMEM. */
pst_status pst_rank_map(const pst_rank *r, void *at, uint64_t bytes, int reads, void **host);
pst_status pst_rank_unmap(const pst_rank *r, void *at, uint64_t bytes, int writes, void *host);
/* As pst_arena_touched, up to the end of the arena, and pst_arena_intact. The first reads all
 * memory behind the last written byte, which may be much. */
pst_status pst_rank_touched(const pst_rank *r, uint64_t from, uint64_t *end);
pst_status pst_rank_intact(const pst_rank *r, int *intact);

/* rank/norm.c: NORM; GATHER on rank 0, which adds the sum of every piece in name order, whichever
 * rank it came from, so that the norm has the same bits in every layout, and answers with the clip
 * factor. norm_open: allocates, and on rank 0 locates these sums. pull: the current contents of
 * `control` from an offset on. */
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
/* rank/exchange_hooks.c: hooks of the executor, and their set-up. */
pst_status pst_rank_exchange_open(pst_rank *r);
void pst_rank_exchange_close(pst_rank *r);
pst_status pst_rank_exchange(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro);
pst_status pst_rank_exchanged(void *arg);
/* rank/address.c: the address of a step's operand. rank/work.c: records a launch for the
 * timeline. */
void *pst_rank_operand(const pst_rank *r, uint32_t chunk, const pst_step *step, uint32_t operand,
                       uint32_t micro);
const pst_cut *pst_rank_cut(const pst_rank *r);
/* The memory map with the cut and slots of the current job. */
pst_memory_view pst_rank_view(const pst_rank *r);
void pst_rank_record_op(pst_rank *r, const pst_step *step, uint32_t micro, uint64_t began,
                        uint64_t ended);

/* rank/address.c. For the elements of a parameter that this rank steps, from memory->step_from on:
 * the fp32 weight; state i < optim->n_state. NULL: none. */
float *pst_rank_weight(const pst_rank *r, uint32_t param);
float *pst_rank_state(const pst_rank *r, uint32_t param, uint32_t i);
/* The accumulator of one use, from element memory->grad_from on; NULL: not on this rank. */
float *pst_rank_grad(const pst_rank *r, uint32_t param, uint32_t use);
/* After the reduction: the gradient of elements from `from` on, among those that this rank owns. */
const float *pst_rank_sum(const pst_rank *r, uint32_t param, uint64_t from);
/* rank/weights.c. After weights were written from outside: updates their copies in the graph's
 * dtype, which kernels read. */
pst_status pst_rank_refresh(pst_rank *r);
/* 1 when this rank is the owner of a parameter: use 0 is here, and the shard with its first
 * element. */
int pst_rank_owns(const pst_rank *r, uint32_t param);
/* 1 when this rank counts and stores elements [memory->own_from, own_to) of a parameter. */
int pst_rank_stores(const pst_rank *r, uint32_t param);
/* Address of a data or output tensor of micro-batch `micro`; NULL: not on this rank. */
void *pst_rank_data(const pst_rank *r, uint32_t tensor, uint32_t micro);
void *pst_rank_output(const pst_rank *r, uint32_t tensor, uint32_t micro);
/* The sum of a micro-batch's token losses in the last job, added in the order of samples; 0 if this
 * rank has none. */
pst_status pst_rank_losses(const pst_rank *r, uint32_t micro, double *sum);

/* Number of operators that a rank launches in a training step; 0 if too many to record them. */
uint32_t pst_rank_launches(const pst_prepared *p, uint32_t rank);
/* Queues the training (train 1) or evaluation job; drive it with pst_executor_drive. */
pst_status pst_rank_start(pst_rank *r, int train);
/* Queues the head of the training job only: the all-gather of weights that other ranks have
 * stepped. */
pst_status pst_rank_start_head(pst_rank *r);
/* 1: the device's kernels choose their algorithms by measuring (parallel.products). */
int pst_rank_autotunes(const pst_prepared *p);
/* Passes the plan's autotuning results to a rank's device, before kernels are prepared. EINPUT: one
 * of them cannot run here. */
pst_status pst_rank_load_autotuned(const pst_prepared *p, pst_device *device);
#endif
