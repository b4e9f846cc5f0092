/* Reference arithmetic on whole arrays, and the table for any machine. Products and sums are
 * rounded one by one (no fused multiply-add), so that the vector tables give the same bits. */
#include "kernels/codec.h"
#include "kernels/lowrank.h"
#include "kernels/kernel.h"
#include <math.h>
#include <string.h>

/* --- optimizer -------------------------------------------------------------------------------- */

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

/* The step before it is scaled, from the new states. */
static float lamb_direction(const pst_optim_hyper *h, float w, float m, float v) {
    return m / h->correction1 / (sqrtf(v / h->correction2) + h->eps) + h->decay * w;
}

static void lamb(const pst_optim_hyper *h, float *w, const float *g, float *m, float *v,
                 uint64_t n) {
    float rest1 = 1.0f - h->beta1, rest2 = 1.0f - h->beta2;
    for (uint64_t i = 0; i < n; i++) {
        float x = g[i] * h->grad_scale;
        m[i] = h->beta1 * m[i] + rest1 * x;
        v[i] = h->beta2 * v[i] + rest2 * (x * x);
        w[i] = w[i] - h->lr * lamb_direction(h, w[i], m[i], v[i]);
    }
}

static void update_f32(pst_optim_kind kind, const pst_optim_hyper *h, const pst_flat_param *p) {
    if (kind == PST_OPTIM_ADAMW) adamw(h, p->weight, p->grad, p->state[0], p->state[1], p->n);
    if (kind == PST_OPTIM_ADAM) adam(h, p->weight, p->grad, p->state[0], p->state[1], p->n);
    if (kind == PST_OPTIM_SGD) sgd(h, p->weight, p->grad, p->state[0], p->n);
    if (kind == PST_OPTIM_LAMB) lamb(h, p->weight, p->grad, p->state[0], p->state[1], p->n);
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* One element at a time, in fp32; then its states are rounded. */
static void update_bf16(pst_optim_kind kind, const pst_optim_hyper *h, const pst_flat_param *p) {
    const int n_state = kind == PST_OPTIM_SGD ? 1 : 2;
    for (uint64_t i = 0; i < p->n; i++) {
        float state[2] = {0};
        const pst_flat_param one = {p->weight + i, p->grad + i, {state, state + 1}, 1};
        uint32_t random = pst_optim_random(h->noise, bits_of(p->weight[i]), bits_of(p->grad[i]));
        for (int s = 0; s < n_state; s++)
            state[s] = pst_f32_from_bf16(((const uint16_t *)p->state[s])[i]);
        update_f32(kind, h, &one);
        for (int s = 0; s < n_state; s++) {
            uint32_t part = s ? random >> 16 : random & 0xffff;
            ((uint16_t *)p->state[s])[i] = pst_optim_rounded(bits_of(state[s]), part);
        }
    }
}

static void update(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                   const pst_flat_param *p) {
    (void)pool;
    if (h->state == PST_BF16) update_bf16(kind, h, p);
    else update_f32(kind, h, p);
}

static void update_to(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                      const pst_flat_param *p, const pst_flat_new *to) {
    const pst_flat_param there = {to->weight, p->grad, {to->state[0], to->state[1]}, p->n};
    if (to->weight != p->weight) memcpy(to->weight, p->weight, p->n * sizeof *p->weight);
    for (int s = 0; s < 2; s++)
        if (to->state[s] && to->state[s] != p->state[s])
            memcpy(to->state[s], p->state[s], p->n * pst_dtype_bytes(h->state));
    update(pool, kind, h, &there);
}

static float state_at(const pst_optim_hyper *h, const void *state, uint64_t i) {
    if (h->state == PST_BF16) return pst_f32_from_bf16(((const uint16_t *)state)[i]);
    return ((const float *)state)[i];
}

static void lamb_squares(pst_pool *pool, const pst_optim_hyper *h, const pst_flat_param *p,
                         pst_squares out[2]) {
    const float rest1 = 1.0f - h->beta1, rest2 = 1.0f - h->beta2;
    float u[PST_SQUARES_BLOCK];
    (void)pool;
    out[0] = out[1] = (pst_squares){PST_SQUARES_NONE, {0}};
    for (uint64_t from = 0, n; from < p->n; from += n) {
        n = p->n - from < PST_SQUARES_BLOCK ? p->n - from : PST_SQUARES_BLOCK;
        for (uint64_t i = 0; i < n; i++) {
            float x = p->grad[from + i] * h->grad_scale;
            float m = h->beta1 * state_at(h, p->state[0], from + i) + rest1 * x;
            float v = h->beta2 * state_at(h, p->state[1], from + i) + rest2 * (x * x);
            u[i] = lamb_direction(h, p->weight[from + i], m, v);
        }
        const pst_squares of[2] = {pst_squares_of_block(p->weight + from, n),
                                   pst_squares_of_block(u, n)};
        pst_squares_add(out, of);
        pst_squares_add(out + 1, of + 1);
    }
}

/* --- sums ------------------------------------------------------------------------------------- */

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

/* Element i of a step (pst_flat_moments), whose gradient is x. */
static float step_of(const pst_flat_moments *m, uint64_t i, float x) {
    const float g = x * m->in;
    const float v = m->beta2 * m->second[i] + (1 - m->beta2) * (g * g);
    if (v < INFINITY) m->second[i] = v;
    return g / (sqrtf(m->second[i]) * m->root + m->eps) * m->out;
}

/* One block, whose first element is `at`: its sums with what is left over, and their largest
 * magnitude. */
static uint32_t add_error(const pst_flat_pack *p, uint64_t at, uint64_t n, float *x) {
    uint32_t top = 0;
    for (uint64_t i = 0; i < n; i++) {
        const float number = p->moments ? step_of(p->moments, at + i, p->x[at + i]) : p->x[at + i];
        x[i] = number + p->scale * p->error[at + i];
        if (pst_codec_magnitude(x[i]) > top) top = pst_codec_magnitude(x[i]);
    }
    return top;
}

static uint64_t count_from(const float *x, uint64_t n, uint32_t least) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < n; i++) found += pst_codec_magnitude(x[i]) >= least;
    return found;
}

static void pack_topk(const pst_codec_sending *s, uint64_t n, uint32_t top) {
    pst_codec_pick pick =
        pst_codec_choose(s->x, n, s->k, (pst_codec_bracket){0, top + 1, 0}, count_from);
    uint64_t nth = 0;
    pst_codec_send_none(s, n);
    for (uint64_t i = 0; i < n; i++)
        if (pst_codec_picks(&pick, pst_codec_magnitude(s->x[i]))) pst_codec_send(s, nth++, i);
}

/* The mean of the magnitudes above `least`; none: `least`. */
static float mean_above(const float *x, uint64_t n, float least) {
    float sum[PST_CODEC_LANES] = {0};
    uint64_t found = 0;
    for (uint64_t i = 0; i < n; i++) {
        const int above = fabsf(x[i]) > least;
        sum[i % PST_CODEC_LANES] += above ? fabsf(x[i]) : 0;
        found += (uint64_t)above;
    }
    return found ? pst_codec_tree(sum) / (float)found : least;
}

static pst_codec_scale scale_of(const pst_flat_pack *p, const float *x, uint64_t n, uint32_t top) {
    float sum[PST_CODEC_LANES] = {0}, value = 0;
    if (p->codec.kind != PST_CODEC_2BIT) return pst_codec_scale_of(p->codec.kind, top);
    if (!(p->codec.threshold > 0)) {
        for (uint64_t i = 0; i < n; i++) sum[i % PST_CODEC_LANES] += fabsf(x[i]);
        value = mean_above(x, n, pst_codec_tree(sum) / (float)n);
    }
    return pst_codec_ternary_of(p->codec, top, value, p->scale);
}

static int8_t number_of(pst_codec_kind kind, pst_codec_scale s, float x) {
    if (!(s.inverse > 0)) return 0;
    if (kind == PST_CODEC_2BIT) return (int8_t)((x >= s.limit) - (x <= -s.limit));
    return (int8_t)rintf(x * s.inverse);
}

/* to: where the block goes. */
static void pack_block(const pst_flat_pack *p, uint64_t at, uint64_t n, uint8_t *to) {
    float x[PST_CODEC_BLOCK_MAX];
    float *next = p->next ? p->next + at : NULL;
    float *out = p->decode ? p->x + at : NULL;
    int8_t number[PST_CODEC_BLOCK_MAX];
    const pst_codec_kind kind = p->codec.kind;
    const uint32_t top = add_error(p, at, n, x);
    if (kind == PST_CODEC_BF16) {
        pst_codec_pack_bf16(x, n, to, next, out);
        return;
    }
    if (kind == PST_CODEC_TOPK) {
        pack_topk(&(pst_codec_sending){x, to, pst_codec_kept(p->codec, n), next, out}, n, top);
        return;
    }
    const pst_codec_scale s = scale_of(p, x, n, top);
    memcpy(to, &s.scale, sizeof s.scale);
    for (uint64_t i = 0; i < n; i++) {
        number[i] = number_of(kind, s, x[i]);
        float unpacked = (float)number[i] * s.scale;
        if (next) next[i] = x[i] - unpacked;
        if (out) out[i] = unpacked;
    }
    pst_codec_put(kind, number, to + sizeof s.scale, n);
}

static uint32_t sum_matrix(const pst_lowrank *x, const pst_flat_pack *p, uint64_t at, uint64_t n,
                           float *m) {
    const uint32_t top = add_error(p, at, n, m);
    if (x) pst_lowrank_left(x, m);
    return top;
}

static const pst_lowrank_ops lowrank_ops = {sum_matrix, pst_lowrank_left, pst_lowrank_right,
                                            pst_lowrank_finish, pst_lowrank_unpack_product};

static void pack_matrices(const pst_flat_pack *p) {
    const uint64_t block = p->codec.block;
    for (uint64_t at = 0; at < p->n; at += block) {
        const uint64_t n = p->n - at < block ? p->n - at : block;
        pst_lowrank_pack(&lowrank_ops, p, at, n);
    }
}

static void pack(pst_pool *pool, const pst_flat_pack *p) {
    (void)pool;
    const uint64_t block = p->codec.block;
    if (p->codec.kind == PST_CODEC_POWERSGD) {
        pack_matrices(p);
        return;
    }
    for (uint64_t at = 0; at < p->n; at += block)
        pack_block(p, at, p->n - at < block ? p->n - at : block,
                   p->packed + pst_codec_bytes(p->codec, at));
}

static void unpack(pst_pool *pool, pst_codec codec, const uint8_t *packed, float *y, uint64_t n,
                   int add) {
    int8_t number[PST_CODEC_BLOCK_MAX];
    float scale;
    (void)pool;
    for (uint64_t at = 0; at < n; at += codec.block) {
        const uint64_t m = n - at < codec.block ? n - at : codec.block;
        const uint8_t *from = packed + pst_codec_bytes(codec, at);
        if (codec.kind == PST_CODEC_BF16) {
            pst_codec_unpack_bf16(from, m, y + at, add);
            continue;
        }
        if (codec.kind == PST_CODEC_POWERSGD) {
            pst_lowrank_unpack(&lowrank_ops, &(pst_lowrank_block){codec, at, m, from}, y + at, add);
            continue;
        }
        if (codec.kind == PST_CODEC_TOPK) {
            pst_codec_unpack_topk(codec, from, m, y + at, add);
            continue;
        }
        memcpy(&scale, from, sizeof scale);
        pst_codec_take(codec.kind, from + sizeof scale, number, m);
        for (uint64_t i = 0; i < m; i++) {
            float unpacked = (float)number[i] * scale;
            y[at + i] = add ? y[at + i] + unpacked : unpacked;
        }
    }
}

const pst_flat *pst_flat_ref(void) {
    static const pst_flat flat = {"ref",  0,       update,       update_to, sum_squares, accumulate,
                                  narrow, squares, lamb_squares, pack,      unpack};
    return &flat;
}
