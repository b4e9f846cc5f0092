/* Matrix products by cuBLASLt: one entry per shape, with the algorithm that every launch of that
 * shape takes.
 *
 * Which one: the library's first proposal, which is the same in every process on one kind of device
 * and version, and so on every rank. Or what the device was given (pst_cuda_choices), and by
 * measurement, where it was told to measure what it was not given: reruns that are given the same
 * have the same bits. Sums in the output's type or in place are excluded: everything is summed in
 * fp32. */
#ifndef PST_KERNELS_CUDA_PRODUCT_H
#define PST_KERNELS_CUDA_PRODUCT_H
#include "kernels/cuda/cuda.h"

/* D[m,n] = op(A) op(B) (+ bias) (+ beta D), all of them column by column and, but for B's, without
 * gaps: a row-major matrix is its own transpose. The library documents that tensor cores are used
 * best where m, n and k (of a matrix, what lies side by side), and pointers, are multiples of 16
 * bytes. */
typedef struct {
    uint64_t m, n, k;
    uint32_t in, out; /* pst_dtype: of A and B, stored so of bias; of D. TF32 rounds A and B as it
                         multiplies. F8: trans_a 1 and trans_b 0 only, A is E4M3, */
    uint32_t wide;    /* and B E5M2 or, 0, E4M3 */
    uint32_t trans_a, trans_b; /* A is [k,m], B is [n,k] */
    uint32_t bias;             /* bias[m] is added to every column */
    uint32_t gelu;             /* D becomes GELU of that (its approximation by tanh, of the sum
                                  before it is rounded), and that goes to aux, as D is stored */
    uint32_t sums_b;           /* sums[n] = over B's rows, in fp32: gradients of a bias */
    uint64_t pitch_b; /* elements from one column of B, as it is stored, to the next; 0: as many as
                         it has rows */
    uint64_t fast;    /* F8: sums are kept to fewer bits than fp32 has, see fp8.h */
} pst_cuda_shape;     /* without padding: shapes are compared as bytes */

/* Bytes of scratch that every product gets, 16-byte aligned; cuBLASLt wants its workspace, so many
 * of them, aligned to more. */
enum {
    PST_CUDA_USABLE = 32 << 20,
    PST_CUDA_ALIGNED = 256,
    PST_CUDA_WORKSPACE = PST_CUDA_USABLE + PST_CUDA_ALIGNED
};

/* Finds or makes the entry. Not in steps: it may measure, with memory of its own that it gives
 * back. EINTERNAL where the library has no algorithm. */
pst_status pst_cuda_product_prepare(pst_device *device, const pst_cuda_shape *shape);
/* What a product works on: operands are 16-byte aligned at least; bias: NULL without; d is read
 * unless beta is 0. Of F8, a_inverse and b_inverse are what it is multiplied by, in the device's
 * memory. */
typedef struct {
    const void *a, *b, *bias;
    float beta;
    void *d, *workspace;
    void *aux;   /* of gelu */
    float *sums; /* of sums_b */
    const float *a_inverse, *b_inverse;
} pst_cuda_operands;
/* Of a shape with gelu or sums_b: whether the product does that, too. Else it is to be done apart,
 * for the library has no such algorithm, or none that would be faster by measurement, or the plan
 * says so: it is a choice like that of an algorithm, the same in every launch. Prepares both. */
pst_status pst_cuda_product_fuses(pst_device *device, const pst_cuda_shape *shape, int *fuses);
/* Queued on the compute stream. Prepares where that has not happened. */
pst_status pst_cuda_product(pst_device *device, const pst_cuda_shape *shape,
                            const pst_cuda_operands *of);
pst_status pst_cuda_product_scaled(pst_device *device, const pst_cuda_shape *shape,
                                   const pst_cuda_operands *of);
#endif
