/* layer_norm over the last dimension (Ba, Kiros & Hinton 2016): y = (x - mean) * rstd * weight +
 * bias. saved0 keeps (mean, rstd) of each row. rms_norm (Zhang & Sennrich 2019) has no mean and no
 * bias: y = x * rstd * weight, where rstd = 1/sqrt(mean(x^2) + eps); saved0 keeps rstd of each row.
 * With attr.sum_parts of a layer_norm, B keeps in saved1, for each
 * part of the rows, the sums of dy and of dy * (x - mean) * rstd, which W adds up to the
 * parameters' gradients. */
#include "graph/op_list.h"
#include <string.h>

/* At most two parts for each multiprocessor of a GPU with 132, and in each so many rows that its
 * sums are small beside them. */
enum { MOST_PARTS = 264, LEAST_ROWS = 8 };

static void leave_sums(const pst_graph *g, pst_node *node, uint32_t parts) {
    node->attr.sum_parts = parts;
    node->n_saved = parts ? 2 : 1;
    node->saved[1].elements = 2 * parts * pst_tensor_columns(pst_node_in(g, node, 0));
    node->saved[1].dtype = PST_F32;
}

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_stream(g, node, 0, 0));
    const pst_tensor *x = pst_node_in(g, node, 0);
    for (uint32_t i = 0; i < node->n_param; i++)
        PST_TRY(pst_node_expect_param(g, node, i, pst_tensor_columns(x), 0));
    if (!(node->attr.eps > 0)) return pst_fail(PST_EINPUT, "%s needs eps > 0", node->op->name);
    leave_sums(g, node, node->attr.sum_parts);
    node->saved[0].elements = node->n_param * pst_tensor_rows(x);
    node->saved[0].dtype = PST_F32;
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, x->n_dim, x->dim));
    if (node->attr.wide) pst_node_out_wide(g, node);
    return PST_OK;
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    if (pass != PST_PASS_W || !node->attr.sum_parts) out[n++] = pst_op_read(PST_ARG_IN, 0);
    if (pass == PST_PASS_F) {
        for (uint8_t i = 0; i < node->n_param; i++) out[n++] = pst_op_read(PST_ARG_PARAM, i);
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        out[n++] = pst_op_write(PST_ARG_SAVED, 0);
    } else if (pass == PST_PASS_B) {
        out[n++] = pst_op_read(PST_ARG_PARAM, 0);
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        uint32_t sum = n;
        out[n++] = pst_op_read(PST_ARG_SUM, 0);
        out[n++] = pst_op_reuse(PST_ARG_DIN, 0, sum); /* W still reads DOUT, so that only SUM may be
                                                         overwritten */
        if (node->attr.sum_parts) out[n++] = pst_op_write(PST_ARG_SAVED, 1);
    } else if (node->attr.sum_parts) {
        out[n++] = pst_op_read(PST_ARG_SAVED, 1);
        out[n++] = pst_op_accumulate(0);
        out[n++] = pst_op_accumulate(1);
    } else {
        out[n++] = pst_op_read(PST_ARG_SAVED, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        for (uint8_t i = 0; i < node->n_param; i++) out[n++] = pst_op_accumulate(i);
    }
    return n;
}

/* Per element of a layer_norm: F two sums, a scale and a shift; B two projections and the sum; W
 * two sums over rows, which B may do in W's place. rms_norm: F a sum of squares and a scale; B one
 * projection and the sum; W one sum. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    /* numbers of arrays of x's dtype (x, dx, sum) and of y's (y or dy) */
    static const struct {
        uint64_t flops, rms_flops, x, y;
    } per_pass[PST_PASS_COUNT] = {{8, 4, 1, 1}, {13, 9, 3, 1}, {5, 3, 1, 1}};
    const pst_tensor *x = pst_node_in(g, node, 0), *y = &g->tensor[node->out[0]];
    *flops = (node->n_param > 1 ? per_pass[pass].flops : per_pass[pass].rms_flops) *
             pst_tensor_elements(x);
    *bytes = per_pass[pass].x * pst_tensor_bytes(x) + per_pass[pass].y * pst_tensor_bytes(y);
    if (!node->attr.sum_parts || pass == PST_PASS_F) return;
    uint64_t sums = node->saved[1].elements;
    *flops =
        pass == PST_PASS_W ? sums : *flops + per_pass[PST_PASS_W].flops * pst_tensor_elements(x);
    *bytes = pass == PST_PASS_W ? sums * sizeof(float) : *bytes + sums * sizeof(float);
}

static int is_trained(const pst_graph *g, uint32_t tensor) {
    const uint32_t from = g->tensor[tensor].producer;
    return from != PST_NONE && pst_node_is_trained(g, &g->node[from]);
}

/* Whether this node has a B: its input depends on parameters. Follows the first inputs, and looks
 * at the producers of the others, which ends at once in a residual stream; where that misses some,
 * W reads the rows. */
static int has_backward(const pst_graph *g, uint32_t tensor) {
    while (g->tensor[tensor].producer != PST_NONE) {
        const pst_node *from = &g->node[g->tensor[tensor].producer];
        if (pst_node_is_trained(g, from)) return 1;
        for (uint32_t k = 1; k < from->n_in; k++)
            if (is_trained(g, from->in[k])) return 1;
        tensor = from->in[0];
    }
    return 0;
}

void pst_graph_leave_sums(pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++) {
        pst_node *node = &g->node[i];
        if (strcmp(node->op->name, "layer_norm") != 0 || !has_backward(g, node->in[0])) continue;
        uint64_t rows = pst_tensor_rows(pst_node_in(g, node, 0));
        uint64_t each = (rows + MOST_PARTS - 1) / MOST_PARTS;
        if (each < LEAST_ROWS) each = LEAST_ROWS;
        leave_sums(g, node, (uint32_t)((rows + each - 1) / each));
    }
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
