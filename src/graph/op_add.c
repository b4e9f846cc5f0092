/* add: the residual sum of two tensors of one shape. Its backward passes the gradient on unchanged,
 * without a step. Only where input 1 has 16 bits and input 0, the residual stream, is F32, B
 * converts the gradient of input 1. */
#include "graph/op_list.h"
#include <string.h>

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_stream(g, node, 0, 0));
    const pst_tensor *a = pst_node_in(g, node, 0), *b = pst_node_in(g, node, 1);
    const int wide = a->dtype == PST_F32;
    PST_TRY(wide ? pst_node_expect_stream(g, node, 1, 0) : pst_node_expect_float(g, node, 1, 0));
    if (a->n_dim != b->n_dim || memcmp(a->dim, b->dim, a->n_dim * sizeof(a->dim[0])) != 0)
        return pst_fail(PST_EINPUT, "add needs equal shapes, but %s and %s differ", a->name,
                        b->name);
    node->attr.narrows = a->dtype != b->dtype;
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, a->n_dim, a->dim));
    if (wide) pst_node_out_wide(g, node);
    return PST_OK;
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    if (pass == PST_PASS_F) {
        out[0] = pst_op_read(PST_ARG_IN, 0);
        out[1] = pst_op_read(PST_ARG_IN, 1);
        out[2] = pst_op_reuse(PST_ARG_OUT, 0, node->attr.narrows ? 0 : 1);
        return 3;
    }
    if (pass == PST_PASS_W || !node->attr.narrows) return 0;
    out[0] = pst_op_read(PST_ARG_DOUT, 0);
    out[1] = pst_op_read(PST_ARG_SUM, 1);
    out[2] = pst_op_reuse(PST_ARG_DIN, 1, 1);
    return 3;
}

static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *a = pst_node_in(g, node, 0), *b = pst_node_in(g, node, 1);
    *flops = pass == PST_PASS_F ? pst_tensor_elements(a) : 0;
    *bytes = pass == PST_PASS_F ? 2 * pst_tensor_bytes(a) + pst_tensor_bytes(b) : 0;
    if (pass == PST_PASS_B && node->attr.narrows)
        *bytes = pst_tensor_bytes(a) + pst_tensor_bytes(b);
}

const pst_op_row pst_op_add = {
    .name = "add",
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .pass_through = 1,
    .cheap = 1,
};
