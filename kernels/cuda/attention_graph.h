/* Self-attention as a graph of cuDNN operations: cuDNN finds its fused kernels by this pattern. q,
 * k and v are adjacent in qkv[b,t,3c], heads adjacent in each; out[b,t,c]; log-sum-exp f32
 * [b,heads,t]. With lengths, cuDNN leaves undefined values in rows of padding: our own kernels set
 * them to 0. */
#ifndef PST_KERNELS_CUDA_ATTENTION_GRAPH_H
#define PST_KERNELS_CUDA_ATTENTION_GRAPH_H
#include "base/dtype.h"
#include "kernels/cuda/dnn.h"

typedef struct {
    uint64_t b, t, c, heads;
    uint64_t part_b, part_heads; /* divide b and heads */
    uint32_t dtype;              /* pst_dtype: BF16 or F16 */
    uint32_t backward;
    uint32_t bidirectional;
    uint32_t padded; /* samples have lengths */
    uint64_t loose;  /* the backward pass may add in any order */
} pst_cuda_attention_shape;

/* Ids of the operands. */
enum {
    PST_ATT_Q = 1,
    PST_ATT_K,
    PST_ATT_V,
    PST_ATT_OUT,
    PST_ATT_LSE,
    PST_ATT_SCALE,
    PST_ATT_MASKED,
    PST_ATT_ONE,
    PST_ATT_DOUT,
    PST_ATT_DELTA,
    PST_ATT_DQ,
    PST_ATT_DK,
    PST_ATT_DV,
    PST_ATT_LENGTHS,
    PST_ATT_DQ_SUM
};
/* Values passed: 1/sqrt(channels of a head), the score of a masked pair, 1. */
#define PST_ATT_MASKED_VALUE (-3.402823466e+38f)

/* `g` must be open. The graph computes one part: part_b samples and part_heads adjacent heads. The
 * backward pass stores dS and multiplies it by K, because adding to dq in the order in which blocks
 * finish would give other bits each time. With `loose` it does add, in fp32 scratch, and dS is not
 * stored. */
void pst_cuda_attention_graph(pst_dnn_graph *g, const pst_cuda_attention_shape *shape);
/* Sets part_b and part_heads: dS of a part, with the library's padding, takes at most that many
 * bytes (256 MiB, less in tests) unless one head needs more. `loose` has one part. */
extern uint64_t pst_cuda_attention_part_bytes;
void pst_cuda_attention_divide(pst_cuda_attention_shape *shape);
/* Bytes of scratch for a part: delta f32 [part_b,part_heads,t] rounded up to 256 (backward), the
 * lengths of all samples likewise, each at least 1 (cuDNN is not given a sample that is all
 * padding), then the plan's workspace: what cuDNN 9.19 and 9.26 need on sm_90; on sm_80 and sm_100
 * it is 128 less. */
uint64_t pst_cuda_attention_delta(const pst_cuda_attention_shape *shape);
uint64_t pst_cuda_attention_lengths(const pst_cuda_attention_shape *shape);
uint64_t pst_cuda_attention_sums(const pst_cuda_attention_shape *shape); /* with loose, before that
                                                                          */
uint64_t pst_cuda_attention_workspace(const pst_cuda_attention_shape *shape);
/* NULL, or why cuDNN's kernels do not support it. */
const char *pst_cuda_attention_refuses(const pst_cuda_attention_shape *shape);
#endif
