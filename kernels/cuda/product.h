/* Matrix products by cuBLASLt: a table with one entry per shape, which has the algorithm for every
 * launch of that shape. The algorithm is the one given to the device (pst_cuda_choices, from the
 * plan); else the fastest by measurement, if autotuning is on; else cuBLASLt's first proposal,
 * which is the same on every rank with the same GPU model and library version. Runs with the same
 * algorithms have the same bits. Algorithms that sum in the type of the output or in place are
 * excluded: all sums are fp32. */
#ifndef PST_KERNELS_CUDA_PRODUCT_H
#define PST_KERNELS_CUDA_PRODUCT_H
#include "kernels/cuda/cuda.h"

/* D[m,n] = op(A) op(B) (+ bias) (+ beta D), all column-major (a row-major matrix is passed as its
 * transpose), without gaps between columns except in B. According to cuBLASLt's manual, tensor
 * cores work best if pointers and the contiguous dimension of each matrix are multiples of 16
 * bytes. */
typedef struct {
    uint64_t m, n, k;
    /* pst_dtype of A, B and bias; of D. TF32: A and B are stored as fp32. F8: A is E4M3; needs
     * trans_a 1 and trans_b 0 */
    uint32_t in, out;
    uint32_t wide;             /* F8: 1: B is E5M2, 0: E4M3 */
    uint32_t trans_a, trans_b; /* 1: A is [k,m]; 1: B is [n,k] */
    uint32_t bias;             /* 1: bias[m] is added to every column */
    /* 1: D is GELU of the sum (tanh approximation, applied before rounding); the sum is stored in
     * aux, with the type of D */
    uint32_t gelu;
    uint32_t sums_b;  /* 1: sums[n] = sums over the rows of B in fp32: the gradient of a bias */
    uint64_t pitch_b; /* elements from one stored column of B to the next; 0: no gaps */
    uint64_t fast;    /* F8: 1: fast accumulation: partial sums have fewer bits than fp32 (fp8.h) */
} pst_cuda_shape;     /* has no padding, because shapes are compared as bytes */

/* PST_CUDA_WORKSPACE: bytes of scratch for every product, aligned to 16 bytes. PST_CUDA_USABLE: the
 * part that remains after alignment to PST_CUDA_ALIGNED bytes, which cuBLASLt needs. */
enum {
    PST_CUDA_USABLE = 32 << 20,
    PST_CUDA_ALIGNED = 256,
    PST_CUDA_WORKSPACE = PST_CUDA_USABLE + PST_CUDA_ALIGNED
};

/* Prepares the entry of a shape; to be called at set-up, because it may measure algorithms and
 * allocate memory, which it frees. EINTERNAL: cuBLASLt has no algorithm for the shape. */
pst_status pst_cuda_product_prepare(pst_device *device, const pst_cuda_shape *shape);
/* Operands of a product, aligned to at least 16 bytes. bias: NULL: none; d is read unless beta is
 * 0. F8: the product is multiplied by *a_inverse and *b_inverse, which are in device memory. */
typedef struct {
    const void *a, *b, *bias;
    float beta;
    void *d, *workspace;
    void *aux;   /* used if shape.gelu */
    float *sums; /* used if shape.sums_b */
    const float *a_inverse, *b_inverse;
} pst_cuda_operands;
/* For a shape with gelu or sums_b: *fuses 1: cuBLASLt computes it in the product's epilogue; 0: the
 * caller has to launch a separate kernel, because cuBLASLt has no fused algorithm, the separate
 * kernel was measured to be faster, or the plan requests it. The result is the same for every
 * launch of a shape. Prepares both forms. */
pst_status pst_cuda_product_fuses(pst_device *device, const pst_cuda_shape *shape, int *fuses);
/* Queue a product on the compute stream; _scaled: with F8. Prepare the shape first if that was not
 * done. */
pst_status pst_cuda_product(pst_device *device, const pst_cuda_shape *shape,
                            const pst_cuda_operands *of);
pst_status pst_cuda_product_scaled(pst_device *device, const pst_cuda_shape *shape,
                                   const pst_cuda_operands *of);
#endif
