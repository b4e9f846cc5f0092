/* Reference linear: y[rows,N] = act(x[rows,K] weight[N,K]^T + bias[N]). */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <math.h>

static const double sqrt_2_over_pi = 0.79788456080286535588, sqrt_half = 0.70710678118654752440;

/* GELU: Hendrycks & Gimpel 2016; the tanh form is GPT-2's, the erf form is BERT's. */
static double act(pst_activation kind, double z) {
    switch (kind) {
    case PST_ACT_GELU_TANH:
        return 0.5 * z * (1 + tanh(sqrt_2_over_pi * (z + 0.044715 * z * z * z)));
    case PST_ACT_GELU_ERF: return 0.5 * z * (1 + erf(z * sqrt_half));
    case PST_ACT_RELU: return z > 0 ? z : 0;
    case PST_ACT_TANH: return tanh(z);
    default: return z;
    }
}

static double act_slope(pst_activation kind, double z) {
    double t;
    switch (kind) {
    case PST_ACT_GELU_TANH:
        t = tanh(sqrt_2_over_pi * (z + 0.044715 * z * z * z));
        return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * sqrt_2_over_pi * (1 + 3 * 0.044715 * z * z);
    case PST_ACT_GELU_ERF:
        return 0.5 * (1 + erf(z * sqrt_half)) + z * exp(-0.5 * z * z) * 0.5 * sqrt_2_over_pi;
    case PST_ACT_RELU: return z > 0 ? 1 : 0;
    case PST_ACT_TANH: t = tanh(z); return 1 - t * t;
    default: return 1;
    }
}

typedef struct {
    uint64_t rows, k, n;
    int bias, active;
} sizes;

static sizes sizes_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    const pst_node *node = call->node;
    return (sizes){pst_tensor_rows(in), pst_tensor_last(in),
                   call->graph->param[node->param[0]].dim[0], node->n_param > 1,
                   node->attr.activation != PST_ACT_NONE};
}

/* F: IN0 PARAM0 [PARAM1] OUT0 [SAVED0 = z, the value before the activation] */
pst_status pst_ref_linear_f(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const float *x = call->arg[0], *weight = call->arg[1], *bias = s.bias ? call->arg[2] : NULL;
    float *y = call->arg[2 + s.bias], *z = s.active ? call->arg[3 + s.bias] : NULL;
    for (uint64_t r = 0; r < s.rows; r++)
        for (uint64_t j = 0; j < s.n; j++) {
            double sum = bias ? bias[j] : 0;
            for (uint64_t k = 0; k < s.k; k++) sum += (double)x[r * s.k + k] * weight[j * s.k + k];
            if (z) sum = z[r * s.n + j] = (float)sum; /* rounded like the stored z */
            y[r * s.n + j] = (float)act(call->node->attr.activation, sum);
        }
    return PST_OK;
}

/* IN0 OUT0 of activation; SAVED0 OUT0 of linear: F's output again, from z. */
pst_status pst_ref_activation(pst_device *device, const pst_call *call) {
    (void)device;
    const float *z = call->arg[0];
    float *y = call->arg[1];
    const uint64_t n = pst_tensor_elements(&call->graph->tensor[call->node->out[0]]);
    for (uint64_t i = 0; i < n; i++) y[i] = (float)act(call->node->attr.activation, z[i]);
    return PST_OK;
}

/* B of activation: IN0 DOUT0 DIN0, in place or not */
pst_status pst_ref_activation_b(pst_device *device, const pst_call *call) {
    (void)device;
    const float *z = call->arg[0], *dy = call->arg[1];
    float *dz = call->arg[2];
    const uint64_t n = pst_tensor_elements(pst_call_in(call, 0));
    for (uint64_t i = 0; i < n; i++)
        dz[i] = (float)(dy[i] * act_slope(call->node->attr.activation, z[i]));
    return PST_OK;
}

/* B: PARAM0 DOUT0 DIN0, with an activation PARAM0 SAVED0 DOUT0 SAVED1 DIN0 where SAVED1 = dz (may
 * be DOUT0). */
pst_status pst_ref_linear_b(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const float *weight = call->arg[0], *dz = call->arg[1];
    float *dx = call->arg[s.active ? 4 : 2];
    if (s.active) {
        const float *z = call->arg[1], *dy = call->arg[2];
        float *out = call->arg[3];
        for (uint64_t i = 0; i < s.rows * s.n; i++)
            out[i] = (float)(dy[i] * act_slope(call->node->attr.activation, z[i]));
        dz = out;
    }
    for (uint64_t r = 0; r < s.rows; r++)
        for (uint64_t k = 0; k < s.k; k++) {
            double sum = 0;
            for (uint64_t j = 0; j < s.n; j++) sum += (double)dz[r * s.n + j] * weight[j * s.k + k];
            dx[r * s.k + k] = (float)sum;
        }
    return PST_OK;
}

/* The sum over rows of a column of dz times a column of x, or, if b is NULL, of dz alone. */
static float sum_rows(const sizes *s, const pst_ref_rows *rows, const float *a, const float *b) {
    double sum = 0;
    for (uint64_t from = rows->at.first; from < s->rows; from += rows->step)
        for (uint64_t r = from; r < from + rows->at.count; r++)
            sum += b ? (double)a[r * s->n] * b[r * s->k] : a[r * s->n];
    return (float)sum;
}

/* W: IN0 DOUT0|SAVED1 DPARAM0 [DPARAM1] */
pst_status pst_ref_linear_w(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const float *x = call->arg[0], *dz = call->arg[1];
    for (uint32_t b = 0; b < pst_ref_sums(call); b++) {
        pst_ref_rows rows = pst_ref_rows_of(call, b, s.rows);
        float *dweight = (float *)call->arg[2] + b * s.n * s.k;
        float *dbias = s.bias ? (float *)call->arg[3] + b * s.n : NULL;
        for (uint64_t j = 0; j < s.n; j++) {
            for (uint64_t k = 0; k < s.k; k++)
                dweight[j * s.k + k] = (call->first ? 0.0f : dweight[j * s.k + k]) +
                                       sum_rows(&s, &rows, dz + j, x + k);
            if (dbias)
                dbias[j] = (call->first ? 0.0f : dbias[j]) + sum_rows(&s, &rows, dz + j, NULL);
        }
    }
    return PST_OK;
}
