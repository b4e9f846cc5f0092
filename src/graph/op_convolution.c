/* convolution: images [b,H,W,C] with their channels last; y[n,oy,ox,o] = bias[o] + the sum over ky,
 * kx, c of x[n, oy stride + ky - padding, ox stride + kx - padding, c] weight[o,ky,kx,c], 0 outside
 * of the image. */
#include "graph/op_list.h"

/* Number of positions of a window along `size` pixels; 0 when it does not fit. */
static uint64_t window_places(const pst_attr *attr, uint64_t size, uint64_t window) {
    uint64_t wide = size + 2 * (uint64_t)attr->padding;
    return attr->stride && wide >= window ? (wide - window) / attr->stride + 1 : 0;
}

pst_status pst_node_image_out(pst_graph *g, pst_node *node, uint64_t height, uint64_t width,
                              uint64_t channels) {
    const pst_tensor *x = pst_node_in(g, node, 0);
    uint64_t dim[] = {x->dim[0], window_places(&node->attr, x->dim[1], height),
                      window_places(&node->attr, x->dim[2], width), channels};
    if (!node->attr.stride) return pst_fail(PST_EINPUT, "%s needs stride > 0", node->op->name);
    if (node->attr.padding >= height || node->attr.padding >= width)
        return pst_fail(PST_EINPUT,
                        "%s: padding %u must be smaller than the window of %lux%lu over %s",
                        node->op->name, node->attr.padding, (unsigned long)height,
                        (unsigned long)width, x->name);
    if (!dim[1] || !dim[2])
        return pst_fail(
            PST_EINPUT,
            "a window of %lux%lu does not fit into %s, which is %lux%lu with padding %u",
            (unsigned long)height, (unsigned long)width, x->name, (unsigned long)x->dim[1],
            (unsigned long)x->dim[2], node->attr.padding);
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 4, dim);
}

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 4));
    const pst_tensor *x = pst_node_in(g, node, 0);
    const pst_param *weight = pst_node_param(g, node, 0);
    if (weight->n_dim != 4 || weight->dim[3] != x->dim[3])
        return pst_fail(PST_EINPUT,
                        "convolution of %s, which has %lu channels, needs a weight "
                        "[out,height,width,%lu]; %s has another shape",
                        x->name, (unsigned long)x->dim[3], (unsigned long)x->dim[3], weight->name);
    if (node->n_param == 2) PST_TRY(pst_node_expect_param(g, node, 1, weight->dim[0], 0));
    return pst_node_image_out(g, node, weight->dim[1], weight->dim[2], weight->dim[0]);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    uint32_t n = 0;
    if (pass == PST_PASS_F) {
        out[n++] = pst_op_read(PST_ARG_IN, 0);
        for (uint32_t i = 0; i < node->n_param; i++)
            out[n++] = pst_op_read(PST_ARG_PARAM, (uint8_t)i);
        out[n++] = pst_op_write(PST_ARG_OUT, 0);
    } else if (pass == PST_PASS_B) {
        out[n++] = pst_op_read(PST_ARG_PARAM, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        out[n++] = pst_op_write(PST_ARG_DIN, 0);
    } else {
        out[n++] = pst_op_read(PST_ARG_IN, 0);
        out[n++] = pst_op_read(PST_ARG_DOUT, 0);
        for (uint32_t i = 0; i < node->n_param; i++) out[n++] = pst_op_accumulate((uint8_t)i);
    }
    return n;
}

/* FLOPs of the product of all windows and the weight, padding included. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *x = pst_node_in(g, node, 0), *y = &g->tensor[node->out[0]];
    const pst_param *weight = pst_node_param(g, node, 0);
    uint64_t terms = pst_param_elements(weight) / weight->dim[0];
    if (__builtin_mul_overflow(2 * pst_tensor_elements(y), terms, flops)) *flops = UINT64_MAX;
    *bytes = pst_tensor_bytes(x) + pst_tensor_bytes(y);
    *bytes += pass == PST_PASS_W ? 8 * pst_param_elements(weight) : pst_param_bytes(g, weight);
}

const pst_op_row pst_op_convolution = {
    .name = "convolution",
    .min_in = 1,
    .max_in = 1,
    .min_param = 1,
    .max_param = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .image = 1,
};
