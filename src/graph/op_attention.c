/* attention: self-attention over heads, softmax(q k^T / sqrt(C/heads)) v, scores never stored
 * (FlashAttention, Dao et al. 2022). saved0 keeps each row's log-sum-exp. A mask hides later
 * positions (unless bidirectional), positions before a window, and padding after the samples'
 * lengths or positions before each one's start, if these are given. With kv_heads, several heads
 * share keys and values (grouped-query attention, Ainslie et al. 2023). With a rate, probabilities
 * are dropped after the softmax (Vaswani et al. 2017): the mask is a function of (seed, name,
 * global sample, head, query, key), which B computes again. */
#include "graph/op_list.h"

enum { DROPS_MAX = 1 << 17 };

/* Queries, keys and values are one input, or three. */
static uint32_t inputs(const pst_node *node) { return node->attr.kv_heads ? 3 : 1; }

static pst_status check_starts(const pst_graph *g, const pst_node *node) {
    const pst_tensor *x = pst_node_in(g, node, 0), *starts = pst_node_in(g, node, inputs(node));
    if (node->attr.bidirectional)
        return pst_fail(PST_EINPUT, "attention that is bidirectional cannot have starts (%s)",
                        starts->name);
    if (starts->dim[0] == x->dim[0] && starts->dim[1] == x->dim[1]) return PST_OK;
    return pst_fail(
        PST_EINPUT,
        "attention needs one start per position, but %s is [%lu,%lu] and %s [%lu,%lu,%lu]",
        starts->name, (unsigned long)starts->dim[0], (unsigned long)starts->dim[1], x->name,
        (unsigned long)x->dim[0], (unsigned long)x->dim[1], (unsigned long)x->dim[2]);
}

static pst_status check_mask(const pst_graph *g, const pst_node *node) {
    PST_TRY(pst_node_expect_i32(g, node, inputs(node), pst_node_has_starts(g, node) ? 2 : 1));
    if (pst_node_has_starts(g, node)) return check_starts(g, node);
    const pst_tensor *x = pst_node_in(g, node, 0), *lengths = pst_node_in(g, node, inputs(node));
    if (lengths->dim[0] == x->dim[0]) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "attention needs one length per sample, but %s is [%lu] and %s [%lu,%lu,%lu]",
                    lengths->name, (unsigned long)lengths->dim[0], x->name,
                    (unsigned long)x->dim[0], (unsigned long)x->dim[1], (unsigned long)x->dim[2]);
}

static pst_status check_packed(const pst_graph *g, const pst_node *node) {
    const pst_tensor *qkv = pst_node_in(g, node, 0);
    const uint64_t heads = node->attr.heads;
    if (qkv->dim[2] % 3 || (qkv->dim[2] / 3) % heads)
        return pst_fail(PST_EINPUT,
                        "attention with %u heads cannot split %s, which has %lu channels, not a "
                        "multiple of 3 x heads",
                        node->attr.heads, qkv->name, (unsigned long)qkv->dim[2]);
    if (node->n_in > 2) return pst_fail(PST_EINPUT, "attention has %u inputs", node->n_in);
    return PST_OK;
}

/* q [b,T,heads*D], k and v [b,T,kv_heads*D]. On a tensor rank with all keys and values, its heads
 * are a part of `total`. */
static pst_status check_grouped(const pst_graph *g, const pst_node *node) {
    const pst_attr *a = &node->attr;
    const pst_tensor *q = pst_node_in(g, node, 0);
    const uint64_t heads = a->total ? a->total : a->heads;
    if (heads % a->kv_heads)
        return pst_fail(PST_EINPUT,
                        "attention: %u heads of keys and values do not divide %lu heads",
                        a->kv_heads, (unsigned long)heads);
    if (a->total && a->first + a->heads > a->total)
        return pst_fail(PST_EINPUT, "attention: heads %lu to %lu are not among %lu",
                        (unsigned long)a->first, (unsigned long)(a->first + a->heads),
                        (unsigned long)a->total);
    if (q->dim[2] % a->heads)
        return pst_fail(PST_EINPUT,
                        "attention with %u heads cannot split %s, which has %lu "
                        "channels",
                        a->heads, q->name, (unsigned long)q->dim[2]);
    for (uint32_t i = 1; i < 3; i++) {
        PST_TRY(pst_node_expect_float(g, node, i, 3));
        const pst_tensor *kv = pst_node_in(g, node, i);
        const uint64_t columns = q->dim[2] / a->heads * a->kv_heads;
        if (kv->dim[0] != q->dim[0] || kv->dim[1] != q->dim[1] || kv->dim[2] != columns)
            return pst_fail(PST_EINPUT, "attention needs %s to be [%lu,%lu,%lu], as %s is",
                            kv->name, (unsigned long)q->dim[0], (unsigned long)q->dim[1],
                            (unsigned long)columns, q->name);
    }
    return PST_OK;
}

/* A head's random numbers have 2^32 positions of four keys. */
static pst_status check_rate(const pst_node *node, uint64_t length) {
    if (!(node->attr.rate > 0)) return PST_OK;
    if (!(node->attr.rate < 1)) return pst_fail(PST_EINPUT, "attention needs 0 <= rate < 1");
    if (node->attr.kv_heads)
        return pst_fail(PST_EINPUT, "attention with kv_heads cannot have a rate");
    if (length > DROPS_MAX)
        return pst_fail(PST_EINPUT, "attention with a rate has at most %d positions, not %lu",
                        DROPS_MAX, (unsigned long)length);
    return PST_OK;
}

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 3));
    const pst_tensor *x = pst_node_in(g, node, 0);
    const uint32_t n = inputs(node);
    if (node->attr.heads == 0) return pst_fail(PST_EINPUT, "attention needs heads > 0");
    if (node->n_in < n)
        return pst_fail(PST_EINPUT, "attention with kv_heads needs q, k and v, but has %u inputs",
                        node->n_in);
    PST_TRY(n == 1 ? check_packed(g, node) : check_grouped(g, node));
    PST_TRY(check_rate(node, x->dim[1]));
    if (node->attr.bidirectional > 1)
        return pst_fail(PST_EINPUT, "attention: bidirectional is %u; it must be 0 or 1",
                        node->attr.bidirectional);
    if (node->attr.bidirectional && node->attr.window)
        return pst_fail(PST_EINPUT, "attention that is bidirectional cannot have a window");
    if (node->n_in > n) PST_TRY(check_mask(g, node));
    node->n_saved = 1;
    node->saved[0].elements = x->dim[0] * x->dim[1] * node->attr.heads;
    node->saved[0].dtype = PST_F32;
    uint64_t dim[] = {x->dim[0], x->dim[1], n == 1 ? x->dim[2] / 3 : x->dim[2]};
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    if (pass == PST_PASS_W) return 0;
    for (uint32_t i = 0; i < node->n_in; i++) out[n++] = pst_op_read(PST_ARG_IN, (uint8_t)i);
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 0);
        return n;
    }
    out[n++] = pst_op_read(PST_ARG_OUT, 0);
    out[n++] = pst_op_read(PST_ARG_SAVED, 0);
    out[n++] = pst_op_read(PST_ARG_DOUT, 0);
    for (uint32_t i = 0; i < inputs(node); i++) out[n++] = pst_op_write(PST_ARG_DIN, (uint8_t)i);
    return n;
}

/* Pairs of positions that attend to each other, times 2, for one sample: all, or half of them under
 * the causal mask, or those in the window. */
static uint64_t pairs(const pst_node *node, uint64_t length) {
    const uint64_t window = node->attr.window;
    if (node->attr.bidirectional) return 2 * length * length;
    if (!window || window >= length) return length * length;
    return window * (2 * length - window);
}

/* F is two products of 2 b T^2 C FLOPs, half of each under the causal mask; B recomputes one and
 * does four. Padding is counted, too. With a rate, a pair costs a random number as well. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *out = &g->tensor[node->out[0]];
    const uint64_t products = pass == PST_PASS_F ? 2 : 5, length = out->dim[1];
    uint64_t read = 0;
    for (uint32_t i = 0; i < inputs(node); i++) read += pst_tensor_bytes(pst_node_in(g, node, i));
    const uint64_t drawn = node->attr.rate > 0 ? 6 * node->attr.heads * out->dim[0] : 0,
                   each = products * (pst_tensor_elements(out) / length) + drawn;
    if (__builtin_mul_overflow(each, pairs(node, length), flops)) *flops = UINT64_MAX;
    *bytes =
        pass == PST_PASS_F ? read + pst_tensor_bytes(out) : 2 * read + 2 * pst_tensor_bytes(out);
    *bytes += 4 * node->saved[0].elements;
}

const pst_op_row pst_op_attention = {
    .name = "attention",
    .min_in = 1,
    .max_in = 4,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
