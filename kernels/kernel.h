/* The table of kernels: a row computes one pass of an operator on one kind of device. kernels/ref
 * has a kernel for every operator in plain C, against which the others are tested; kernels/cpu has
 * faster ones. For each pass of an operator, the first row in the list that does not reject it is
 * chosen. */
#ifndef PST_KERNELS_KERNEL_H
#define PST_KERNELS_KERNEL_H
#include "base/codec.h"
#include "base/device.h"
#include "graph/op.h"
#include "graph/optim.h"
#include "kernels/squares.h"

/* The arguments of a launch; must stay valid until the launch has completed. */
typedef struct {
    const pst_graph *graph;
    const pst_node *node;
    void *const *arg; /* in the order of the operator's operand list; see graph/op.h */
    void *scratch;    /* aligned to 64 bytes; size: as returned by pst_kernel_row.scratch */
    uint64_t seed;    /* seed of the run; dropout's random stream: pst_rng_key(seed, node->name) */
    /* global index of the micro-batch's first sample since the start of training */
    uint64_t sample;
    uint64_t step; /* number of the training step; a repeated step keeps its number */
    /* 1: W overwrites the accumulator (first micro-batch of the step); 0: W adds to it */
    int first;
    int train; /* 0: evaluation: dropout is the identity */
    /* cross_entropy B: factor of every token's gradient: 1/(tokens of the whole batch) times the
     * loss scale (train.loss_scale) */
    float loss_scale;
} pst_call;

typedef struct {
    /* name of the operator, "sum" for the extra additions of tape.h (args: a, b, out), or a
     * restore_kernel */
    const char *op;
    pst_pass pass;
    const char *name; /* for messages: "cpu/avx512/layer_norm" */
    uint32_t isa;     /* PST_ISA_* bits that the device must have; 0 for plain C */
    /* Returns the reason why the row cannot compute this node, or NULL if it can. A NULL pointer:
     * it always can. */
    const char *(*reject)(const pst_graph *g, const pst_node *node, const pst_device *device);
    /* Exact number of bytes of scratch; NULL: none. `launch` writes all of them or, if a library
     * uses only a part, at least the last ones. */
    uint64_t (*scratch)(const pst_graph *g, const pst_node *node, uint32_t threads);
    /* Computes the pass, on device->pool if there is one. Results depend neither on the number of
     * threads nor on the addresses of operands. */
    pst_status (*launch)(pst_device *device, const pst_call *call);
    uint32_t dtypes; /* supported types of activations and parameters: bits 1 << pst_dtype */
    /* May be NULL. Called once for each pass of a rank's graph that uses this row, before the first
     * launch and before the arena is allocated: prepares what `launch` needs. May measure
     * algorithms and allocate memory for that, which it frees. */
    pst_status (*prepare)(pst_device *device, const pst_graph *g, const pst_node *node);
    /* Returns 1 if this launch may be captured (pst_device_ops.capture_begin); NULL: never.
     * Launches for which it returns 1 that have the same node, operands, scratch, `first` and
     * `train` do the same work and differ only in `sample`; they do not read `step` and
     * `loss_scale`. */
    int (*captures)(pst_device *device, const pst_call *call);
} pst_kernel_row;
enum { PST_TAKES_F32 = 1 << PST_F32, PST_TAKES_BF16 = 1 << PST_BF16, PST_TAKES_F16 = 1 << PST_F16 };

/* Rows of each backend, best first. */
const pst_kernel_row *pst_kernels_cpu(uint32_t *n);
const pst_kernel_row *pst_kernels_ref(uint32_t *n);

/* Operands of an optimizer update of n elements; state[i]: as in the optimizer's row
 * (pst_optim_row), of type pst_optim_hyper.state. */
typedef struct {
    float *weight;
    const float *grad;
    void *state[2];
    uint64_t n;
} pst_flat_param;
/* Where an update writes the new weight and state: another place with the same layout, or the same
 * place. past: 1: past the caches, where that is possible. */
typedef struct {
    float *weight;
    void *state[2];
    int past;
} pst_flat_new;

/* What is packed is a step instead of a gradient: x becomes out * g / (sqrt(v) * root + eps), with
 * g = in * x and v = beta2 * v + (1 - beta2) * g^2, which is AdamW's step without momentum. Where
 * that v would not be finite it stays as it is. */
typedef struct {
    float *second; /* v, of all elements; updated */
    float in, out;
    float beta2, eps;
    float root; /* 1 / sqrt(1 - beta2^t) */
} pst_flat_moments;

/* n elements to be packed with a codec (base/codec.h). */
typedef struct {
    float *x;           /* the numbers; with `decode` they become what the receiver unpacks */
    const float *error; /* what earlier messages have left out; what is packed is x + scale * error
                         */
    float scale;
    uint8_t *packed; /* pst_codec_bytes */
    /* becomes x + scale * error minus what the receiver unpacks; may be x, without `decode`. NULL:
     * not needed */
    float *next;
    int decode;
    uint64_t n;
    pst_codec codec;
    const pst_flat_moments *moments; /* with topk; NULL: x is packed as it is */
    /* powersgd: pst_codec_basis elements, the Q of each block in the last message, zeros before the
     * first one; NULL: none is kept */
    const float *basis;
} pst_flat_pack;

/* Operations on whole arrays: optimizer, norms, sums. One table per instruction set; all tables
 * give the same bits unless a comment says otherwise. pool may be NULL: one thread. */
typedef struct {
    const char *name;
    uint32_t isa;
    /* Updates weight and state in one pass over memory. LAMB: h->lr is multiplied by the trust
     * ratio, from `lamb_squares`. */
    void (*update)(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                   const pst_flat_param *p);
    void (*update_to)(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                      const pst_flat_param *p, const pst_flat_new *to);
    /* Sum of squares in fp64: one sum per block of 4096 elements, then the block sums in order. */
    double (*sum_squares)(pst_pool *pool, const float *x, uint64_t n);
    /* y += x */
    void (*accumulate)(pst_pool *pool, float *y, const float *x, uint64_t n);
    /* y = x converted to bf16 or fp16, rounded to nearest even (subnormal bf16 results may become
     * 0). */
    void (*narrow)(pst_pool *pool, pst_dtype dtype, const float *x, uint16_t *y, uint64_t n);
    /* The sum of n <= 2^21 squares in any order (kernels/squares.h). */
    pst_squares (*squares)(pst_pool *pool, const float *x, uint64_t n);
    /* The sums of the squares of the weight, [0], and of LAMB's step before it is scaled, [1], in
     * any order; p->n <= 2^21. */
    void (*lamb_squares)(pst_pool *pool, const pst_optim_hyper *h, const pst_flat_param *p,
                         pst_squares out[2]);
    void (*pack)(pst_pool *pool, const pst_flat_pack *of);
    /* y = the n unpacked numbers or, if `add` is 1, y += these. */
    void (*unpack)(pst_pool *pool, pst_codec codec, const uint8_t *packed, float *y, uint64_t n,
                   int add);
} pst_flat;
const pst_flat *pst_flat_choose(uint32_t isa);
const pst_flat *pst_flat_ref(void);

/* The operations of the flush on operands in the device's memory. On a CPU these are the pst_flat
 * of its instruction set; on an asynchronous device they are queued like kernels. */
typedef struct {
    float *weight;
    const float *grad;
    void *state[2]; /* of type pst_optim_hyper.state */
    /* where the new weight is also stored, rounded to the graph's dtype (PST_BF16 or PST_F16);
     * NULL: nowhere */
    uint16_t *narrow;
    /* where `update` writes the new weight and state instead; NULL: in place. Only on CPUs */
    float *new_weight;
    void *new_state[2];
    uint64_t n;
    float decay; /* weight decay of this parameter, used instead of that of the hyper-parameters */
    float trust; /* LAMB: trust ratio */
} pst_arith_param;
/* The shape of a whole matrix that Muon updates. */
typedef struct {
    uint64_t rows, cols;
} pst_matrix_shape;
typedef struct {
    const pst_optim_hyper *h;
    pst_matrix_shape shape; /* determines the size of the step */
    pst_dtype type;         /* of the graph, and of pst_arith_param.narrow */
} pst_muon_rule;
typedef struct {
    /* Updates the n parameters of the list; `type` is the dtype of `narrow`. The caller may reuse
     * the list on return. LAMB: lr is multiplied by that of each parameter (trust). */
    pst_status (*update)(pst_device *device, pst_optim_kind kind, const pst_optim_hyper *h,
                         pst_dtype type, const pst_arith_param *list, uint32_t n);
    /* out[i] = sum of squares of the n[i] elements at x[i] in fp64, in the order of pst_flat. `out`
     * is in the device's memory; the caller may reuse the lists on return. */
    pst_status (*sum_squares)(pst_device *device, const float *const *x, const uint64_t *n,
                              uint32_t count, double *out);
    pst_status (*accumulate)(pst_device *device, float *y, const float *x, uint64_t n); /* y += x */
    pst_status (*narrow)(pst_device *device, pst_dtype type, const float *x, uint16_t *y,
                         uint64_t n);
    /* For running statistics: weight += rate * (scale * grad - weight). Ignores state and decay;
     * otherwise as `update`. */
    pst_status (*average)(pst_device *device, float rate, float scale, pst_dtype type,
                          const pst_arith_param *list, uint32_t n);
    /* out[i] = x[0][i] + x[1][i] + ..., for n_x <= PST_ARITH_ADDENDS arrays of n elements of
     * `type`: added in this order in fp32 and rounded once. `out` may alias one of the arrays. The
     * caller may reuse the list on return. */
    pst_status (*combine)(pst_device *device, pst_dtype type, const void *const *x, uint32_t n_x,
                          void *out, uint64_t n);
    /* to = scale * from */
    pst_status (*scale)(pst_device *device, float scale, const float *from, float *to, uint64_t n);
    /* As those of pst_flat; on a GPU not of the codecs topk and powersgd. `packed` is aligned to 4
     * bytes. */
    pst_status (*pack)(pst_device *device, const pst_flat_pack *of);
    pst_status (*unpack)(pst_device *device, pst_codec codec, const uint8_t *packed, float *y,
                         uint64_t n, int add);
    /* Like sum_squares, but sums do not depend on how the numbers are divided into lists, each of
     * at most 2^21. NULL: not supported. */
    pst_status (*squares)(pst_device *device, const float *const *x, const uint64_t *n,
                          uint32_t count, pst_squares *out);
    /* Sums of squares for LAMB's trust ratio, as of pst_flat, of each PST_LAMB_TERM elements of a
     * parameter: out[2 i], of the weight, and out[2 i + 1], of the step, are the i-th. `out` is in
     * the device's memory. NULL: not supported. */
    pst_status (*lamb_squares)(pst_device *device, const pst_optim_hyper *h,
                               const pst_arith_param *p, pst_squares *out);
    /* Muon (kernels/muon.h), NULL: not supported. Bytes of scratch memory for a matrix. */
    uint64_t (*muon_scratch)(const pst_muon_rule *rule, uint32_t threads);
    /* To be called at set-up for each matrix that the device orthogonalizes; rule->h is not read.
     * NULL: nothing to set up. */
    pst_status (*muon_prepare)(pst_device *device, const pst_muon_rule *rule);
    /* The three parts of an update. The first and the last also of a part of a matrix. *x is the
     * address in `scratch` that the result will have; the device need not be done on return. */
    pst_status (*muon_direction)(pst_device *device, const pst_optim_hyper *h,
                                 const pst_arith_param *p, float *x);
    pst_status (*muon_orthogonalize)(pst_device *device, const pst_muon_rule *rule, void *scratch,
                                     float **x);
    pst_status (*muon_apply)(pst_device *device, const pst_muon_rule *rule,
                             const pst_arith_param *p, const float *x);
} pst_arith;
enum { PST_ARITH_ADDENDS = 64, PST_LAMB_TERM = 1 << 21 };
/* The number of sums of squares of pst_arith.lamb_squares for n elements. */
static inline uint64_t pst_lamb_terms(uint64_t n) {
    return 2 * ((n + PST_LAMB_TERM - 1) / PST_LAMB_TERM);
}
extern const pst_arith pst_arith_cpu; /* kernels/cpu/arith.c */

extern const pst_device_ops pst_device_cpu; /* "cpu" */

/* kernels/cpu/isa.c. The instruction sets that kernels may use: those of this machine, limited by
 * PENSTOCK_ISA to one of the levels "generic" (plain C), "avx2", "avx512" (without bf16),
 * "avx512_bf16". The matrix library has the same limit, except for kernels that it has chosen
 * before (pst_gemm_set_isa). */
uint32_t pst_cpu_isa(void);
/* EINPUT: PENSTOCK_ISA is not a level, or this machine lacks it */
pst_status pst_cpu_isa_check(void);
/* NULL: AVX512-BF16 is available. Else the reason why not, as the end of the sentence "bf16 needs
 * AVX512-BF16, which %s". */
const char *pst_cpu_no_bf16(void);
/* The same for another machine: its instruction sets (PST_ISA_ bits) limited to a level (NULL or
 * "": no limit); check: EINPUT if there is no such level, or the machine lacks it. */
uint32_t pst_isa_lower(uint32_t machine, const char *level);
pst_status pst_isa_check(uint32_t machine, const char *level);
const char *pst_isa_name(uint32_t isa); /* the highest level that isa contains */
/* How matrix products are computed with these instruction sets, for `doctor`: which library's
 * kernels, and the sizes of blocks. Only the number of terms per slice affects the bits of a
 * result. Writes to text, which is terminated, and returns it. */
const char *pst_cpu_products(uint32_t isa, char *text, size_t bytes);
/* Peak FLOP/s of `threads` cores in matrix products of this dtype (summed in fp32), measured with a
 * loop of about 3 ms. */
double pst_cpu_peak_flops(uint32_t isa, pst_dtype dtype, uint32_t threads);
#endif
