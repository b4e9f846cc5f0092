/* The table of kernels: an operator's pass on a kind of device. ref/ answers for every operator in
 * plain C and is the oracle; cpu/ overrides what it does faster. The chooser takes the first row,
 * in list order, that does not reject. */
#ifndef PST_KERNELS_KERNEL_H
#define PST_KERNELS_KERNEL_H
#include "base/device.h"
#include "graph/op.h"
#include "graph/optim.h"

/* The argument block of a launch, alive until it has completed. */
typedef struct {
    const pst_graph *graph;
    const pst_node *node;
    void *const *arg; /* in the order of the operator's operand list; see graph/op.h */
    void *scratch;    /* 64-byte aligned, as many bytes as the row's scratch() says */
    uint64_t seed;    /* of the run: dropout's stream is pst_rng_key(seed, node->name) */
    /* global index of the micro-batch's first sample since the start of training */
    uint64_t sample;
    uint64_t step; /* of training; the same when one is repeated */
    int first; /* W overwrites the accumulator (first micro-batch of the step), else adds to it */
    int train; /* 0: evaluation, dropout is the identity */
    float loss_scale; /* cross_entropy B: factor of every token's gradient, 1/(tokens of the whole
                         batch), times the scale of the gradients (train.loss_scale) */
} pst_call;

typedef struct {
    const char *op; /* operator row's name, "sum" for the extra additions of tape.h (args: a, b,
                       out), or a restore_kernel */
    pst_pass pass;
    const char *name; /* shown by the chooser: "cpu/avx512/layer_norm" */
    uint32_t isa;     /* PST_ISA_* bits that the device must have; 0 for plain C */
    /* NULL: can; else why not. May be NULL itself. */
    const char *(*reject)(const pst_graph *g, const pst_node *node, const pst_device *device);
    /* Exact bytes of scratch; NULL: none. Every byte that it counts is written by launch, or the
     * last ones where a library has the rest. */
    uint64_t (*scratch)(const pst_graph *g, const pst_node *node, uint32_t threads);
    /* Runs on device->pool when it has one. Results never depend on the number of threads, nor on
     * where operands lie. */
    pst_status (*launch)(pst_device *device, const pst_call *call);
    uint32_t dtypes; /* bits 1 << pst_dtype: graphs whose activations and parameters it takes */
    /* NULL, or called once for each such pass of a rank's graph before the first launch and before
     * the device's memory is taken: what launch looks up is made here. It may measure, with memory
     * that it gives back. */
    pst_status (*prepare)(pst_device *device, const pst_graph *g, const pst_node *node);
    /* NULL: no. Whether launch may be captured now (pst_device_ops.capture_begin): then every
     * launch with such a node, operands, scratch, `first` and `train`, of which this says yes, does
     * the same, but for `sample`; neither `step` nor `loss_scale` is looked at. */
    int (*captures)(pst_device *device, const pst_call *call);
} pst_kernel_row;
enum { PST_TAKES_F32 = 1 << PST_F32, PST_TAKES_BF16 = 1 << PST_BF16, PST_TAKES_F16 = 1 << PST_F16 };

/* Rows of each backend, best first. */
const pst_kernel_row *pst_kernels_cpu(uint32_t *n);
const pst_kernel_row *pst_kernels_ref(uint32_t *n);

/* What an optimizer's step works on; state[i] as in the optimizer's row. */
typedef struct {
    float *weight;
    const float *grad;
    float *state[2];
    uint64_t n;
} pst_flat_param;

/* Arithmetic over flat arrays: optimizer, norms, sums. One table per instruction set; all tables
 * give the same bits as each other except where a comment says otherwise. pool may be NULL (one
 * thread). */
typedef struct {
    const char *name;
    uint32_t isa;
    /* One fused pass. */
    void (*update)(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                   const pst_flat_param *p);
    /* Sum of squares in fp64: blocks of 4096 elements are summed each on its own, then block sums
     * in order. */
    double (*sum_squares)(pst_pool *pool, const float *x, uint64_t n);
    /* y += x */
    void (*accumulate)(pst_pool *pool, float *y, const float *x, uint64_t n);
    /* y = x as bf16 or fp16, rounded to nearest even (subnormal numbers of bf16 may become 0). */
    void (*narrow)(pst_pool *pool, pst_dtype dtype, const float *x, uint16_t *y, uint64_t n);
} pst_flat;
const pst_flat *pst_flat_choose(uint32_t isa);
const pst_flat *pst_flat_ref(void);

/* What the end of a step computes, on operands in the device's memory: for a CPU the pst_flat of
 * its instruction set. Launched as kernels are; on a device that runs ahead, queued. */
typedef struct {
    float *weight;
    const float *grad;
    float *state[2];
    /* where the new weight goes in the graph's type, PST_BF16 or PST_F16; NULL: nowhere */
    uint16_t *narrow;
    uint64_t n;
    float decay; /* in place of the hyper-parameters' */
} pst_arith_param;
typedef struct {
    /* All of them with one rule; `type`: of narrow. The list has been read on return. */
    pst_status (*update)(pst_device *device, pst_optim_kind kind, const pst_optim_hyper *h,
                         pst_dtype type, const pst_arith_param *list, uint32_t n);
    /* out[i] = sum of squares of n[i] elements at x[i] in fp64, by pst_flat's order; out lies in
     * the device's memory, the lists have been read on return. */
    pst_status (*sum_squares)(pst_device *device, const float *const *x, const uint64_t *n,
                              uint32_t count, double *out);
    pst_status (*accumulate)(pst_device *device, float *y, const float *x, uint64_t n); /* y += x */
    pst_status (*narrow)(pst_device *device, pst_dtype type, const float *x, uint16_t *y,
                         uint64_t n);
    /* Statistics: weight += rate * (scale * grad - weight), state and decay left out; else as
     * update. */
    pst_status (*average)(pst_device *device, float rate, float scale, pst_dtype type,
                          const pst_arith_param *list, uint32_t n);
    /* out[i] = the sum of x[0][i], x[1][i], ... of n_x <= PST_ARITH_ADDENDS arrays of n elements of
     * type: added in that order in fp32, and rounded once. out may be one of them. The list has
     * been read on return. */
    pst_status (*combine)(pst_device *device, pst_dtype type, const void *const *x, uint32_t n_x,
                          void *out, uint64_t n);
} pst_arith;
enum { PST_ARITH_ADDENDS = 64 };
extern const pst_arith pst_arith_cpu; /* kernels/cpu/arith.c */

extern const pst_device_ops pst_device_cpu; /* "cpu" */

/* kernels/cpu/isa.c. The instruction sets that may be used: what this machine has, lowered by
 * PENSTOCK_ISA to one of the levels "generic" (plain C), "avx2", "avx512" (without bf16),
 * "avx512_bf16". The library of products keeps to it, too, but for what it chose before
 * (pst_gemm_set_isa). */
uint32_t pst_cpu_isa(void);
/* EINPUT: PENSTOCK_ISA is no level, or one that this machine lacks */
pst_status pst_cpu_isa_check(void);
/* NULL: there is AVX512-BF16. Else who is to blame: "bf16 needs AVX512-BF16, which %s". */
const char *pst_cpu_no_bf16(void);
/* The same of any machine's: what a level (NULL or "": none) leaves of it, and what is wrong with
 * the level. */
uint32_t pst_isa_lower(uint32_t machine, const char *level);
pst_status pst_isa_check(uint32_t machine, const char *level);
const char *pst_isa_name(uint32_t isa); /* the highest level that it has */
/* Peak FLOP/s of `threads` cores in products of this type (summed in fp32), from a loop of about 3
 * ms. */
double pst_cpu_peak_flops(uint32_t isa, pst_dtype dtype, uint32_t threads);
#endif
