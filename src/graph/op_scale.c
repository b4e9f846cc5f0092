/* scale: the input times attr.factor. */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 0));
    const pst_tensor *x = pst_node_in(g, node, 0);
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, x->dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass == PST_PASS_W) return 0;
    out[0] = pst_op_read(pass == PST_PASS_F ? PST_ARG_IN : PST_ARG_DOUT, 0);
    out[1] = pst_op_reuse(pass == PST_PASS_F ? PST_ARG_OUT : PST_ARG_DIN, 0, 0);
    return 2;
}

static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    (void)pass;
    *flops = pst_tensor_elements(pst_node_in(g, node, 0));
    *bytes = 2 * pst_tensor_bytes(pst_node_in(g, node, 0));
}

const pst_op_row pst_op_scale = {
    .name = "scale",
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
