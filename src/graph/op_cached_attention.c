/* cached_attention: causal attention of a few new positions to all earlier ones, whose keys and
 * values are in a cache that outlives the run. Consecutive heads of queries may share a head of
 * keys and values (Ainslie et al. 2023); on a tensor rank with all of these, its heads of queries
 * are a part of `total`. For generation: it has no derivative. */
#include "graph/op_list.h"

static int is_joint(const pst_node *node) { return node->n_in == 2; }

/* EINPUT unless the input has whole heads of `size` elements, as many as `heads`. */
static pst_status check_heads(const pst_graph *g, const pst_node *node, uint32_t in, uint64_t heads,
                              uint64_t size) {
    PST_TRY(pst_node_expect_float(g, node, in, 3));
    const pst_tensor *t = pst_node_in(g, node, in), *first = pst_node_in(g, node, 0);
    if (t->dim[2] != heads * size)
        return pst_fail(PST_EINPUT,
                        "cached_attention: %s has %lu channels, but %lu heads of %lu need %lu",
                        t->name, (unsigned long)t->dim[2], (unsigned long)heads,
                        (unsigned long)size, (unsigned long)(heads * size));
    if (t->dim[0] == first->dim[0] && t->dim[1] == first->dim[1]) return PST_OK;
    return pst_fail(PST_EINPUT, "cached_attention: %s and %s differ in samples or positions",
                    first->name, t->name);
}

static pst_status infer(pst_graph *g, pst_node *node) {
    const uint32_t past = node->n_in - 1;
    if (node->n_in == 3)
        return pst_fail(PST_EINPUT, "cached_attention needs qkv or q, k and v, then past");
    PST_TRY(pst_node_expect_float(g, node, 0, 3));
    PST_TRY(pst_node_expect_i32(g, node, past, 1));
    const pst_tensor *x = pst_node_in(g, node, 0);
    const pst_param *cache = pst_node_param(g, node, 0);
    const uint64_t heads = node->attr.heads, b = x->dim[0], t = x->dim[1];
    if (cache->n_dim != 4 || cache->dim[0] != b || cache->dim[2] % (2 * PST_CACHE_BLOCK))
        return pst_fail(PST_EINPUT,
                        "cached_attention needs a cache of shape [%lu,heads,2 positions,size of a "
                        "head], with a multiple of %d positions; not %s",
                        (unsigned long)b, PST_CACHE_BLOCK, cache->name);
    const uint64_t own = cache->dim[1], size = cache->dim[3],
                   all = node->attr.total ? node->attr.total : heads;
    if (!heads || all % own)
        return pst_fail(PST_EINPUT,
                        "cached_attention: %lu heads cannot share %lu heads of keys and values",
                        (unsigned long)all, (unsigned long)own);
    if (node->attr.total && (is_joint(node) || node->attr.first + heads > all))
        return pst_fail(PST_EINPUT,
                        "cached_attention: heads %lu to %lu are not among %lu with q, k and v",
                        (unsigned long)node->attr.first, (unsigned long)(node->attr.first + heads),
                        (unsigned long)all);
    if (pst_node_in(g, node, past)->dim[0] != b)
        return pst_fail(PST_EINPUT, "cached_attention needs one number of positions per sample");
    PST_TRY(check_heads(g, node, 0, is_joint(node) ? heads + 2 * own : heads, size));
    if (!is_joint(node)) PST_TRY(check_heads(g, node, 1, own, size));
    if (!is_joint(node)) PST_TRY(check_heads(g, node, 2, own, size));
    uint64_t dim[] = {b, t, heads * size};
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    if (pass != PST_PASS_F) return 0;
    for (uint32_t i = 0; i < node->n_in; i++) out[n++] = pst_op_read(PST_ARG_IN, (uint8_t)i);
    out[n++] =
        (pst_arg){.kind = PST_ARG_PARAM, .index = 0, .access = PST_READ | PST_WRITE, .share = -1};
    out[n++] = pst_op_write(PST_ARG_OUT, 0);
    return n;
}

/* As if the cache were full. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    (void)pass;
    const pst_param *cache = pst_node_param(g, node, 0);
    const pst_tensor *out = &g->tensor[node->out[0]];
    if (__builtin_mul_overflow(pst_tensor_elements(out), 2 * cache->dim[2], flops))
        *flops = UINT64_MAX;
    *bytes = pst_param_bytes(g, cache) + pst_tensor_bytes(out);
    for (uint32_t i = 0; i < node->n_in; i++) *bytes += pst_tensor_bytes(pst_node_in(g, node, i));
}

const pst_op_row pst_op_cached_attention = {
    .name = "cached_attention",
    .min_in = 2,
    .max_in = 4,
    .min_param = 1,
    .max_param = 1,
    .infer = infer,
    .args = args,
    .cost = cost,
    .caches = 1,
    .forward_only = 1,
    .cheap = 1,
};
