/* narrow: converts the residual stream from F32 to the graph's 16 bits, for matrix products that
 * read it directly. B adds its gradient to that of the stream. In F32 graphs it is a copy. */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    const pst_tensor *x = pst_node_in(g, node, 0);
    if (x->dtype != PST_F32)
        return pst_fail(PST_EINPUT, "narrow needs F32, but input %s is %s", x->name,
                        pst_dtype_name(x->dtype));
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, x->dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass == PST_PASS_F) {
        out[0] = pst_op_read(PST_ARG_IN, 0);
        out[1] = pst_op_write(PST_ARG_OUT, 0);
        return 2;
    }
    if (pass == PST_PASS_W) return 0;
    out[0] = pst_op_read(PST_ARG_DOUT, 0);
    out[1] = pst_op_read(PST_ARG_SUM, 0);
    out[2] = pst_op_reuse(PST_ARG_DIN, 0, 1);
    return 3;
}

static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *x = pst_node_in(g, node, 0), *y = &g->tensor[node->out[0]];
    *flops = pass == PST_PASS_B ? pst_tensor_elements(x) : 0;
    *bytes = (pass == PST_PASS_B ? 2 : 1) * pst_tensor_bytes(x) + pst_tensor_bytes(y);
}

const pst_op_row pst_op_narrow = {
    .name = "narrow",
    .min_in = 1,
    .max_in = 1,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
