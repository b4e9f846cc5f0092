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
    PST_ARG_SAVED, /* saved i; may be written by F or B */
    PST_ARG_DOUT,  /* gradient of output i */
    PST_ARG_DIN,   /* gradient of input i (B writes it) */
    PST_ARG_SUM, /* what B adds to DIN i: the gradient that later operators have already contributed
                    to that input; a NULL pointer when there is none */
    /* gradient accumulator of parameter i's use, fp32 (W adds to it, or overwrites: launch.first)
     */
    PST_ARG_DPARAM
} pst_arg_kind;

enum { PST_READ = 1, PST_WRITE = 2, PST_MAX_ARG = 10 };

/* share: index in the same list of a READ operand whose memory this written operand may reuse (same
 * size), or -1. must: both always use the same memory, for the lifetime of both values. Otherwise
 * sharing is up to the memory map. Kernels work element by element in place for shared operands. */
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
    /* Fills the operand list of a pass in the order of the kernels' argument array; returns its
     * length, 0 when the pass does nothing (embedding has no B, dropout no W). */
    uint32_t (*args)(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]);
    /* FLOPs (a multiply-add is 2) and bytes moved of a pass over one micro-batch. */
    void (*cost)(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes);
    /* B passes the output's gradient unchanged to every input of the output's dtype, without a
     * step; only an input of another dtype needs one (residual add). */
    int pass_through;
    /* Passes that are an exchange among tensor ranks instead of a kernel: see pst_exchange. Their
     * operands are `from` and `to`. */
    uint8_t exchange[PST_PASS_COUNT];
    /* F does little work for the bytes that it keeps for B and W, so that selective recomputation
     * repeats it: the operators without a weight matrix. */
    int cheap;
    /* It works on images, which cannot be split over tensor ranks. */
    int image;
    /* Bit i: parameter i is a statistic (pst_param.statistic). */
    uint32_t statistics;
    /* How to compute OUT0 again without F, from what B reads anyway: the operand list of
     * `restore_kernel`, pass F. NULL, or 0 operands: not possible. */
    uint32_t (*restore)(const pst_node *node, pst_arg out[PST_MAX_ARG]);
    const char *restore_kernel;
};

/* What a pass of a tensor_* operator does among the attr.parts ranks of the group, of which this is
 * number attr.part. */
typedef enum {
    PST_EXCHANGE_NONE,
    PST_EXCHANGE_COPY,   /* to = from; nothing is sent */
    PST_EXCHANGE_SUM,    /* to = the sum of all ranks' from; to is from */
    PST_EXCHANGE_GATHER, /* to [b,T,..]: all ranks' from [b,T of the rank,..] in rank order */
    /* to [b,T of the rank,..]: its part of the sum of all ranks' from [b,T,..] */
    PST_EXCHANGE_SCATTER,
    PST_EXCHANGE_STACK /* to: all ranks' from, one after the other */
} pst_exchange;
static inline pst_exchange pst_node_exchange(const pst_node *node, int is_sum, pst_pass pass) {
    return is_sum ? PST_EXCHANGE_NONE : (pst_exchange)node->op->exchange[pass];
}

/* The ordered list of rows; *n receives its length. Operand lists (argument order of the kernels):
 * (An operand in [brackets] is absent, and those behind it move up, when the node has no such
 * parameter or input.)
 *  embedding      in: tokens[b,T] i32; param: wte[V,C] (+ wpe[Tmax,C])        out: [b,T,C] F: IN0
 *                 PARAM0 [PARAM1] OUT0        W: IN0 DOUT0 DPARAM0 [DPARAM1]
 *                 with attr.wide OUT0 is F32 in any graph
 *  layer_norm     in: x[..,C]; param: weight[C], bias[C]; saved0: (mean, rstd) f32 [rows,2] F: IN0
 *                 PARAM0 PARAM1 OUT0 SAVED0   B: IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0(may share SUM0)
 *                 W: IN0 SAVED0 DOUT0 DPARAM0 DPARAM1 with sum_parts, saved1: f32
 *                 [sum_parts,2,C], of each part of the rows the sums for bias and weight, B: ..
 *                 DIN0 SAVED1 W: SAVED1 DPARAM0 DPARAM1
 *                 x may be F32 in any graph; so is OUT0 with attr.wide
 *  linear         in: x[..,K]; param: weight[N,K] (+ bias[N]); y = act(x weight^T + bias) saved0
 *                 (with activation): z[rows,N] before it, saved1: dz[rows,N] from B to W; graph's
 *                 dtype without activation  F: IN0 PARAM0 [PARAM1] OUT0   B: PARAM0 DOUT0 DIN0 W:
 *                 IN0 DOUT0 DPARAM0 [DPARAM1] with activation     F: IN0 PARAM0 [PARAM1] OUT0
 *                 SAVED0 B: PARAM0 SAVED0 DOUT0 SAVED1(may share DOUT0) DIN0 W: IN0 SAVED1 DPARAM0
 *                 [DPARAM1] restored by "activation": SAVED0 OUT0
 *  attention      self-attention, heads, causal or bidirectional; in: qkv[b,T,3C] (q, k, v blocks
 *                 of C) (+ lengths[b] i32, clamped to 0..T: positions from there on are padding,
 *                 to which none attends); out [b,T,C], 0 in rows of padding, as is their gradient;
 *                 saved0: log-sum-exp f32 [b,heads,T], 0 in rows of padding F: IN0 [IN1] OUT0
 *                 SAVED0    B: IN0 [IN1] OUT0 SAVED0 DOUT0 DIN0
 *  dropout        F: IN0 OUT0(may share IN0)          B: DOUT0 DIN0(may share DOUT0); mask from
 *                 (seed, name, sample)
 *  add            F: IN0 IN1 OUT0(may share IN1)      B: pass-through
 *                 with IN0 and OUT0 in F32, IN1 in 16 bits: F: IN0 IN1 OUT0(may share IN0)
 *                 B: DOUT0 SUM1 DIN1(may share SUM1), the sum narrowed; to IN0 pass-through
 *  narrow         in: x, F32; out: x in the graph's dtype F: IN0 OUT0
 *                 B: DOUT0 SUM0 DIN0(may share SUM0), the sum
 *  cross_entropy  in: logits[b,T,V], targets[b,T] i32 (negative: ignored); out: losses f32 [b,T]
 *                 (role OUTPUT) saved0: log-sum-exp f32 [b,T] F: IN0 IN1 OUT0 SAVED0
 *                 B: IN0 IN1 SAVED0 DIN0(must share IN0), times loss_scale
 *  pixels         in: bytes[b,H,W,C] i32; out like it, x / 127.5 - 1 F: IN0 OUT0
 *                 no B
 *  convolution    in: x[b,H,W,C]; param: weight[O,h,w,C] (+ bias[O]); out [b,..,..,O] F: IN0 PARAM0
 *                 [PARAM1] OUT0         B: PARAM0 DOUT0 DIN0 W: IN0 DOUT0 DPARAM0 [DPARAM1]
 *  batch_norm     in: x[..,C] (+ z[..,C]); param: weight, bias and the statistics mean, variance,
 *                 [C] each; saved0: (mean [C], rstd [C]) f32, saved1: the sums of W from B,
 *                 (dweight [C], dbias [C]) f32 F: IN0 [IN1] PARAM0 PARAM1 PARAM2 PARAM3 OUT0 SAVED0
 *                 B: IN0 PARAM0 SAVED0 [OUT0, with an activation] DOUT0 SAVED1 DIN0(may share
 *                 DOUT0), or with z .. SAVED1 DIN0 DIN1(may share DOUT0) W: SAVED0 SAVED1 DPARAM0
 *                 DPARAM1 DPARAM2 DPARAM3
 *  max_pool       in: x[b,H,W,C]                      F: IN0 OUT0    B: IN0 DOUT0 DIN0
 *  average_pool   in: x[b,H,W,C]; out [b,1,C]         F: IN0 OUT0    B: DOUT0 DIN0
 * Only in graphs that split.c makes:
 *  tensor_copy    F: IN0 OUT0(may share IN0)          B: DOUT0 DIN0(must share DOUT0), summed over
 *                 the group
 *  tensor_sum     F: IN0 OUT0(must share IN0)         B: pass-through
 *  tensor_gather, tensor_scatter    along the sequence F: IN0 OUT0    B: DOUT0 DIN0; each is the
 *                                   other's backward
 *  tensor_stack   F: IN0 OUT0                         no B
 * vocabulary_part in: logits[b,T,V of the rank], targets; out: f32 [b,T,3], per row the largest
 * logit, the sum of
 *                 exp(logit - largest), and the target's logit, 0 where another rank has it. F:
 *                 IN0 IN1 OUT0; no B
 * vocabulary_loss in: logits, targets, the stacked parts [b,T,3 ranks]; as cross_entropy, whose B
 * it has
 *                 F: IN1 IN2 OUT0 SAVED0              B: IN0 IN1 SAVED0 DIN0(must share
 * IN0) */
const pst_op_row *const *pst_op_rows(uint32_t *n);
const pst_op_row *pst_op_find(const char *name);
#endif
