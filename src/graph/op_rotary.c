/* rotary: turns the queries or keys of each head by their position (Su et al. 2021), in pairs of
 * channels i and i + D/2 of a head of D. The backward pass turns gradients back. */
#include "graph/op_list.h"
#include <math.h>

static pst_status check_rope(const pst_rope *r) {
    const int stretched = r->scaling != PST_ROPE_PLAIN,
              ramps = r->scaling == PST_ROPE_LLAMA3 || r->scaling == PST_ROPE_YARN;
    if (!(r->theta > 1) || !isfinite(r->theta))
        return pst_fail(PST_EINPUT, "rotary needs theta > 1, found %g", (double)r->theta);
    if ((uint32_t)r->scaling > PST_ROPE_YARN)
        return pst_fail(PST_EINPUT, "rotary: unknown scaling %d", (int)r->scaling);
    if (stretched && !(r->factor >= 1 && isfinite(r->factor)))
        return pst_fail(PST_EINPUT, "rotary with scaling %s needs a factor >= 1, found %g",
                        pst_rope_scaling_name(r->scaling), (double)r->factor);
    if (ramps && !(r->low > 0 && r->high > 0 && r->context > 0 && isfinite(r->low + r->high)))
        return pst_fail(PST_EINPUT, "rotary with scaling %s needs low, high and context above 0",
                        pst_rope_scaling_name(r->scaling));
    if (ramps && !(r->low < r->high))
        return pst_fail(PST_EINPUT, "rotary with scaling %s needs low (%g) below high (%g)",
                        pst_rope_scaling_name(r->scaling), (double)r->low, (double)r->high);
    if (!isfinite(r->attention) || signbit(r->attention))
        return pst_fail(PST_EINPUT, "rotary: attention must be finite and >= 0");
    return PST_OK;
}

static pst_status check_starts(const pst_graph *g, const pst_node *node) {
    const pst_tensor *x = pst_node_in(g, node, 0), *starts = pst_node_in(g, node, 1);
    PST_TRY(pst_node_expect_i32(g, node, 1, 2));
    if (starts->dim[0] == x->dim[0] && starts->dim[1] == x->dim[1]) return PST_OK;
    return pst_fail(PST_EINPUT, "rotary needs one start per position, but %s is [%lu,%lu]",
                    starts->name, (unsigned long)starts->dim[0], (unsigned long)starts->dim[1]);
}

static pst_status check_past(const pst_graph *g, const pst_node *node) {
    const pst_tensor *x = pst_node_in(g, node, 0), *past = pst_node_in(g, node, 1);
    PST_TRY(pst_node_expect_i32(g, node, 1, 1));
    if (past->dim[0] == x->dim[0]) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "rotary needs one number of earlier positions per sample, but %s has %lu and "
                    "%s %lu samples",
                    past->name, (unsigned long)past->dim[0], x->name, (unsigned long)x->dim[0]);
}

static pst_status infer(pst_graph *g, pst_node *node) {
    PST_TRY(pst_node_expect_float(g, node, 0, 3));
    const pst_tensor *x = pst_node_in(g, node, 0);
    if (!node->attr.heads || x->dim[2] % (2 * (uint64_t)node->attr.heads))
        return pst_fail(PST_EINPUT,
                        "rotary needs heads of an even number of channels, but %s has %lu channels "
                        "in %u heads",
                        x->name, (unsigned long)x->dim[2], node->attr.heads);
    if (x->dim[2] / node->attr.heads > 2 * PST_ROPE_PAIRS)
        return pst_fail(PST_EINPUT, "rotary: heads of %s have %lu channels; the maximum is %d",
                        x->name, (unsigned long)(x->dim[2] / node->attr.heads), 2 * PST_ROPE_PAIRS);
    PST_TRY(check_rope(&node->attr.rope));
    if (node->n_in > 1)
        PST_TRY(pst_node_has_past(g, node) ? check_past(g, node) : check_starts(g, node));
    return pst_graph_out(g, node, PST_TENSOR_ACTIVATION, 3, x->dim);
}

static uint32_t args(const pst_node *node, pst_pass pass, pst_arg out[PST_MAX_ARG]) {
    const int forward = pass == PST_PASS_F;
    uint32_t n = 0;
    if (pass == PST_PASS_W) return 0;
    out[n++] = pst_op_read(forward ? PST_ARG_IN : PST_ARG_DOUT, 0);
    if (node->n_in > 1) out[n++] = pst_op_read(PST_ARG_IN, 1);
    out[n++] = pst_op_reuse(forward ? PST_ARG_OUT : PST_ARG_DIN, 0, 0);
    return n;
}

/* A sine and a cosine for each pair count as bytes only: all heads share them. */
static void cost(const pst_graph *g, const pst_node *node, pst_pass pass, uint64_t *flops,
                 uint64_t *bytes) {
    const pst_tensor *x = pst_node_in(g, node, 0);
    (void)pass;
    *flops = 3 * pst_tensor_elements(x);
    *bytes = 2 * pst_tensor_bytes(x);
}

const pst_op_row pst_op_rotary = {
    .name = "rotary",
    .min_in = 1,
    .max_in = 2,
    .infer = infer,
    .args = args,
    .cost = cost,
    .cheap = 1,
};
