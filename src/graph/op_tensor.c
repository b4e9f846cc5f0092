/* tensor_*: what the ranks of a tensor group exchange between a layer's halves (Shoeybi et al.
 * 2019; along the sequence: Korthikanti et al. 2022). Before operators that are split by columns,
 * tensor_copy: forward a copy, backward the sum of all ranks' gradients. After operators that are
 * split by rows, tensor_sum: the other way round. If the ranks hold parts of the sequence in
 * between, tensor_gather and tensor_scatter replace these. Only split.c adds them to a graph. */
#include "graph/op_list.h"
#include "graph/split.h"

static pst_status expect_group(const pst_node *node) {
    if (node->attr.parts < 1 || node->attr.part >= node->attr.parts)
        return pst_fail(PST_EINPUT, "%s: attribute parts must be >= 1, and part less than parts",
                        node->op->name);
    return PST_OK;
}

static int adds(const pst_node *node, pst_pass pass) {
    pst_exchange kind = (pst_exchange)node->op->exchange[pass];
    return kind == PST_EXCHANGE_SUM || kind == PST_EXCHANGE_SCATTER;
}

/* Of x's type. Sums in blocks are complete, and rounded, only when all ranks' parts have been
 * added: what goes in has F32, forward or backward. */
static pst_status out_like(pst_graph *g, pst_node *node, const pst_tensor *x, const uint64_t *dim) {
    const int sum = x->grad == PST_GRAD_NARROW;
    const pst_dtype type = sum ? g->dtype : x->dtype;
    const int back = node->attr.blocks.n && adds(node, PST_PASS_B) && type != PST_F32;
    node->attr.wide = sum || back;
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, dim));
    pst_tensor *out = &g->tensor[node->out[0]];
    out->dtype = type;
    if (back) out->grad = PST_GRAD_WIDE;
    return PST_OK;
}

static pst_status infer_same(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_stream(g, node, 0, 0));
    PST_TRY(expect_group(node));
    const pst_tensor *x = pst_node_in(g, node, 0);
    return out_like(g, node, x, x->dim);
}

/* [b,from,C] -> [b,to,C] */
static pst_status infer_sequence(pst_graph *g, pst_node *node, int gathers) {
    PST_TRY(pst_node_expect_stream(g, node, 0, 3));
    PST_TRY(expect_group(node));
    const pst_tensor *x = pst_node_in(g, node, 0);
    pst_part own = pst_part_of(node->attr.length, node->attr.parts, node->attr.part);
    uint64_t from = gathers ? own.count : node->attr.length,
             to = gathers ? node->attr.length : own.count;
    if (x->dim[1] != from)
        return pst_fail(PST_EINPUT, "%s needs %s to have %lu positions", node->op->name, x->name,
                        (unsigned long)from);
    uint64_t dim[] = {x->dim[0], to, x->dim[2]};
    return out_like(g, node, x, dim);
}
static pst_status infer_gather(pst_graph *g, pst_node *node) { return infer_sequence(g, node, 1); }
static pst_status infer_scatter(pst_graph *g, pst_node *node) { return infer_sequence(g, node, 0); }

/* [b,T,n] -> [b,T,n parts], which is parts blocks of [b,T,n]. */
static pst_status infer_stack(pst_graph *g, pst_node *node) {
    PST_TRY(expect_group(node));
    const pst_tensor *x = pst_node_in(g, node, 0);
    if (x->n_dim != 3 || x->dtype != PST_F32)
        return pst_fail(PST_EINPUT, "%s needs %s to be [b,T,n] of F32", node->op->name, x->name);
    uint64_t dim[] = {x->dim[0], x->dim[1], x->dim[2] * node->attr.parts};
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim));
    g->tensor[node->out[0]].dtype = PST_F32;
    return PST_OK;
}

static uint32_t forward(pst_arg out[PST_MAX_ARG]) {
    out[0] = pst_op_read(PST_ARG_IN, 0);
    out[1] = pst_op_write(PST_ARG_OUT, 0);
    return 2;
}

static uint32_t backward(pst_arg out[PST_MAX_ARG]) {
    out[0] = pst_op_read(PST_ARG_DOUT, 0);
    out[1] = pst_op_write(PST_ARG_DIN, 0);
    return 2;
}

/* Unless the two operands have different types. */
static uint32_t in_place(const pst_node *node, pst_arg out[PST_MAX_ARG], uint32_t n) {
    out[1].share = node->attr.wide ? -1 : 0;
    out[1].must = !node->attr.wide;
    return n;
}

static uint32_t args_copy(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    if (pass == PST_PASS_B) return in_place(node, out, backward(out));
    if (pass == PST_PASS_W) return 0;
    forward(out);
    out[1].share = 0;
    return 2;
}

static uint32_t args_sum(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    return pass == PST_PASS_F ? in_place(node, out, forward(out)) : 0;
}

static uint32_t args_sequence(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass == PST_PASS_F) return forward(out);
    return pass == PST_PASS_B ? backward(out) : 0;
}

static uint32_t args_stack(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    return pass == PST_PASS_F ? forward(out) : 0;
}

/* bytes: those that this rank receives, which determine the duration of an exchange. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *in = pst_node_in(g, node, 0), *out = &g->tensor[node->out[0]];
    uint64_t n =
        pst_tensor_bytes(in) > pst_tensor_bytes(out) ? pst_tensor_bytes(in) : pst_tensor_bytes(out);
    pst_exchange kind = (pst_exchange)node->op->exchange[pass];
    uint64_t others = node->attr.parts - 1, parts = node->attr.parts;
    *flops = adds(node, pass) ? pst_tensor_elements(in) * others / parts : 0;
    *bytes = n / parts * others;
    if (kind == PST_EXCHANGE_SUM) *bytes *= 2;
    if (kind == PST_EXCHANGE_COPY) *bytes = 2 * n;
}

#define ROW(op, check, list, through, f, b)                                                        \
    const pst_op_row pst_op_tensor_##op = {.name = "tensor_" #op,                                  \
                                           .min_in = 1,                                            \
                                           .max_in = 1,                                            \
                                           .infer = check,                                         \
                                           .args = list,                                           \
                                           .cost = cost,                                           \
                                           .pass_through = through,                                \
                                           .exchange = {PST_EXCHANGE_##f, PST_EXCHANGE_##b}}
ROW(copy, infer_same, args_copy, 0, COPY, SUM);
ROW(sum, infer_same, args_sum, 1, SUM, NONE);
ROW(gather, infer_gather, args_sequence, 0, GATHER, SCATTER);
ROW(scatter, infer_scatter, args_sequence, 0, SCATTER, GATHER);
ROW(stack, infer_stack, args_stack, 0, STACK, NONE);
