/* Reference batch norm (Ioffe & Szegedy 2015): see op_batch_norm.c. */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <math.h>

typedef struct {
    uint64_t rows, channels;
    int adds, relu;
} sizes;

static sizes sizes_of(const pst_call *call) {
    const pst_tensor *x = pst_call_in(call, 0);
    return (sizes){pst_tensor_rows(x), pst_tensor_last(x), call->node->n_in == 2,
                   call->node->attr.activation == PST_ACT_RELU};
}

static void moments(const float *x, uint64_t rows, uint64_t stride, double *mean,
                    double *variance) {
    *mean = *variance = 0;
    for (uint64_t r = 0; r < rows; r++) *mean += x[r * stride] / (double)rows;
    for (uint64_t r = 0; r < rows; r++)
        *variance += (x[r * stride] - *mean) * (x[r * stride] - *mean) / (double)rows;
}

/* F: IN0 [IN1] PARAM0 PARAM1 PARAM2 PARAM3 OUT0 SAVED0 */
pst_status pst_ref_batch_norm_f(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    void *const *arg = call->arg + 1 + s.adds;
    const float *x = call->arg[0], *z = s.adds ? call->arg[1] : NULL, *weight = arg[0],
                *bias = arg[1];
    const float *running_mean = arg[2], *running_variance = arg[3];
    float *y = arg[4], *saved = arg[5];
    for (uint64_t c = 0; c < s.channels; c++) {
        double mean = running_mean[c], variance = running_variance[c];
        if (call->train) moments(x + c, s.rows, s.channels, &mean, &variance);
        double rstd = 1 / sqrt(variance + (double)call->node->attr.eps);
        for (uint64_t i = c; i < s.rows * s.channels; i += s.channels) {
            double value = (x[i] - mean) * rstd * weight[c] + bias[c] + (z ? z[i] : 0);
            y[i] = (float)(s.relu && value < 0 ? 0 : value);
        }
        saved[c] = (float)mean;
        saved[s.channels + c] = (float)rstd;
    }
    return PST_OK;
}

/* B: IN0 PARAM0 SAVED0 [OUT0] DOUT0 SAVED1 DIN0 or .. DIN0 DIN1 (the last may be DOUT0). With h =
 * (x - mean) * rstd and g = dy where the activation let it through: dx = weight * rstd * (g -
 * mean(g) - h * mean(g h)), dz = g. */
pst_status pst_ref_batch_norm_b(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    void *const *arg = call->arg + 3 + s.relu;
    const float *x = call->arg[0], *weight = call->arg[1], *saved = call->arg[2], *dy = arg[0];
    const float *y = s.relu ? call->arg[3] : NULL;
    float *sums = arg[1], *dx = arg[2], *dz = s.adds ? arg[3] : NULL;
    for (uint64_t c = 0; c < s.channels; c++) {
        double mean = saved[c], rstd = saved[s.channels + c], gh = 0, g_sum = 0, n = (double)s.rows;
        for (uint64_t i = c; i < s.rows * s.channels; i += s.channels) {
            double g = y && !(y[i] > 0) ? 0 : dy[i];
            g_sum += g;
            gh += g * (x[i] - mean) * rstd;
        }
        for (uint64_t i = c; i < s.rows * s.channels; i += s.channels) {
            double g = y && !(y[i] > 0) ? 0 : dy[i], h = (x[i] - mean) * rstd;
            dx[i] = (float)(weight[c] * rstd * (g - g_sum / n - h * gh / n));
            if (dz) dz[i] = (float)g;
        }
        sums[c] = (float)gh;
        sums[s.channels + c] = (float)g_sum;
    }
    return PST_OK;
}

/* W: SAVED0 SAVED1 DPARAM0 DPARAM1 DPARAM2 DPARAM3. The unbiased variance is computed from rstd. */
pst_status pst_ref_batch_norm_w(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const float *saved = call->arg[0], *sums = call->arg[1];
    double unbiased = (double)s.rows / (double)(s.rows - 1);
    for (uint64_t c = 0; c < s.channels; c++) {
        double rstd = saved[s.channels + c],
               variance = 1 / (rstd * rstd) - (double)call->node->attr.eps;
        float add[] = {sums[c], sums[s.channels + c], saved[c],
                       (float)(fmax(variance, 0) * unbiased)};
        for (int i = 0; i < 4; i++) {
            float *to = call->arg[2 + i];
            to[c] = (call->first ? 0.0f : to[c]) + add[i];
        }
    }
    return PST_OK;
}
