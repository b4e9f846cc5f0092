/* Kernel rows of our own kernels: they turn a call's operands into a launcher's sizes and pointers.
 * Everything but products and attention; exchanges between tensor ranks are not kernels. */
#include "base/rng.h"
#include "kernels/cuda/own.h"
#include "kernels/loss.h"
#include "kernels/rope.h"
#include "kernels/shape.h"

static pst_dtype dtype_of(const pst_call *call) { return call->graph->dtype; }

/* type_in: the type of input 0. is_wide: whether a tensor is fp32 in a 16-bit graph (residual
 * stream). */
static pst_dtype type_in(const pst_call *call) { return pst_call_in(call, 0)->dtype; }
static int is_wide(const pst_call *call, uint32_t tensor) {
    return call->graph->tensor[tensor].dtype != dtype_of(call);
}

static pst_cuda_index index_of(pst_device *device, const pst_call *call, const int32_t *index,
                               uint64_t here) {
    return (pst_cuda_index){.index = index,
                            .first = call->node->attr.first,
                            .rows = here,
                            .limit = pst_call_tokens(call, here),
                            .node = call->node->name,
                            .fault = pst_cuda_fault_of(device),
                            .launch = pst_cuda_launch_of(device)};
}

/* --- element by element ----------------------------------------------------------------------- */

/* a, b, out: two gradients of input 0 */
static pst_status sum(pst_device *device, const pst_call *call) {
    pst_cuda_add(pst_cuda_queue_of(device), type_in(call), call->arg[0], call->arg[1], call->arg[2],
                 pst_tensor_count(pst_call_in(call, 0)));
    return pst_cuda_launched("add");
}

/* IN0 IN1 OUT0 */
static pst_status add_f(pst_device *device, const pst_call *call) {
    if (!call->node->attr.narrows) return sum(device, call);
    pst_cuda_add_wide(pst_cuda_queue_of(device), dtype_of(call), call->arg[1], call->arg[0],
                      call->arg[2], pst_tensor_count(pst_call_in(call, 0)));
    return pst_cuda_launched("add");
}

/* DOUT0 SUM1 DIN1 */
static pst_status add_b(pst_device *device, const pst_call *call) {
    pst_cuda_add_narrow(pst_cuda_queue_of(device), dtype_of(call), call->arg[0], call->arg[1],
                        call->arg[2], pst_tensor_count(pst_call_in(call, 0)));
    return pst_cuda_launched("add's gradient");
}

/* IN0 OUT0 */
static pst_status narrow_f(pst_device *device, const pst_call *call) {
    pst_cuda_add_narrow(pst_cuda_queue_of(device), dtype_of(call), call->arg[0], NULL, call->arg[1],
                        pst_tensor_count(pst_call_in(call, 0)));
    return pst_cuda_launched("narrow");
}

/* DOUT0 SUM0 DIN0 */
static pst_status narrow_b(pst_device *device, const pst_call *call) {
    pst_cuda_add_wide(pst_cuda_queue_of(device), dtype_of(call), call->arg[0], call->arg[1],
                      call->arg[2], pst_tensor_count(pst_call_in(call, 0)));
    return pst_cuda_launched("narrow's gradient");
}

/* F: IN0 OUT0, B: DOUT0 DIN0 */
static pst_status dropout(pst_device *device, const pst_call *call) {
    const pst_tensor *t = pst_call_in(call, 0);
    const pst_attr *attr = &call->node->attr;
    uint64_t n = pst_tensor_count(t);
    pst_cuda_mask mask = {.x = call->arg[0],
                          .y = call->arg[1],
                          .samples = t->dim[0],
                          .per_sample = n / t->dim[0],
                          .first = attr->first,
                          .key = pst_rng_key(call->seed, call->node->name),
                          .sample = call->sample,
                          .rate = attr->rate};
    int drops = call->train && attr->rate > 0;
    if (drops) mask.sample_at = pst_cuda_sample_of(device);
    if (drops) pst_cuda_dropout(pst_cuda_queue_of(device), t->dtype, &mask);
    else if (mask.x != mask.y)
        pst_cuda_copy(pst_cuda_queue_of(device), t->dtype, mask.x, mask.y, n);
    return pst_cuda_launched("dropout");
}

/* F: IN0 OUT0, B: DOUT0 DIN0 */
static pst_status scale(pst_device *device, const pst_call *call) {
    pst_cuda_scale(pst_cuda_queue_of(device), dtype_of(call), call->node->attr.factor, call->arg[0],
                   call->arg[1], pst_tensor_count(pst_call_in(call, 0)));
    return pst_cuda_launched("scale");
}

/* IN0 OUT0, or SAVED0 OUT0 of linear */
static pst_status activation(pst_device *device, const pst_call *call) {
    uint64_t n = pst_tensor_elements(&call->graph->tensor[call->node->out[0]]);
    pst_cuda_activation(pst_cuda_queue_of(device), dtype_of(call), call->node->attr.activation,
                        call->arg[0], call->arg[1], n);
    return pst_cuda_launched("activation");
}

/* IN0 DOUT0 DIN0 */
static pst_status activation_b(pst_device *device, const pst_call *call) {
    pst_cuda_slope(pst_cuda_queue_of(device), dtype_of(call), call->node->attr.activation,
                   call->arg[0], call->arg[1], call->arg[2],
                   pst_tensor_elements(pst_call_in(call, 0)));
    return pst_cuda_launched("activation's gradient");
}

/* --- layer norm ------------------------------------------------------------------------------- */

static pst_cuda_norm norm_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    return (pst_cuda_norm){.x = call->arg[0],
                           .weight = call->arg[1],
                           .wide_x = is_wide(call, call->node->in[0]),
                           .wide_y = is_wide(call, call->node->out[0]),
                           .rows = pst_tensor_rows(in),
                           .n = pst_tensor_last(in),
                           .eps = call->node->attr.eps};
}

/* IN0 PARAM0 PARAM1 OUT0 SAVED0 */
static pst_status layer_norm_f(pst_device *device, const pst_call *call) {
    pst_cuda_norm norm = norm_of(call);
    norm.bias = call->arg[2];
    norm.y = call->arg[3];
    norm.saved = call->arg[4];
    pst_cuda_layer_norm_f(pst_cuda_queue_of(device), dtype_of(call), &norm);
    return pst_cuda_launched("layer norm");
}

/* IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0 [SAVED1] */
static pst_status layer_norm_b(pst_device *device, const pst_call *call) {
    pst_cuda_norm norm = norm_of(call);
    norm.saved = call->arg[2];
    norm.dy = call->arg[3];
    norm.sum = call->arg[4];
    norm.dx = call->arg[5];
    norm.parts = call->node->attr.sum_parts;
    if (norm.parts) norm.part = call->arg[6];
    pst_cuda_layer_norm_b(pst_cuda_queue_of(device), dtype_of(call), &norm);
    return pst_cuda_launched("layer norm's input gradient");
}

static uint64_t layer_norm_w_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    const pst_tensor *in = &g->tensor[node->in[0]];
    if (node->attr.sum_parts) return 0;
    return pst_cuda_column_sum_scratch(pst_tensor_rows(in), pst_tensor_last(in), 2);
}

/* SAVED1 DPARAM0 DPARAM1 */
static void layer_norm_total(pst_device *device, const pst_call *call) {
    pst_cuda_columns columns = {.sum = {call->arg[2], call->arg[1]}, /* bias, weight */
                                .columns = pst_tensor_last(pst_call_in(call, 0)),
                                .parts = call->node->attr.sum_parts,
                                .first = call->first,
                                .scratch = call->arg[0]};
    pst_cuda_column_total(pst_cuda_queue_of(device), &columns);
}

/* IN0 SAVED0 DOUT0 DPARAM0 DPARAM1, or as layer_norm_total */
static pst_status layer_norm_w(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    if (call->node->attr.sum_parts) {
        layer_norm_total(device, call);
        return pst_cuda_launched("layer norm's weight gradient");
    }
    pst_cuda_columns columns = {.x = call->arg[0],
                                .saved = call->arg[1],
                                .dy = call->arg[2],
                                .wide_x = is_wide(call, call->node->in[0]),
                                .wide_dy = is_wide(call, call->node->out[0]),
                                .sum = {call->arg[4], call->arg[3]}, /* bias, weight */
                                .rows = pst_tensor_rows(in),
                                .columns = pst_tensor_last(in),
                                .first = call->first,
                                .scratch = call->scratch};
    pst_cuda_column_sum(pst_cuda_queue_of(device), dtype_of(call), &columns);
    return pst_cuda_launched("layer norm's weight gradient");
}

/* --- RMS norm, rotary positions, gated product ------------------------------------------------ */

/* IN0 PARAM0 OUT0 SAVED0 */
static pst_status rms_norm_f(pst_device *device, const pst_call *call) {
    pst_cuda_norm norm = norm_of(call);
    norm.y = call->arg[2];
    norm.saved = call->arg[3];
    pst_cuda_rms_norm_f(pst_cuda_queue_of(device), dtype_of(call), &norm);
    return pst_cuda_launched("RMS norm");
}

/* IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0 */
static pst_status rms_norm_b(pst_device *device, const pst_call *call) {
    pst_cuda_norm norm = norm_of(call);
    norm.saved = call->arg[2];
    norm.dy = call->arg[3];
    norm.sum = call->arg[4];
    norm.dx = call->arg[5];
    pst_cuda_rms_norm_b(pst_cuda_queue_of(device), dtype_of(call), &norm);
    return pst_cuda_launched("RMS norm's input gradient");
}

/* IN0 SAVED0 DOUT0 DPARAM0 */
static pst_status rms_norm_w(pst_device *device, const pst_call *call) {
    pst_cuda_norm norm = norm_of(call);
    norm.weight = NULL;
    norm.saved = call->arg[1];
    norm.dy = call->arg[2];
    pst_cuda_rms_norm_w(pst_cuda_queue_of(device), dtype_of(call), &norm, call->arg[3],
                        call->first);
    return pst_cuda_launched("RMS norm's weight gradient");
}

/* IN0 OUT0, DOUT0 DIN0; without starts, which devices with a module do not support */
static pst_status rotate(pst_device *device, const pst_call *call, float direction) {
    const pst_tensor *in = pst_call_in(call, 0);
    pst_cuda_rotary r = {.x = call->arg[0],
                         .y = call->arg[1],
                         .rows = pst_tensor_rows(in),
                         .t = in->dim[1],
                         .heads = call->node->attr.heads,
                         .d = in->dim[2] / call->node->attr.heads};
    r.cosine = pst_rope_angles(&call->node->attr.rope, r.d, r.angle);
    r.sine = direction * r.cosine;
    pst_cuda_rotate(pst_cuda_queue_of(device), dtype_of(call), &r);
    return pst_cuda_launched("rotary positions");
}

static pst_status rotary_f(pst_device *device, const pst_call *call) {
    return rotate(device, call, 1);
}
static pst_status rotary_b(pst_device *device, const pst_call *call) {
    return rotate(device, call, -1);
}

/* IN0 IN1 OUT0 */
static pst_status gated_f(pst_device *device, const pst_call *call) {
    pst_cuda_gated_f(pst_cuda_queue_of(device), dtype_of(call), call->arg[0], call->arg[1],
                     call->arg[2], pst_tensor_count(pst_call_in(call, 0)));
    return pst_cuda_launched("gated product");
}

/* IN0 IN1 DOUT0 DIN0 DIN1 */
static pst_status gated_b(pst_device *device, const pst_call *call) {
    const pst_cuda_gated g = {.gate = call->arg[0],
                              .up = call->arg[1],
                              .dout = call->arg[2],
                              .dgate = call->arg[3],
                              .dup = call->arg[4],
                              .n = pst_tensor_count(pst_call_in(call, 0))};
    pst_cuda_gated_b(pst_cuda_queue_of(device), dtype_of(call), &g);
    return pst_cuda_launched("gated product's gradient");
}

/* --- embedding -------------------------------------------------------------------------------- */

static pst_cuda_embed embed_of(pst_device *device, const pst_call *call) {
    const pst_tensor *tokens = pst_call_in(call, 0);
    const pst_node *node = call->node;
    const pst_param *param = call->graph->param, *wte = &param[node->param[0]];
    pst_cuda_embed embed = {.token = index_of(device, call, call->arg[0], wte->dim[0]),
                            .b = pst_tensor_rows(tokens),
                            .t = pst_tensor_last(tokens),
                            .c = wte->dim[1],
                            .t_max = node->n_param > 1 ? param[node->param[1]].dim[0] : 0,
                            .first = call->first,
                            .wide = is_wide(call, node->out[0]),
                            .scratch = call->scratch};
    if (pst_call_types(call)) {
        embed.type = index_of(device, call, pst_call_types(call), param[node->param[2]].dim[0]);
        embed.type.first = 0;
        embed.type.limit = embed.type.rows;
    }
    return embed;
}

/* IN0 [IN1] PARAM0 [PARAM1] [PARAM2] OUT0 */
static pst_status embedding_f(pst_device *device, const pst_call *call) {
    pst_cuda_embed embed = embed_of(device, call);
    void *const *behind = pst_call_behind(call);
    embed.wte = behind[0];
    embed.wpe = embed.t_max ? behind[1] : NULL;
    embed.wtt = embed.type.index ? behind[2] : NULL;
    embed.out = behind[call->node->n_param];
    pst_cuda_embedding_f(pst_cuda_queue_of(device), dtype_of(call), &embed);
    return pst_cuda_launched("embedding");
}

static uint64_t embedding_w_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    (void)threads;
    return pst_cuda_embedding_w_scratch(pst_tensor_count(&g->tensor[node->in[0]]),
                                        g->param[node->param[0]].dim[1]);
}

/* IN0 [IN1] DOUT0 DPARAM0 [DPARAM1] [DPARAM2] */
static pst_status embedding_w(pst_device *device, const pst_call *call) {
    pst_cuda_embed embed = embed_of(device, call);
    void *const *behind = pst_call_behind(call);
    embed.dy = behind[0];
    embed.dwte = behind[1];
    embed.dwpe = embed.t_max ? behind[2] : NULL;
    embed.dwtt = embed.type.index ? behind[3] : NULL;
    pst_cuda_embedding_w(pst_cuda_queue_of(device), dtype_of(call), &embed);
    return pst_cuda_launched("embedding's weight gradient");
}

/* --- rows by position ------------------------------------------------------------------------- */

static pst_cuda_gather gather_of(pst_device *device, const pst_call *call,
                                 const int32_t *position) {
    const pst_gather_shape s = pst_gather_shape_of(call);
    pst_cuda_gather g = {
        .position = index_of(device, call, position, s.t), .b = s.b, .t = s.t, .c = s.c, .p = s.p};
    g.position.ignore = 1;
    return g;
}

/* IN0 [IN1] OUT0 */
static pst_status gather_rows_f(pst_device *device, const pst_call *call) {
    const uint32_t n = call->node->n_in;
    pst_cuda_gather g = gather_of(device, call, n > 1 ? call->arg[1] : NULL);
    g.x = call->arg[0];
    g.y = call->arg[n];
    pst_cuda_gather_rows_f(pst_cuda_queue_of(device), type_in(call), &g);
    return pst_cuda_launched("gather_rows");
}

/* [IN1] DOUT0 SUM0 DIN0 */
static pst_status gather_rows_b(pst_device *device, const pst_call *call) {
    const uint32_t n = call->node->n_in - 1;
    pst_cuda_gather g = gather_of(device, call, n ? call->arg[0] : NULL);
    g.dy = call->arg[n];
    g.sum = call->arg[n + 1];
    g.dx = call->arg[n + 2];
    pst_cuda_gather_rows_b(pst_cuda_queue_of(device), type_in(call), &g);
    return pst_cuda_launched("gather_rows' gradient");
}

/* --- losses ----------------------------------------------------------------------------------- */

static pst_cuda_softmax softmax_of(pst_device *device, const pst_call *call,
                                   const int32_t *target) {
    const pst_tensor *logits = pst_call_in(call, 0);
    pst_cuda_softmax s = {.target = index_of(device, call, target, pst_tensor_last(logits)),
                          .rows = pst_tensor_rows(logits),
                          .v = pst_tensor_last(logits),
                          .pitch = pst_tensor_pitch(logits),
                          .scale = call->loss_scale};
    const pst_loss_terms terms = pst_loss_terms_of(call);
    s.part_of_target = (float)terms.target;
    s.each = (float)terms.each;
    s.z = (float)terms.z;
    s.target.ignore = 1;
    return s;
}

/* IN0 IN1 OUT0 SAVED0 [OUT1] */
static pst_status cross_entropy_f(pst_device *device, const pst_call *call) {
    pst_cuda_softmax s = softmax_of(device, call, call->arg[1]);
    s.logits = call->arg[0];
    s.loss = call->arg[2];
    s.lse = call->arg[3];
    s.hits = call->node->attr.hits ? call->arg[4] : NULL;
    pst_cuda_cross_entropy_f(pst_cuda_queue_of(device), dtype_of(call), &s);
    return pst_cuda_launched("cross-entropy");
}

/* IN0 IN1 SAVED0 DIN0, which is IN0; also for vocabulary_loss */
static pst_status cross_entropy_b(pst_device *device, const pst_call *call) {
    pst_cuda_softmax s = softmax_of(device, call, call->arg[1]);
    s.logits = call->arg[0];
    s.lse = call->arg[2];
    pst_cuda_cross_entropy_b(pst_cuda_queue_of(device), dtype_of(call), &s);
    return pst_cuda_launched("cross-entropy's gradient");
}

/* IN0 IN1 OUT0 */
static pst_status vocabulary_part(pst_device *device, const pst_call *call) {
    pst_cuda_softmax s = softmax_of(device, call, call->arg[1]);
    s.logits = call->arg[0];
    s.part = call->arg[2];
    pst_cuda_vocabulary_part(pst_cuda_queue_of(device), dtype_of(call), &s);
    return pst_cuda_launched("cross-entropy over a part of the vocabulary");
}

/* IN1 IN2 OUT0 SAVED0 */
static pst_status vocabulary_loss(pst_device *device, const pst_call *call) {
    pst_cuda_softmax s = softmax_of(device, call, call->arg[0]);
    s.part = call->arg[1];
    s.loss = call->arg[2];
    s.lse = call->arg[3];
    s.parts = pst_tensor_last(pst_call_in(call, 2)) / 3;
    pst_cuda_vocabulary_loss(pst_cuda_queue_of(device), &s);
    return pst_cuda_launched("cross-entropy over all parts of the vocabulary");
}

/* Kernels that read indices need the number of their launch, and cross-entropy's gradient its
 * scale: these are never captured. */

#define ROW(operator, of, bytes, function, when)                                                   \
    {                                                                                              \
        .op = operator, .pass = PST_PASS_##of, .name = "cuda/own/" operator, .isa = PST_ISA_CUDA,  \
        .scratch = bytes, .launch = function,                                                      \
        .dtypes = PST_TAKES_F32 | PST_TAKES_BF16 | PST_TAKES_F16, .captures = when                 \
    }
const pst_kernel_row pst_cuda_own_row[] = {
    ROW("embedding", F, NULL, embedding_f, NULL),
    ROW("embedding", W, embedding_w_scratch, embedding_w, NULL),
    ROW("gather_rows", F, NULL, gather_rows_f, NULL),
    ROW("gather_rows", B, NULL, gather_rows_b, NULL),
    ROW("layer_norm", F, NULL, layer_norm_f, pst_cuda_captures_always),
    ROW("layer_norm", B, NULL, layer_norm_b, pst_cuda_captures_always),
    ROW("layer_norm", W, layer_norm_w_scratch, layer_norm_w, pst_cuda_captures_always),
    ROW("rms_norm", F, NULL, rms_norm_f, pst_cuda_captures_always),
    ROW("rms_norm", B, NULL, rms_norm_b, pst_cuda_captures_always),
    ROW("rms_norm", W, NULL, rms_norm_w, pst_cuda_captures_always),
    ROW("rotary", F, NULL, rotary_f, pst_cuda_captures_always),
    ROW("rotary", B, NULL, rotary_b, pst_cuda_captures_always),
    ROW("gated", F, NULL, gated_f, pst_cuda_captures_always),
    ROW("gated", B, NULL, gated_b, pst_cuda_captures_always),
    ROW("activation", F, NULL, activation, pst_cuda_captures_always),
    ROW("activation", B, NULL, activation_b, pst_cuda_captures_always),
    ROW("scale", F, NULL, scale, pst_cuda_captures_always),
    ROW("scale", B, NULL, scale, pst_cuda_captures_always),
    ROW("dropout", F, NULL, dropout, pst_cuda_captures_always),
    ROW("dropout", B, NULL, dropout, pst_cuda_captures_always),
    ROW("add", F, NULL, add_f, pst_cuda_captures_always),
    ROW("add", B, NULL, add_b, pst_cuda_captures_always),
    ROW("narrow", F, NULL, narrow_f, pst_cuda_captures_always),
    ROW("narrow", B, NULL, narrow_b, pst_cuda_captures_always),
    ROW("sum", F, NULL, sum, pst_cuda_captures_always),
    ROW("sum", B, NULL, sum, pst_cuda_captures_always),
    ROW("cross_entropy", F, NULL, cross_entropy_f, NULL),
    ROW("cross_entropy", B, NULL, cross_entropy_b, NULL),
    ROW("vocabulary_part", F, NULL, vocabulary_part, NULL),
    ROW("vocabulary_loss", F, NULL, vocabulary_loss, NULL),
    ROW("vocabulary_loss", B, NULL, cross_entropy_b, NULL),
};
#undef ROW
const uint32_t pst_cuda_own_count = sizeof pst_cuda_own_row / sizeof *pst_cuda_own_row;
