/* Reference operators of images [b,H,W,C] without parameters: see op_image.c. */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <string.h>

/* F: IN0 OUT0 */
pst_status pst_ref_pixels_f(pst_device *device, const pst_call *call) {
    (void)device;
    uint64_t n = pst_tensor_count(pst_call_in(call, 0));
    const int32_t *x = call->arg[0];
    float *y = call->arg[1];
    PST_TRY(pst_call_check_index(call, x, n, 256, 0));
    for (uint64_t i = 0; i < n; i++) y[i] = (float)x[i] * (2.0f / 255.0f) - 1.0f;
    return PST_OK;
}

/* The index of the largest element of channel c in the window at (r, q); the first if several are
 * equal. */
static uint64_t largest(const pst_call *call, const float *x, uint64_t r, uint64_t q, uint64_t c) {
    const pst_tensor *in = pst_call_in(call, 0);
    const pst_attr *a = &call->node->attr;
    uint64_t best = UINT64_MAX;
    for (uint64_t i = r * a->stride; i < r * a->stride + a->window; i++)
        for (uint64_t j = q * a->stride; j < q * a->stride + a->window; j++) {
            if (i < a->padding || i - a->padding >= in->dim[1] || j < a->padding ||
                j - a->padding >= in->dim[2])
                continue;
            uint64_t at = ((i - a->padding) * in->dim[2] + j - a->padding) * in->dim[3] + c;
            if (best == UINT64_MAX || x[at] > x[best]) best = at;
        }
    return best;
}

/* F: IN0 OUT0    B: IN0 DOUT0 DIN0 */
static pst_status max_pool(const pst_call *call, int back) {
    const pst_tensor *in = pst_call_in(call, 0), *out = &call->graph->tensor[call->node->out[0]];
    uint64_t image = in->dim[1] * in->dim[2] * in->dim[3], row = out->dim[2] * out->dim[3],
             n = pst_tensor_count(out);
    const float *x = call->arg[0], *dy = call->arg[1];
    float *y = call->arg[1], *dx = back ? call->arg[2] : NULL;
    if (back) memset(dx, 0, pst_tensor_count(in) * sizeof *dx);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t first = i / (out->dim[1] * row) * image;
        uint64_t at =
            largest(call, x + first, i / row % out->dim[1], i % row / out->dim[3], i % out->dim[3]);
        if (back) dx[first + at] += dy[i];
        else y[i] = x[first + at];
    }
    return PST_OK;
}

pst_status pst_ref_max_pool_f(pst_device *device, const pst_call *call) {
    (void)device;
    return max_pool(call, 0);
}

pst_status pst_ref_max_pool_b(pst_device *device, const pst_call *call) {
    (void)device;
    return max_pool(call, 1);
}

/* F: IN0 OUT0 */
pst_status pst_ref_average_pool_f(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t pixels = in->dim[1] * in->dim[2], channels = in->dim[3];
    const float *x = call->arg[0];
    float *y = call->arg[1];
    for (uint64_t n = 0; n < in->dim[0]; n++)
        for (uint64_t c = 0; c < channels; c++) {
            double sum = 0;
            for (uint64_t i = 0; i < pixels; i++) sum += x[(n * pixels + i) * channels + c];
            y[n * channels + c] = (float)(sum / (double)pixels);
        }
    return PST_OK;
}

/* B: DOUT0 DIN0 */
pst_status pst_ref_average_pool_b(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t pixels = in->dim[1] * in->dim[2], channels = in->dim[3];
    const float *dy = call->arg[0];
    float *dx = call->arg[1];
    for (uint64_t i = 0; i < pst_tensor_count(in); i++)
        dx[i] = dy[i / (pixels * channels) * channels + i % channels] / (float)pixels;
    return PST_OK;
}
