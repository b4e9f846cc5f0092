/* linear: y = act(x weight^T + bias), weight [N,K] as in torch.nn.Linear. With an activation,
 * saved0 keeps z (before it) from F to B, and saved1 carries dz = dy * act'(z) from B to W. */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 0));
    const pst_tensor *x = pst_node_in(g, node, 0);
    const pst_param *weight = pst_node_param(g, node, 0);
    uint64_t features = weight->dim[0];
    PST_TRY(pst_node_expect_param(g, node, 0, features, pst_tensor_columns(x)));
    if (node->n_param == 2) PST_TRY(pst_node_expect_param(g, node, 1, features, 0));
    if (node->attr.features == 0) node->attr.features = (uint32_t)features;
    if (node->attr.features != features)
        return pst_fail(PST_EINPUT, "linear: attribute features is %u, but %s has %lu rows",
                        node->attr.features, weight->name, (unsigned long)features);
    uint64_t dim[PST_MAX_DIM];
    for (uint32_t i = 0; i < x->n_dim; i++) dim[i] = x->dim[i];
    dim[x->n_dim - 1] = features;
    uint64_t elements = pst_tensor_rows(x) * features;
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, dim));
    if (node->attr.wide) {
        pst_node_out_wide(g, node);
        g->tensor[node->out[0]].grad = PST_GRAD_NARROW;
    }
    if (node->attr.activation == PST_ACT_NONE) return PST_OK;
    node->n_saved = 2;
    for (uint32_t i = 0; i < 2; i++) {
        node->saved[i].elements = elements;
        node->saved[i].dtype = g->dtype;
    }
    return PST_OK;
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    int active = node->attr.activation != PST_ACT_NONE;
    uint32_t n = 0;
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_read(PST_ARG_IN, 0);
        for (uint32_t i = 0; i < node->n_param; i++)
            out[n++] = pst_op_read(PST_ARG_PARAM, (uint8_t)i);
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        if (active) out[n++] = pst_op_write(PST_ARG_SAVED, 0);
    } else if (pass == PST_PASS_B) {
        out[n++] = pst_op_read(PST_ARG_PARAM, 0);
        if (active) out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        uint32_t dout = n;
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        if (active) out[n++] = pst_op_reuse(PST_ARG_SAVED, 1, dout);
        out[n++] = pst_op_write(PST_ARG_DIN, 0);
    } else {
        out[n++] = pst_op_read(PST_ARG_IN, 0);
        out[n++] = active ? pst_op_read(PST_ARG_SAVED, 1) : pst_op_read(PST_ARG_DOUT, 0);
        for (uint32_t i = 0; i < node->n_param; i++) out[n++] = pst_op_accumulate((uint8_t)i);
    }
    return n;
}

static uint32_t restore(const pst_node *node, pst_arg out[PST_MAX_ARG]) {
    if (node->attr.activation == PST_ACT_NONE) return 0;
    out[0] = pst_op_read(PST_ARG_SAVED, 0);
    out[1] = pst_op_write(PST_ARG_OUT, 0);
    return 2;
}

/* Bias and activation are lower order: they count as bytes only, so that FLOPs are those of the
 * product. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *x = pst_node_in(g, node, 0), *y = &g->tensor[node->out[0]];
    *flops = 2 * pst_tensor_elements(x) * pst_tensor_columns(y);
    *bytes =
        pst_tensor_bytes(x) + pst_tensor_bytes(y) + pst_param_bytes(g, pst_node_param(g, node, 0));
    if (node->attr.activation != PST_ACT_NONE && pass != PST_PASS_W)
        *bytes += pst_tensor_bytes(y) * (pass == PST_PASS_F ? 1 : 2);
    if (pass == PST_PASS_W) /* the fp32 accumulator is read and written */
        *bytes = pst_tensor_bytes(x) + pst_tensor_bytes(y) +
                 8 * pst_param_elements(pst_node_param(g, node, 0));
}

const pst_op_row pst_op_linear = {
    .name = "linear",
    .min_in = 1,
    .max_in = 1,
    .min_param = 1,
    .max_param = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .restore = restore,
    .restore_kernel = "activation",
};
