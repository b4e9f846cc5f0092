/* activation: act(z) element by element, where it cannot be a part of the linear before it because
 * something is added in between (graph/adapt.h). */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 0));
    const pst_tensor *z = pst_node_in(g, node, 0);
    if (node->attr.activation == PST_ACT_NONE)
        return pst_fail(PST_EINPUT, "activation needs an activation function");
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, z->n_dim, z->dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass == PST_PASS_W) return 0;
    out[0] = pst_op_read(PST_ARG_IN, 0);
    if (pass == PST_PASS_F) {
        out[1] = pst_op_write(PST_ARG_OUT, 0);
        return 2;
    }
    out[1] = pst_op_read(PST_ARG_DOUT, 0);
    out[2] = pst_op_reuse(PST_ARG_DIN, 0, 1);
    return 3;
}

/* B reads the input anyway. */
static uint32_t restore(const pst_node *node, pst_arg out[PST_MAX_ARG]) {
    return args(node, PST_PASS_F, out);
}

/* An exponential counts as 8. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *z = pst_node_in(g, node, 0);
    *flops = (pass == PST_PASS_F ? 14 : 20) * pst_tensor_elements(z);
    *bytes = (pass == PST_PASS_F ? 2 : 3) * pst_tensor_bytes(z);
}

const pst_op_row pst_op_activation = {
    .name = "activation",
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
    .restore = restore,
    .restore_kernel = "activation",
};
