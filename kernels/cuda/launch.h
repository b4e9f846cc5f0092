/* The interface between the kernels of *.cu and the C code that launches them: launchers queue and
 * return, allocate nothing and wait for nothing, so that they can be captured in CUDA graphs.
 * Nothing here needs the toolkit: a host test runs the same launchers with emulated threads
 * (tests/kernels/emulate.h). Operands that are void * have type `dtype`; rows are contiguous; the
 * order of every sum depends on the shape alone, not on the GPU or timing. */
#ifndef PST_KERNELS_CUDA_LAUNCH_H
#define PST_KERNELS_CUDA_LAUNCH_H
#ifdef __cplusplus
extern "C" {
#endif
#include "base/dtype.h"

typedef struct CUstream_st *pst_cuda_queue; /* the runtime's cudaStream_t */

/* The first index that is outside its table, written by the kernel that met it to memory that the
 * host also reads. Kernels continue and skip that token. */
enum { PST_CUDA_FAULT_NONE, PST_CUDA_FAULT_TAKEN, PST_CUDA_FAULT_SAID };
typedef struct {
    volatile uint32_t state;
    int32_t index;
    uint64_t position, limit;
    uint64_t launch;  /* the launch that met it */
    const char *node; /* in host memory: the operator's name */
} pst_cuda_fault;
/* Indices of a launch lie in [0, limit); the table rows [first, first + rows) are here, others on
 * other tensor ranks. */
typedef struct {
    const int32_t *index;
    uint64_t first, rows, limit;
    int ignore; /* negative indices are allowed */
    const char *node;
    pst_cuda_fault *fault;
    uint64_t launch; /* number of this launch on the device */
} pst_cuda_index;

/* --- elementwise.cu: out may be an operand ---------------------------------------------------- */
void pst_cuda_add(pst_cuda_queue q, pst_dtype dtype, const void *a, const void *b, void *out,
                  uint64_t n);
/* out = x + y; void * operands are `dtype`; y NULL: out = x. */
void pst_cuda_add_wide(pst_cuda_queue q, pst_dtype dtype, const void *x, const float *y, float *out,
                       uint64_t n);
void pst_cuda_add_narrow(pst_cuda_queue q, pst_dtype dtype, const float *x, const void *y,
                         void *out, uint64_t n);
void pst_cuda_copy(pst_cuda_queue q, pst_dtype dtype, const void *x, void *y, uint64_t n);
/* y = act(z); dz = dy * act'(z). act: of graph.h, not NONE. */
void pst_cuda_activation(pst_cuda_queue q, pst_dtype dtype, int act, const void *z, void *y,
                         uint64_t n);
void pst_cuda_slope(pst_cuda_queue q, pst_dtype dtype, int act, const void *z, const void *dy,
                    void *dz, uint64_t n);
typedef struct {
    const void *x;
    void *y;
    uint64_t samples, per_sample; /* elements of a sample on this rank, */
    uint64_t first;               /* the first of which has this number in the whole sample */
    uint64_t key, sample;
    const uint64_t *sample_at; /* device memory with the sample's number; NULL: `sample` is used */
    float rate;
} pst_cuda_mask;
void pst_cuda_dropout(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_mask *mask);
void pst_cuda_set(pst_cuda_queue q, uint64_t *to, uint64_t value);

/* --- layer_norm.cu: saved is (mean, 1/deviation) fp32 [rows,2] -------------------------------- */
typedef struct {
    const void *x, *weight, *bias, *dy, *sum; /* sum NULL: nothing to add */
    void *y, *dx;                             /* dx may be sum or dy */
    int wide_x, wide_y;                       /* x, sum and dx, or y and dy, are fp32 */
    float *saved;
    uint64_t rows, n;
    float eps;
    /* NULL, or where B stores its sums over `parts` parts of the rows, as column_parts does */
    float *part;
    uint64_t parts;
} pst_cuda_norm;
void pst_cuda_layer_norm_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *norm);
void pst_cuda_layer_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *norm);

/* --- column_sum.cu: (+)= into fp32, in two stages through scratch ----------------------------- */
/* saved NULL: sum[0][c] (+)= sum over rows of dy[r,c]. Else also sum[1][c] (+)= that of dy * (x -
 * mean) / deviation. */
typedef struct {
    const void *x, *dy;
    int wide_x, wide_dy; /* is fp32 */
    const float *saved;
    float *sum[2];
    uint64_t rows, columns;
    uint64_t pitch; /* elements from row to row of x and dy; 0: columns */
    int first;
    float *scratch; /* [parts][arrays][columns], the sums of dy first */
    uint64_t parts; /* parts of ceil(rows/parts) rows, none empty; 0: chosen by shape, with
                       pst_cuda_column_sum_scratch elements of scratch */
} pst_cuda_columns;
uint64_t pst_cuda_column_sum_scratch(uint64_t rows, uint64_t columns, int arrays);
void pst_cuda_column_sum(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_columns *columns);
/* Its two stages: rows to scratch, scratch to sum. The second one does not read the rows; sum[1]
 * NULL: one array. */
void pst_cuda_column_parts(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_columns *columns);
void pst_cuda_column_total(pst_cuda_queue q, const pst_cuda_columns *columns);

/* --- embedding.cu ----------------------------------------------------------------------------- */
typedef struct {
    pst_cuda_index token;    /* [b,t] */
    uint64_t b, t, c, t_max; /* t_max: rows of wpe, 0 without */
    const void *wte, *wpe, *dy;
    void *out;
    float *dwte, *dwpe;
    int first;
    int wide; /* out and dy are fp32 */
    void *scratch;
} pst_cuda_embed;
void pst_cuda_embedding_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_embed *embed);
uint64_t pst_cuda_embedding_w_scratch(uint64_t tokens, uint64_t c);
void pst_cuda_embedding_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_embed *embed);

/* --- cross_entropy.cu ------------------------------------------------------------------------- */
typedef struct {
    pst_cuda_index target;    /* [rows] */
    void *logits;             /* B overwrites them with their gradients */
    float *loss, *lse, *part; /* part: [rows,3] as in vocabulary_part; for vocabulary_loss
                                 [parts,rows,3] */
    uint64_t rows, v, parts;
    uint64_t pitch; /* elements of logits from row to row, v at least */
    float scale;
} pst_cuda_softmax;
void pst_cuda_cross_entropy_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_softmax *softmax);
void pst_cuda_cross_entropy_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_softmax *softmax);
void pst_cuda_vocabulary_part(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_softmax *softmax);
void pst_cuda_vocabulary_loss(pst_cuda_queue q, const pst_cuda_softmax *softmax);

/* --- flat.cu: lists are passed as kernel parameters, so they may be changed once a launcher
 * returns */
enum { PST_CUDA_LIST = 448, PST_CUDA_TILE = 4096 /* elements per thread block */ };
typedef struct {
    float *weight;
    const float *grad;
    float *state[2];
    uint16_t *narrow;
    uint64_t n;
    float decay;
    uint32_t tile; /* number of its first tile in the list */
} pst_cuda_update_entry;
/* As pst_optim_hyper, with derived values computed once, as on the CPU. */
typedef struct {
    int kind;   /* pst_optim_kind */
    int begins; /* SGD's first update */
    float lr, beta1, beta2, eps, momentum, grad_scale, step, root2, rest1, rest2;
} pst_cuda_rule;
typedef struct {
    pst_cuda_rule rule;
    uint32_t n, tiles;
    pst_cuda_update_entry entry[PST_CUDA_LIST];
} pst_cuda_update_list;
void pst_cuda_update(pst_cuda_queue q, pst_dtype narrow, const pst_cuda_update_list *list);

/* Each block of 4096 elements of x gives a sum of squares in `sums`, from index `block` on; *out
 * gets their sum in order, or adds it if an earlier list had the array's first blocks. */
typedef struct {
    const float *x;
    uint64_t n;
    double *out;
    uint32_t block;
    int begun;
} pst_cuda_square_entry;
typedef struct {
    double *sums;
    uint32_t n, blocks;
    pst_cuda_square_entry entry[PST_CUDA_LIST];
} pst_cuda_square_list;
void pst_cuda_sum_squares(pst_cuda_queue q, const pst_cuda_square_list *list);
/* weight += rate * (scale * grad - weight); narrow: NULL, or where the weight is stored rounded to
 * the narrow type. */
void pst_cuda_average(pst_cuda_queue q, pst_dtype dtype, float rate, float scale, float *weight,
                      const float *grad, uint16_t *narrow, uint64_t n);
/* out = the sum of n arrays, in order in fp32, rounded once. */
enum { PST_CUDA_ADDENDS = 64 };
typedef struct {
    const void *x[PST_CUDA_ADDENDS];
    uint32_t n;
} pst_cuda_addends;
void pst_cuda_combine(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_addends *list, void *out,
                      uint64_t n);
void pst_cuda_narrow(pst_cuda_queue q, pst_dtype dtype, const float *x, uint16_t *y, uint64_t n);

/* --- fp8.cu: bf16 rounded to 8-bit factors ---------------------------------------------------- */
enum { PST_CUDA_AMAX_STEPS = 16 };
/* The scaling of a tensor, in device memory; all 0 at first. */
typedef struct {
    float scale, inverse; /* factor before rounding, a power of two; 1 / scale */
    uint32_t amax;        /* bits of the largest magnitude since the last entry of history */
    uint32_t own;         /* bits of the largest magnitude in the tensor passed to scale_by_own */
    uint32_t steps;       /* steps in history so far; it keeps the latest ones */
    uint32_t history[PST_CUDA_AMAX_STEPS];
} pst_cuda_scaling;
/* x[rows,columns], multiples of 16, becomes y[rows,columns], or transposed y[columns,rows]. */
typedef struct {
    const void *x;
    uint8_t *y;
    uint64_t rows, columns;
    pst_cuda_scaling *scaling;
    int wide, turned, note; /* E5M2; transposed; its largest magnitude counts for later steps */
} pst_cuda_round;
void pst_cuda_round_f8(pst_cuda_queue q, const pst_cuda_round *round);
/* Sets the scale by the largest magnitude of x itself. */
void pst_cuda_scale_by_own(pst_cuda_queue q, const pst_cuda_round *round);
/* Adds amax to the history of n tensors, 32 at most, and sets their scales from the largest value
 * there. wide: bit i: tensor i is E5M2. */
void pst_cuda_scale_by_history(pst_cuda_queue q, pst_cuda_scaling *list, uint32_t n, uint32_t wide);

#ifdef __cplusplus
}
#endif
#endif
