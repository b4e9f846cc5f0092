/* Matrix products by cuBLASLt: one entry per shape, with the algorithm for every launch of that
 * shape. It is the one that the device was given (pst_cuda_choices, from the plan); else the
 * fastest by measurement, if the device was told to measure; else the library's first proposal,
 * which is the same in every process, and so on every rank, for one GPU model and library version.
 * Runs that are given the same algorithms have the same bits. Algorithms that sum in the output's
 * type or in place are excluded: everything is summed in fp32. */
#ifndef PST_KERNELS_CUDA_PRODUCT_H
#define PST_KERNELS_CUDA_PRODUCT_H
#include "kernels/cuda/cuda.h"

/* D[m,n] = op(A) op(B) (+ bias) (+ beta D), all column-major, without gaps between columns except
 * in B: a row-major matrix is passed as its transpose. By the library's manual tensor cores work
 * best if pointers and the contiguous dimension of each matrix are multiples of 16 bytes. */
typedef struct {
    uint64_t m, n, k;
    uint32_t in, out; /* pst_dtype: of A, B and, as stored, bias; of D. TF32 rounds A and B as it
                         multiplies. F8: trans_a 1 and trans_b 0 only, A is E4M3, */
    uint32_t wide;    /* and B E5M2 or, 0, E4M3 */
    uint32_t trans_a, trans_b; /* A is [k,m], B is [n,k] */
    uint32_t bias;             /* bias[m] is added to every column */
    uint32_t gelu;   /* D becomes GELU of the sum (tanh approximation, before rounding), and the sum
                        goes to aux, in D's type */
    uint32_t sums_b; /* sums[n] = sums over B's rows, in fp32: the gradient of a bias */
    uint64_t pitch_b; /* elements from one column of B, as stored, to the next; 0: its number of
                         rows */
    uint64_t fast;    /* F8: sums have fewer bits than fp32, see fp8.h */
} pst_cuda_shape;     /* keeps the struct without padding: shapes are compared as bytes */

/* PST_CUDA_WORKSPACE: bytes of scratch for every product, 16-byte aligned. PST_CUDA_USABLE: what
 * remains after cuBLASLt's stricter alignment. */
enum {
    PST_CUDA_USABLE = 32 << 20,
    PST_CUDA_ALIGNED = 256,
    PST_CUDA_WORKSPACE = PST_CUDA_USABLE + PST_CUDA_ALIGNED
};

/* Finds or makes the entry. Only at set-up: it may measure, with memory that it allocates and
 * frees. EINTERNAL: the library has no algorithm. */
pst_status pst_cuda_product_prepare(pst_device *device, const pst_cuda_shape *shape);
/* Operands of a product, 16-byte aligned at least; bias: NULL without; d is read unless beta is 0.
 * With F8, the product is multiplied by a_inverse and b_inverse, which are in the device's
 * memory. */
typedef struct {
    const void *a, *b, *bias;
    float beta;
    void *d, *workspace;
    void *aux;   /* if gelu */
    float *sums; /* if sums_b */
    const float *a_inverse, *b_inverse;
} pst_cuda_operands;
/* For a shape with gelu or sums_b: whether the product is fused with it. If not, a separate kernel
 * does it: the library has no fused algorithm, or the separate one measured faster, or the plan
 * says so. Like the algorithm, this is the same in every launch. Prepares both forms. */
pst_status pst_cuda_product_fuses(pst_device *device, const pst_cuda_shape *shape, int *fuses);
/* Queues on the compute stream. Prepares the shape first if that has not been done. */
pst_status pst_cuda_product(pst_device *device, const pst_cuda_shape *shape,
                            const pst_cuda_operands *of);
pst_status pst_cuda_product_scaled(pst_device *device, const pst_cuda_shape *shape,
                                   const pst_cuda_operands *of);
#endif
