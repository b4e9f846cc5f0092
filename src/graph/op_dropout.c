/* dropout (Srivastava et al. 2014), scaled by 1/(1-rate). The mask is a function of (seed, name,
 * global sample): B computes it again, nothing is saved. */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_stream(g, node, 0, 0));
    if (!(node->attr.rate < 1)) return pst_fail(PST_EINPUT, "dropout needs 0 <= rate < 1");
    const pst_tensor *x = pst_node_in(g, node, 0);
    const pst_dtype type = x->dtype;
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, x->dim));
    g->tensor[node->out[0]].dtype = type;
    return PST_OK;
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass == PST_PASS_W) return 0;
    out[0] = pst_op_read(pass == PST_PASS_F ? PST_ARG_IN : PST_ARG_DOUT, 0);
    out[1] = pst_op_reuse(pass == PST_PASS_F ? PST_ARG_OUT : PST_ARG_DIN, 0, 0);
    return 2;
}

/* The random generator dominates: ten rounds for four elements. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    (void)pass;
    *flops = 12 * pst_tensor_elements(pst_node_in(g, node, 0));
    *bytes = 2 * pst_tensor_bytes(pst_node_in(g, node, 0));
}

const pst_op_row pst_op_dropout = {
    .name = "dropout",
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
