/* batch_norm over all but the last dimension (Ioffe & Szegedy 2015), with the sum of a residual
 * branch and an activation in the same pass: y = act((x - mean) * rstd * weight + bias [+ z]).
 *
 * While training, mean and variance are those of the micro-batch; saved0 keeps (mean [C], rstd
 * [C]). Evaluation takes the running ones, parameters 2 and 3. They are statistics
 * (pst_param.statistic): what W adds to their accumulators is the micro-batch's mean and unbiased
 * variance, and the step moves them towards the mean of these over all its micro-batches. So
 * recomputing F does not count twice, and all layouts give the same bits. In saved1, B keeps for W
 * the sums over rows of dy' * (x - mean) * rstd and of dy', where dy' is the gradient before the
 * activation. */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 0));
    const pst_tensor *x = pst_node_in(g, node, 0);
    uint64_t channels = pst_tensor_columns(x);
    if (node->n_in == 2) {
        PST_TRY(pst_node_expect_float(g, node, 1, x->n_dim));
        const pst_tensor *z = pst_node_in(g, node, 1);
        for (uint32_t i = 0; i < x->n_dim; i++)
            if (z->dim[i] != x->dim[i])
                return pst_fail(PST_EINPUT, "batch_norm cannot add %s to %s: their shapes differ",
                                z->name, x->name);
    }
    for (uint32_t i = 0; i < 4; i++) PST_TRY(pst_node_expect_param(g, node, i, channels, 0));
    if (!(node->attr.eps > 0)) return pst_fail(PST_EINPUT, "batch_norm needs eps > 0");
    if (node->attr.activation != PST_ACT_NONE && node->attr.activation != PST_ACT_RELU)
        return pst_fail(PST_EINPUT, "batch_norm supports no activation other than relu");
    if (pst_tensor_rows(x) < 2)
        return pst_fail(PST_EINPUT,
                        "batch_norm: %s has one value per channel; the variance needs at least two",
                        x->name);
    node->n_saved = 2;
    for (uint32_t i = 0; i < 2; i++) {
        node->saved[i].elements = 2 * channels;
        node->saved[i].dtype = PST_F32;
    }
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, x->dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    if (pass == PST_PASS_F) {
        for (uint32_t i = 0; i < node->n_in; i++) out[n++] = pst_op_read(PST_ARG_IN, (uint8_t)i);
        for (uint32_t i = 0; i < 4; i++) out[n++] = pst_op_read(PST_ARG_PARAM, (uint8_t)i);
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 0);
    } else if (pass == PST_PASS_B) {
        out[n++] = pst_op_read(PST_ARG_IN, 0);
        out[n++] = pst_op_read(PST_ARG_PARAM, 0);
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        if (node->attr.activation != PST_ACT_NONE) out[n++] = pst_op_read(PST_ARG_OUT, 0);
        uint32_t dout = n;
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 1);
        if (node->n_in == 2) out[n++] = pst_op_write(PST_ARG_DIN, 0);
        out[n] = pst_op_reuse(PST_ARG_DIN, (uint8_t)(node->n_in - 1), dout);
        n++;
    } else {
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n++] = pst_op_read(PST_ARG_SAVED, 1);
        for (uint32_t i = 0; i < 4; i++) out[n++] = pst_op_accumulate((uint8_t)i);
    }
    return n;
}

/* F reads x for the mean, for the variance and for y; B twice for the sums and for dx. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *x = pst_node_in(g, node, 0);
    uint64_t extra =
        node->n_in - 1 + (pass == PST_PASS_B && node->attr.activation != PST_ACT_NONE ? 2 : 0);
    uint64_t reads = (pass == PST_PASS_F ? 4 : 5) + extra;
    *flops = pass == PST_PASS_W ? 4 * pst_tensor_columns(x) : 10 * pst_tensor_elements(x);
    *bytes = pass == PST_PASS_W ? 48 * pst_tensor_columns(x) : reads * pst_tensor_bytes(x);
}

const pst_op_row pst_op_batch_norm = {
    .name = "batch_norm",
    .min_in = 1,
    .max_in = 2,
    .min_param = 4,
    .max_param = 4,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
    .image = 1,
    .statistics = 1 << 2 | 1 << 3,
};
