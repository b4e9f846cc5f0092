/* pick: rows of each sample: out[b,k,:] = x[b,at[b,k],:]. For generation, which needs the logits of
 * the last position only: it has no derivative. */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 3));
    PST_TRY(pst_node_expect_i32(g, node, 1, 2));
    const pst_tensor *x = pst_node_in(g, node, 0), *at = pst_node_in(g, node, 1);
    if (at->dim[0] != x->dim[0])
        return pst_fail(PST_EINPUT, "pick: %s has %lu samples, but %s has %lu", x->name,
                        (unsigned long)x->dim[0], at->name, (unsigned long)at->dim[0]);
    uint64_t dim[] = {x->dim[0], at->dim[1], x->dim[2]};
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass != PST_PASS_F) return 0;
    out[0] = pst_op_read(PST_ARG_IN, 0);
    out[1] = pst_op_read(PST_ARG_IN, 1);
    out[2] = pst_op_write(PST_ARG_OUT, 0);
    return 3;
}

static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    (void)pass;
    *flops = 0;
    *bytes = 2 * pst_tensor_bytes(&g->tensor[node->out[0]]);
}

const pst_op_row pst_op_pick = {
    .name = "pick",
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .forward_only = 1,
    .cheap = 1,
};
