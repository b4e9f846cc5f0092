/* cross_entropy: per token log-sum-exp(logits) - logits[target]; 0 where the target is negative.
 * Gradients start here: B reads none. It overwrites the logits with dlogits; no later step reads
 * the logits (the tape checks that). */
#include "graph/op_list.h"

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 3));
    PST_TRY(pst_node_expect_i32(g, node, 1, 2));
    const pst_tensor *logits = pst_node_in(g, node, 0), *targets = pst_node_in(g, node, 1);
    if (targets->dim[0] != logits->dim[0] || targets->dim[1] != logits->dim[1])
        return pst_fail(
            PST_EINPUT,
            "cross_entropy needs one target per row, but %s is [%lu,%lu] and %s [%lu,%lu,%lu]",
            targets->name, (unsigned long)targets->dim[0], (unsigned long)targets->dim[1],
            logits->name, (unsigned long)logits->dim[0], (unsigned long)logits->dim[1],
            (unsigned long)logits->dim[2]);
    if (!(node->attr.smoothing < 1))
        return pst_fail(PST_EINPUT, "cross_entropy needs 0 <= smoothing < 1");
    if (node->attr.per_sample > 1)
        return pst_fail(PST_EINPUT, "cross_entropy: per_sample is %u; it must be 0 or 1",
                        node->attr.per_sample);
    if (node->attr.hits > 1)
        return pst_fail(PST_EINPUT, "cross_entropy: hits is %u; it must be 0 or 1",
                        node->attr.hits);
    node->n_saved = 1;
    node->saved[0].elements = pst_tensor_rows(logits);
    node->saved[0].dtype = PST_F32;
    const uint64_t dim[] = {logits->dim[0], logits->dim[1]};
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_OUTPUT, 2, dim));
    return node->attr.hits ? pst_graph_out(g, node, PST_TENSOR_OUTPUT, 2, dim) : PST_OK;
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    if (pass == PST_PASS_W) return 0;
    uint32_t n = 0;
    out[n++] = pst_op_read(PST_ARG_IN, 0);
    out[n++] = pst_op_read(PST_ARG_IN, 1);
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 0);
        if (node->attr.hits) out[n++] = pst_op_write(PST_ARG_OUT, 1);
    } else {
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n] = pst_op_reuse(PST_ARG_DIN, 0, 0);
        out[n++].must = 1;
    }
    return n;
}

/* An exponential counts as 10 FLOPs. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *logits = pst_node_in(g, node, 0);
    *flops = (pass == PST_PASS_F ? 12 : 13) * pst_tensor_elements(logits);
    *bytes = (pass == PST_PASS_F ? 1 : 2) * pst_tensor_bytes(logits);
}

const pst_op_row pst_op_cross_entropy = {
    .name = "cross_entropy",
    .min_in = 2,
    .max_in = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
};
