/* The name and the launch of one matrix product. */
#include "kernels/cuda/product_parts.h"
#include <stdio.h>
#include <string.h>

/* "bf16 bf16 TN bias 3072x8192x768": for messages and plans. */
void pst_cuda_product_name(const pst_cuda_shape *s, char *text, size_t bytes) {
    char pitch[32] = "", options[32] = "";
    const char transposed[] = {s->trans_a ? 'T' : 'N', s->trans_b ? 'T' : 'N', 0};
    if (s->pitch_b) snprintf(pitch, sizeof pitch, " pitch %llu", (unsigned long long)s->pitch_b);
    if (s->bias) strcat(options, " bias");
    if (s->gelu) strcat(options, " gelu");
    if (s->sums_b) strcat(options, " sums");
    if (s->fast) strcat(options, " fast");
    snprintf(text, bytes, "%s%s %s %s%s %llux%llux%llu%s", pst_dtype_name(s->in),
             s->wide ? "xE5M2" : "", pst_dtype_name(s->out), transposed, options,
             (unsigned long long)s->m, (unsigned long long)s->n, (unsigned long long)s->k, pitch);
}

cublasStatus_t pst_cuda_product_point(const pst_cuda_entry *e, cublasLtMatmulDescAttributes_t what,
                                      const void *at) {
    return cublasLtMatmulDescSetAttribute(e->product, what, &at, sizeof at);
}

cublasStatus_t pst_cuda_product_run(pst_cuda_device *d, const pst_cuda_entry *e,
                                    const cublasLtMatmulAlgo_t *algo, const pst_cuda_operands *of) {
    float alpha = 1;
    uint8_t *aligned =
        (uint8_t *)of->workspace + (-(uintptr_t)of->workspace & (PST_CUDA_ALIGNED - 1));
    return cublasLtMatmul(d->lt, e->product, &alpha, of->a, e->a, of->b, e->b, &of->beta, of->d,
                          e->d, of->d, e->d, algo, aligned, PST_CUDA_USABLE,
                          pst_cuda_stream(&d->base));
}
