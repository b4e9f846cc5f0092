/* Reference layer norm (Ba, Kiros, Hinton 2016): y = (x - mean) * rstd * weight + bias over the
 * last dimension. SAVED0 is [rows,2]: mean, rstd = 1/sqrt(variance + eps). */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <math.h>

/* F: IN0 PARAM0 PARAM1 OUT0 SAVED0 */
pst_status pst_ref_layer_norm_f(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), n = pst_tensor_last(in);
    const float *x = call->arg[0], *weight = call->arg[1], *bias = call->arg[2];
    float *y = call->arg[3], *saved = call->arg[4];
    for (uint64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = 0, var = 0;
        for (uint64_t i = 0; i < n; i++) mean += x[i];
        mean /= (double)n;
        for (uint64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean);
        double rstd = 1 / sqrt(var / (double)n + (double)call->node->attr.eps);
        for (uint64_t i = 0; i < n; i++) y[i] = (float)((x[i] - mean) * rstd * weight[i] + bias[i]);
        saved[2 * r] = (float)mean;
        saved[2 * r + 1] = (float)rstd;
    }
    return PST_OK;
}

/* For each part of the rows, the sums of dy and of dy * h over its rows: [part][2][n]. */
static void part_sums(const pst_call *call, float *sums) {
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), n = pst_tensor_last(in),
             parts = call->node->attr.sum_parts;
    const float *x = call->arg[0], *saved = call->arg[2], *dy = call->arg[3];
    for (uint64_t p = 0, each = (rows + parts - 1) / parts; p < parts; p++)
        for (uint64_t i = 0; i < n; i++) {
            double dw = 0, db = 0;
            for (uint64_t r = p * each; r < rows && r < (p + 1) * each; r++) {
                double h = (x[r * n + i] - (double)saved[2 * r]) * saved[2 * r + 1];
                dw += (double)dy[r * n + i] * h;
                db += dy[r * n + i];
            }
            sums[2 * p * n + i] = (float)db;
            sums[(2 * p + 1) * n + i] = (float)dw;
        }
}

/* B: IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0 [SAVED1] (DIN0 may be SUM0 or DOUT0). With g = dy * weight
 * and h = (x - mean) * rstd: dx = rstd * (g - mean(g) - h * mean(g * h)) (+ SUM0). */
pst_status pst_ref_layer_norm_b(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t rows = pst_tensor_rows(in), n = pst_tensor_last(in);
    const float *x = call->arg[0], *weight = call->arg[1], *saved = call->arg[2],
                *dy = call->arg[3];
    const float *sum = call->arg[4];
    float *dx = call->arg[5];
    if (call->node->attr.sum_parts) part_sums(call, call->arg[6]);
    for (uint64_t r = 0; r < rows; r++) {
        double mean = saved[2 * r], rstd = saved[2 * r + 1], g_mean = 0, gh_mean = 0;
        for (uint64_t i = r * n; i < (r + 1) * n; i++) {
            double g = (double)dy[i] * weight[i - r * n];
            g_mean += g / (double)n;
            gh_mean += g * (x[i] - mean) * rstd / (double)n;
        }
        for (uint64_t i = r * n; i < (r + 1) * n; i++) {
            double g = (double)dy[i] * weight[i - r * n], h = (x[i] - mean) * rstd;
            dx[i] = (float)(rstd * (g - g_mean - h * gh_mean)) + (sum ? sum[i] : 0.0f);
        }
    }
    return PST_OK;
}

/* W: SAVED1 DPARAM0 DPARAM1 */
static void add_parts(const pst_call *call) {
    uint64_t n = pst_tensor_last(pst_call_in(call, 0)), parts = call->node->attr.sum_parts;
    const float *sums = call->arg[0];
    for (uint64_t i = 0; i < 2 * n; i++) {
        float *to = (float *)call->arg[i < n ? 2 : 1] + i % n; /* bias, weight */
        double total = 0;
        for (uint64_t p = 0; p < parts; p++) total += sums[2 * p * n + i];
        *to = (call->first ? 0.0f : *to) + (float)total;
    }
}

/* Adds the rows of one sum. */
static void add_rows(const pst_call *call, const pst_ref_rows *rows, float *dweight, float *dbias) {
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t all = pst_tensor_rows(in), n = pst_tensor_last(in);
    const float *x = call->arg[0], *saved = call->arg[1], *dy = call->arg[2];
    for (uint64_t i = 0; i < n; i++) {
        double dw = 0, db = 0;
        for (uint64_t from = rows->at.first; from < all; from += rows->step)
            for (uint64_t r = from; r < from + rows->at.count; r++) {
                double d = x[r * n + i] - (double)saved[2 * r];
                dw += (double)dy[r * n + i] * d * saved[2 * r + 1];
                db += dy[r * n + i];
            }
        dweight[i] = (call->first ? 0.0f : dweight[i]) + (float)dw;
        dbias[i] = (call->first ? 0.0f : dbias[i]) + (float)db;
    }
}

/* W: IN0 SAVED0 DOUT0 DPARAM0 DPARAM1; with attr.sum_parts as add_parts */
pst_status pst_ref_layer_norm_w(pst_device *device, const pst_call *call) {
    (void)device;
    if (call->node->attr.sum_parts) {
        add_parts(call);
        return PST_OK;
    }
    const pst_tensor *in = pst_call_in(call, 0);
    uint64_t n = pst_tensor_last(in);
    for (uint32_t b = 0; b < pst_ref_sums(call); b++) {
        pst_ref_rows rows = pst_ref_rows_of(call, b, pst_tensor_rows(in));
        add_rows(call, &rows, (float *)call->arg[3] + b * n, (float *)call->arg[4] + b * n);
    }
    return PST_OK;
}
