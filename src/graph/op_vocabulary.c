/* vocabulary_part, vocabulary_loss: softmax cross-entropy of logits whose columns are split over
 * the tensor group. Each rank reduces its columns, or each of its blocks of columns
 * (graph/blocks.h), to three numbers per row; these are stacked (tensor_stack), and every rank
 * computes the loss from them in rank order: the same loss everywhere, and no logits are sent. */
#include "graph/op_list.h"

static pst_status expect_logits(const pst_graph *g, const pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 3));
    PST_TRY(pst_node_expect_i32(g, node, 1, 2));
    const pst_tensor *logits = pst_node_in(g, node, 0), *targets = pst_node_in(g, node, 1);
    if (targets->dim[0] != logits->dim[0] || targets->dim[1] != logits->dim[1])
        return pst_fail(PST_EINPUT, "%s needs one target per row of %s", node->op->name,
                        logits->name);
    if (node->attr.first + logits->dim[2] > node->attr.total)
        return pst_fail(PST_EINPUT, "%s: the columns of %s exceed the vocabulary of %lu tokens",
                        node->op->name, logits->name, (unsigned long)node->attr.total);
    return PST_OK;
}

static pst_status infer_part(pst_graph *g, pst_node *node) {
    PST_TRY(expect_logits(g, node));
    const pst_tensor *targets = pst_node_in(g, node, 1);
    uint64_t own = node->attr.blocks.n ? node->attr.blocks.own : 1;
    uint64_t dim[] = {targets->dim[0], targets->dim[1], 3 * own};
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim));
    g->tensor[node->out[0]].dtype = PST_F32;
    return PST_OK;
}

static pst_status infer_loss(pst_graph *g, pst_node *node) {
    PST_TRY(expect_logits(g, node));
    const pst_tensor *targets = pst_node_in(g, node, 1), *parts = pst_node_in(g, node, 2);
    if (parts->dtype != PST_F32 || parts->n_dim != 3 || parts->dim[2] == 0 || parts->dim[2] % 3 ||
        parts->dim[0] != targets->dim[0] || parts->dim[1] != targets->dim[1])
        return pst_fail(
            PST_EINPUT,
            "%s needs an input [batch, context, 3 x tensor ranks] in fp32; %s has another "
            "shape or type",
            node->op->name, parts->name);
    node->n_saved = 1;
    node->saved[0].elements = pst_tensor_elements(targets);
    node->saved[0].dtype = PST_F32;
    return pst_graph_out(g, node, PST_TENSOR_OUTPUT, 2, targets->dim);
}

static uint32_t args_part(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass != PST_PASS_F) return 0;
    out[0] = pst_op_read(PST_ARG_IN, 0);
    out[1] = pst_op_read(PST_ARG_IN, 1);
    out[2] = pst_op_write(PST_ARG_OUT, 0);
    return 3;
}

static uint32_t args_loss(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    uint32_t n = 0;
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_read(PST_ARG_IN, 1);
        out[n++] = pst_op_read(PST_ARG_IN, 2);
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 0);
    } else if (pass == PST_PASS_B) {
        out[n++] = pst_op_read(PST_ARG_IN, 0);
        out[n++] = pst_op_read(PST_ARG_IN, 1);
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n] = pst_op_reuse(PST_ARG_DIN, 0, 0);
        out[n++].must = 1;
    }
    return n;
}

/* FLOPs as in cross_entropy. */
static void cost_part(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                      uint64_t *bytes) {
    const pst_tensor *logits = pst_node_in(g, node, 0);
    *flops = pass == PST_PASS_F ? 12 * pst_tensor_elements(logits) : 0;
    *bytes = pass == PST_PASS_F ? pst_tensor_bytes(logits) : 0;
}

static void cost_loss(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                      uint64_t *bytes) {
    const pst_tensor *logits = pst_node_in(g, node, 0), *parts = pst_node_in(g, node, 2);
    *flops =
        pass == PST_PASS_F ? 12 * pst_tensor_elements(parts) / 3 : 13 * pst_tensor_elements(logits);
    *bytes = pass == PST_PASS_F ? pst_tensor_bytes(parts) : 2 * pst_tensor_bytes(logits);
}

const pst_op_row pst_op_vocabulary_part = {
    .name = "vocabulary_part",
    .min_in = 2,
    .max_in = 2,
    .infer = infer_part,
    .args = args_part,
    .cost = cost_part,
};

const pst_op_row pst_op_vocabulary_loss = {
    .name = "vocabulary_loss",
    .min_in = 3,
    .max_in = 3,
    .infer = infer_loss,
    .args = args_loss,
    .cost = cost_loss,
};
