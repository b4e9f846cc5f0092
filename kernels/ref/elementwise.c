/* Reference dropout, scale, residual add, narrow, gated product and gradient sum. */
#include "base/rng.h"
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <math.h>
#include <string.h>

/* Element e of sample s, counted in the whole sample also where a tensor rank has a part of it, is
 * kept if word e%4 of position (s, e/4) of the node's random stream, as a uniform number, is >=
 * rate: the same elements in every layout. */
static void mask(const pst_call *call, const float *in, float *out) {
    const pst_tensor *t = pst_call_in(call, 0);
    uint64_t samples = t->dim[0], per_sample = pst_tensor_count(t) / samples;
    float rate = call->node->attr.rate, scale = 1.0f / (1.0f - rate);
    uint64_t key = pst_rng_key(call->seed, call->node->name);
    for (uint64_t s = 0; s < samples; s++)
        for (uint64_t e = 0; e < per_sample; e++) {
            uint32_t word[4];
            uint64_t i = s * per_sample + e, of_sample = call->node->attr.first + e;
            pst_rng_words(key, call->sample + s, of_sample / 4, word);
            out[i] = pst_rng_uniform(word[of_sample % 4]) >= rate ? in[i] * scale : 0.0f;
        }
}

/* F: IN0 OUT0, B: DOUT0 DIN0; in place or not */
static pst_status dropout(const pst_call *call) {
    if (call->train && call->node->attr.rate > 0) mask(call, call->arg[0], call->arg[1]);
    else
        memmove(call->arg[1], call->arg[0], pst_tensor_count(pst_call_in(call, 0)) * sizeof(float));
    return PST_OK;
}

pst_status pst_ref_dropout_f(pst_device *device, const pst_call *call) {
    (void)device;
    return dropout(call);
}

pst_status pst_ref_dropout_b(pst_device *device, const pst_call *call) {
    (void)device;
    return dropout(call);
}

/* F: IN0 OUT0, B: DOUT0 DIN0; in place or not */
static pst_status scale(const pst_call *call) {
    const float *in = call->arg[0];
    float *out = call->arg[1];
    const uint64_t n = pst_tensor_count(pst_call_in(call, 0));
    for (uint64_t i = 0; i < n; i++) out[i] = in[i] * call->node->attr.factor;
    return PST_OK;
}

pst_status pst_ref_scale_f(pst_device *device, const pst_call *call) {
    (void)device;
    return scale(call);
}

pst_status pst_ref_scale_b(pst_device *device, const pst_call *call) {
    (void)device;
    return scale(call);
}

/* IN0 IN1 OUT0 */
pst_status pst_ref_add_f(pst_device *device, const pst_call *call) {
    (void)device;
    const float *a = call->arg[0], *b = call->arg[1];
    float *out = call->arg[2];
    uint64_t n = pst_tensor_count(pst_call_in(call, 0));
    for (uint64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
    return PST_OK;
}

/* B of add: DOUT0 SUM1 DIN1; of narrow: DOUT0 SUM0 DIN0 */
pst_status pst_ref_add_b(pst_device *device, const pst_call *call) {
    (void)device;
    const float *a = call->arg[0], *b = call->arg[1];
    float *out = call->arg[2];
    uint64_t n = pst_tensor_count(pst_call_in(call, 0));
    for (uint64_t i = 0; i < n; i++) out[i] = a[i] + (b ? b[i] : 0.0f);
    return PST_OK;
}

/* IN0 OUT0: a copy, which half.c rounds */
pst_status pst_ref_narrow_f(pst_device *device, const pst_call *call) {
    (void)device;
    memmove(call->arg[1], call->arg[0], pst_tensor_count(pst_call_in(call, 0)) * sizeof(float));
    return PST_OK;
}

/* F: IN0 IN1 OUT0: silu(gate) * up */
pst_status pst_ref_gated_f(pst_device *device, const pst_call *call) {
    (void)device;
    const float *gate = call->arg[0], *up = call->arg[1];
    float *out = call->arg[2];
    uint64_t n = pst_tensor_count(pst_call_in(call, 0));
    for (uint64_t i = 0; i < n; i++)
        out[i] = (float)(gate[i] / (1 + exp(-(double)gate[i])) * up[i]);
    return PST_OK;
}

/* B: IN0 IN1 DOUT0 DIN0 DIN1, in place or not */
pst_status pst_ref_gated_b(pst_device *device, const pst_call *call) {
    (void)device;
    const float *gate = call->arg[0], *up = call->arg[1], *dout = call->arg[2];
    float *dgate = call->arg[3], *dup = call->arg[4];
    uint64_t n = pst_tensor_count(pst_call_in(call, 0));
    for (uint64_t i = 0; i < n; i++) {
        const double g = gate[i], u = up[i], d = dout[i], s = 1 / (1 + exp(-g));
        dgate[i] = (float)(d * u * s * (1 + g * (1 - s)));
        dup[i] = (float)(d * g * s);
    }
    return PST_OK;
}

/* a, b, out: two gradients of the node's input 0 */
pst_status pst_ref_sum(pst_device *device, const pst_call *call) {
    return pst_ref_add_f(device, call);
}
