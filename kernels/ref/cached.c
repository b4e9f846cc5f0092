/* Reference operators for generation: attention to a cache of keys and values, and rows of each
 * sample. */
#include "kernels/ref/ref.h"
#include "kernels/shape.h"
#include <math.h>
#include <string.h>

/* Rows i of q, k and v of a sample are at q + i * step, and so on; t: positions of this run. */
typedef struct {
    uint64_t b, t, heads, own, p, d, window, step, kv_step;
    uint64_t first, group; /* head h of queries uses head (first + h) / group of the keys */
    const float *q, *k, *v;
    const int32_t *past;
    float *cache, *out;
} sizes;

static sizes sizes_of(const pst_call *call) {
    const pst_node *node = call->node;
    const pst_tensor *x = pst_call_in(call, 0);
    const uint64_t *dim = call->graph->param[node->param[0]].dim;
    void *const *behind = pst_call_behind(call);
    sizes s = {.b = x->dim[0],
               .t = x->dim[1],
               .heads = node->attr.heads,
               .own = dim[1],
               .p = dim[2] / 2,
               .d = dim[3],
               .window = node->attr.window ? node->attr.window : dim[2],
               .step = x->dim[2],
               .first = node->attr.total ? node->attr.first : 0,
               .group = (node->attr.total ? node->attr.total : node->attr.heads) / dim[1],
               .q = call->arg[0],
               .past = call->arg[node->n_in - 1],
               .cache = behind[0],
               .out = behind[1]};
    int joint = node->n_in == 2;
    s.kv_step = joint ? s.step : s.own * s.d;
    s.k = joint ? s.q + s.heads * s.d : call->arg[1];
    s.v = joint ? s.k + s.own * s.d : call->arg[2];
    return s;
}

static uint64_t position_of(const sizes *s, uint64_t b, uint64_t i) {
    return i + (s->past[b] < 0 ? 0 : (uint64_t)s->past[b]);
}

/* Element c of the key or value of a position, in the cache of a head of a sample. */
static float *key_at(const sizes *s, float *cache, uint64_t position, uint64_t c) {
    const uint64_t block = position / PST_CACHE_BLOCK, lane = position % PST_CACHE_BLOCK;
    return cache + (block * s->d + c) * PST_CACHE_BLOCK + lane;
}
static float *value_at(const sizes *s, float *cache, uint64_t position, uint64_t c) {
    return cache + (s->p + position) * s->d + c;
}

static float *cache_of(const sizes *s, uint64_t b, uint64_t head) {
    return s->cache + (b * s->own + head) * 2 * s->p * s->d;
}

static void store(const sizes *s) {
    for (uint64_t b = 0; b < s->b; b++)
        for (uint64_t i = 0; i < s->t && position_of(s, b, i) < s->p; i++)
            for (uint64_t h = 0; h < s->own; h++) {
                const uint64_t from = (b * s->t + i) * s->kv_step + h * s->d;
                float *cache = cache_of(s, b, h);
                for (uint64_t c = 0; c < s->d; c++) {
                    *key_at(s, cache, position_of(s, b, i), c) = s->k[from + c];
                    *value_at(s, cache, position_of(s, b, i), c) = s->v[from + c];
                }
            }
}

static double score(const sizes *s, const float *q, float *cache, uint64_t position) {
    double sum = 0;
    for (uint64_t c = 0; c < s->d; c++) sum += (double)q[c] * *key_at(s, cache, position, c);
    return sum / sqrt((double)s->d);
}

/* A head of position i of sample b. */
static void attend(const sizes *s, uint64_t b, uint64_t i, uint64_t head) {
    float *cache = cache_of(s, b, (s->first + head) / s->group);
    const float *q = s->q + (b * s->t + i) * s->step + head * s->d;
    float *out = s->out + ((b * s->t + i) * s->heads + head) * s->d;
    const uint64_t end = pst_min_u64(position_of(s, b, i) + 1, s->p),
                   from = end > s->window ? end - s->window : 0;
    double most = -INFINITY, sum = 0;
    for (uint64_t j = from; j < end; j++) most = fmax(most, score(s, q, cache, j));
    for (uint64_t j = from; j < end; j++) sum += exp(score(s, q, cache, j) - most);
    for (uint64_t c = 0; c < s->d; c++) {
        double of = 0;
        for (uint64_t j = from; j < end; j++)
            of += exp(score(s, q, cache, j) - most) / sum * *value_at(s, cache, j, c);
        out[c] = (float)of;
    }
}

/* F: IN0 [IN1 IN2] IN.past PARAM0 OUT0 */
pst_status pst_ref_cached_attention_f(pst_device *device, const pst_call *call) {
    (void)device;
    sizes s = sizes_of(call);
    store(&s);
    for (uint64_t b = 0; b < s.b; b++)
        for (uint64_t i = 0; i < s.t; i++)
            for (uint64_t h = 0; h < s.heads; h++) attend(&s, b, i, h);
    return PST_OK;
}

/* F: IN0 IN1 OUT0 */
pst_status pst_ref_pick_f(pst_device *device, const pst_call *call) {
    (void)device;
    const pst_tensor *x = pst_call_in(call, 0), *at = pst_call_in(call, 1);
    const float *from = call->arg[0];
    const int32_t *row = call->arg[1];
    float *out = call->arg[2];
    const uint64_t t = x->dim[1], c = x->dim[2], n = at->dim[1];
    for (uint64_t i = 0; i < x->dim[0] * n; i++) {
        uint64_t r = row[i] < 0 ? 0 : pst_min_u64((uint64_t)row[i], t - 1);
        memcpy(out + i * c, from + (i / n * t + r) * c, c * sizeof *out);
    }
    return PST_OK;
}
