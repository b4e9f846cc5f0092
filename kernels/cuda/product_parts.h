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
} pst_cuda_entry;

/* product_run.c. "BF16 BF16 TN bias 3072x8192x768": for people and for plans. */
void pst_cuda_product_name(const pst_cuda_shape *s, char *text, size_t bytes);
/* Queued with that algorithm. */
cublasStatus_t pst_cuda_product_run(pst_cuda_device *d, const pst_cuda_entry *e,
                                    const cublasLtMatmulAlgo_t *algo, const pst_cuda_operands *of);
/* product_measure.c. The library's proposals, best first, `want` at most and one at least. Sets the
 * fastest of some as e->algo. Times all there are beside those; e: a copy, so that what is chosen
 * stays as it was. */
pst_status pst_cuda_product_propose(pst_cuda_device *d, const pst_cuda_entry *e, int want,
                                    cublasLtMatmulHeuristicResult_t *list, int *n);
pst_status pst_cuda_product_measure(pst_cuda_device *d, pst_cuda_entry *e);
pst_status pst_cuda_product_compare(pst_cuda_device *d, pst_cuda_entry *e, pst_choice_times *times);
#endif
