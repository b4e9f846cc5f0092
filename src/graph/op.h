/* The table of operators. One row says everything about a kind of operator that does not depend on
 * a device: shapes, cost, and for each pass the exact operand list. Differentiation, lifetimes,
 * memory map and kernel arguments all follow from the operand lists. */
#ifndef PST_GRAPH_OP_H
#define PST_GRAPH_OP_H
#include "graph/graph.h"

typedef enum {
    PST_ARG_IN,    /* input i */
    PST_ARG_OUT,   /* output i */
    PST_ARG_PARAM, /* parameter i */
    PST_ARG_SAVED, /* saved array i; written by F or B */
    PST_ARG_DOUT,  /* gradient of output i */
    PST_ARG_DIN,   /* gradient of input i (B writes it) */
    PST_ARG_SUM, /* a term that B adds to DIN i: the gradient that later operators have contributed
                    to that input; a NULL pointer if there is none */
    /* gradient accumulator of parameter i's use, fp32 (W adds to it, or overwrites: launch.first)
     */
    PST_ARG_DPARAM
} pst_arg_kind;

enum { PST_READ = 1, PST_WRITE = 2, PST_MAX_ARG = 10 };

/* share: index in the same list of a READ operand whose memory this written operand may reuse (same
 * size), or -1. must: both always use the same memory, for the lifetime of both values. Otherwise
 * the memory map decides whether they share. Kernels work element by element in place for shared
 * operands. */
typedef struct {
    uint8_t kind, index, access;
    int8_t share;
    uint8_t must;
} pst_arg;

struct pst_op_row {
    const char *name;
    uint32_t min_in, max_in, min_param, max_param;
    /* Checks operands and attributes, creates outputs with pst_graph_out, fills node->saved. `node`
     * is not yet in the graph's array. */
    pst_status (*infer)(pst_graph *g, pst_node *node);
    /* Fills the operand list of a pass in the order of the kernels' argument array. Returns the
     * length of the list; 0: the pass does nothing (embedding has no B, dropout no W). */
    uint32_t (*args)(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]);
    /* Sets *flops (a multiply-add counts as 2) and *bytes (read and written) of a pass over one
     * micro-batch. */
    void (*cost)(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes);
    /* Nonzero: every input with the dtype of the output has the gradient of the output, without
     * running B; B runs only for an input of another dtype (residual add). */
    int pass_through;
    /* Per pass: a pst_exchange among tensor ranks if the pass is an exchange instead of a kernel.
     * Such a pass has the operands `from` and `to`. */
    uint8_t exchange[PST_PASS_COUNT];
    /* Nonzero: F does little work for the bytes that it keeps for B and W, so selective
     * recomputation repeats F. True for operators without a weight matrix. */
    int cheap;
    /* Nonzero: the operator works on images, which cannot be split over tensor ranks. */
    int image;
    /* Bit i: parameter i is a statistic (pst_param.statistic). */
    uint32_t statistics;
    /* Bit i: parameter i is a cache (pst_param.cache), which F writes. */
    uint32_t caches;
    /* Nonzero: the operator has no derivative; only graphs for generation may have it. */
    int forward_only;
    /* Computes OUT0 again without F, from arrays that B reads anyway: fills the operand list of
     * pass F of `restore_kernel`. NULL, or 0 operands: not possible. */
    uint32_t (*restore)(const pst_node *node, pst_arg out[PST_MAX_ARG]);
    const char *restore_kernel;
};

/* What a pass of a tensor_* operator does among the attr.parts ranks of the tensor group; attr.part
 * is the index of this rank. */
typedef enum {
    PST_EXCHANGE_NONE,
    PST_EXCHANGE_COPY,   /* to = from; nothing is sent */
    PST_EXCHANGE_SUM,    /* to = the sum of all ranks' from, in the same memory */
    PST_EXCHANGE_GATHER, /* to [b,T,..]: all ranks' from [b,T of the rank,..] in rank order */
    /* to [b,T of the rank,..]: this rank's part of the sum of all ranks' from [b,T,..] */
    PST_EXCHANGE_SCATTER,
    PST_EXCHANGE_STACK /* to: all ranks' from, one after the other */
} pst_exchange;
/* embedding, rotary: 1: the second input is the number of earlier positions of each sample. */
static inline int pst_node_has_past(const pst_graph *g, const pst_node *node) {
    return node->n_in > 1 && g->tensor[node->in[1]].n_dim == 1;
}
/* embedding: 1: it has a table of types, so that the second input is the type of each token. */
static inline int pst_node_has_types(const pst_node *node) { return node->n_param > 2; }
/* attention: index of the input with lengths or starts; n_in: the node has none. Other operators:
 * the second input. */
static inline uint32_t pst_node_mask(const pst_node *node) { return node->attr.kv_heads ? 3 : 1; }
/* attention, embedding, rotary: 1: the input has the start of each position, not a length, a number
 * of earlier positions or types. */
static inline int pst_node_has_starts(const pst_graph *g, const pst_node *node) {
    const uint32_t i = pst_node_mask(node);
    return node->n_in > i && g->tensor[node->in[i]].n_dim == 2 && !pst_node_has_types(node);
}

static inline pst_exchange pst_node_exchange(const pst_node *node, int extra, pst_pass pass) {
    return extra ? PST_EXCHANGE_NONE : (pst_exchange)node->op->exchange[pass];
}

enum { PST_CACHE_BLOCK = 64 }; /* positions of a block of keys in a cache, see cached_attention */

/* The ordered list of rows; *n receives the number of rows. Below: the operands of each operator,
 * with shapes, and the operand list of each pass, in the argument order of the kernels. An operand
 * in [brackets] is left out, and the operands after it move up, if the node lacks that parameter or
 * input. "=X" after a written operand: it may use the memory of X; "==X": it must. Passes without
 * a list do nothing.
 *
 * embedding       in: tokens[b,T] i32 (+ starts[b,T] i32: position t has row t - start of wpe; see
 *                 attention; or + past[b] i32: position t has row past + t); param: wte[V,C] (+
 *                 wpe[Tmax,C] (+ types[n,C], which needs the type of each token [b,T] i32 as input
 *                 1, in place of starts or past)); out: [b,T,C], F32 in any graph with attr.wide
 *     F: IN0 [IN1] PARAM0 [PARAM1] [PARAM2] OUT0
 *     W: IN0 [IN1] DOUT0 DPARAM0 [DPARAM1] [DPARAM2]
 * gather_rows     in: x[b,T,C], which may be F32 in any graph (+ positions[b,P] i32); out: the rows
 *                 of x at these positions, zeros where they are negative, [b,P,C] of x's type;
 *                 without positions: the first row of each sample, [b,1,C]
 *     F: IN0 [IN1] OUT0
 *     B: [IN1] DOUT0 SUM0 DIN0=SUM0
 * layer_norm      in: x[..,C], which may be F32 in any graph; param: weight[C], bias[C];
 *                 out: F32 in any graph with attr.wide; saved0: (mean, rstd) f32 [rows,2]; with
 *                 sum_parts, saved1: f32 [sum_parts,2,C], the sums for bias and weight over each
 *                 part of the rows
 *     F: IN0 PARAM0 PARAM1 OUT0 SAVED0
 *     B: IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0=SUM0; with sum_parts: ... DIN0 SAVED1
 *     W: IN0 SAVED0 DOUT0 DPARAM0 DPARAM1; with sum_parts: SAVED1 DPARAM0 DPARAM1
 * rms_norm        in: x[..,C], which may be F32 in any graph; param: weight[C]; saved0: rstd f32
 *                 [rows]
 *     F: IN0 PARAM0 OUT0 SAVED0
 *     B: IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0=SUM0
 *     W: IN0 SAVED0 DOUT0 DPARAM0
 * rotary          in: x[b,T,heads*D] (+ starts[b,T] i32: position t counts as t - start; see
 *                 attention; or + past[b] i32: position t counts as past + t); out: x with each
 *                 head turned by its position (attr.rope)
 *     F: IN0 [IN1] OUT0=IN0
 *     B: DOUT0 [IN1] DIN0=DOUT0
 * gated           in: gate[..,N], up[..,N]; out: silu(gate) * up. Row "gated" restores OUT0:
 *                 IN0 IN1 OUT0
 *     F: IN0 IN1 OUT0=IN1
 *     B: IN0 IN1 DOUT0 DIN0=IN0 DIN1=IN1
 * linear          in: x[..,K]; param: weight[N,K] (+ bias[N]); y = act(x weight^T + bias)
 *     F: IN0 PARAM0 [PARAM1] OUT0
 *     B: PARAM0 DOUT0 DIN0
 *     W: IN0 DOUT0 DPARAM0 [DPARAM1]
 *   with activation  saved0: z[rows,N], the input of the activation; saved1: dz[rows,N], from B to
 *                 W; both of the graph's dtype. Row "activation" restores OUT0: SAVED0 OUT0
 *     F: IN0 PARAM0 [PARAM1] OUT0 SAVED0
 *     B: PARAM0 SAVED0 DOUT0 SAVED1=DOUT0 DIN0
 *     W: IN0 SAVED1 DPARAM0 [DPARAM1]
 * attention       self-attention with heads, causal or bidirectional; in: qkv[b,T,3C] (blocks q, k
 *                 and v of C channels) (+ lengths[b] i32, clamped to 0..T: later positions are
 *                 padding, to which no position attends; or, if causal, starts[b,T] i32, clamped to
 *                 0..t for position t, which attends to none before its start); out: [b,T,C];
 * saved0: log-sum-exp f32 [b,heads,T]; rows of padding are 0 in out, in its gradient and in saved0
 *     F: IN0 [IN1] OUT0 SAVED0
 *     B: IN0 [IN1] OUT0 SAVED0 DOUT0 DIN0
 *   with kv_heads, in: q[b,T,heads*D], k[b,T,kv_heads*D], v[b,T,kv_heads*D] (+ lengths or starts):
 *                 consecutive heads share a head of keys and values
 *     F: IN0 IN1 IN2 [IN3] OUT0 SAVED0
 *     B: IN0 IN1 IN2 [IN3] OUT0 SAVED0 DOUT0 DIN0 DIN1 DIN2
 * dropout         mask from (seed, name, sample)
 *     F: IN0 OUT0=IN0
 *     B: DOUT0 DIN0=DOUT0
 * scale           in: x; out: attr.factor * x
 *     F: IN0 OUT0=IN0
 *     B: DOUT0 DIN0=DOUT0
 * activation      in: z; out: act(z), as a linear with this activation computes it. Restores OUT0
 *                 like a linear: IN0 OUT0
 *     F: IN0 OUT0
 *     B: IN0 DOUT0 DIN0=DOUT0
 * add             F: IN0 IN1 OUT0=IN1
 *     B: pass-through
 *   IN0 and OUT0 F32, IN1 16 bits
 *     F: IN0 IN1 OUT0=IN0
 *     B: pass-through to IN0; DOUT0 SUM1 DIN1=SUM1, the sum rounded to 16 bits
 * narrow          in: x, F32; out: x in the graph's dtype
 *     F: IN0 OUT0
 *     B: DOUT0 SUM0 DIN0=SUM0, the sum
 * cross_entropy   in: logits[b,T,V], targets[b,T] i32 (negative: ignored); out: losses f32 [b,T]
 *                 (role OUTPUT), whose mean is over all targets of the batch or, with
 *                 attr.per_sample, over its samples; saved0: log-sum-exp f32 [b,T]; with attr.hits
 *                 also f32 [b,T] (role OUTPUT): 1 where the target's logit is the largest, else 0
 *     F: IN0 IN1 OUT0 SAVED0 [OUT1]
 *     B: IN0 IN1 SAVED0 DIN0==IN0, multiplied by loss_scale
 * pixels          in: bytes[b,H,W,C] i32; out: of the same shape, x / 127.5 - 1
 *     F: IN0 OUT0
 * convolution     in: x[b,H,W,C]; param: weight[O,h,w,C] (+ bias[O]); out: [b,..,..,O]
 *     F: IN0 PARAM0 [PARAM1] OUT0
 *     B: PARAM0 DOUT0 DIN0
 *     W: IN0 DOUT0 DPARAM0 [DPARAM1]
 * batch_norm      in: x[..,C] (+ z[..,C]); param: weight, bias and the statistics mean and
 *                 variance, [C] each; saved0: (mean [C], rstd [C]) f32; saved1: the sums that B
 *                 saves for W, (dweight [C], dbias [C]) f32
 *     F: IN0 [IN1] PARAM0 PARAM1 PARAM2 PARAM3 OUT0 SAVED0
 *     B: IN0 PARAM0 SAVED0 [OUT0, with an activation] DOUT0 SAVED1 DIN0=DOUT0;
 *        with z: ... SAVED1 DIN0 DIN1=DOUT0
 *     W: SAVED0 SAVED1 DPARAM0 DPARAM1 DPARAM2 DPARAM3
 * max_pool        in: x[b,H,W,C]
 *     F: IN0 OUT0
 *     B: IN0 DOUT0 DIN0
 * average_pool    in: x[b,H,W,C]; out: [b,1,C]
 *     F: IN0 OUT0
 *     B: DOUT0 DIN0
 *
 * Only in graphs for generation, which run on a few positions at a time. past[b] i32 has the number
 * of earlier positions of each sample: position t of the run is position past + t of the sample.
 * Every operator that depends on positions has it as its last input.
 * cached_attention  causal attention with heads to positions of this and earlier runs; in:
 *                 qkv[b,T,(heads+2H)*D], or q[b,T,heads*D], k[b,T,H*D] and v[b,T,H*D], then past;
 *                 param: cache[b,H,2P,D] of P positions, a multiple of PST_CACHE_BLOCK: for each of
 *                 H heads, which heads/H consecutive heads of q share, the keys of each block of
 *                 positions, [D][PST_CACHE_BLOCK], then the values [P][D]. F first stores k and v
 *                 of this run; those of positions from P on are left out. attr.window: a position
 *                 attends to that many, itself included; 0: to all; out: [b,T,heads*D]
 *     F: IN0 [IN1 IN2] IN.past PARAM0 OUT0
 * pick            in: x[b,T,C], at[b,K] i32, clamped to 0..T-1; out: [b,K,C], rows `at` of x
 *     F: IN0 IN1 OUT0
 *
 * Only in graphs that split.c makes:
 * tensor_copy     F: IN0 OUT0=IN0
 *     B: DOUT0 DIN0==DOUT0, summed over the group
 * tensor_sum      F: IN0 OUT0==IN0
 *     B: pass-through
 * tensor_gather, tensor_scatter    along the sequence; each is the backward of the other
 *     F: IN0 OUT0
 *     B: DOUT0 DIN0
 * tensor_stack    F: IN0 OUT0
 * vocabulary_part in: logits[b,T,V of the rank], targets; out: f32 [b,T,3]: for each row the
 *                 largest logit, the sum of exp(logit - largest), and the target's logit (0 if
 *                 another rank has the target)
 *     F: IN0 IN1 OUT0
 * vocabulary_loss in: logits, targets, the stacked outputs of vocabulary_part [b,T,3 ranks]; out
 *                 and saved0 as for cross_entropy
 *     F: IN1 IN2 OUT0 SAVED0
 *     B: IN0 IN1 SAVED0 DIN0==IN0, as for cross_entropy */
const pst_op_row *const *pst_op_rows(uint32_t *n);
const pst_op_row *pst_op_find(const char *name);
#endif
