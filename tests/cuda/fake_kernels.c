/* Our own kernels that the libraries' rows launch beside them, on the host's processor, with their
 * parameters as a graph keeps them. The real ones have tests of their own. See fake.h. */
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

/* Parameters of what works element by element. */
typedef struct {
    pst_dtype dtype;
    int kind;
    const void *x, *z;
    void *y;
    uint64_t n, columns, value;
    float factor;
} elements;

#define LAUNCH(q, work, arguments) fake_launch(q, 0, work, &(arguments), sizeof(arguments))

static void set(const void *arguments) {
    const elements *e = arguments;
    *(uint64_t *)e->y = e->value;
}

void pst_cuda_set(pst_cuda_queue q, uint64_t *to, uint64_t value) {
    const elements e = {.y = to, .value = value};
    fake_launch(q, 100, set, &e, sizeof e);
}

static void activate(const void *arguments) {
    const elements *e = arguments;
    for (uint64_t i = 0; i < e->n; i++)
        put(e->dtype, e->y, i, act(e->kind, get(e->dtype, e->z, i)));
}

void pst_cuda_activation(pst_cuda_queue q, pst_dtype dtype, int kind, const void *z, void *y,
                         uint64_t n) {
    const elements e = {.dtype = dtype, .kind = kind, .z = z, .y = y, .n = n};
    LAUNCH(q, activate, e);
}

static void slope(const void *arguments) {
    const elements *e = arguments;
    const double h = 1e-5;
    for (uint64_t i = 0; i < e->n; i++) {
        double at = get(e->dtype, e->z, i);
        double rise = (act(e->kind, at + h) - act(e->kind, at - h)) / (2 * h);
        put(e->dtype, e->y, i, get(e->dtype, e->x, i) * rise);
    }
}

void pst_cuda_slope(pst_cuda_queue q, pst_dtype dtype, int kind, const void *z, const void *dy,
                    void *dz, uint64_t n) {
    const elements e = {.dtype = dtype, .kind = kind, .x = dy, .z = z, .y = dz, .n = n};
    LAUNCH(q, slope, e);
}

static void scale(const void *arguments) {
    const elements *e = arguments;
    for (uint64_t i = 0; i < e->n; i++)
        put(e->dtype, e->y, i, get(e->dtype, e->x, i) * (double)e->factor);
}

void pst_cuda_scale(pst_cuda_queue q, pst_dtype dtype, float factor, const void *x, void *y,
                    uint64_t n) {
    const elements e = {.dtype = dtype, .factor = factor, .x = x, .y = y, .n = n};
    LAUNCH(q, scale, e);
}

uint64_t pst_cuda_column_sum_scratch(uint64_t rows, uint64_t columns, int arrays) {
    return rows * columns * (uint64_t)arrays;
}

typedef struct {
    pst_dtype dtype;
    pst_cuda_columns of;
} column_sum;

static void sum_columns(const void *arguments) {
    const column_sum *a = arguments;
    const pst_cuda_columns *c = &a->of;
    uint64_t pitch = c->pitch ? c->pitch : c->columns;
    for (uint64_t j = 0; j < c->columns; j++) {
        double sum = c->first ? 0 : c->sum[0][j];
        for (uint64_t r = 0; r < c->rows; r++) sum += get(a->dtype, c->dy, r * pitch + j);
        c->sum[0][j] = (float)sum;
    }
}

void pst_cuda_column_sum(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_columns *c) {
    const column_sum a = {dtype, *c};
    LAUNCH(q, sum_columns, a);
}

/* --- attention -------------------------------------------------------------------------------- */

static void plain(const void *arguments) {
    (void)arguments;
    fake_dnn.plain++;
}

void pst_cuda_attention_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a) {
    (void)dtype;
    LAUNCH(q, plain, *a);
}

void pst_cuda_attention_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a) {
    (void)dtype;
    LAUNCH(q, plain, *a);
}

typedef struct {
    pst_dtype dtype;
    pst_cuda_attention of;
    int32_t *to;
} attention;

static uint64_t length_of(const pst_cuda_attention *a, uint64_t sample) {
    if (a->lengths[sample] < 0) return 0;
    return a->lengths[sample] > (int32_t)a->t ? a->t : (uint64_t)a->lengths[sample];
}

static void clamp(const void *arguments) {
    const attention *c = arguments;
    const pst_cuda_attention *a = &c->of;
    for (uint64_t i = 0; i < a->b; i++) c->to[i] = length_of(a, i) ? (int32_t)length_of(a, i) : 1;
}

void pst_cuda_attention_clamp(pst_cuda_queue q, const pst_cuda_attention *a, int32_t *to) {
    const attention c = {.of = *a, .to = to};
    LAUNCH(q, clamp, c);
}

static void clear_f(const void *arguments) {
    const attention *c = arguments;
    const pst_cuda_attention *a = &c->of;
    for (uint64_t row = 0; row < a->b * a->t; row++) {
        if (row % a->t < length_of(a, row / a->t)) continue;
        for (uint64_t i = 0; i < a->c; i++) put(c->dtype, a->out, row * a->c + i, 0);
        for (uint64_t head = 0; head < a->heads; head++)
            a->lse[(row / a->t * a->heads + head) * a->t + row % a->t] = 0;
    }
}

void pst_cuda_attention_clear_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a) {
    const attention c = {.dtype = dtype, .of = *a};
    LAUNCH(q, clear_f, c);
}

static void clear_row(pst_dtype dtype, void *x, uint64_t row, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) put(dtype, x, row * n + i, 0);
}

static void clear_b(const void *arguments) {
    const attention *c = arguments;
    const pst_cuda_attention *a = &c->of;
    for (uint64_t row = 0; row < a->b * a->t; row++) {
        if (row % a->t < length_of(a, row / a->t)) continue;
        if (a->dqkv) {
            clear_row(c->dtype, a->dqkv, row, 3 * a->c);
            continue;
        }
        clear_row(c->dtype, a->dq, row, a->c);
        clear_row(c->dtype, a->dk, row, a->c / a->heads * a->kv_heads);
        clear_row(c->dtype, a->dv, row, a->c / a->heads * a->kv_heads);
    }
}

void pst_cuda_attention_clear_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_attention *a) {
    const attention c = {.dtype = dtype, .of = *a};
    LAUNCH(q, clear_b, c);
}

typedef struct {
    pst_dtype dtype;
    pst_cuda_attention_shared of;
} sum_of_parts;

static void sum_parts(const void *arguments) {
    const sum_of_parts *s = arguments;
    const pst_cuda_attention_shared *of = &s->of;
    for (uint64_t i = 0; i < of->n; i++) {
        const uint64_t at = i / of->run * of->between + i % of->run;
        double sum = 0;
        for (uint64_t k = 0; k < of->group; k++) sum += get(s->dtype, of->part, at + k * of->apart);
        put(s->dtype, of->to, i, sum);
    }
}

void pst_cuda_attention_sum(pst_cuda_queue q, pst_dtype dtype,
                            const pst_cuda_attention_shared *of) {
    const sum_of_parts s = {dtype, *of};
    LAUNCH(q, sum_parts, s);
}

/* --- convolution ------------------------------------------------------------------------------ */

void pst_cuda_convolution_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    (void)dtype;
    LAUNCH(q, plain, *c);
}

void pst_cuda_convolution_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    (void)dtype;
    LAUNCH(q, plain, *c);
}

void pst_cuda_convolution_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c) {
    (void)dtype;
    LAUNCH(q, plain, *c);
}

static void add_columns(const void *arguments) {
    const elements *e = arguments;
    for (uint64_t i = 0; i < e->n; i++)
        put(e->dtype, e->y, i, get(e->dtype, e->y, i) + get(e->dtype, e->x, i % e->columns));
}

void pst_cuda_add_columns(pst_cuda_queue q, pst_dtype dtype, void *y, const void *bias,
                          uint64_t rows, uint64_t columns) {
    const elements e = {.dtype = dtype, .x = bias, .y = y, .n = rows * columns, .columns = columns};
    LAUNCH(q, add_columns, e);
}

static void accumulate(const void *arguments) {
    const elements *e = arguments;
    float *y = e->y;
    for (uint64_t i = 0; i < e->n; i++)
        y[i] = (float)((e->value ? 0 : y[i]) + get(e->dtype, e->x, i));
}

void pst_cuda_accumulate(pst_cuda_queue q, pst_dtype dtype, const void *x, float *y, uint64_t n,
                         int first) {
    const elements e = {.dtype = dtype, .x = x, .y = y, .n = n, .value = first != 0};
    LAUNCH(q, accumulate, e);
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

static void scale_by_own(const void *arguments) {
    const pst_cuda_round *r = arguments;
    set_scale(r->scaling, largest_of(r), r->wide);
}

void pst_cuda_scale_by_own(pst_cuda_queue q, const pst_cuda_round *r) {
    LAUNCH(q, scale_by_own, *r);
}

typedef struct {
    pst_cuda_scaling *list;
    uint32_t n, wide;
} scalings;

static void scale_by_history(const void *arguments) {
    const scalings *of = arguments;
    for (pst_cuda_scaling *s = of->list; s < of->list + of->n; s++) {
        uint32_t most = 0;
        s->history[s->steps++ % PST_CUDA_AMAX_STEPS] = s->amax;
        s->amax = 0;
        for (uint32_t i = 0; i < PST_CUDA_AMAX_STEPS; i++)
            most = s->history[i] > most ? s->history[i] : most;
        set_scale(s, most, (int)(of->wide >> (s - of->list) & 1));
    }
}

void pst_cuda_scale_by_history(pst_cuda_queue q, pst_cuda_scaling *list, uint32_t n,
                               uint32_t wide) {
    const scalings of = {list, n, wide};
    LAUNCH(q, scale_by_history, of);
}

static void round_f8(const void *arguments) {
    const pst_cuda_round *r = arguments;
    uint32_t largest = largest_of(r);
    if (r->note && largest > r->scaling->amax) r->scaling->amax = largest;
    for (uint64_t row = 0; row < r->rows; row++)
        for (uint64_t c = 0; c < r->columns; c++)
            r->y[r->turned ? c * r->rows + row : row * r->columns + c] = pst_f8_from_f32(
                r->wide, (float)get(PST_BF16, r->x, row * r->columns + c) * r->scaling->scale);
}

void pst_cuda_round_f8(pst_cuda_queue q, const pst_cuda_round *r) { LAUNCH(q, round_f8, *r); }
