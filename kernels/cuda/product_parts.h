/* Private to product*.c. */
#ifndef PST_KERNELS_CUDA_PRODUCT_PARTS_H
#define PST_KERNELS_CUDA_PRODUCT_PARTS_H
#include "kernels/cuda/product.h"
#include "kernels/module.h"

/* Of every operand, in bytes at least. */
enum { PST_CUDA_OPERAND_ALIGNMENT = 16 };

typedef struct {
    pst_cuda_shape shape;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    int apart; /* of a shape with gelu or sums_b: another product and another kernel */
} pst_cuda_entry;

/* What a choice has in place of an algorithm where `apart`. */
enum { PST_CUDA_APART = 0xff /* every byte */ };
static inline int pst_cuda_is_fused(const pst_cuda_shape *s) { return s->gelu || s->sums_b; }
static inline pst_cuda_shape pst_cuda_unfused(pst_cuda_shape s) {
    s.gelu = s.sums_b = 0;
    return s;
}

/* product_run.c. "BF16 BF16 TN bias 3072x8192x768": for people and for plans. */
void pst_cuda_product_name(const pst_cuda_shape *s, char *text, size_t bytes);
/* Queued with that algorithm. */
cublasStatus_t pst_cuda_product_run(pst_cuda_device *d, const pst_cuda_entry *e,
                                    const cublasLtMatmulAlgo_t *algo, const pst_cuda_operands *of);
/* product_measure.c. The library's proposals, best first, `want` at most; *n may be 0. The same,
 * one at least. Sets the fastest of some as e->algo. Times all there are beside those; e: a copy,
 * so that what is chosen stays as it was. */
cublasStatus_t pst_cuda_product_ask(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n);
pst_status pst_cuda_product_propose(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n);
pst_status pst_cuda_product_measure(pst_cuda_device *d, pst_cuda_entry *e);
/* Of a shape with gelu or sums_b: likewise, or `apart` where that is faster; plain: the product
 * without, whose algorithm is chosen. */
pst_status pst_cuda_product_measure_fused(pst_cuda_device *d, pst_cuda_entry *e,
                                          const pst_cuda_entry *plain);
pst_status pst_cuda_product_compare(pst_cuda_device *d, pst_cuda_entry *e, pst_choice_times *times);
#endif
