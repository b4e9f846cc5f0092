/* Private to product*.c. */
#ifndef PST_KERNELS_CUDA_PRODUCT_PARTS_H
#define PST_KERNELS_CUDA_PRODUCT_PARTS_H
#include "kernels/cuda/product.h"
#include "kernels/module.h"

/* Minimum alignment of every operand, in bytes. */
enum { PST_CUDA_OPERAND_ALIGNMENT = 16 };

typedef struct {
    pst_cuda_shape shape;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algo;
    int apart; /* 1: not fused: a plain product, and a separate kernel for gelu or sums_b */
} pst_cuda_entry;

/* In a plan: marks a product that is not fused (`apart`) instead of an algorithm. */
enum { PST_CUDA_APART = 0xff /* value of every byte of the stored algorithm */ };
static inline int pst_cuda_is_fused(const pst_cuda_shape *s) { return s->gelu || s->sums_b; }
static inline pst_cuda_shape pst_cuda_unfused(pst_cuda_shape s) {
    s.gelu = s.sums_b = 0;
    return s;
}

/* product_run.c. Formats the name of a product, such as "BF16 BF16 TN bias 3072x8192x768", for
 * messages and plans. */
void pst_cuda_product_name(const pst_cuda_shape *s, char *text, size_t bytes);
/* Sets an attribute that is an address of device memory. */
cublasStatus_t pst_cuda_product_point(const pst_cuda_entry *e, cublasLtMatmulDescAttributes_t what,
                                      const void *at);
/* Queues a product with this algorithm. */
cublasStatus_t pst_cuda_product_run(pst_cuda_device *d, const pst_cuda_entry *e,
                                    const cublasLtMatmulAlgo_t *algo, const pst_cuda_operands *of);
/* product_measure.c. ask: list becomes at most `want` algorithms that cuBLASLt proposes, best
 * first; *n: their number, may be 0. propose: the same, but EINTERNAL if there is none. measure:
 * times some of them and sets e->algo to the fastest. */
cublasStatus_t pst_cuda_product_ask(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n);
pst_status pst_cuda_product_propose(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n);
pst_status pst_cuda_product_measure(pst_cuda_device *d, pst_cuda_entry *e);
/* measure_fused: as measure for a shape with gelu or sums_b; sets e->apart if a separate kernel is
 * faster. plain: the same product without gelu and sums_b, with a chosen algorithm. compare: times
 * all algorithms for *times; changes *e, so pass a copy. */
pst_status pst_cuda_product_measure_fused(pst_cuda_device *d, pst_cuda_entry *e,
                                          const pst_cuda_entry *plain);
pst_status pst_cuda_product_compare(pst_cuda_device *d, pst_cuda_entry *e, pst_choice_times *times);
#endif
