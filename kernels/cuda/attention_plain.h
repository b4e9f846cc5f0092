/* Launchers of attention_plain.cu: self-attention for every type, mask and head size. Needs no
 * scratch. */
#ifndef PST_KERNELS_CUDA_ATTENTION_PLAIN_H
#define PST_KERNELS_CUDA_ATTENTION_PLAIN_H
#include "kernels/cuda/launch.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const void *qkv;  /* [b,t,3c]; NULL: q, k and v are operands of their own */
    void *out;        /* [b,t,c]; written by F, read by B */
    float *lse;       /* [b,heads,t] log-sum-exp; written by F, read by B */
    const void *dout; /* [b,t,c] */
    void *dqkv;       /* [b,t,3c] */
    /* [b,t,c], [b,t,c / heads * kv_heads] twice, and their gradients */
    const void *q, *k, *v;
    void *dq, *dk, *dv;
    /* kv_heads 0: one for each head. Head h uses head (first + h) / group of the keys. */
    uint64_t kv_heads, group, first;
    uint64_t window; /* positions to which a position attends, itself included; 0: all */
    uint64_t b, t, c, heads;
    float scale;            /* 1/sqrt(c/heads) */
    const int32_t *lengths; /* [b] tokens of each sample, clamped to 0..t; NULL: all have t */
    uint32_t bidirectional;
    /* Probability with which a probability is dropped, 0: none; the random stream and its number of
     * the first sample (sample_at: in device memory; NULL: `sample`), where head h is first + h. */
    float rate;
    uint64_t key, sample;
    const uint64_t *sample_at;
} pst_cuda_attention;
void pst_cuda_attention_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a);
void pst_cuda_attention_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a);
/* Set padded rows to 0, in out and lse (F) or in the gradients of q, k and v (B), after a kernel of
 * cuDNN. */
void pst_cuda_attention_clear_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a);
void pst_cuda_attention_clear_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a);
/* to[n / run,run], of bf16 or f16: the sums of members 0, 1, ..., of which member k of run r begins
 * at part[r * between + k * apart], in fp32, rounded once. All numbers are multiples of 8, and
 * addresses are aligned to 16 bytes. */
typedef struct {
    const void *part;
    uint64_t n, run, between, apart, group; /* group: members */
    void *to;
} pst_cuda_attention_shared;
void pst_cuda_attention_sum(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention_shared *s);
/* to[b]: the lengths, clamped to 1..t. */
void pst_cuda_attention_clamp(pst_cuda_queue q, const pst_cuda_attention *a, int32_t *to);
#ifdef __cplusplus
}
#endif
#endif
