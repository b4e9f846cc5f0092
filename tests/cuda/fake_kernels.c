/* Our own kernels that the libraries' rows launch beside them, on the host's processor. The real
 * ones have tests of their own. See fake.h. */
#include "cuda/fake.h"
#include "kernels/cuda/attention_plain.h"
#include "kernels/cuda/convolution_plain.h"
#include "penstock/graph.h"
#include <math.h>
#include <string.h>

static double get(pst_dtype dtype, const void *x, uint64_t i) {
    return dtype == PST_F32 ? ((const float *)x)[i]
                            : pst_f32_from_half(dtype, ((const uint16_t *)x)[i]);
}

static void put(pst_dtype dtype, void *x, uint64_t i, double value) {
    if (dtype == PST_F32) ((float *)x)[i] = (float)value;
    else ((uint16_t *)x)[i] = pst_half_from_f32(dtype, (float)value);
}

static double act(int kind, double z) {
    if (kind == PST_ACT_RELU) return z > 0 ? z : 0;
    if (kind == PST_ACT_GELU_ERF) return 0.5 * z * (1 + erf(z * sqrt(0.5)));
    return 0.5 * z * (1 + tanh(sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
}

void pst_cuda_set(pst_cuda_queue q, uint64_t *to, uint64_t value) {
    fake_kernel(q, 100, cudaSuccess);
    *to = value;
}

void pst_cuda_activation(pst_cuda_queue q, pst_dtype dtype, int kind, const void *z, void *y,
                         uint64_t n) {
    (void)q;
    for (uint64_t i = 0; i < n; i++) put(dtype, y, i, act(kind, get(dtype, z, i)));
}

void pst_cuda_slope(pst_cuda_queue q, pst_dtype dtype, int kind, const void *z, const void *dy,
                    void *dz, uint64_t n) {
    const double h = 1e-5;
    (void)q;
    for (uint64_t i = 0; i < n; i++) {
        double at = get(dtype, z, i), slope = (act(kind, at + h) - act(kind, at - h)) / (2 * h);
        put(dtype, dz, i, get(dtype, dy, i) * slope);
    }
}

uint64_t pst_cuda_column_sum_scratch(uint64_t rows, uint64_t columns, int arrays) {
    return rows * columns * (uint64_t)arrays;
}

void pst_cuda_column_sum(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_columns *c) {
    uint64_t pitch = c->pitch ? c->pitch : c->columns;
    (void)q;
    for (uint64_t j = 0; j < c->columns; j++) {
        double sum = c->first ? 0 : c->sum[0][j];
        for (uint64_t r = 0; r < c->rows; r++) sum += get(dtype, c->dy, r * pitch + j);
        c->sum[0][j] = (float)sum;
    }
}

void pst_cuda_attention_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a) {
    (void)q;
    (void)dtype;
    (void)a;
    fake_dnn.plain++;
}

void pst_cuda_attention_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a) {
    (void)q;
    (void)dtype;
    (void)a;
    fake_dnn.plain++;
}

static uint64_t length_of(const pst_cuda_attention *a, uint64_t sample) {
    if (a->lengths[sample] < 0) return 0;
    return a->lengths[sample] > (int32_t)a->t ? a->t : (uint64_t)a->lengths[sample];
}

void pst_cuda_attention_clamp(pst_cuda_queue q, const pst_cuda_attention *a, int32_t *to) {
    (void)q;
    for (uint64_t i = 0; i < a->b; i++) to[i] = length_of(a, i) ? (int32_t)length_of(a, i) : 1;
}

void pst_cuda_attention_clear_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a) {
    (void)q;
    for (uint64_t row = 0; row < a->b * a->t; row++) {
        if (row % a->t < length_of(a, row / a->t)) continue;
        for (uint64_t i = 0; i < a->c; i++) put(dtype, a->out, row * a->c + i, 0);
        for (uint64_t head = 0; head < a->heads; head++)
            a->lse[(row / a->t * a->heads + head) * a->t + row % a->t] = 0;
    }
}

void pst_cuda_attention_clear_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a) {
    (void)q;
    for (uint64_t row = 0; row < a->b * a->t; row++)
        for (uint64_t i = 0; i < 3 * a->c && row % a->t >= length_of(a, row / a->t); i++)
            put(dtype, a->dqkv, row * 3 * a->c + i, 0);
}

void pst_cuda_convolution_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    (void)q;
    (void)dtype;
    (void)c;
    fake_dnn.plain++;
}

void pst_cuda_convolution_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    (void)q;
    (void)dtype;
    (void)c;
    fake_dnn.plain++;
}

void pst_cuda_convolution_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    (void)q;
    (void)dtype;
    (void)c;
    fake_dnn.plain++;
}

void pst_cuda_add_columns(pst_cuda_queue q, pst_dtype dtype, void *y, const void *bias,
                          uint64_t rows, uint64_t columns) {
    (void)q;
    for (uint64_t i = 0; i < rows * columns; i++)
        put(dtype, y, i, get(dtype, y, i) + get(dtype, bias, i % columns));
}

void pst_cuda_accumulate(pst_cuda_queue q, pst_dtype dtype, const void *x, float *y, uint64_t n,
                         int first) {
    (void)q;
    for (uint64_t i = 0; i < n; i++) y[i] = (float)((first ? 0 : y[i]) + get(dtype, x, i));
}

/* --- factors of 8 bits ------------------------------------------------------------------------ */

static uint32_t largest_of(const pst_cuda_round *r) {
    double most = 0;
    for (uint64_t i = 0; i < r->rows * r->columns; i++)
        most = fmax(most, fabs(get(PST_BF16, r->x, i)));
    float value = (float)most;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void set_scale(pst_cuda_scaling *s, uint32_t bits, int wide) {
    float most;
    memcpy(&most, &bits, sizeof most);
    float limit = wide ? 57344.0f : 448.0f;
    s->scale = bits ? exp2f(floorf(log2f(limit / most))) : 1;
    s->inverse = 1 / s->scale;
}

void pst_cuda_scale_by_own(pst_cuda_queue q, const pst_cuda_round *r) {
    (void)q;
    set_scale(r->scaling, largest_of(r), r->wide);
}

void pst_cuda_scale_by_history(pst_cuda_queue q, pst_cuda_scaling *list, uint32_t n,
                               uint32_t wide) {
    (void)q;
    for (pst_cuda_scaling *s = list; s < list + n; s++) {
        uint32_t most = 0;
        s->history[s->steps++ % PST_CUDA_AMAX_STEPS] = s->amax;
        s->amax = 0;
        for (uint32_t i = 0; i < PST_CUDA_AMAX_STEPS; i++)
            most = s->history[i] > most ? s->history[i] : most;
        set_scale(s, most, (int)(wide >> (s - list) & 1));
    }
}

void pst_cuda_round_f8(pst_cuda_queue q, const pst_cuda_round *r) {
    (void)q;
    uint32_t largest = largest_of(r);
    if (r->note && largest > r->scaling->amax) r->scaling->amax = largest;
    for (uint64_t row = 0; row < r->rows; row++)
        for (uint64_t c = 0; c < r->columns; c++)
            r->y[r->turned ? c * r->rows + row : row * r->columns + c] = pst_f8_from_f32(
                r->wide, (float)get(PST_BF16, r->x, row * r->columns + c) * r->scaling->scale);
}
