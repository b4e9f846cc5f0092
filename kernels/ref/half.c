/* The reference for graphs of bf16 and fp16, for all operators: operands are widened to fp32 in
 * scratch, the fp32 reference computes, and its results are rounded to nearest even. So each
 * operator is defined in one place only. */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <string.h>

typedef struct {
    pst_dtype dtype;
    uint64_t n;
    int written;
} operand;

/* One operand of a pass, from its line in the operator's list. */
static operand operand_of(const pst_graph *g, const pst_node *node, const pst_arg *arg) {
    operand o = {.dtype = PST_F32, .written = (arg->access & PST_WRITE) != 0};
    const pst_tensor *t = NULL;
    int gradient = 0;
    switch ((pst_arg_kind)arg->kind) {
    case PST_ARG_IN: t = &g->tensor[node->in[arg->index]]; break;
    case PST_ARG_OUT: t = &g->tensor[node->out[arg->index]]; break;
    case PST_ARG_DIN:
    case PST_ARG_SUM:
        t = &g->tensor[node->in[arg->index]];
        gradient = 1;
        break;
    case PST_ARG_DOUT:
        t = &g->tensor[node->out[arg->index]];
        gradient = 1;
        break;
    case PST_ARG_SAVED:
        o.dtype = node->saved[arg->index].dtype;
        o.n = node->saved[arg->index].elements;
        break;
    case PST_ARG_PARAM:
        o.dtype = g->dtype;
        o.n = pst_param_elements(&g->param[node->param[arg->index]]);
        break;
    case PST_ARG_DPARAM: o.n = pst_param_elements(&g->param[node->param[arg->index]]); break;
    }
    if (t) {
        o.dtype = gradient ? pst_tensor_grad(g, t) : t->dtype;
        o.n = pst_tensor_count(t);
    }
    return o;
}

/* Steps other than the node's passes: the sum of two gradients of input 0; linear's output,
 * recomputed from what it saved. */
enum { SUM = PST_PASS_COUNT, ACTIVATION };

static uint32_t operands(const pst_graph *g, const pst_node *node, int pass,
                         operand out[PST_MAX_ARG]) {
    static const pst_arg sum[] = {{PST_ARG_SUM, 0, PST_READ, -1, 0},
                                  {PST_ARG_SUM, 0, PST_READ, -1, 0},
                                  {PST_ARG_DIN, 0, PST_WRITE, -1, 0}};
    pst_arg arg[PST_MAX_ARG];
    uint32_t n = 3;
    if (pass == SUM) memcpy(arg, sum, sizeof sum);
    else
        n = pass == ACTIVATION ? node->op->restore(node, arg)
                               : node->op->args(node, (pst_pass)pass, arg);
    for (uint32_t i = 0; i < n; i++) out[i] = operand_of(g, node, &arg[i]);
    return n;
}

static uint64_t scratch_bytes(const pst_graph *g, const pst_node *node, int pass) {
    operand o[PST_MAX_ARG];
    uint64_t bytes = 0;
    uint32_t n = operands(g, node, pass, o);
    for (uint32_t i = 0; i < n; i++)
        bytes += pst_dtype_is_half(o[i].dtype) ? o[i].n * sizeof(float) : 0;
    return bytes;
}

/* Linear applies its activation to the stored, rounded z: OUT0 and SAVED0 are the last operands. */
static pst_status activate(pst_device *device, const pst_call *call, const operand *o, uint32_t n) {
    float *z = call->arg[n - 1];
    void *arg[] = {z, call->arg[n - 2]};
    pst_call inner = *call;
    for (uint64_t e = 0; e < o[n - 1].n; e++)
        z[e] = pst_f32_from_half(o[n - 1].dtype, pst_half_from_f32(o[n - 1].dtype, z[e]));
    inner.arg = arg;
    return pst_ref_activation(device, &inner);
}

static pst_status run(pst_device *device, const pst_call *call, int pass,
                      pst_status (*launch)(pst_device *, const pst_call *)) {
    operand o[PST_MAX_ARG];
    void *wide[PST_MAX_ARG];
    float *next = call->scratch;
    uint32_t n = operands(call->graph, call->node, pass, o);
    for (uint32_t i = 0; i < n; i++) {
        const uint16_t *from = call->arg[i];
        wide[i] = call->arg[i];
        if (!pst_dtype_is_half(o[i].dtype)) continue;
        if (from) wide[i] = next;
        for (uint64_t e = 0; e < o[i].n; e++)
            *next++ = from && !o[i].written ? pst_f32_from_half(o[i].dtype, from[e]) : 0.0f;
    }
    pst_call inner = *call;
    inner.arg = wide;
    PST_TRY(launch(device, &inner));
    if (launch == pst_ref_linear_f && call->node->n_saved) PST_TRY(activate(device, &inner, o, n));
    for (uint32_t i = 0; i < n; i++) {
        uint16_t *to = call->arg[i];
        for (uint64_t e = 0; o[i].written && pst_dtype_is_half(o[i].dtype) && e < o[i].n; e++)
            to[e] = pst_half_from_f32(o[i].dtype, ((const float *)wide[i])[e]);
    }
    return PST_OK;
}

#define WIDENED(name, pass)                                                                        \
    uint64_t pst_ref_##name##_half_scratch(const pst_graph *g, const pst_node *node,               \
                                           uint32_t threads) {                                     \
        (void)threads;                                                                             \
        return scratch_bytes(g, node, pass);                                                       \
    }                                                                                              \
    pst_status pst_ref_##name##_half(pst_device *device, const pst_call *call) {                   \
        return run(device, call, pass, pst_ref_##name);                                            \
    }
WIDENED(embedding_f, PST_PASS_F)
WIDENED(embedding_w, PST_PASS_W)
WIDENED(gather_rows_f, PST_PASS_F)
WIDENED(gather_rows_b, PST_PASS_B)
WIDENED(layer_norm_f, PST_PASS_F)
WIDENED(layer_norm_b, PST_PASS_B)
WIDENED(layer_norm_w, PST_PASS_W)
WIDENED(rms_norm_f, PST_PASS_F)
WIDENED(rms_norm_b, PST_PASS_B)
WIDENED(rms_norm_w, PST_PASS_W)
WIDENED(rotary_f, PST_PASS_F)
WIDENED(rotary_b, PST_PASS_B)
WIDENED(gated_f, PST_PASS_F)
WIDENED(gated_b, PST_PASS_B)
WIDENED(linear_f, PST_PASS_F)
WIDENED(linear_b, PST_PASS_B)
WIDENED(linear_w, PST_PASS_W)
WIDENED(attention_f, PST_PASS_F)
WIDENED(attention_b, PST_PASS_B)
WIDENED(dropout_f, PST_PASS_F)
WIDENED(dropout_b, PST_PASS_B)
WIDENED(add_f, PST_PASS_F)
WIDENED(add_b, PST_PASS_B)
WIDENED(narrow_f, PST_PASS_F)
WIDENED(sum, SUM)
WIDENED(activation, ACTIVATION)
WIDENED(activation_b, PST_PASS_B)
WIDENED(scale_f, PST_PASS_F)
WIDENED(scale_b, PST_PASS_B)
WIDENED(cross_entropy_f, PST_PASS_F)
WIDENED(cross_entropy_b, PST_PASS_B)
WIDENED(vocabulary_part_f, PST_PASS_F)
WIDENED(vocabulary_loss_f, PST_PASS_F)
WIDENED(convolution_f, PST_PASS_F)
WIDENED(convolution_b, PST_PASS_B)
WIDENED(convolution_w, PST_PASS_W)
WIDENED(batch_norm_f, PST_PASS_F)
WIDENED(batch_norm_b, PST_PASS_B)
WIDENED(batch_norm_w, PST_PASS_W)
WIDENED(pixels_f, PST_PASS_F)
WIDENED(max_pool_f, PST_PASS_F)
WIDENED(max_pool_b, PST_PASS_B)
WIDENED(average_pool_f, PST_PASS_F)
WIDENED(average_pool_b, PST_PASS_B)
