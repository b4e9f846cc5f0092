/* Self-attention as a graph of cuDNN operations; cuDNN recognizes this pattern and uses fused
 * kernels. qkv[b,t,3c] contains q, k and v side by side, each with its heads side by side; or q
 * [b,t,c], k and v [b,t,c / heads * kv_heads] are operands of their own; out[b,t,c]; log-sum-exp
 * f32 [b,heads,t]. If several heads of queries share a head of keys and values (grouped-query
 * attention), a graph computes all of them (`together`); or one of each group, so it has as many
 * heads of queries as of keys, and runs once per member of a group with other addresses. If samples
 * have lengths, cuDNN leaves undefined values in padded rows, which kernels of attention_plain.cu
 * set to 0. */
#ifndef PST_KERNELS_CUDA_ATTENTION_GRAPH_H
#define PST_KERNELS_CUDA_ATTENTION_GRAPH_H
#include "base/dtype.h"
#include "kernels/cuda/dnn.h"

typedef struct {
    uint64_t b, t, c, heads;
    uint64_t kv_heads; /* heads of keys and values; 0: q, k and v are one operand */
    uint64_t window;   /* positions to which a position attends, itself included; 0: all */
    /* samples and heads of one part: divisors of b and of the heads of one graph, of which it has
     * whole groups */
    uint64_t part_b, part_heads;
    uint32_t dtype; /* pst_dtype: BF16 or F16 */
    uint32_t backward;
    uint32_t bidirectional;
    uint32_t padded;   /* 1: samples have lengths */
    uint64_t together; /* 1: one graph has all members of each group of heads */
    uint64_t loose; /* 1: the backward pass may add in any order (parallel.deterministic false) */
} pst_cuda_attention_shape;

/* Numbers of the operands of the graph. */
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
    PST_ATT_DQ_SUM,
    PST_ATT_WINDOW
};
/* SCALE, MASKED, ONE and WINDOW are passed by value: 1/sqrt(channels per head), the score of a
 * masked pair, 1, and as an int32 the window. */
#define PST_ATT_MASKED_VALUE (-3.402823466e+38f)

/* Heads of queries that share a head of keys and values; of these, the number in one graph; runs of
 * the graph for all members; heads of queries of one run. */
static inline uint64_t pst_cuda_attention_group(const pst_cuda_attention_shape *s) {
    return s->kv_heads ? s->heads / s->kv_heads : 1;
}
static inline uint64_t pst_cuda_attention_sharers(const pst_cuda_attention_shape *s) {
    return s->together ? pst_cuda_attention_group(s) : 1;
}
static inline uint64_t pst_cuda_attention_members(const pst_cuda_attention_shape *s) {
    return s->together ? 1 : pst_cuda_attention_group(s);
}
static inline uint64_t pst_cuda_attention_columns(const pst_cuda_attention_shape *s) {
    return s->heads / pst_cuda_attention_members(s);
}
/* Adds the operations to `g`, which must be open. The graph computes one part: part_b samples and
 * part_heads heads: whole adjacent groups (`together`), or one of each of as many. The backward
 * pass stores the gradient of the scores, dS, and multiplies it by K, because adding to dq in the
 * order in which thread blocks finish would give different bits in each run. With `loose`, it adds
 * to dq in fp32 scratch and does not store dS. */
void pst_cuda_attention_graph(pst_dnn_graph *g, const pst_cuda_attention_shape *shape);
/* Sets part_b and part_heads so that dS of a part, with cuDNN's padding, takes at most
 * pst_cuda_attention_part_bytes (256 MiB, less in tests), unless a single head needs more. With
 * `loose` there is one part. */
extern uint64_t pst_cuda_attention_part_bytes;
void pst_cuda_attention_divide(pst_cuda_attention_shape *shape);
/* Bytes of scratch, in this order, each rounded up to 256: shares, with groups of several heads,
 * the gradients of k, then of v, that each member of a group gives: member by member, or `together`
 * [b,t,c] with its head of queries (backward only); delta, f32
 * [part_b,part_heads,t] (backward only); lengths of all samples, clamped to at least 1, because
 * cuDNN must not get a sample without tokens; sums, with `loose`; workspace of cuDNN's plan: the
 * number of bytes that cuDNN 9.19 and 9.26 need on sm_90 (128 more than on sm_80 and sm_100). */
uint64_t pst_cuda_attention_shares(const pst_cuda_attention_shape *shape);
uint64_t pst_cuda_attention_delta(const pst_cuda_attention_shape *shape);
uint64_t pst_cuda_attention_lengths(const pst_cuda_attention_shape *shape);
uint64_t pst_cuda_attention_sums(const pst_cuda_attention_shape *shape);
uint64_t pst_cuda_attention_workspace(const pst_cuda_attention_shape *shape);
/* Why cuDNN's fused kernels do not support this shape; NULL: they do. */
const char *pst_cuda_attention_refuses(const pst_cuda_attention_shape *shape);
#endif
