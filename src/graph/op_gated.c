/* gated: silu(gate) * up, the product in SwiGLU (Shazeer 2020); silu(x) = x / (1 + exp(-x)). */
#include "graph/op_list.h"
#include <string.h>

static pst_status infer(pst_graph *g, pst_node *node) {
    for (uint32_t i = 0; i < 2; i++) PST_TRY(pst_node_expect_float(g, node, i, 0));
    const pst_tensor *gate = pst_node_in(g, node, 0), *up = pst_node_in(g, node, 1);
    if (gate->n_dim != up->n_dim || memcmp(gate->dim, up->dim, gate->n_dim * sizeof *gate->dim))
        return pst_fail(PST_EINPUT, "gated needs equal shapes, but %s and %s differ", gate->name,
                        up->name);
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, gate->n_dim, gate->dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass == PST_PASS_W) return 0;
    out[0] = pst_op_read(PST_ARG_IN, 0);
    out[1] = pst_op_read(PST_ARG_IN, 1);
    if (pass == PST_PASS_F) {
        out[2] = pst_op_reuse(PST_ARG_OUT, 0, 1);
        return 3;
    }
    out[2] = pst_op_read(PST_ARG_DOUT, 0);
    out[3] = pst_op_reuse(PST_ARG_DIN, 0, 0);
    out[4] = pst_op_reuse(PST_ARG_DIN, 1, 1);
    return 5;
}

static uint32_t restore(const pst_node *node, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    out[0] = pst_op_read(PST_ARG_IN, 0);
    out[1] = pst_op_read(PST_ARG_IN, 1);
    out[2] = pst_op_write(PST_ARG_OUT, 0);
    return 3;
}

/* An exponential counts as 8. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *gate = pst_node_in(g, node, 0);
    *flops = (pass == PST_PASS_F ? 11 : 17) * pst_tensor_elements(gate);
    *bytes = (pass == PST_PASS_F ? 3 : 5) * pst_tensor_bytes(gate);
}

const pst_op_row pst_op_gated = {
    .name = "gated",
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
    .restore = restore,
    .restore_kernel = "gated",
};
