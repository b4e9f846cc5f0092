/* Launchers of attention_plain.cu: causal self-attention for every type and head size, and without scratch. */
#ifndef PST_KERNELS_CUDA_ATTENTION_PLAIN_H
#define PST_KERNELS_CUDA_ATTENTION_PLAIN_H
#include "kernels/cuda/launch.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const void *qkv;          /* [b,t,3c] */
    void *out;                /* [b,t,c]; the backward reads it */
    float *lse;               /* [b,heads,t]; likewise */
    const void *dout;         /* [b,t,c] */
    void *dqkv;               /* [b,t,3c] */
    uint64_t b, t, c, heads;
    float scale;              /* 1/sqrt(c/heads) */
} pst_cuda_attention;
void pst_cuda_attention_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a);
void pst_cuda_attention_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a);
#ifdef __cplusplus
}
#endif
#endif
