/* Arithmetic of the flush on a GPU (optimizer, norms, sums): a few launches, with lists of arrays
 * as kernel parameters. Same bits as on the CPU. */
#include "kernels/cuda/own.h"

_Static_assert((int)PST_OPTIM_ADAMW == 0 && (int)PST_OPTIM_SGD == 1 && (int)PST_OPTIM_ADAM == 2 &&
                   (int)PST_OPTIM_LAMB == 3,
               "flat.cu has the same numbers");

static pst_status update(pst_device *device, pst_optim_kind kind, const pst_optim_hyper *h,
                         pst_dtype type, const pst_arith_param *list, uint32_t n) {
    pst_cuda_update_list out = {.rule = pst_cuda_rule_of(kind, h)};
    for (uint32_t i = 0; i < n; i++) {
        const pst_arith_param *p = list + i;
        if (p->n) {
            out.entry[out.n++] =
                (pst_cuda_update_entry){p->weight, p->grad,  {p->state[0], p->state[1]}, p->narrow,
                                        p->n,      p->decay, h->lr * p->trust,           out.tiles};
            out.tiles += (uint32_t)((p->n + PST_CUDA_TILE - 1) / PST_CUDA_TILE);
        }
        if (!out.n || (out.n < PST_CUDA_LIST && i + 1 < n)) continue;
        pst_cuda_update(pst_cuda_queue_of(device), type, &out);
        PST_TRY(pst_cuda_launched("optimizer"));
        out.n = out.tiles = 0;
    }
    return PST_OK;
}

static pst_status accumulate(pst_device *device, float *y, const float *x, uint64_t n) {
    pst_cuda_add(pst_cuda_queue_of(device), PST_F32, y, x, y, n);
    return pst_cuda_launched("sum of gradients");
}

static pst_status narrow(pst_device *device, pst_dtype type, const float *x, uint16_t *y,
                         uint64_t n) {
    pst_cuda_narrow(pst_cuda_queue_of(device), type, x, y, n);
    return pst_cuda_launched("rounding weights");
}

static pst_status average(pst_device *device, float rate, float scale, pst_dtype type,
                          const pst_arith_param *list, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        const pst_arith_param *p = list + i;
        if (!p->n) continue;
        pst_cuda_average(pst_cuda_queue_of(device), type, rate, scale, p->weight, p->grad,
                         p->narrow, p->n);
        PST_TRY(pst_cuda_launched("running statistics"));
    }
    return PST_OK;
}

static pst_status combine(pst_device *device, pst_dtype type, const void *const *x, uint32_t n_x,
                          void *out, uint64_t n) {
    _Static_assert((int)PST_CUDA_ADDENDS == (int)PST_ARITH_ADDENDS,
                   "the lists must have the same size");
    pst_cuda_addends list = {.n = n_x};
    for (uint32_t k = 0; k < n_x; k++) list.x[k] = x[k];
    pst_cuda_combine(pst_cuda_queue_of(device), type, &list, out, n);
    return pst_cuda_launched("sum over tensor ranks");
}

static pst_status scale(pst_device *device, float by, const float *from, float *to, uint64_t n) {
    if (!n) return PST_OK;
    pst_cuda_scale(pst_cuda_queue_of(device), PST_F32, by, from, to, n);
    return pst_cuda_launched("scaling");
}

/* --- codecs ----------------------------------------------------------------------------------- */

/* Of a packed element; 0: there is no kernel. */
static uint32_t bits_of(pst_codec_kind kind) {
    static const uint32_t bits[PST_CODEC_COUNT] = {
        [PST_CODEC_INT8] = 8, [PST_CODEC_INT4] = 4, [PST_CODEC_2BIT] = 2, [PST_CODEC_BF16] = 16};
    return bits[kind];
}

/* Scales of blocks are read and written as numbers. */
static pst_status check_codec(pst_codec codec, const void *packed) {
    if (!bits_of(codec.kind))
        return pst_fail(PST_EINTERNAL, "codec %s has no CUDA kernel", pst_codec_name(codec.kind));
    if ((uintptr_t)packed % sizeof(float))
        return pst_fail(PST_EINTERNAL, "a packed message at an odd address");
    return PST_OK;
}

static pst_status pack(pst_device *device, const pst_flat_pack *of) {
    PST_TRY(check_codec(of->codec, of->packed));
    const pst_cuda_pack p = {.x = of->x,
                             .error = of->error,
                             .packed = of->packed,
                             .next = of->next,
                             .n = of->n,
                             .bits = bits_of(of->codec.kind),
                             .block = of->codec.block,
                             .scale = of->scale,
                             .threshold = of->codec.threshold,
                             .decode = of->decode};
    if (p.n) pst_cuda_pack_numbers(pst_cuda_queue_of(device), &p);
    return pst_cuda_launched("packing");
}

static pst_status unpack(pst_device *device, pst_codec codec, const uint8_t *packed, float *y,
                         uint64_t n, int add) {
    PST_TRY(check_codec(codec, packed));
    const pst_cuda_unpack u = {packed, y, n, bits_of(codec.kind), codec.block, add};
    if (n) pst_cuda_unpack_numbers(pst_cuda_queue_of(device), &u);
    return pst_cuda_launched("unpacking");
}

const pst_arith pst_cuda_arith = {.update = update,
                                  .sum_squares = pst_cuda_sums_of_squares,
                                  .accumulate = accumulate,
                                  .narrow = narrow,
                                  .average = average,
                                  .combine = combine,
                                  .scale = scale,
                                  .pack = pack,
                                  .unpack = unpack,
                                  .lamb_squares = pst_cuda_whole_squares,
                                  .muon_scratch = pst_cuda_whole_scratch,
                                  .muon_prepare = pst_cuda_muon_prepare,
                                  .muon_direction = pst_cuda_whole_direction,
                                  .muon_orthogonalize = pst_cuda_whole_orthogonalize,
                                  .muon_apply = pst_cuda_whole_apply};
