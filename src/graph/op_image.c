/* Operators of images without parameters:
 *  pixels        bytes [b,H,W,C] as int32 become x / 127.5 - 1, in the graph's type; without
 *                gradient
 *  max_pool      the largest of each window of attr.window x attr.window pixels, the first if
 *                several are equal
 *  average_pool  the mean over all pixels: [b,H,W,C] becomes [b,1,C], a row for what follows */
#include "graph/op_list.h"

static pst_status infer_pixels(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_i32(g, node, 0, 4));
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 4, pst_node_in(g, node, 0)->dim);
}

static uint32_t args_pixels(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass != PST_PASS_F) return 0;
    out[0] = pst_op_read(PST_ARG_IN, 0);
    out[1] = pst_op_write(PST_ARG_OUT, 0);
    return 2;
}

static pst_status infer_max(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 4));
    uint64_t window = node->attr.window;
    if (!window) return pst_fail(PST_EINPUT, "max_pool needs window > 0");
    return pst_node_image_out(g, node, window, window, pst_node_in(g, node, 0)->dim[3]);
}

/* B searches the largest again, so that nothing is saved: it reads the input, which is kept for
 * other operators anyway. */
static uint32_t args_max(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    uint32_t n = 0;
    if (pass == PST_PASS_W) return 0;
    out[n++] = pst_op_read(PST_ARG_IN, 0);
    if (pass == PST_PASS_B) out[n++] = pst_op_read(PST_ARG_DOUT, 0);
    out[n++] = pass == PST_PASS_F ? pst_op_write(PST_ARG_OUT, 0) : pst_op_write(PST_ARG_DIN, 0);
    return n;
}

static pst_status infer_average(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 4));
    const pst_tensor *x = pst_node_in(g, node, 0);
    uint64_t dim[] = {x->dim[0], 1, x->dim[3]};
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, dim);
}

static uint32_t args_average(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    (void)node;
    if (pass == PST_PASS_W) return 0;
    out[0] = pass == PST_PASS_F ? pst_op_read(PST_ARG_IN, 0) : pst_op_read(PST_ARG_DOUT, 0);
    out[1] = pass == PST_PASS_F ? pst_op_write(PST_ARG_OUT, 0) : pst_op_write(PST_ARG_DIN, 0);
    return 2;
}

static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *x = pst_node_in(g, node, 0), *y = &g->tensor[node->out[0]];
    uint64_t window = node->attr.window ? node->attr.window : 1;
    *flops = pst_tensor_elements(x) + window * window * pst_tensor_elements(y);
    *bytes = (pass == PST_PASS_B && node->attr.window ? 2 : 1) * pst_tensor_bytes(x) +
             pst_tensor_bytes(y);
}

const pst_op_row pst_op_pixels = {.name = "pixels",
                                  .min_in = 1,
                                  .max_in = 1,
                                  .infer = infer_pixels,
                                  .args = args_pixels,
                                  .cost = cost,
                                  .cheap = 1,
                                  .image = 1};
const pst_op_row pst_op_max_pool = {.name = "max_pool",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .infer = infer_max,
                                    .args = args_max,
                                    .cost = cost,
                                    .cheap = 1,
                                    .image = 1};
const pst_op_row pst_op_average_pool = {.name = "average_pool",
                                        .min_in = 1,
                                        .max_in = 1,
                                        .infer = infer_average,
                                        .args = args_average,
                                        .cost = cost,
                                        .cheap = 1,
                                        .image = 1};
