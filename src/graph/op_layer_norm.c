/* layer_norm over the last dimension (Ba, Kiros & Hinton 2016): y = (x - mean) * rstd * weight +
 * bias. saved0 keeps (mean, rstd) of each row. */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 0));
    const pst_tensor *x = pst_node_in(g, node, 0);
    for (uint32_t i = 0; i < 2; i++)
        PST_TRY(pst_node_expect_param(g, node, i, pst_tensor_columns(x), 0));
    if (!(node->attr.eps > 0)) return pst_fail(PST_EINPUT, "layer_norm needs eps > 0");
    node->n_saved = 1;
    node->saved[0].elements = 2 * pst_tensor_rows(x);
    node->saved[0].dtype = PST_F32;
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, x->dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    uint32_t n = 0;
    out[n++] = pst_op_read(PST_ARG_IN, 0);
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_read(PST_ARG_PARAM, 0);
        out[n++] = pst_op_read(PST_ARG_PARAM, 1);
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 0);
    } else if (pass == PST_PASS_B) {
        out[n++] = pst_op_read(PST_ARG_PARAM, 0);
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        uint32_t sum = n;
        out[n++] = pst_op_read(PST_ARG_SUM, 0);
        out[n++] = pst_op_reuse(PST_ARG_DIN, 0, sum); /* DOUT is still wanted by W, so SUM is the
                                                          one to offer */
    } else {
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        out[n++] = pst_op_accumulate(0);
        out[n++] = pst_op_accumulate(1);
    }
    return n;
}

/* Per element: F two sums, a scale and a shift; B two projections and the sum; W two sums over
 * rows. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    static const struct {
        uint64_t flops, arrays;
    } per_pass[PST_PASS_COUNT] = {{8, 2}, {13, 4}, {5, 2}};
    const pst_tensor *x = pst_node_in(g, node, 0);
    *flops = per_pass[pass].flops * pst_tensor_elements(x);
    *bytes = per_pass[pass].arrays * pst_tensor_bytes(x);
}

const pst_op_row pst_op_layer_norm = {
    .name = "layer_norm",
    .min_in = 1,
    .max_in = 1,
    .min_param = 2,
    .max_param = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
