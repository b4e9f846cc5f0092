/* attention: self-attention over heads, softmax(q k^T / sqrt(C/heads)) v, scores never stored
 * (FlashAttention, Dao et al. 2022). saved0 keeps each row's log-sum-exp. A mask hides later
 * positions (unless bidirectional), and padding after the samples' lengths or positions before each
 * one's start, if these are given. */
#include "graph/op_list.h"

static pst_status check_starts(const pst_graph *g, const pst_node *node) {
    const pst_tensor *qkv = pst_node_in(g, node, 0), *starts = pst_node_in(g, node, 1);
    if (node->attr.bidirectional)
        return pst_fail(PST_EINPUT, "attention that is bidirectional cannot have starts (%s)",
                        starts->name);
    if (starts->dim[0] == qkv->dim[0] && starts->dim[1] == qkv->dim[1]) return PST_OK;
    return pst_fail(
        PST_EINPUT,
        "attention needs one start per position, but %s is [%lu,%lu] and %s [%lu,%lu,%lu]",
        starts->name, (unsigned long)starts->dim[0], (unsigned long)starts->dim[1], qkv->name,
        (unsigned long)qkv->dim[0], (unsigned long)qkv->dim[1], (unsigned long)qkv->dim[2]);
}

static pst_status check_mask(const pst_graph *g, const pst_node *node) {
    PST_TRY(pst_node_expect_i32(g, node, 1, pst_node_has_starts(g, node) ? 2 : 1));
    if (pst_node_has_starts(g, node)) return check_starts(g, node);
    const pst_tensor *qkv = pst_node_in(g, node, 0), *lengths = pst_node_in(g, node, 1);
    if (lengths->dim[0] == qkv->dim[0]) return PST_OK;
    return pst_fail(
        PST_EINPUT, "attention needs one length per sample, but %s is [%lu] and %s [%lu,%lu,%lu]",
        lengths->name, (unsigned long)lengths->dim[0], qkv->name, (unsigned long)qkv->dim[0],
        (unsigned long)qkv->dim[1], (unsigned long)qkv->dim[2]);
}

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 3));
    const pst_tensor *qkv = pst_node_in(g, node, 0);
    uint64_t heads = node->attr.heads;
    if (heads == 0) return pst_fail(PST_EINPUT, "attention needs heads > 0");
    if (qkv->dim[2] % 3 || (qkv->dim[2] / 3) % heads)
        return pst_fail(PST_EINPUT,
                        "attention with %u heads cannot split %s, which has %lu channels, not a "
                        "multiple of 3 x heads",
                        node->attr.heads, qkv->name, (unsigned long)qkv->dim[2]);
    if (node->attr.bidirectional > 1)
        return pst_fail(PST_EINPUT, "attention: bidirectional is %u; it must be 0 or 1",
                        node->attr.bidirectional);
    if (node->n_in > 1) PST_TRY(check_mask(g, node));
    node->n_saved = 1;
    node->saved[0].elements = qkv->dim[0] * qkv->dim[1] * heads;
    node->saved[0].dtype = PST_F32;
    uint64_t dim[] = {qkv->dim[0], qkv->dim[1], qkv->dim[2] / 3};
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    if (pass == PST_PASS_W) return 0;
    out[n++] = pst_op_read(PST_ARG_IN, 0);
    if (node->n_in > 1) out[n++] = pst_op_read(PST_ARG_IN, 1);
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 0);
    } else {
        out[n++] = pst_op_read(PST_ARG_OUT, 0);
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        out[n++] = pst_op_write(PST_ARG_DIN, 0);
    }
    return n;
}

/* F is two products of 2 b T^2 C FLOPs, half of each under the causal mask; B recomputes one and
 * does four. Padding is counted, too. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *qkv = pst_node_in(g, node, 0), *out = &g->tensor[node->out[0]];
    uint64_t products = (pass == PST_PASS_F ? 2 : 5) * (node->attr.bidirectional ? 2 : 1);
    if (__builtin_mul_overflow(pst_tensor_elements(out), products * out->dim[1], flops))
        *flops = UINT64_MAX;
    *bytes = pass == PST_PASS_F ? pst_tensor_bytes(qkv) + pst_tensor_bytes(out)
                                : 2 * pst_tensor_bytes(qkv) + 2 * pst_tensor_bytes(out);
    *bytes += 4 * node->saved[0].elements;
}

const pst_op_row pst_op_attention = {
    .name = "attention",
    .min_in = 1,
    .max_in = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
