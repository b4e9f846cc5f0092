/* Arithmetic of the flush on the CPU (optimizer, norms, sums): the loops of its instruction set,
 * one array after the other. */
#include "kernels/cpu/cpu.h"
#include "kernels/muon.h"
#include "kernels/shape.h"

static const pst_flat *flat_of(const pst_device *device) { return pst_flat_choose(device->isa); }

/* Whether the new weights and states of a list do not stay in the caches until they are read. */
static int exceeds_caches(const pst_arith_param *list, uint32_t n) {
    enum { CACHES = 8 << 20, ARRAYS = 3 };
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        if (list[i].new_weight) bytes += ARRAYS * sizeof(float) * list[i].n;
    return bytes > CACHES;
}

static pst_status update(pst_device *device, pst_optim_kind kind, const pst_optim_hyper *h,
                         pst_dtype type, const pst_arith_param *list, uint32_t n) {
    const pst_flat *flat = flat_of(device);
    const int past = exceeds_caches(list, n);
    pst_optim_hyper own = *h;
    for (uint32_t i = 0; i < n; i++) {
        const pst_arith_param *p = list + i;
        own.decay = p->decay;
        if (kind == PST_OPTIM_LAMB) own.lr = h->lr * p->trust;
        const pst_flat_param flat_param = {p->weight, p->grad, {p->state[0], p->state[1]}, p->n};
        const pst_flat_new to = {p->new_weight, {p->new_state[0], p->new_state[1]}, past};
        if (to.weight) flat->update_to(device->pool, kind, &own, &flat_param, &to);
        else flat->update(device->pool, kind, &own, &flat_param);
        const float *weight = to.weight ? to.weight : p->weight;
        if (p->narrow) flat->narrow(device->pool, type, weight, p->narrow, p->n);
    }
    return PST_OK;
}

static pst_status sum_squares(pst_device *device, const float *const *x, const uint64_t *n,
                              uint32_t count, double *out) {
    const pst_flat *flat = flat_of(device);
    for (uint32_t i = 0; i < count; i++) out[i] = flat->sum_squares(device->pool, x[i], n[i]);
    return PST_OK;
}

static pst_status squares(pst_device *device, const float *const *x, const uint64_t *n,
                          uint32_t count, pst_squares *out) {
    const pst_flat *flat = flat_of(device);
    for (uint32_t i = 0; i < count; i++) out[i] = flat->squares(device->pool, x[i], n[i]);
    return PST_OK;
}

static pst_status accumulate(pst_device *device, float *y, const float *x, uint64_t n) {
    flat_of(device)->accumulate(device->pool, y, x, n);
    return PST_OK;
}

static pst_status narrow(pst_device *device, pst_dtype type, const float *x, uint16_t *y,
                         uint64_t n) {
    flat_of(device)->narrow(device->pool, type, x, y, n);
    return PST_OK;
}

/* Only a few numbers per channel, so plain C is enough. */
static pst_status average(pst_device *device, float rate, float scale, pst_dtype type,
                          const pst_arith_param *list, uint32_t n) {
    const pst_flat *flat = flat_of(device);
    for (uint32_t i = 0; i < n; i++) {
        const pst_arith_param *p = list + i;
        for (uint64_t k = 0; k < p->n; k++)
            p->weight[k] += rate * (scale * p->grad[k] - p->weight[k]);
        if (p->narrow) flat->narrow(device->pool, type, p->weight, p->narrow, p->n);
    }
    return PST_OK;
}

/* Only for devices whose memory the host cannot read: tensor ranks on CPUs add in their
 * collectives. */
static pst_status combine(pst_device *device, pst_dtype type, const void *const *x, uint32_t n_x,
                          void *out, uint64_t n) {
    (void)device;
    for (uint64_t i = 0; i < n; i++) {
        float sum = 0;
        for (uint32_t k = 0; k < n_x; k++) {
            float value = type == PST_F32 ? ((const float *)x[k])[i]
                                          : pst_f32_from_half(type, ((const uint16_t *)x[k])[i]);
            sum = k ? sum + value : value;
        }
        if (type == PST_F32) ((float *)out)[i] = sum;
        else ((uint16_t *)out)[i] = pst_half_from_f32(type, sum);
    }
    return PST_OK;
}

typedef struct {
    float *to;
    const float *from;
    uint64_t n;
    float scale;
} scaling;

static void scale_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const scaling *s = arg;
    const uint64_t first = tile * PST_FLAT_TILE, end = pst_min_u64(first + PST_FLAT_TILE, s->n);
    for (uint64_t i = first; i < end; i++) s->to[i] = s->from[i] * s->scale;
}

static pst_status scale(pst_device *device, float by, const float *from, float *to, uint64_t n) {
    scaling s = {to, from, n, by};
    pst_pool_run(device->pool, scale_tile, &s, pst_div_up(n, PST_FLAT_TILE));
    return PST_OK;
}

static pst_status pack(pst_device *device, const pst_flat_pack *of) {
    flat_of(device)->pack(device->pool, of);
    return PST_OK;
}

static pst_status unpack(pst_device *device, pst_codec codec, const uint8_t *packed, float *y,
                         uint64_t n, int add) {
    flat_of(device)->unpack(device->pool, codec, packed, y, n, add);
    return PST_OK;
}

static pst_status lamb_squares(pst_device *device, const pst_optim_hyper *h,
                               const pst_arith_param *p, pst_squares *out) {
    const uint64_t size = pst_dtype_bytes(h->state);
    pst_optim_hyper own = *h;
    own.decay = p->decay;
    for (uint64_t from = 0; from < p->n; from += PST_LAMB_TERM, out += 2) {
        const pst_flat_param part = {
            p->weight + from,
            p->grad + from,
            {(uint8_t *)p->state[0] + from * size, (uint8_t *)p->state[1] + from * size},
            pst_min_u64(PST_LAMB_TERM, p->n - from)};
        flat_of(device)->lamb_squares(device->pool, &own, &part, out);
    }
    return PST_OK;
}

static uint64_t muon_scratch(const pst_muon_rule *rule, uint32_t threads) {
    return pst_muon_scratch(&rule->shape, threads);
}

static pst_status muon_orthogonalize(pst_device *device, const pst_muon_rule *rule, void *scratch,
                                     float **x) {
    return pst_muon_orthogonalize(device, &rule->shape, scratch, x);
}

static pst_status muon_apply(pst_device *device, const pst_muon_rule *rule,
                             const pst_arith_param *p, const float *x) {
    pst_muon_apply(device, rule, p, x);
    if (p->narrow) flat_of(device)->narrow(device->pool, rule->type, p->weight, p->narrow, p->n);
    return PST_OK;
}

const pst_arith pst_arith_cpu = {.update = update,
                                 .sum_squares = sum_squares,
                                 .accumulate = accumulate,
                                 .narrow = narrow,
                                 .average = average,
                                 .combine = combine,
                                 .scale = scale,
                                 .pack = pack,
                                 .unpack = unpack,
                                 .squares = squares,
                                 .lamb_squares = lamb_squares,
                                 .muon_scratch = muon_scratch,
                                 .muon_direction = pst_muon_direction,
                                 .muon_orthogonalize = muon_orthogonalize,
                                 .muon_apply = muon_apply};
