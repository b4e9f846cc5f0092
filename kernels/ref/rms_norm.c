/* Reference RMS norm (Zhang & Sennrich 2019): y = x * rstd * weight over the last dimension. SAVED0
 * is [rows]: rstd = 1/sqrt(mean(x^2) + eps). */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <math.h>

/* F: IN0 PARAM0 OUT0 SAVED0 */
pst_status pst_ref_rms_norm_f(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), n = pst_tensor_last(in);
    const float *x = call->arg[0], *weight = call->arg[1];
    float *y = call->arg[2], *saved = call->arg[3];
    for (uint64_t r = 0; r < rows; r++, x += n, y += n) {
        double squares = 0;
        for (uint64_t i = 0; i < n; i++) squares += (double)x[i] * x[i];
        double rstd = 1 / sqrt(squares / (double)n + (double)call->node->attr.eps);
        for (uint64_t i = 0; i < n; i++) y[i] = (float)(x[i] * rstd * weight[i]);
        saved[r] = (float)rstd;
    }
    return PST_OK;
}

/* B: IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0 (DIN0 may be SUM0). With g = dy * weight and h = x * rstd:
 * dx = rstd * (g - h * mean(g * h)) (+ SUM0). */
pst_status pst_ref_rms_norm_b(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), n = pst_tensor_last(in);
    const float *x = call->arg[0], *weight = call->arg[1], *saved = call->arg[2],
                *dy = call->arg[3], *sum = call->arg[4];
    float *dx = call->arg[5];
    for (uint64_t r = 0; r < rows; r++) {
        double rstd = saved[r], gh_mean = 0;
        for (uint64_t i = r * n; i < (r + 1) * n; i++)
            gh_mean += (double)dy[i] * weight[i - r * n] * x[i] * rstd / (double)n;
        for (uint64_t i = r * n; i < (r + 1) * n; i++) {
            double g = (double)dy[i] * weight[i - r * n], h = x[i] * rstd;
            dx[i] = (float)(rstd * (g - h * gh_mean)) + (sum ? sum[i] : 0.0f);
        }
    }
    return PST_OK;
}

/* Adds the rows of one sum. */
static void add_rows(const pst_call *call, const pst_ref_rows *rows, float *dweight) {
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t all = pst_tensor_rows(in), n = pst_tensor_last(in);
    const float *x = call->arg[0], *saved = call->arg[1], *dy = call->arg[2];
    for (uint64_t i = 0; i < n; i++) {
        double dw = 0;
        for (uint64_t from = rows->at.first; from < all; from += rows->step)
            for (uint64_t r = from; r < from + rows->at.count; r++)
                dw += (double)dy[r * n + i] * x[r * n + i] * saved[r];
        dweight[i] = (call->first ? 0.0f : dweight[i]) + (float)dw;
    }
}

/* W: IN0 SAVED0 DOUT0 DPARAM0 */
pst_status pst_ref_rms_norm_w(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    for (uint32_t b = 0; b < pst_ref_sums(call); b++) {
        pst_ref_rows rows = pst_ref_rows_of(call, b, pst_tensor_rows(in));
        add_rows(call, &rows, (float *)call->arg[3] + b * pst_tensor_last(in));
    }
    return PST_OK;
}
