/* Kernels for processors without AVX2: oneDNN chooses the instruction set of the products; the rest
 * is plain C. */
#include "kernels/cpu/cpu.h"
#include <math.h>

static float act_of(pst_activation act, float z) {
    if (act == PST_ACT_GELU_TANH)
        return z / (1.0f + expf(-1.5957691216f * (z + 0.044715f * z * z * z)));
    if (act == PST_ACT_GELU_ERF) return 0.5f * z * (1.0f + erff(z * 0.70710678f));
    if (act == PST_ACT_TANH) return tanhf(z);
    return act == PST_ACT_RELU && !(z > 0) ? 0.0f : z;
}

static float slope_of(pst_activation act, float z) {
    if (act == PST_ACT_GELU_TANH) {
        float s = 1.0f / (1.0f + expf(-1.5957691216f * (z + 0.044715f * z * z * z)));
        return s + z * s * (1.0f - s) * 1.5957691216f * (1.0f + 0.134145f * z * z);
    }
    if (act == PST_ACT_GELU_ERF)
        return 0.5f * (1.0f + erff(z * 0.70710678f)) + z * expf(-0.5f * z * z) * 0.3989422804f;
    if (act == PST_ACT_TANH) {
        float t = tanhf(z);
        return 1.0f - t * t;
    }
    return act == PST_ACT_RELU && !(z > 0) ? 0.0f : 1.0f;
}

static void finish(pst_activation act, const pst_linear_tile *t) {
    const float *bias = t->bias;
    float *z = t->z, *y = t->y;
    for (uint64_t r = 0; r < t->rows; r++)
        for (uint64_t c = 0; c < t->cols; c++) {
            float value = t->sum[r * t->sum_ld + c] + (bias ? bias[c] : 0.0f);
            if (z) z[r * t->ld + c] = value;
            y[r * t->ld + c] = act_of(act, value);
        }
}

static void apply(pst_activation act, const void *from_z, void *to_y, uint64_t n) {
    const float *z = from_z;
    float *y = to_y;
    for (uint64_t i = 0; i < n; i++) y[i] = act_of(act, z[i]);
}

static void slope(pst_activation act, const void *from_z, const void *from_dy, void *to_dz,
                  uint64_t n) {
    const float *z = from_z, *dy = from_dy;
    float *dz = to_dz;
    for (uint64_t i = 0; i < n; i++) dz[i] = dy[i] * slope_of(act, z[i]);
}

static void column_sum(const void *from_x, uint64_t rows, uint64_t cols, uint64_t ld, float *out,
                       int first) {
    const float *x = from_x;
    for (uint64_t c = 0; c < cols; c++) {
        double sum = 0;
        for (uint64_t r = 0; r < rows; r++) sum += x[r * ld + c];
        out[c] = (first ? 0.0f : out[c]) + (float)sum;
    }
}

static void add_bias(float *sum, uint64_t ld, uint64_t rows, uint64_t cols, const void *bias) {
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++) sum[r * ld + c] += ((const float *)bias)[c];
}

static void accumulate(pst_pool *pool, float *y, const float *x, uint64_t n) {
    pst_flat_ref()->accumulate(pool, y, x, n);
}

static const pst_linear_ops ops = {PST_F32,    finish,     apply, slope, add_bias,
                                   column_sum, accumulate, NULL,  NULL,  NULL};

static pst_status linear_f(pst_device *device, const pst_call *call) {
    return pst_linear_forward(device, call, &ops);
}
static pst_status linear_b(pst_device *device, const pst_call *call) {
    return pst_linear_backward(device, call, &ops);
}
static pst_status linear_w(pst_device *device, const pst_call *call) {
    return pst_linear_weight(device, call, &ops);
}

static pst_status activation(pst_device *device, const pst_call *call) {
    return pst_linear_activation(device, call, &ops);
}

static pst_status activation_b(pst_device *device, const pst_call *call) {
    return pst_linear_slope(device, call, &ops);
}

static double fma_loop(uint64_t turns, float *sink) {
    float sum[8] = {0}, a = 0.999f, b = 1e-3f;
    for (uint64_t i = 0; i < turns; i++)
        for (int j = 0; j < 8; j++) sum[j] = sum[j] * a + b;
    for (int j = 0; j < 8; j++) *sink += sum[j];
    return (double)turns * 8 * 2;
}

const pst_cpu_table *pst_cpu_generic(void) {
    static const pst_kernel_row rows[] = {
        {"linear", PST_PASS_F, "cpu/generic/linear", 0, NULL, NULL, linear_f, PST_TAKES_F32, NULL,
         NULL},
        {"linear", PST_PASS_B, "cpu/generic/linear", 0, NULL, NULL, linear_b, PST_TAKES_F32, NULL,
         NULL},
        {"linear", PST_PASS_W, "cpu/generic/linear", 0, NULL, NULL, linear_w, PST_TAKES_F32, NULL,
         NULL},
        {"activation", PST_PASS_F, "cpu/generic/activation", 0, NULL, NULL, activation,
         PST_TAKES_F32, NULL, NULL},
        {"activation", PST_PASS_B, "cpu/generic/activation", 0, NULL, NULL, activation_b,
         PST_TAKES_F32, NULL, NULL},
    };
    static pst_cpu_table table = {0, rows, sizeof rows / sizeof rows[0], NULL, fma_loop, NULL};
    return &table;
}
