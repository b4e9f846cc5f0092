/* Reference self-attention (Vaswani et al. 2017). qkv[b,T,3C]: q, k, v blocks of C, heads side by
 * side in each. Scores are recomputed where they are needed; only their log-sum-exp is saved
 * (Dao et al. 2022). */
#include "base/rng.h"
#include "kernels/attention.h"
#include "kernels/ref/ref.h"
#include <string.h>

typedef struct {
    pst_attention_shape s;
    double scale;
    const int32_t *lengths, *starts;
    const float *q, *k, *v;
    int drops;
    uint64_t key, first_sample;
} operands;

static operands operands_of(const pst_call *call) {
    operands o = {.s = pst_attention_shape_of(call->graph, call->node)};
    const int packed = o.s.packed;
    o.scale = 1 / sqrt((double)o.s.d);
    o.lengths = pst_call_lengths(call);
    o.starts = pst_call_starts(call);
    o.drops = call->train && o.s.rate > 0;
    o.key = o.drops ? pst_rng_key(call->seed, call->node->name) : 0;
    o.first_sample = call->sample;
    o.q = call->arg[0];
    o.k = packed ? o.q + o.s.c : call->arg[1];
    o.v = packed ? o.k + o.s.c : call->arg[2];
    return o;
}

/* Positions [from, end) to which position i of a sample attends; none: it is padding. */
static uint64_t first_seen(const operands *o, uint64_t sample, uint64_t i) {
    return pst_attention_first(&o->s, o->starts, sample, i);
}
static uint64_t seen_by(const operands *o, uint64_t sample, uint64_t i) {
    uint64_t length = pst_length_of(o->lengths, sample, o->s.t);
    if (i >= length) return 0;
    return o->s.bidirectional ? length : i + 1;
}

static double dot(const float *a, const float *b, uint64_t n) {
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

/* Where position i of a head begins in the output, in queries, and in keys or values. */
typedef struct {
    uint64_t out, q, kv;
} place;
static place place_of(const pst_attention_shape *s, uint64_t sample, uint64_t head, uint64_t i) {
    const uint64_t row = sample * s->t + i;
    return (place){row * s->c + head * s->d, row * s->q_ld + head * s->d,
                   row * s->kv_ld + pst_attention_kv_of(s, head) * s->d};
}

/* The factor of the probability with which query i of a head attends to key j. */
static double kept(const operands *x, uint64_t bh, uint64_t i, uint64_t j) {
    const uint64_t sample = bh / x->s.heads, head = bh % x->s.heads;
    uint32_t word[4];
    if (!x->drops) return 1;
    pst_rng_words(x->key, x->first_sample + sample, pst_attention_draw(&x->s, head, i, j), word);
    return pst_rng_uniform(word[j % 4]) >= x->s.rate ? 1 / (1 - (double)x->s.rate) : 0;
}

/* One query: its output o, and the log-sum-exp of its scores. */
static float attend(const operands *x, uint64_t sample, uint64_t head, uint64_t i, float *o) {
    const pst_attention_shape *s = &x->s;
    const float *q = x->q + place_of(s, sample, head, i).q;
    const float *k = x->k + place_of(s, sample, head, 0).kv,
                *v = x->v + place_of(s, sample, head, 0).kv;
    const uint64_t end = seen_by(x, sample, i), from = first_seen(x, sample, i);
    double max = -INFINITY, sum = 0;
    for (uint64_t j = from; j < end; j++)
        max = fmax(max, x->scale * dot(q, k + j * s->kv_ld, s->d));
    for (uint64_t j = from; j < end; j++)
        sum += exp(x->scale * dot(q, k + j * s->kv_ld, s->d) - max);
    memset(o, 0, s->d * sizeof *o);
    for (uint64_t j = from; j < end; j++) {
        double p = exp(x->scale * dot(q, k + j * s->kv_ld, s->d) - max) / sum *
                   kept(x, sample * s->heads + head, i, j);
        for (uint64_t c = 0; c < s->d; c++) o[c] += (float)(p * v[j * s->kv_ld + c]);
    }
    return end ? (float)(max + log(sum)) : 0;
}

/* F: IN0 [IN1] OUT0 SAVED0, or IN0 IN1 IN2 [IN3] OUT0 SAVED0 */
pst_status pst_ref_attention_f(pst_device *device, const pst_call *call) {
    (void)device;
    operands x = operands_of(call);
    float *out = pst_call_behind(call)[0], *lse = pst_call_behind(call)[1];
    for (uint64_t bh = 0; bh < x.s.b * x.s.heads; bh++)
        for (uint64_t i = 0; i < x.s.t; i++) {
            const uint64_t sample = bh / x.s.heads, head = bh % x.s.heads;
            lse[bh * x.s.t + i] =
                attend(&x, sample, head, i, out + place_of(&x.s, sample, head, i).out);
        }
    return PST_OK;
}

typedef struct {
    const float *out, *lse, *dout;
    float *dq, *dk, *dv;
} slopes;

/* The probability with which query i of a head attends to key j, times the factor m of dropout, and
 * the slope of the score: with delta = dot(do, o): dp = m dot(do, v), ds = p * (dp - delta) *
 * scale. */
typedef struct {
    double p, ds;
} pair;
static pair pair_of(const operands *x, uint64_t bh, uint64_t i, uint64_t j, const slopes *g) {
    const pst_attention_shape *s = &x->s;
    const place q = place_of(s, bh / s->heads, bh % s->heads, i),
                k = place_of(s, bh / s->heads, bh % s->heads, j);
    const float *d_o = g->dout + q.out;
    const double p = exp(x->scale * dot(x->q + q.q, x->k + k.kv, s->d) - g->lse[bh * s->t + i]);
    const double m = kept(x, bh, i, j);
    const double over = m * dot(d_o, x->v + k.kv, s->d) - dot(d_o, g->out + q.out, s->d);
    return (pair){m * p, p * over * x->scale};
}

enum { AT_ONCE = 64 }; /* channels that are summed in double at a time */

/* Channels [c, c + n) of dq of one query. */
static void query_slope(const operands *x, uint64_t bh, uint64_t i, const slopes *g, pst_part c) {
    const pst_attention_shape *s = &x->s;
    const uint64_t sample = bh / s->heads, head = bh % s->heads, end = seen_by(x, sample, i);
    double sum[AT_ONCE] = {0};
    for (uint64_t j = first_seen(x, sample, i); j < end; j++) {
        const double ds = pair_of(x, bh, i, j, g).ds;
        const float *k = x->k + place_of(s, sample, head, j).kv + c.first;
        for (uint64_t e = 0; e < c.count; e++) sum[e] += ds * (double)k[e];
    }
    float *dq = g->dq + place_of(s, sample, head, i).q + c.first;
    for (uint64_t e = 0; e < c.count; e++) dq[e] = (float)sum[e];
}

/* Channels [c, c + n) of dk and dv of one key, of all heads that share it. */
static void key_slope(const operands *x, uint64_t sample, uint64_t kv, uint64_t j, const slopes *g,
                      pst_part c) {
    const pst_attention_shape *s = &x->s;
    const pst_part heads = pst_attention_heads_of(s, kv);
    const uint64_t at = (sample * s->t + j) * s->kv_ld + kv * s->d + c.first;
    double dk[AT_ONCE] = {0}, dv[AT_ONCE] = {0};
    for (uint64_t h = heads.first; h < heads.first + heads.count; h++)
        for (uint64_t i = s->bidirectional ? 0 : j; i < s->t; i++) {
            if (j >= seen_by(x, sample, i) || j < first_seen(x, sample, i)) continue;
            const pair by = pair_of(x, sample * s->heads + h, i, j, g);
            const place q = place_of(s, sample, h, i);
            for (uint64_t e = 0; e < c.count; e++) {
                dk[e] += by.ds * (double)x->q[q.q + c.first + e];
                dv[e] += by.p * (double)g->dout[q.out + c.first + e];
            }
        }
    for (uint64_t e = 0; e < c.count; e++) {
        g->dk[at + e] = (float)dk[e];
        g->dv[at + e] = (float)dv[e];
    }
}

/* B: IN0 [IN1] OUT0 SAVED0 DOUT0 DIN0, or IN0 IN1 IN2 [IN3] OUT0 SAVED0 DOUT0 DIN0 DIN1 DIN2 */
pst_status pst_ref_attention_b(pst_device *device, const pst_call *call) {
    (void)device;
    operands x = operands_of(call);
    const pst_attention_shape *s = &x.s;
    void *const *behind = pst_call_behind(call);
    slopes g = {.out = behind[0], .lse = behind[1], .dout = behind[2], .dq = behind[3]};
    g.dk = s->packed ? g.dq + s->c : behind[4];
    g.dv = s->packed ? g.dk + s->c : behind[5];
    for (uint64_t first = 0; first < s->d; first += AT_ONCE) {
        const pst_part c = {first, pst_min_u64(AT_ONCE, s->d - first)};
        for (uint64_t bh = 0; bh < s->b * s->heads; bh++)
            for (uint64_t i = 0; i < s->t; i++) query_slope(&x, bh, i, &g, c);
        for (uint64_t bk = 0; bk < s->b * s->kv_heads; bk++)
            for (uint64_t j = 0; j < s->t; j++)
                key_slope(&x, bk / s->kv_heads, bk % s->kv_heads, j, &g, c);
    }
    return PST_OK;
}
