/* Reference arithmetic on whole arrays, and the table for any machine. Products and sums are
 * rounded one by one (no fused multiply-add), so that the vector tables give the same bits. */
#include "kernels/kernel.h"
#include <math.h>

static void adamw(const pst_optim_hyper *h, float *w, const float *g, float *m, float *v,
                  uint64_t n) {
    float step = h->lr / h->correction1, root2 = sqrtf(h->correction2),
          keep = 1.0f - h->lr * h->decay;
    float rest1 = 1.0f - h->beta1, rest2 = 1.0f - h->beta2;
    for (uint64_t i = 0; i < n; i++) {
        float x = g[i] * h->grad_scale;
        m[i] = h->beta1 * m[i] + rest1 * x;
        v[i] = h->beta2 * v[i] + rest2 * (x * x);
        w[i] = w[i] * keep - step * m[i] / (sqrtf(v[i]) / root2 + h->eps);
    }
}

static void adam(const pst_optim_hyper *h, float *w, const float *g, float *m, float *v,
                 uint64_t n) {
    float step = h->lr / h->correction1, root2 = sqrtf(h->correction2);
    float rest1 = 1.0f - h->beta1, rest2 = 1.0f - h->beta2;
    for (uint64_t i = 0; i < n; i++) {
        float x = g[i] * h->grad_scale + h->decay * w[i];
        m[i] = h->beta1 * m[i] + rest1 * x;
        v[i] = h->beta2 * v[i] + rest2 * (x * x);
        w[i] = w[i] - step * m[i] / (sqrtf(v[i]) / root2 + h->eps);
    }
}

static void sgd(const pst_optim_hyper *h, float *w, const float *g, float *buf, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        float x = g[i] * h->grad_scale + h->decay * w[i];
        buf[i] = h->t <= 1 ? x : h->momentum * buf[i] + x;
        float change = h->nesterov ? x + h->momentum * buf[i] : buf[i];
        w[i] = w[i] - h->lr * change;
    }
}

static void update(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                   const pst_flat_param *p) {
    (void)pool;
    if (kind == PST_OPTIM_ADAMW) adamw(h, p->weight, p->grad, p->state[0], p->state[1], p->n);
    if (kind == PST_OPTIM_ADAM) adam(h, p->weight, p->grad, p->state[0], p->state[1], p->n);
    if (kind == PST_OPTIM_SGD) sgd(h, p->weight, p->grad, p->state[0], p->n);
}

/* 16 running sums per block (element i goes to sum i%16), then added in halves, as vector code
 * does. The square of a float is exact in double. */
static double block_sum(const float *x, uint64_t n) {
    double sum[16] = {0};
    for (uint64_t i = 0; i < n; i++) sum[i % 16] += (double)x[i] * (double)x[i];
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) sum[i] += sum[i + half];
    return sum[0];
}

static double sum_squares(pst_pool *pool, const float *x, uint64_t n) {
    (void)pool;
    double total = 0;
    for (uint64_t i = 0; i < n; i += 4096) total += block_sum(x + i, n - i < 4096 ? n - i : 4096);
    return total;
}

static void accumulate(pst_pool *pool, float *y, const float *x, uint64_t n) {
    (void)pool;
    for (uint64_t i = 0; i < n; i++) y[i] += x[i];
}

static void narrow(pst_pool *pool, pst_dtype dtype, const float *x, uint16_t *y, uint64_t n) {
    (void)pool;
    for (uint64_t i = 0; i < n; i++) y[i] = pst_half_from_f32(dtype, x[i]);
}

static pst_squares squares(pst_pool *pool, const float *x, uint64_t n) {
    pst_squares total = {PST_SQUARES_NONE, {0}};
    (void)pool;
    for (uint64_t i = 0; i < n; i += PST_SQUARES_BLOCK) {
        uint64_t left = n - i;
        pst_squares block =
            pst_squares_of_block(x + i, left < PST_SQUARES_BLOCK ? left : PST_SQUARES_BLOCK);
        pst_squares_add(&total, &block);
    }
    return total;
}

const pst_flat *pst_flat_ref(void) {
    static const pst_flat flat = {"ref", 0, update, sum_squares, accumulate, narrow, squares};
    return &flat;
}
