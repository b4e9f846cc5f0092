/* rms_norm over the last dimension (Zhang & Sennrich 2019): y = x * rstd * weight, where rstd =
 * 1/sqrt(mean(x^2) + eps). saved0 keeps rstd of each row. */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_stream(g, node, 0, 0));
    const pst_tensor *x = pst_node_in(g, node, 0);
    PST_TRY(pst_node_expect_param(g, node, 0, pst_tensor_columns(x), 0));
    if (!(node->attr.eps > 0)) return pst_fail(PST_EINPUT, "rms_norm needs eps > 0");
    node->n_saved = 1;
    node->saved[0].elements = pst_tensor_rows(x);
    node->saved[0].dtype = PST_F32;
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, x->dim));
    if (node->attr.wide) pst_node_out_wide(g, node);
    return PST_OK;
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    (void)node;
    out[n++] = pst_op_read(PST_ARG_IN, 0);
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_read(PST_ARG_PARAM, 0);
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 0);
    } else if (pass == PST_PASS_B) {
        out[n++] = pst_op_read(PST_ARG_PARAM, 0);
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        out[n++] = pst_op_read(PST_ARG_SUM, 0);
        out[n++] = pst_op_reuse(PST_ARG_DIN, 0, 4); /* W still reads DOUT, so that only SUM may be
                                                       overwritten */
    } else {
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        out[n++] = pst_op_accumulate(0);
    }
    return n;
}

/* Per element: F a sum of squares and a scale; B a projection and the sum; W a sum over rows. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    /* numbers of arrays of x's dtype (x, dx, sum) and of y's (y or dy) */
    static const struct {
        uint64_t flops, x, y;
    } per_pass[PST_PASS_COUNT] = {{4, 1, 1}, {9, 3, 1}, {3, 1, 1}};
    const pst_tensor *x = pst_node_in(g, node, 0), *y = &g->tensor[node->out[0]];
    *flops = per_pass[pass].flops * pst_tensor_elements(x);
    *bytes = per_pass[pass].x * pst_tensor_bytes(x) + per_pass[pass].y * pst_tensor_bytes(y);
}

const pst_op_row pst_op_rms_norm = {
    .name = "rms_norm",
    .min_in = 1,
    .max_in = 1,
    .min_param = 1,
    .max_param = 1,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
