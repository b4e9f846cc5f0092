/* Reference self-attention (Vaswani et al. 2017). qkv[b,T,3C]: q, k, v blocks of C, heads side by
 * side in each. Scores are recomputed where they are needed; only their log-sum-exp is saved
 * (Dao et al. 2022). */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <math.h>
#include <string.h>

typedef struct {
    uint64_t b, t, c, heads, d;
    double scale;
    const int32_t *lengths, *starts;
    int bidirectional;
} sizes;

static sizes sizes_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    sizes s = {
        .b = in->dim[0], .t = in->dim[1], .c = in->dim[2] / 3, .heads = call->node->attr.heads};
    s.d = s.c / s.heads;
    s.scale = 1 / sqrt((double)s.d);
    s.lengths = pst_call_lengths(call);
    s.starts = pst_call_starts(call);
    s.bidirectional = call->node->attr.bidirectional != 0;
    return s;
}

/* The positions [first, end) to which position i of a sample attends; none: it is padding. */
static uint64_t first_seen(const sizes *s, uint64_t sample, uint64_t i) {
    return pst_start_of(s->starts, sample, s->t, i);
}
static uint64_t seen_by(const sizes *s, uint64_t sample, uint64_t i) {
    uint64_t length = pst_length_of(s->lengths, sample, s->t);
    if (i >= length) return 0;
    return s->bidirectional ? length : i + 1;
}

static double dot(const float *a, const float *b, uint64_t n) {
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
    return sum;
}

/* F: IN0 [IN1] OUT0 SAVED0 */
pst_status pst_ref_attention_f(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    const float *qkv = call->arg[0];
    float *out = pst_call_behind(call)[0], *lse = pst_call_behind(call)[1];
    for (uint64_t bh = 0; bh < s.b * s.heads; bh++)
        for (uint64_t i = 0; i < s.t; i++) {
            /* q of position 0 */
            const float *first = qkv + bh / s.heads * s.t * 3 * s.c + bh % s.heads * s.d;
            const float *q = first + i * 3 * s.c;
            float *o = out + (bh / s.heads * s.t + i) * s.c + bh % s.heads * s.d;
            double max = -INFINITY, sum = 0;
            const uint64_t seen = seen_by(&s, bh / s.heads, i),
                           from = first_seen(&s, bh / s.heads, i);
            for (uint64_t j = from; j < seen; j++)
                max = fmax(max, s.scale * dot(q, first + j * 3 * s.c + s.c, s.d));
            for (uint64_t j = from; j < seen; j++)
                sum += exp(s.scale * dot(q, first + j * 3 * s.c + s.c, s.d) - max);
            lse[bh * s.t + i] = seen ? (float)(max + log(sum)) : 0;
            memset(o, 0, s.d * sizeof *o);
            for (uint64_t j = from; j < seen; j++) {
                const float *k = first + j * 3 * s.c + s.c, *v = k + s.c;
                double p = exp(s.scale * dot(q, k, s.d) - max) / sum;
                for (uint64_t c = 0; c < s.d; c++) o[c] += (float)(p * v[c]);
            }
        }
    return PST_OK;
}

/* B: IN0 [IN1] OUT0 SAVED0 DOUT0 DIN0. With delta = dot(do, o): dp = dot(do, v), ds = p * (dp -
 * delta) * scale. */
pst_status pst_ref_attention_b(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    void *const *behind = pst_call_behind(call);
    const float *qkv = call->arg[0], *out = behind[0], *lse = behind[1], *dout = behind[2];
    float *dqkv = behind[3];
    memset(dqkv, 0, s.b * s.t * 3 * s.c * sizeof *dqkv);
    for (uint64_t bh = 0; bh < s.b * s.heads; bh++)
        for (uint64_t i = 0; i < s.t; i++) {
            uint64_t first = bh / s.heads * s.t * 3 * s.c + bh % s.heads * s.d;
            uint64_t row = (bh / s.heads * s.t + i) * s.c + bh % s.heads * s.d;
            const float *q = qkv + first + i * 3 * s.c, *d_o = dout + row;
            float *dq = dqkv + first + i * 3 * s.c;
            double delta = dot(d_o, out + row, s.d);
            const uint64_t seen = seen_by(&s, bh / s.heads, i),
                           from = first_seen(&s, bh / s.heads, i);
            for (uint64_t j = from; j < seen; j++) {
                const float *k = qkv + first + j * 3 * s.c + s.c, *v = k + s.c;
                float *dk = dqkv + first + j * 3 * s.c + s.c, *dv = dk + s.c;
                double p = exp(s.scale * dot(q, k, s.d) - lse[bh * s.t + i]);
                double ds = p * (dot(d_o, v, s.d) - delta) * s.scale;
                for (uint64_t c = 0; c < s.d; c++) {
                    dq[c] += (float)(ds * k[c]);
                    dk[c] += (float)(ds * q[c]);
                    dv[c] += (float)(p * d_o[c]);
                }
            }
        }
    return PST_OK;
}
