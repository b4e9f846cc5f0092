/* gather_rows: out[b,p,:] = x[b,positions[b,p],:], zeros where the position is negative; without
 * positions the first row of each sample, such as that of [CLS]. The operators after it compute a
 * few positions instead of all. B adds the gradients of the rows to that of x. */
#include "graph/op_list.h"

static pst_status check_positions(const pst_graph *g, const pst_node *node) {
    PST_TRY(pst_node_expect_i32(g, node, 1, 2));
    const pst_tensor *x = pst_node_in(g, node, 0), *positions = pst_node_in(g, node, 1);
    if (positions->dim[0] == x->dim[0]) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "gather_rows needs positions for each sample, but %s is [%lu,%lu] and %s has "
                    "%lu samples",
                    positions->name, (unsigned long)positions->dim[0],
                    (unsigned long)positions->dim[1], x->name, (unsigned long)x->dim[0]);
}

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_stream(g, node, 0, 3));
    if (node->n_in > 1) PST_TRY(check_positions(g, node));
    const pst_tensor *x = pst_node_in(g, node, 0);
    const uint64_t rows = node->n_in > 1 ? pst_node_in(g, node, 1)->dim[1] : 1;
    if (node->attr.total && node->attr.first + x->dim[1] > node->attr.total)
        return pst_fail(PST_EINPUT, "gather_rows: the positions of %s exceed the sequence of %lu",
                        x->name, (unsigned long)node->attr.total);
    const uint64_t dim[] = {x->dim[0], rows, x->dim[2]};
    const pst_dtype dtype = x->dtype;
    PST_TRY(pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim));
    g->tensor[node->out[0]].dtype = dtype;
    return PST_OK;
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    if (pass == PST_PASS_W) return 0;
    if (pass == PST_PASS_F) out[n++] = pst_op_read(PST_ARG_IN, 0);
    if (node->n_in > 1) out[n++] = pst_op_read(PST_ARG_IN, 1);
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
        return n;
    }
    out[n++] = pst_op_read(PST_ARG_DOUT, 0);
    const uint32_t sum = n;
    out[n++] = pst_op_read(PST_ARG_SUM, 0);
    out[n++] = pst_op_reuse(PST_ARG_DIN, 0, sum);
    return n;
}

/* F copies rows; B writes the gradient of x, and adds rows to it. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *x = pst_node_in(g, node, 0), *y = &g->tensor[node->out[0]];
    *flops = pass == PST_PASS_B ? pst_tensor_elements(y) : 0;
    *bytes = 2 * pst_tensor_bytes(y);
    if (pass == PST_PASS_B) *bytes += pst_tensor_bytes(y) + 2 * pst_tensor_bytes(x);
}

const pst_op_row pst_op_gather_rows = {
    .name = "gather_rows",
    .min_in = 1,
    .max_in = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
