/* embedding: out[b,t,:] = wte[tokens[b,t],:] (+ wpe[t,:], or wpe[t - starts[b,t],:], or
 * wpe[past[b] + t,:]) (+ wtt[types[b,t],:]). Its inputs are data, so it has no B. */
#include "graph/op_list.h"

/* The second input: starts, or types. */
static pst_status check_second(const pst_graph *g, const pst_node *node) {
    PST_TRY(pst_node_expect_i32(g, node, 1, 2));
    const pst_tensor *tokens = pst_node_in(g, node, 0), *second = pst_node_in(g, node, 1);
    if (second->dim[0] == tokens->dim[0] && second->dim[1] == tokens->dim[1]) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "embedding needs one %s per token, but %s is [%lu,%lu] and %s [%lu,%lu]",
                    node->n_param < 3 ? "start" : "type", second->name,
                    (unsigned long)second->dim[0], (unsigned long)second->dim[1], tokens->name,
                    (unsigned long)tokens->dim[0], (unsigned long)tokens->dim[1]);
}

static pst_status check_types(const pst_graph *g, const pst_node *node) {
    const pst_param *types = pst_node_param(g, node, 2);
    if (node->n_in < 2)
        return pst_fail(PST_EINPUT, "embedding needs the types of the tokens to use %s",
                        types->name);
    return pst_node_expect_param(g, node, 2, types->dim[0], pst_node_param(g, node, 0)->dim[1]);
}

static pst_status check_past(const pst_graph *g, const pst_node *node) {
    PST_TRY(pst_node_expect_i32(g, node, 1, 1));
    const pst_tensor *tokens = pst_node_in(g, node, 0), *past = pst_node_in(g, node, 1);
    if (past->dim[0] == tokens->dim[0]) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "embedding needs one number of earlier positions per sample, but %s has %lu "
                    "and %s %lu samples",
                    past->name, (unsigned long)past->dim[0], tokens->name,
                    (unsigned long)tokens->dim[0]);
}

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_i32(g, node, 0, 2));
    const pst_tensor *tokens = pst_node_in(g, node, 0);
    const pst_param *wte = pst_node_param(g, node, 0);
    if (wte->n_dim != 2)
        return pst_fail(PST_EINPUT, "embedding needs parameter %s of shape [vocabulary,channels]",
                        wte->name);
    if (node->n_param > 1) {
        const pst_param *wpe = pst_node_param(g, node, 1);
        PST_TRY(pst_node_expect_param(g, node, 1, wpe->dim[0], wte->dim[1]));
        if (wpe->dim[0] < tokens->dim[1])
            return pst_fail(PST_EINPUT, "%s has %lu positions, but %s has %lu", wpe->name,
                            (unsigned long)wpe->dim[0], tokens->name,
                            (unsigned long)tokens->dim[1]);
    }
    if (pst_node_has_types(node)) PST_TRY(check_types(g, node));
    if (node->n_in == 2)
        PST_TRY(pst_node_has_past(g, node) && !pst_node_has_types(node) ? check_past(g, node)
                                                                        : check_second(g, node));
    uint64_t dim[] = {tokens->dim[0], tokens->dim[1], wte->dim[1]};
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim));
    if (node->attr.wide) pst_node_out_wide(g, node);
    return PST_OK;
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    if (pass == PST_PASS_B) return 0;
    for (uint32_t i = 0; i < node->n_in; i++) out[n++] = pst_op_read(PST_ARG_IN, (uint8_t)i);
    if (pass == PST_PASS_F) {
        for (uint32_t i = 0; i < node->n_param; i++)
            out[n++] = pst_op_read(PST_ARG_PARAM, (uint8_t)i);
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
    } else {
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        for (uint32_t i = 0; i < node->n_param; i++) out[n++] = pst_op_accumulate((uint8_t)i);
    }
    return n;
}

static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *out = &g->tensor[node->out[0]];
    /* W reads and writes them */
    uint64_t rows_touched = pass == PST_PASS_F ? node->n_param : 2 * node->n_param;
    *flops = pst_tensor_elements(out) * (pass == PST_PASS_F ? node->n_param - 1 : node->n_param);
    *bytes = pst_tensor_bytes(pst_node_in(g, node, 0)) + pst_tensor_bytes(out) +
             pst_tensor_elements(out) * pst_dtype_bytes(g->dtype) * rows_touched;
}

const pst_op_row pst_op_embedding = {
    .name = "embedding",
    .min_in = 1,
    .max_in = 2,
    .min_param = 1,
    .max_param = 3,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
