/* Reference rotary positions (Su et al. 2021): the pair (a, b) of channels i and i + D/2 of a head
 * becomes (a cos - b sin, b cos + a sin) of position * angle[i], as Hugging Face pairs channels.
 * The backward pass turns gradients by the opposite angle. */
#include "kernels/ref/ref.h"
#include "kernels/rope.h"
#include "kernels/shape.h"
#include <math.h>

/* One position of all heads; x and y may be equal. factor: that of sines and cosines; below 0:
 * turns back. */
static void turn_row(const pst_call *call, double position, const float *angle, double factor,
                     const float *x, float *y) {
    const pst_tensor *in = pst_call_in(call, 0);
    const uint64_t heads = call->node->attr.heads, d = in->dim[2] / heads;
    for (uint64_t i = 0; i < d / 2; i++) {
        const double at = (double)((float)position * angle[i]), c = cos(at) * fabs(factor),
                     s = sin(at) * factor;
        for (uint64_t h = 0; h < heads; h++) {
            const float a = x[h * d + i], b = x[h * d + i + d / 2];
            y[h * d + i] = (float)(a * c - b * s);
            y[h * d + i + d / 2] = (float)(b * c + a * s);
        }
    }
}

/* sign: 1 forward, -1 backward. */
static pst_status turn(const pst_call *call, int sign) {
    const pst_tensor *in = pst_call_in(call, 0);
    const uint64_t d = in->dim[2] / call->node->attr.heads;
    const int32_t *starts = pst_call_starts(call), *past = pst_call_past(call);
    const float *x = call->arg[0];
    float *y = pst_call_behind(call)[0], angle[PST_ROPE_PAIRS];
    const double factor = sign * (double)pst_rope_angles(&call->node->attr.rope, d, angle);
    for (uint64_t r = 0; r < in->dim[0] * in->dim[1]; r++) {
        const uint64_t position = pst_position_of(starts, past, r, in->dim[1], UINT64_MAX);
        turn_row(call, (double)position, angle, factor, x + r * in->dim[2], y + r * in->dim[2]);
    }
    return PST_OK;
}

/* F: IN0 [IN1] OUT0, in place or not */
pst_status pst_ref_rotary_f(pst_device *device, const pst_call *call) {
    (void)device;
    return turn(call, 1);
}

/* B: DOUT0 [IN1] DIN0, in place or not */
pst_status pst_ref_rotary_b(pst_device *device, const pst_call *call) {
    (void)device;
    return turn(call, -1);
}
