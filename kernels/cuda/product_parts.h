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
    int apart; /* not fused: a plain product and a separate kernel for gelu or sums_b */
} pst_cuda_entry;

/* Stands for an algorithm in a plan if the product is not fused (`apart`). */
enum { PST_CUDA_APART = 0xff /* each byte of the stored algorithm */ };
static inline int pst_cuda_is_fused(const pst_cuda_shape *s) { return s->gelu || s->sums_b; }
static inline pst_cuda_shape pst_cuda_unfused(pst_cuda_shape s) {
    s.gelu = s.sums_b = 0;
    return s;
}

/* product_run.c. "BF16 BF16 TN bias 3072x8192x768": for messages and plans. */
void pst_cuda_product_name(const pst_cuda_shape *s, char *text, size_t bytes);
/* Queues the product with that algorithm. */
cublasStatus_t pst_cuda_product_run(pst_cuda_device *d, const pst_cuda_entry *e,
                                    const cublasLtMatmulAlgo_t *algo, const pst_cuda_operands *of);
/* product_measure.c. ask: the library's proposals, best first, `want` at most; *n may be 0.
 * propose: the same, but none is an error. measure: sets the fastest of some as e->algo. */
cublasStatus_t pst_cuda_product_ask(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n);
pst_status pst_cuda_product_propose(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n);
pst_status pst_cuda_product_measure(pst_cuda_device *d, pst_cuda_entry *e);
/* For a shape with gelu or sums_b: as measure, or sets `apart` if that is faster; plain: the
 * product without them, whose algorithm is chosen already. compare: times all algorithms beside the
 * chosen ones; e: a copy, so that the chosen algorithm is unchanged. */
pst_status pst_cuda_product_measure_fused(pst_cuda_device *d, pst_cuda_entry *e,
                                          const pst_cuda_entry *plain);
pst_status pst_cuda_product_compare(pst_cuda_device *d, pst_cuda_entry *e, pst_choice_times *times);
#endif
