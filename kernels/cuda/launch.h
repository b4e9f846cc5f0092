/* The interface between the kernels of *.cu and the C code that launches them. Launchers queue
 * kernels and return; they neither allocate nor wait, so they can be captured in CUDA graphs. This
 * header does not need the CUDA toolkit: a host test runs the same launchers with emulated threads
 * (tests/kernels/emulate.h). Operands of type void * have elements of type `dtype`; rows are
 * contiguous; the order of additions in every sum depends on the shape only, not on the GPU or
 * timing. */
#ifndef PST_KERNELS_CUDA_LAUNCH_H
#define PST_KERNELS_CUDA_LAUNCH_H
#ifdef __cplusplus
extern "C" {
#endif
#include "base/dtype.h"

typedef struct CUstream_st *pst_cuda_queue; /* the runtime's cudaStream_t */

/* The first index that is outside of its table, written by the kernel that read it to memory that
 * the host can read. Kernels skip that token and continue. */
enum { PST_CUDA_FAULT_NONE, PST_CUDA_FAULT_TAKEN, PST_CUDA_FAULT_SAID };
typedef struct {
    volatile uint32_t state;
    int32_t index;
    uint64_t position, limit;
    uint64_t launch;  /* number of the launch that read the index */
    const char *node; /* name of the operator, in host memory */
} pst_cuda_fault;
/* The indices that a launch reads. Valid indices are in [0, limit); this tensor rank has rows
 * [first, first + rows) of the table. */
typedef struct {
    const int32_t *index;
    uint64_t first, rows, limit;
    int ignore; /* 1: negative indices are allowed and ignored */
    const char *node;
    pst_cuda_fault *fault;
    uint64_t launch; /* number of this launch on the device */
} pst_cuda_index;

/* --- elementwise.cu: out may be an operand ---------------------------------------------------- */
void pst_cuda_add(pst_cuda_queue q, pst_dtype dtype, const void *a, const void *b, void *out,
                  uint64_t n);
/* out = x + y; void * operands have type `dtype`; y NULL: out = x. */
void pst_cuda_add_wide(pst_cuda_queue q, pst_dtype dtype, const void *x, const float *y, float *out,
                       uint64_t n);
void pst_cuda_add_narrow(pst_cuda_queue q, pst_dtype dtype, const float *x, const void *y,
                         void *out, uint64_t n);
void pst_cuda_copy(pst_cuda_queue q, pst_dtype dtype, const void *x, void *y, uint64_t n);
/* y = act(z); dz = dy * act'(z). act: an activation of graph.h other than NONE. */
void pst_cuda_activation(pst_cuda_queue q, pst_dtype dtype, int act, const void *z, void *y,
                         uint64_t n);
void pst_cuda_slope(pst_cuda_queue q, pst_dtype dtype, int act, const void *z, const void *dy,
                    void *dz, uint64_t n);
/* y = factor * x */
void pst_cuda_scale(pst_cuda_queue q, pst_dtype dtype, float factor, const void *x, void *y,
                    uint64_t n);
typedef struct {
    const void *x;
    void *y;
    uint64_t samples, per_sample; /* number of samples; elements per sample on this rank */
    uint64_t first;               /* index of the first of these elements in the whole sample */
    uint64_t key, sample;
    const uint64_t *sample_at; /* number of the first sample, in device memory; NULL: `sample` */
    float rate;
} pst_cuda_mask;
void pst_cuda_dropout(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_mask *mask);
void pst_cuda_set(pst_cuda_queue q, uint64_t *to, uint64_t value);

/* --- layer_norm.cu: saved is (mean, 1/deviation) fp32 [rows,2] -------------------------------- */
typedef struct {
    const void *x, *weight, *bias, *dy, *sum; /* sum NULL: nothing to add */
    void *y, *dx;                             /* dx may be sum or dy */
    /* 1: x, sum and dx (wide_x), or y and dy (wide_y), are fp32 */
    int wide_x, wide_y;
    float *saved;
    uint64_t rows, n;
    float eps;
    /* B: NULL, or where to store sums over `parts` parts of the rows, in the layout of
     * column_parts */
    float *part;
    uint64_t parts;
} pst_cuda_norm;
void pst_cuda_layer_norm_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *norm);
void pst_cuda_layer_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *norm);

/* --- llama.cu ----------------------------------------------------------------------------------
 */
/* RMS norm: as pst_cuda_norm, but without mean and bias; saved is 1/deviation [rows]. W adds to, or
 * with `first` overwrites, dweight. */
void pst_cuda_rms_norm_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *norm);
void pst_cuda_rms_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *norm);
void pst_cuda_rms_norm_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_norm *norm,
                         float *dweight, int first);
/* Rotary positions; y may be x. */
enum { PST_CUDA_ROTARY_PAIRS = 256 };
typedef struct {
    const void *x;
    void *y;
    uint64_t rows, t, heads, d;         /* rows: positions of all samples; t: of one */
    float cosine, sine;                 /* factors; sine < 0 turns back */
    float angle[PST_CUDA_ROTARY_PAIRS]; /* radians from a position to the next, of each pair */
} pst_cuda_rotary;
void pst_cuda_rotate(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_rotary *r);
/* out = silu(gate) * up, and its gradients; dgate may be gate, dup may be up. */
void pst_cuda_gated_f(pst_cuda_queue q, pst_dtype dtype, const void *gate, const void *up,
                      void *out, uint64_t n);
typedef struct {
    const void *gate, *up, *dout;
    void *dgate, *dup;
    uint64_t n;
} pst_cuda_gated;
void pst_cuda_gated_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_gated *g);

/* --- column_sum.cu: (+)= into fp32, in two stages through scratch ----------------------------- */
/* sum[0][c] (+)= sum over rows of dy[r,c]. If saved is not NULL, also sum[1][c] (+)= sum over rows
 * of dy * (x - mean) / deviation. */
typedef struct {
    const void *x, *dy;
    int wide_x, wide_dy; /* 1: the operand is fp32 */
    const float *saved;
    float *sum[2];
    uint64_t rows, columns;
    uint64_t pitch; /* elements from row to row of x and dy; 0: columns */
    int first;
    float *scratch; /* [parts][arrays][columns], the sums of dy first */
    /* number of parts, of ceil(rows/parts) rows each, none empty; 0: chosen by shape, scratch then
     * has pst_cuda_column_sum_scratch elements */
    uint64_t parts;
} pst_cuda_columns;
uint64_t pst_cuda_column_sum_scratch(uint64_t rows, uint64_t columns, int arrays);
void pst_cuda_column_sum(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_columns *columns);
/* The two stages of pst_cuda_column_sum: parts sums rows into scratch, total adds scratch to sum.
 * total does not read the rows; sum[1] NULL: there is one array. */
void pst_cuda_column_parts(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_columns *columns);
void pst_cuda_column_total(pst_cuda_queue q, const pst_cuda_columns *columns);

/* --- embedding.cu ----------------------------------------------------------------------------- */
typedef struct {
    pst_cuda_index token;    /* [b,t] */
    pst_cuda_index type;     /* [b,t]; index NULL: there are no types */
    uint64_t b, t, c, t_max; /* t_max: rows of wpe; 0: there is no wpe */
    const void *wte, *wpe, *wtt, *dy;
    void *out;
    float *dwte, *dwpe, *dwtt;
    int first;
    int wide; /* 1: out and dy are fp32 */
    void *scratch;
} pst_cuda_embed;
void pst_cuda_embedding_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_embed *embed);
uint64_t pst_cuda_embedding_w_scratch(uint64_t tokens, uint64_t c);
void pst_cuda_embedding_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_embed *embed);
/* Rows of x[b,t,c] by position; void * operands have type `dtype`. */
typedef struct {
    /* [b,p], of which negative ones stand for zeros; index NULL: the first row of each sample */
    pst_cuda_index position;
    uint64_t b, t, c, p;
    const void *x, *dy, *sum; /* sum NULL: nothing to add */
    void *y, *dx;             /* dx may be sum */
} pst_cuda_gather;
void pst_cuda_gather_rows_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_gather *gather);
void pst_cuda_gather_rows_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_gather *gather);

/* --- cross_entropy.cu ------------------------------------------------------------------------- */
typedef struct {
    pst_cuda_index target; /* [rows] */
    void *logits;          /* [rows,v]; B overwrites them with their gradients */
    /* part: [rows,3] result of vocabulary_part; for vocabulary_loss [parts,rows,3] */
    float *loss, *lse, *part;
    float *hits; /* of F: NULL, or [rows]: 1 where the target's logit is the largest, else 0 */
    uint64_t rows, v, parts;
    uint64_t pitch; /* elements from one row of logits to the next, at least v */
    float scale;
    float part_of_target, each, z; /* pst_loss_terms */
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
    void *state[2]; /* fp32, or bf16 if the rule says so */
    uint16_t *narrow;
    uint64_t n;
    float decay, lr; /* lr: of LAMB, with the trust ratio */
    uint32_t tile;   /* index of the entry's first tile in the list */
} pst_cuda_update_entry;
/* As pst_optim_hyper, with derived values that are computed on the host. */
typedef struct {
    int kind;   /* pst_optim_kind */
    int begins; /* 1: first update of SGD */
    int nesterov;
    float lr, beta1, beta2, eps, momentum, grad_scale, step, root2, rest1, rest2;
    float correction1, correction2;
    int narrow_state; /* 1: states are bf16, rounded with `noise` */
    uint32_t noise;   /* as in pst_optim_hyper */
} pst_cuda_rule;
typedef struct {
    pst_cuda_rule rule;
    uint32_t n, tiles;
    pst_cuda_update_entry entry[PST_CUDA_LIST];
} pst_cuda_update_list;
void pst_cuda_update(pst_cuda_queue q, pst_dtype narrow, const pst_cuda_update_list *list);

/* Sum of squares of an array: each block of 4096 elements of x has its sum in sums[block + i]; *out
 * becomes the sum of these in order or, if `begun` (an earlier list had the array's first blocks),
 * is increased by it. */
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
/* weight += rate * (scale * grad - weight); narrow: where the weight is also stored, rounded to
 * `dtype`; NULL: nowhere. */
void pst_cuda_average(pst_cuda_queue q, pst_dtype dtype, float rate, float scale, float *weight,
                      const float *grad, uint16_t *narrow, uint64_t n);
/* out = sum of list->n arrays of n elements, added in list order in fp32 and rounded once. */
enum { PST_CUDA_ADDENDS = 64 };
typedef struct {
    const void *x[PST_CUDA_ADDENDS];
    uint32_t n;
} pst_cuda_addends;
void pst_cuda_combine(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_addends *list, void *out,
                      uint64_t n);
void pst_cuda_narrow(pst_cuda_queue q, pst_dtype dtype, const float *x, uint16_t *y, uint64_t n);

/* --- whole.cu: LAMB's norms, and Muon ----------------------------------------------------------
 */
/* Same members as pst_squares. */
typedef struct {
    double top, sum[3];
} pst_cuda_squares;
/* Sums of squares of a weight, out[0], and of LAMB's step before it is scaled, out[1], of at most
 * 2^21 elements: of blocks of 4096 elements to block[2 * ceil(n / 4096)], then all to out; `begun`:
 * added to what out has. */
typedef struct {
    pst_cuda_rule rule;
    const float *weight, *grad;
    const void *state[2];
    uint64_t n;
    float decay;
    int begun;
    pst_cuda_squares *block, *out;
} pst_cuda_lamb;
void pst_cuda_lamb_squares(pst_cuda_queue q, const pst_cuda_lamb *lamb);
/* The momentum of n elements after a step, and what is orthogonalized. */
typedef struct {
    pst_cuda_rule rule;
    const float *weight, *grad;
    void *momentum; /* fp32, or bf16 if the rule says so */
    float *x;
    uint64_t n;
} pst_cuda_momentum;
void pst_cuda_muon_direction(pst_cuda_queue q, const pst_cuda_momentum *momentum);
/* x /= the root of *squares, or `least` if that is more */
void pst_cuda_muon_scale(pst_cuda_queue q, float *x, const double *squares, double least,
                         uint64_t n);
/* y = left * x + right * y */
void pst_cuda_muon_mix(pst_cuda_queue q, float *y, const float *x, float left, float right,
                       uint64_t n);
/* weight = keep * weight - rate * x; narrow: as in pst_cuda_average */
typedef struct {
    float *weight;
    const float *x;
    uint16_t *narrow;
    uint64_t n;
    float keep, rate;
} pst_cuda_step;
void pst_cuda_muon_apply(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_step *step);

/* --- fp8.cu: bf16 rounded to FP8
 * --------------------------------------------------------------- */
enum { PST_CUDA_AMAX_STEPS = 16 };
/* The FP8 scaling of a tensor, in device memory; initially all 0. cuBLASLt refuses a scale that is
 * not at a multiple of 16 bytes (13.1 on an H200). */
typedef struct __attribute__((aligned(16))) {
    float inverse;  /* first, for its alignment; 1 / scale */
    float scale;    /* factor before rounding, a power of two */
    uint32_t amax;  /* bits of the largest magnitude since the last entry of `history` */
    uint32_t own;   /* bits of the largest magnitude in the tensor passed to scale_by_own */
    uint32_t steps; /* number of steps recorded so far; history keeps the latest */
    uint32_t history[PST_CUDA_AMAX_STEPS];
} pst_cuda_scaling;
/* Rounds x[rows,columns] to y[rows,columns] or, transposed, y[columns,rows]; both sizes are
 * multiples of 16. */
typedef struct {
    const void *x;
    uint8_t *y;
    uint64_t rows, columns;
    pst_cuda_scaling *scaling;
    /* 1: y is E5M2, else E4M3; 1: transpose; 1: record the largest magnitude for later steps */
    int wide, turned, note;
} pst_cuda_round;
void pst_cuda_round_f8(pst_cuda_queue q, const pst_cuda_round *round);
/* Sets the scale from the largest magnitude of x. */
void pst_cuda_scale_by_own(pst_cuda_queue q, const pst_cuda_round *round);
/* Adds `amax` to the history of each of n tensors, at most 32, and sets the scales from the largest
 * values of the histories. wide: bit i: tensor i is E5M2. */
void pst_cuda_scale_by_history(pst_cuda_queue q, pst_cuda_scaling *list, uint32_t n, uint32_t wide);

/* --- codec.cu: kernels/kernel.h has the meaning of the members -------------------------------- */
/* bits: 8, 4 or 2 of a codec's whole numbers, 16 of bf16. */
typedef struct {
    float *x;
    const float *error;
    uint8_t *packed;
    float *next;
    uint64_t n;
    uint32_t bits, block;
    float scale, threshold;
    int decode;
} pst_cuda_pack;
void pst_cuda_pack_numbers(pst_cuda_queue q, const pst_cuda_pack *p);
typedef struct {
    const uint8_t *packed;
    float *y;
    uint64_t n;
    uint32_t bits, block;
    int add;
} pst_cuda_unpack;
void pst_cuda_unpack_numbers(pst_cuda_queue q, const pst_cuda_unpack *u);

#ifdef __cplusplus
}
#endif
#endif
