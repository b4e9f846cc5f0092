/* A rank that computes: arena, device, executor, and the hooks that turn instructions into kernel
 * launches. A process has one rank or, with transport `self`, all ranks of the job. */
#ifndef PST_RANK_RANK_H
#define PST_RANK_RANK_H
#include "base/arena.h"
#include "base/transport.h"
#include "comm/collective/collective.h"
#include "kernels/squares.h"
#include "pipeline/draw/timeline.h"
#include "pipeline/execute/serve.h"
#include "prepare/prepare.h"
#include "rank/exchange.h"
#include "rank/recorder.h"
#include "rank/replay.h"
#include "rank/work.h"

/* Argument block of a launch: the block that the kernel reads, the kernel, and the tape step. */
typedef struct {
    pst_call call;
    const pst_kernel_row *kernel;
    void *arg[PST_MAX_ARG];
    uint64_t *spent; /* the launch adds its duration (ns) to *spent */
    pst_rank *rank;
    const pst_step *step;
    uint32_t chunk, micro;
} pst_rank_call;

/* Runs the kernel of a launch; of a step that packs or unpacks a message between stages, that
 * (pack.c). */
pst_status pst_rank_launch(const pst_rank_call *call);

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
    const pst_graph *graph; /* graph of this tensor rank; like cut and eval_cut borrowed from p */
    const pst_graph *rest;  /* the same for the step's smaller first micro-batch; NULL: all are
                               equal; pst_rank_graph */
    const pst_cut *cut, *eval_cut; /* eval_cut: NULL without evaluation */
    /* borrowed from p; eval_slots: NULL without evaluation */
    const pst_slots *slots, *eval_slots;
    /* first of the step's micro-batches that this rank computes; number of them */
    uint32_t micro, n_micro;
    /* first micro-batch of this rank in an evaluation pass, and their number */
    uint32_t eval_micro, n_eval_micro;
    /* number of micro-batches that each gradient accumulator sums */
    uint32_t part_micros;
    const pst_memory_map *memory; /* borrowed from p */
    /* with `on_device` its base is a device address, which the host must not dereference */
    pst_arena arena;
    uint32_t side; /* of the state (pst_memory_map.twin): the one that STEP reads */
    int padded;    /* 1: side 1 has its padding */
    /* 1: the host cannot access the arena directly, only with pst_rank_read and pst_rank_write */
    int on_device;
    void *bounce; /* [PST_RANK_BOUNCE] bounce buffer of pst_rank_peek; only with `on_device` */
    /* memory from memory->norm_own to the end of rank 0's answer (sum of losses, norm, clip
     * factor): in the arena, or with `on_device` a copy on the host (rank/norm.c) */
    uint8_t *control;
    pst_device *device;
    pst_transport *transport; /* borrowed */
    /* transport for the executor's messages if `on_device` and `transport` moves host memory
     * only */
    pst_transport *staged;
    const pst_direct_ops *direct; /* NULL: `staged` is not a transport of the device */
    /* parallel.collectives fast: the communication library adds the parts of tensor ranks */
    int library_adds;
    pst_coll *coll;
    /* communication within the tensor group; NULL with one tensor rank, and with device timed */
    pst_exchanger *exchanger;
    /* the communication under way within the tensor group: tape step, chunk, micro-batch and start
     * time */
    const pst_step *exchange_step;
    uint32_t exchange_chunk, exchange_micro;
    uint64_t exchange_ns;
    /* with `on_device`: used instead of `exchanger` for communication within a pass */
    struct pst_device_exchanger *device_exchanger;
    void *partial; /* with `on_device`: host copy of the accumulators that the tensor group adds */
    /* throttled rank: ns that it must still sleep; negative: it has slept too long */
    double sleep_ns;
    pst_executor *executor;
    /* Asynchronous updates: at a server, else NULL. hyper_of returns what STEP uses for a worker's
     * step, which is the `update`-th of this server, counted from 1; `updates` are those before the
     * current period */
    pst_serving *serving;
    pst_optim_hyper (*hyper_of)(const void *arg, uint64_t step, uint64_t update);
    const void *hyper_arg;
    uint64_t updates;
    pst_position *position; /* borrowed; may be NULL */
    const pst_arith *arith;
    /* [n_param] list of the parameters that STEP updates in one launch */
    pst_arith_param *step_param;
    struct pst_rank_whole *whole; /* NULL: STEP exchanges nothing (rank/whole.c) */
    float *trust; /* [n_param] LAMB's trust ratios of the step; NULL: another optimizer */
    /* [n_param][2] sums of squares that they follow from; terms of these sums, on the host */
    pst_squares_total *trust_of;
    pst_squares *trust_term;
    const float **piece; /* ranges of gradients, at most PST_PIECE elements each, whose squares NORM
                            sums */
    uint64_t *piece_n;   /* number of elements of each range */
    /* rank 0: [n_term] offsets in `control` of the sums of squares of all ranges, by parameter in
     * name order; other ranks: NULL */
    uint64_t *term;
    uint32_t n_term;
    pst_rank_call call;
    pst_rank_flush flush;
    /* State of the current step or evaluation, set before it starts. */
    int train;       /* 1: the training job, 0: the evaluation job */
    uint64_t sample; /* global index of the first sample that this rank computes in the batch */
    uint64_t step;   /* number of the step; at a server with `serving`, of the period's first one */
    pst_optim_hyper hyper; /* learning rate, t and corrections of this step */
    /* post-validation: STEP did not wait for rank 0's answer; the answer required a rollback */
    int stepped, rolled_back;
    int holds;    /* delayed updates: 1: STEP applies nothing, because no gradients are due yet */
    int accepted; /* eager updates: the last step was applied; equal on all ranks */
    /* number of targets in this step's batch, over which the loss is the mean: with islands
     * (pipeline/compile/outer.h) those of the island, until the reports of a step are gathered */
    uint64_t targets;
    uint64_t samples;       /* of the batch or of the island */
    uint32_t island_micros; /* micro-batches of the step: of all replicas, or of the island */
    /* STEP does not apply a step with a larger loss (mean) or norm; INFINITY: it does */
    double loss_limit, norm_limit;
    /* loss scale of this step's gradients (scaler.h); grad_norm does not contain it */
    double loss_scale;
    /* [max_op] launches of operators in the current job, the first n_op valid; times in
     * pst_monotonic_ns() */
    pst_op_span *op;
    uint32_t n_op, max_op;
    /* times: measure each operator of training steps also on an asynchronous device, where
     * measuring costs time (if 0, `op` and `work` stay empty there); each: the current job
     * measures */
    int times, each;
    /* careful: any launch of the current list may make the host wait for the device, because the
     * list runs for the first time (kernels are loaded) or under the checker; n_begun: number of
     * evaluation and of training lists started so far */
    int careful;
    uint32_t n_begun[2];
    pst_work work; /* time in kernels since the current training step started */
    /* 1: the step is repeated under the checker (replay.h), without changing weights */
    int replay;
    pst_culprit culprit;    /* result of the last replay */
    pst_recorder *recorder; /* NULL: nothing is recorded */
    /* For a checkpoint that is being written (saving.c): returns 1 if STEP may change the
     * parameter; else 0 after a short wait, and is to be called again. NULL: STEP may always change
     * parameters. */
    int (*may_change)(void *arg, uint32_t param);
    void *may_change_arg;
    /* Results of the last step, on every rank: sum of the token losses, norm before clipping, clip
     * factor. */
    double loss_sum, grad_norm, clip_scale;
    int applied; /* 1: the last step changes the weights */
};

/* Memory in which a rank publishes its state; each pointer may be NULL. */
typedef struct {
    volatile uint64_t *last_instr; /* as pst_executor_config.last_instr */
    pst_position *position;
} pst_rank_watch;
/* Opens device, arena and executor of a rank; weights are not initialised. p, transport (this
 * rank's endpoint) and what `watch` points to are borrowed. canary: see base/arena.h. */
pst_status pst_rank_open(const pst_prepared *p, uint32_t rank, pst_transport *transport, int canary,
                         const pst_rank_watch *watch, pst_rank **out);
void pst_rank_close(pst_rank *r);
/* rank/transport.c: opens `staged` if needed. connect: makes progress on connecting it; all ranks
 * of the job call it before the first step until it returns OK. BUSY: call again. */
pst_status pst_rank_transport_open(pst_rank *r);
pst_status pst_rank_connect(pst_rank *r);
/* 1: the transport can send and receive memory of this device directly. */
int pst_rank_transport_reaches(const pst_transport *t, const pst_device_ops *device);
/* The next lists are those of p, which is r->p or another batch size of the same run
 * (pst_prepared.smaller): weights and states stay, everything else in the arena may move. p is
 * borrowed. ENOMEM. */
pst_status pst_rank_use(pst_rank *r, const pst_prepared *p);
/* For a job with options.cache: the next runs compute form number `form` (pst_prepared). */
void pst_rank_use_form(pst_rank *r, uint32_t form);
/* rank/weights.c. Initialises the elements that this rank updates: weights from the seed, optimizer
 * state to zero. */
pst_status pst_rank_init_weights(pst_rank *r);
/* The same, except weights and optimizer states that are then read from a state of the run. */
pst_status pst_rank_init_others(pst_rank *r);

/* rank/memory.c. Access from the host to the rank's memory, by addresses in the arena. To be called
 * on the thread that drives the rank; ordered with the compute queue. EINTERNAL: the device
 * failed. */
enum { PST_RANK_BOUNCE = 256 << 10 };
pst_status pst_rank_memory_open(pst_rank *r, int canary);
/* Puts the two sides of the state, before anything is written to them, into memory files, which
 * may have more bytes and other contents than needed; these stay until a side is written. at: [2]
 * where the sides begin in their files, congruent to the address modulo 2 MiB. ENOMEM. */
pst_status pst_rank_share_state(pst_rank *r, const int fd[2], uint64_t at[2]);
/* Before the first step: moves both sides to pages of 2 MiB, where the system can do that. Takes
 * some ms per MiB, and makes steps of large states faster. */
void pst_rank_enlarge_pages(const pst_rank *r);
/* The first byte of a side. */
const uint8_t *pst_rank_side(const pst_rank *r, uint32_t side);
/* Zeroes the padding behind weights; the host never writes it afterwards. */
pst_status pst_rank_fill_pads(const pst_rank *r);
/* From now on the other side is the state. All of it that is not frozen must have been written, or
 * must be written before it is read. */
pst_status pst_rank_turn(pst_rank *r);
void pst_rank_memory_close(pst_rank *r);
pst_status pst_rank_read(const pst_rank *r, void *to, const void *from, uint64_t bytes);
/* The same for other threads, with `on_device`. No other thread may write to this memory during the
 * call. */
pst_status pst_rank_read_aside(void *rank, void *to, const void *from, uint64_t bytes);
pst_status pst_rank_write(const pst_rank *r, void *to, const void *from, uint64_t bytes);
/* Copies within the arena; queued: the copy may still run when the function returns. */
pst_status pst_rank_copy(const pst_rank *r, void *to, const void *from, uint64_t bytes);
/* The same in queue SIDE, for instructions there. */
pst_status pst_rank_copy_beside(const pst_rank *r, void *to, const void *from, uint64_t bytes);
pst_status pst_rank_fill(const pst_rank *r, void *to, uint8_t value, uint64_t bytes);
/* Waits until all launches, copies and fills queued so far have ended. Then other threads may read
 * the memory. */
pst_status pst_rank_wait(const pst_rank *r);
pst_status pst_rank_wait_beside(const pst_rank *r); /* of queue SIDE */
/* *host: a readable address of `bytes` bytes of the arena, at most PST_RANK_BOUNCE; valid until the
 * next call. */
pst_status pst_rank_peek(const pst_rank *r, const void *at, uint64_t bytes, const void **host);
/* *host: an array of the arena or, with `on_device`, a host copy of it, which is filled if `reads`
 * is 1. pst_rank_unmap ends the access and, if `writes` is 1, copies the array back. ENOMEM. */
pst_status pst_rank_map(const pst_rank *r, void *at, uint64_t bytes, int reads, void **host);
pst_status pst_rank_unmap(const pst_rank *r, void *at, uint64_t bytes, int writes, void *host);
/* As pst_arena_touched, up to the end of the arena, and pst_arena_intact. pst_rank_touched reads
 * all memory after the last written byte, which may take long. */
pst_status pst_rank_touched(const pst_rank *r, uint64_t from, uint64_t *end);
pst_status pst_rank_intact(const pst_rank *r, int *intact);

/* rank/norm.c: the instructions NORM and, on rank 0, GATHER, which adds the sums of squares of all
 * ranges in name order, so that the norm has the same bits in every layout, and answers with the
 * clip factor. norm_open: allocates and, on rank 0, locates these sums. pull: *control: current
 * contents of `control`, `bytes` bytes from `offset` on. */
pst_status pst_rank_norm(pst_device *device, const void *block);
/* Adds up sums of squares of pieces, of `words` numbers each (pst_graph_norm_words). */
typedef struct {
    double sum;
    pst_squares_total exact;
} pst_rank_squares;
#define PST_RANK_NO_SQUARES                                                                        \
    {                                                                                              \
        0, {                                                                                       \
            {PST_SQUARES_NONE, {0}}, {                                                             \
                PST_SQUARES_NONE, { 0 }                                                            \
            }                                                                                      \
        }                                                                                          \
    }
void pst_rank_add_squares(pst_rank_squares *to, const double *piece, uint32_t words);
double pst_rank_total_squares(const pst_rank_squares *of);
pst_status pst_rank_gather(pst_device *device, const void *block);
pst_status pst_rank_norm_open(pst_rank *r);
void pst_rank_norm_close(pst_rank *r);
pst_status pst_rank_pull(const pst_rank *r, uint64_t offset, uint64_t bytes,
                         const double **control);
/* rank/outer.c: the instruction OUTER. */
pst_status pst_rank_outer(pst_device *device, const void *block);
/* rank/weights.c: the present weights become the old ones of islands, without momentum. */
pst_status pst_rank_begin_outer(const pst_rank *r);
/* outer.c: PACK of the difference of an island. */
pst_status pst_rank_pack_difference(pst_rank *r, const pst_instr *in);
/* Address of the residual of the parameter's differences, of elements [own_from, own_to); of the
 * old weights that they are to. NULL: differences are not packed, or not here. */
float *pst_rank_left(const pst_rank *r, uint32_t param);
float *pst_rank_base(const pst_rank *r, uint32_t param);
/* rank/address.c: old weights and outer momentum of the elements from memory->outer_from on of
 * which this rank takes the outer step; NULL: none. */
float *pst_rank_old(const pst_rank *r, uint32_t param);
float *pst_rank_velocity(const pst_rank *r, uint32_t param);
/* The elements [from, to) of a parameter's weights that this rank gives to checkpoints and to
 * programs: with islands the old weights, which the islands share. */
typedef struct {
    uint64_t from, to;
    const float *weight; /* from element `from` on; NULL: none */
} pst_rank_global;
pst_rank_global pst_rank_global_of(const pst_rank *r, uint32_t param);
/* rank/step.c: the instructions STEP and VALIDATE. */
pst_status pst_rank_step(pst_device *device, const void *block);
/* rank/pack.c: the instructions PACK and UNPACK. */
pst_status pst_rank_pack(pst_device *device, const void *block);
pst_status pst_rank_unpack(pst_device *device, const void *block);
pst_status pst_rank_validate(pst_device *device, const void *block);
/* Parts of STEP. answer: reads rank 0's sum of losses, norm and clip factor; good: the step may be
 * applied. steps: whether the rank updates elements of the parameter. await_checkpoint: returns
 * when no checkpoint under way needs the parameter. apply: updates all parameters, except matrices
 * that tensor ranks exchange, with the trust ratios in r->trust. */
pst_status pst_rank_answer(pst_rank *r, int *good);
pst_optim_hyper pst_rank_hyper(const pst_rank *r, double clip_scale);
int pst_rank_steps(const pst_rank *r, uint32_t param);
pst_arith_param pst_rank_changing(const pst_rank *r, uint32_t param);
/* With two sides of the state. in_place: the same to be changed on the side that STEP writes, where
 * carry copies the parameter before. */
pst_arith_param pst_rank_in_place(const pst_arith_param *p);
pst_status pst_rank_carry(const pst_rank *r, uint32_t param);
void pst_rank_await_checkpoint(pst_rank *r, uint32_t param);
pst_status pst_rank_apply(pst_rank *r, const pst_optim_hyper *h);
/* Sums of squares of this rank's elements of the parameters with a trust ratio, of the weight and
 * of LAMB's step: of[2 i], of[2 i + 1]. Waits for the device. */
pst_status pst_rank_trust_norms(const pst_rank *r, const pst_optim_hyper *h, pst_squares_total *of);
/* LAMB's trust ratio, of the sums of squares of a parameter. */
float pst_rank_trust(const pst_squares_total of[2]);
pst_muon_rule pst_rank_muon_rule(const pst_rank *r, const pst_optim_hyper *h, uint32_t param);
/* Whether rank/whole.c updates the parameter. */
int pst_rank_exchanges_matrix(const pst_rank *r, uint32_t param);
/* rank/whole.c: STEP of LAMB and Muon among tensor ranks. step_exchange is a hook of the executor;
 * next: the exchange under way has ended; BUSY: another one has begun. */
pst_status pst_rank_whole_open(pst_rank *r);
void pst_rank_whole_close(pst_rank *r);
pst_status pst_rank_step_exchange(void *arg);
pst_status pst_rank_whole_next(pst_rank *r);
/* rank/capture.c: a hook of the executor. */
uint32_t pst_rank_captures(void *arg, const void *block, uint64_t words[PST_EXECUTOR_WORDS],
                           uint64_t *sample);
/* rank/exchange_hooks.c: hooks of the executor, and their set-up. */
pst_status pst_rank_exchange_open(pst_rank *r);
void pst_rank_exchange_close(pst_rank *r);
pst_status pst_rank_exchange(void *arg, uint32_t chunk, const pst_step *step, uint32_t micro);
pst_status pst_rank_exchanged(void *arg);
/* rank/address.c: the address of an operand of a tape step. rank/work.c: record_op adds a launch to
 * the timeline. */
void *pst_rank_operand(const pst_rank *r, uint32_t chunk, const pst_step *step, uint32_t operand,
                       uint32_t micro);
const pst_cut *pst_rank_cut(const pst_rank *r);
/* rank/address.c: the graph, and the cut with the sizes of values, of one of the current job's
 * micro-batches of this rank: the step's first one may have fewer samples. */
const pst_graph *pst_rank_graph(const pst_rank *r, uint32_t micro);
const pst_cut *pst_rank_sizes(const pst_rank *r, uint32_t micro);
/* The memory map together with the cut and slots of the current job. */
pst_memory_view pst_rank_view(const pst_rank *r);
void pst_rank_record_op(pst_rank *r, const pst_step *step, uint32_t micro, uint64_t began,
                        uint64_t ended);

/* rank/address.c. The fp32 weight, and optimizer state i < optim->n_state (of type optim->state),
 * of the elements of a parameter that this rank updates, from element memory->step_from on. NULL:
 * it updates none. In fp32 also the whole weight of a frozen parameter, which has no state. */
float *pst_rank_weight(const pst_rank *r, uint32_t param);
/* The memory at an offset of the map, on a side. NULL: UINT64_MAX. */
void *pst_rank_on_side(const pst_rank *r, uint64_t offset, uint32_t side);
/* The side that STEP writes: the same as r->side if there is only one. */
static inline uint32_t pst_rank_next_side(const pst_rank *r) {
    return r->memory->twin_to ? 1 - r->side : r->side;
}
void *pst_rank_state(const pst_rank *r, uint32_t param, uint32_t i);
/* The gradient accumulator of one use of a parameter, from element memory->grad_from on; NULL: not
 * on this rank. grad: of the step whose gradients STEP applies, which is the present one without
 * delayed updates; grad_of: of step `step`, counted from 0 as r->step. */
float *pst_rank_grad(const pst_rank *r, uint32_t param, uint32_t use);
float *pst_rank_grad_of(const pst_rank *r, uint32_t param, uint32_t use, uint64_t step);
/* After `done` steps: the number of the step `age` steps ago, for grad_of, also if there was none.
 */
static inline uint64_t pst_rank_aged(const pst_rank *r, uint64_t done, uint32_t age) {
    return done + r->memory->n_set - age;
}
/* What codecs have left out of this rank's gradients of a parameter so far: all elements, without
 * loss scale. NULL: this rank does not pack them. */
float *pst_rank_residual(const pst_rank *r, uint32_t param);
/* This replica's second moments of a parameter, where it sends steps: all elements; NULL: none. */
float *pst_rank_second(const pst_rank *r, uint32_t param);
/* powersgd: the Q of all blocks in the last step that was applied (pst_flat_pack.basis), and the
 * number of its elements; NULL, 0: none is kept. The rank's packed gradient, of all elements, until
 * the next step. */
float *pst_rank_basis(const pst_rank *r, uint32_t param);
uint64_t pst_rank_basis_elements(const pst_rank *r, uint32_t param);
const uint8_t *pst_rank_packed(const pst_rank *r, uint32_t param);
/* The copy of a parameter's weight that all ranks with it have, and of which they receive changes:
 * all elements. NULL: this rank has none. */
float *pst_rank_copied(const pst_rank *r, uint32_t param);
/* The reduced gradient of a parameter from element `from` on, which must be owned by this rank. */
const float *pst_rank_sum(const pst_rank *r, uint32_t param, uint64_t from);
/* rank/weights.c. Elements [from, to) of a parameter: those that this rank updates, or all of a
 * frozen one. */
typedef struct {
    uint64_t from, to;
} pst_rank_part;
pst_rank_part pst_rank_part_of(const pst_rank *r, uint32_t param);
/* 1: a frozen parameter in a graph of 16 bits: no fp32 numbers are kept. */
int pst_rank_is_rounded(const pst_rank *r, uint32_t param);
/* Where the fp32 numbers of pst_rank_fill_part (pst_rank_part_of, or all of a parameter of which
 * this rank has a copy) are to be written before the first step; then pst_rank_filled must be
 * called, which rounds those of a frozen parameter, and takes the weight from its copy, before the
 * next one is written. NULL: there are none. */
pst_rank_part pst_rank_fill_part(const pst_rank *r, uint32_t param);
float *pst_rank_fill_at(const pst_rank *r, uint32_t param);
pst_status pst_rank_filled(pst_rank *r, uint32_t param);
/* Sets the copy of a weight that operators read from fp32 numbers in host memory, all of its
 * elements. Only on CPUs. */
pst_status pst_rank_take_weight(pst_rank *r, uint32_t param, const float *from);
/* Updates the copies of the weights in the graph's dtype, which kernels read. To be called after
 * fp32 weights were written. */
pst_status pst_rank_refresh(pst_rank *r);
/* 1: this rank stores the first element of the parameter. */
int pst_rank_owns(const pst_rank *r, uint32_t param);
/* 1: what replicas send of this parameter, and its sum, are steps instead of gradients
 * (pst_job_has_moments); on any rank. */
int pst_rank_sums_steps(const pst_rank *r, uint32_t param);
/* 1: this rank writes its residual of the parameter to checkpoints; of a parameter that all tensor
 * ranks hold alike, only the first one does. */
int pst_rank_stores_residual(const pst_rank *r, uint32_t param);
/* The same of its pending gradients (delayed updates). */
int pst_rank_stores_gradient(const pst_rank *r, uint32_t param);
/* 1: this rank contributes elements [memory->own_from, own_to) of the parameter to the norm and,
 * with the optimizer's state, to checkpoints; its part of pst_rank_global_of. */
int pst_rank_stores_own(const pst_rank *r, uint32_t param);
int pst_rank_stores(const pst_rank *r, uint32_t param);
/* Address of a data or output tensor of micro-batch `micro`; NULL: not on this rank. */
void *pst_rank_data(const pst_rank *r, uint32_t tensor, uint32_t micro);
void *pst_rank_output(const pst_rank *r, uint32_t tensor, uint32_t micro);
/* Sums of losses: of those whose mean is over all targets of a batch, and of those whose mean is
 * over its samples (pst_attr.per_sample); and the number of targets that have the largest logit
 * (pst_attr.hits). */
typedef struct {
    double targets, samples, hits;
} pst_loss_sums;
/* *sums: of a micro-batch in the last job, each added in the order of samples; 0 if this rank has
 * none. pst_rank_step_losses: of all micro-batches of the last step of this rank. */
pst_status pst_rank_step_losses(const pst_rank *r, pst_loss_sums *sums);
pst_status pst_rank_losses(const pst_rank *r, uint32_t micro, pst_loss_sums *sums);
/* The sum whose quotient by `targets` is the sum of both means; samples: of the batch. */
static inline double pst_loss_total(const pst_loss_sums *sums, uint64_t targets, uint64_t samples) {
    if (sums->samples == 0) return sums->targets;
    return sums->targets + sums->samples * ((double)targets / (double)samples);
}

/* Number of operators that a rank launches in a training step; 0: too many to record. */
uint32_t pst_rank_launches(const pst_prepared *p, uint32_t rank);
/* Starts the training (train 1) or evaluation job; pst_executor_drive then makes progress. */
pst_status pst_rank_start(pst_rank *r, int train);
/* Starts only the head of the training job: the all-gather of weights that other ranks have
 * updated. */
pst_status pst_rank_start_head(pst_rank *r);
/* 1: the device's kernels choose algorithms by measuring them (parallel.products). */
int pst_rank_autotunes(const pst_prepared *p);
/* Passes the plan's autotuning results to a rank's device; to be called before kernels are
 * prepared. EINPUT: an algorithm of the plan cannot run on this device. */
pst_status pst_rank_load_autotuned(const pst_prepared *p, pst_device *device);
#endif
