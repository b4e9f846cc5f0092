/* Packing and unpacking with a codec: the operations of kernels/ref/flat.c in the same order, so
 * the same bits. */

/* VEC_W whole numbers of at most 8 bits: to bytes, and from bytes. */
#if defined(VEC_AVX512)
VEC_INLINE void vi_store_bytes(int8_t *to, vi number) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(number));
}
VEC_INLINE vi vi_load_bytes(const int8_t *from) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
/* The same without a sign: from 0 to 255. */
VEC_INLINE void vi_store_low_bytes(uint8_t *to, vi number) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8(number));
}
VEC_INLINE vi vi_load_low_bytes(const uint8_t *from) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
VEC_INLINE vi vi_nearest(vf x) { return _mm512_cvtps_epi32(x); }
VEC_INLINE vf vi_float(vi x) { return _mm512_cvtepi32_ps(x); }
VEC_INLINE vi v_magnitude(vf x) {
    return _mm512_and_si512(_mm512_castps_si512(x), vi_set(0x7fffffff));
}
VEC_INLINE vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
/* Bit i: the magnitude of lane i is at least `least`. */
VEC_INLINE unsigned v_reaches(vf x, vi least) {
    return _mm512_cmpge_epi32_mask(v_magnitude(x), least);
}
/* count + 1 in the lanes of which this is true. */
VEC_INLINE vi vi_count(vi count, vf x, vi least) {
    return _mm512_mask_add_epi32(count, _mm512_cmpge_epi32_mask(v_magnitude(x), least), count,
                                 vi_set(1));
}
VEC_INLINE uint32_t vi_sum_of(vi x) { return (uint32_t)_mm512_reduce_add_epi32(x); }
/* x in the lanes in which it is above `least`, else 0; counts these. */
VEC_INLINE vf v_above(vf x, vf least, vi *count) {
    const __mmask16 above = _mm512_cmp_ps_mask(x, least, _CMP_GT_OQ);
    *count = _mm512_mask_add_epi32(*count, above, *count, vi_set(1));
    return _mm512_maskz_mov_ps(above, x);
}
/* scale for x >= limit, -scale for x <= -limit, else 0; adds `bit`, its threefold or 0 to bytes. */
VEC_INLINE vf v_ternary(vf x, vf limit, vf scale, uint32_t bit, vi *bytes) {
    const __mmask16 up = _mm512_cmp_ps_mask(x, limit, _CMP_GE_OQ);
    const __mmask16 down = _mm512_cmp_ps_mask(x, -limit, _CMP_LE_OQ);
    *bytes = _mm512_mask_add_epi32(*bytes, up, *bytes, vi_set(bit));
    *bytes = _mm512_mask_add_epi32(*bytes, down, *bytes, vi_set(3 * bit));
    return _mm512_mask_mov_ps(_mm512_maskz_mov_ps(up, scale), down, -scale);
}
VEC_INLINE uint32_t vi_max_of(vi x) { return (uint32_t)_mm512_reduce_max_epi32(x); }
#define CODEC_HALVES(part)                                                                         \
    _mm256_add_ps(_mm512_castps512_ps256(part[0]), _mm512_extractf32x8_ps(part[0], 1))
#else
VEC_INLINE void vi_store_bytes(int8_t *to, vi number) {
    __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(number), _mm256_extracti128_si256(number, 1));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packs_epi16(words, words));
}
VEC_INLINE vi vi_load_bytes(const int8_t *from) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
VEC_INLINE void vi_store_low_bytes(uint8_t *to, vi number) {
    __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(number), _mm256_extracti128_si256(number, 1));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(words, words));
}
VEC_INLINE vi vi_load_low_bytes(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
VEC_INLINE vi vi_nearest(vf x) { return _mm256_cvtps_epi32(x); }
VEC_INLINE vf vi_float(vi x) { return _mm256_cvtepi32_ps(x); }
VEC_INLINE vi v_magnitude(vf x) {
    return _mm256_and_si256(_mm256_castps_si256(x), vi_set(0x7fffffff));
}
VEC_INLINE vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
VEC_INLINE vi v_reaching(vf x, vi least) {
    return _mm256_cmpgt_epi32(v_magnitude(x), _mm256_sub_epi32(least, vi_set(1)));
}
VEC_INLINE unsigned v_reaches(vf x, vi least) {
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(v_reaching(x, least)));
}
VEC_INLINE vi vi_count(vi count, vf x, vi least) {
    return _mm256_sub_epi32(count, v_reaching(x, least));
}
VEC_INLINE uint32_t vi_sum_of(vi x) {
    uint32_t lane[VEC_W], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)lane, x);
    for (int i = 0; i < VEC_W; i++) sum += lane[i];
    return sum;
}
VEC_INLINE vf v_above(vf x, vf least, vi *count) {
    vf above = _mm256_cmp_ps(x, least, _CMP_GT_OQ);
    *count = _mm256_sub_epi32(*count, _mm256_castps_si256(above));
    return _mm256_and_ps(above, x);
}
VEC_INLINE vf v_ternary(vf x, vf limit, vf scale, uint32_t bit, vi *bytes) {
    const vf up = _mm256_cmp_ps(x, limit, _CMP_GE_OQ), down = _mm256_cmp_ps(x, -limit, _CMP_LE_OQ);
    *bytes = vi_add(*bytes, vi_and(_mm256_castps_si256(up), vi_set(bit)));
    *bytes = vi_add(*bytes, vi_and(_mm256_castps_si256(down), vi_set(3 * bit)));
    return _mm256_or_ps(_mm256_and_ps(up, scale), _mm256_and_ps(down, -scale));
}
VEC_INLINE uint32_t vi_max_of(vi x) {
    uint32_t lane[VEC_W], top = 0;
    _mm256_storeu_si256((__m256i *)(void *)lane, x);
    for (int i = 0; i < VEC_W; i++) top = lane[i] > top ? lane[i] : top;
    return top;
}
#define CODEC_HALVES(part) _mm256_add_ps(part[0], part[1])
#endif
enum { CODEC_VECTORS = PST_CODEC_LANES / VEC_W };
/* The sum of PST_CODEC_LANES sums, in the order of pst_codec_tree. */
VEC_INLINE float codec_tree(const vf part[CODEC_VECTORS]) {
    const __m256 eight = CODEC_HALVES(part);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

/* The sums of numbers and what earlier messages have left out, at most VEC_W of them. */
VEC_INLINE vf codec_sum_n(const pst_flat_pack *p, uint64_t at, unsigned n) {
    return v_load_n(p->x + at, n) + v_set(p->scale) * v_load_n(p->error + at, n);
}

/* Elements of which memory is loaded ahead: blocks are read in turns with other work, in which the
 * processor does not read ahead. */
enum { CODEC_PREFETCH = 1024 };

/* x = numbers + scale * error; returns the largest magnitude as bits. sum: NULL, or becomes the
 * sum of magnitudes. */
VEC_INLINE uint32_t codec_sum(const pst_flat_pack *p, uint64_t at, uint64_t count, float *x,
                              float *sum) {
    vi top = vi_set(0);
    vf scale = v_set(p->scale), part[CODEC_VECTORS];
    const float *number = p->x + at, *error = p->error + at;
    uint64_t i = 0;
    for (int k = 0; k < CODEC_VECTORS; k++) part[k] = v_set(0);
    for (; i + PST_CODEC_LANES <= count; i += PST_CODEC_LANES) {
        __builtin_prefetch(number + i + CODEC_PREFETCH);
        __builtin_prefetch(error + i + CODEC_PREFETCH);
        for (int k = 0; k < CODEC_VECTORS; k++) {
            const uint64_t j = i + (uint64_t)k * VEC_W;
            vf one = v_load(number + j) + scale * v_load(error + j);
            v_store(x + j, one);
            top = vi_max(top, v_magnitude(one));
            if (sum) part[k] = part[k] + v_abs(one);
        }
    }
    for (int k = 0; i < count; i += VEC_W, k++) {
        const unsigned n = (unsigned)pst_min_u64(VEC_W, count - i);
        vf one = codec_sum_n(p, at + i, n);
        v_store_n(x + i, one, n);
        top = vi_max(top, v_magnitude(one));
        if (sum) part[k] = part[k] + v_abs(one);
    }
    if (sum) *sum = codec_tree(part);
    return vi_max_of(top);
}

/* The same of steps (pst_flat_moments). */
static uint32_t codec_sum_steps(const pst_flat_pack *p, uint64_t at, uint64_t count, float *x) {
    const pst_flat_moments *m = p->moments;
    const vf in = v_set(m->in), out = v_set(m->out), root = v_set(m->root), eps = v_set(m->eps);
    const vf beta2 = v_set(m->beta2), rest = v_set(1 - m->beta2), scale = v_set(p->scale);
    const float *number = p->x + at, *error = p->error + at;
    float *second = m->second + at;
    vi top = vi_set(0);
    VEC_EACH(i, n, count, {
        const vf g = v_load_n(number + i, n) * in;
        const vf old = v_load_n(second + i, n);
        const vf next = beta2 * old + rest * (g * g);
        const vf v = v_if_gt(v_set(INFINITY), next, next, old);
        const vf sum = g / (v_sqrt(v) * root + eps) * out + scale * v_load_n(error + i, n);
        v_store_n(second + i, v, n);
        v_store_n(x + i, sum, n);
        top = vi_max(top, v_magnitude(v_keep_n(sum, 0, n)));
        __builtin_prefetch(number + i + CODEC_PREFETCH);
        __builtin_prefetch(error + i + CODEC_PREFETCH);
        __builtin_prefetch(second + i + CODEC_PREFETCH);
    });
    return vi_max_of(top);
}

/* bf16 as of pst_codec_to_bf16, in the upper halves. */
VEC_INLINE vi codec_to_bf16(vf x) {
    const vi bits = v_bits(x);
    const vi odd = vi_and(vi_right(bits, 16), vi_set(1));
    const vi rounded = vi_add(vi_add(bits, vi_set(0x7fff)), odd);
    const vi quiet = (vi)((vu)bits | 0x400000u);
    const vu is_nan = (vu)((vs)v_magnitude(x) > 0x7f800000);
    const vu half = ((vu)quiet & is_nan) | ((vu)rounded & ~is_nan);
    return (vi)(half & 0xffff0000u);
}

/* pst_codec_pack_bf16 of the sums of numbers and what is left over. */
static void codec_pack_bf16(const pst_flat_pack *p, uint64_t at, uint64_t count) {
    uint16_t *to = (uint16_t *)(void *)p->packed + at;
    float *next = p->next ? p->next + at : NULL;
    float *out = p->decode ? p->x + at : NULL;
    VEC_EACH(i, n, count, {
        const vf sum = codec_sum_n(p, at + i, n);
        const vi half = codec_to_bf16(sum);
        const vf unpacked = (vf)half;
        v_store_upper_n(to + i, half, n);
        if (next) v_store_n(next + i, sum - unpacked, n);
        if (out) v_store_n(out + i, unpacked, n);
    });
}

static void codec_unpack_bf16(const uint8_t *from, uint64_t count, float *y, int add) {
    const uint16_t *half = (const uint16_t *)(const void *)from;
    VEC_EACH(i, n, count, {
        vf unpacked = v_load_upper_n(half + i, n);
        if (add) unpacked = v_load_n(y + i, n) + unpacked;
        v_store_n(y + i, unpacked, n);
    });
}

/* What a block is packed to. */
typedef struct {
    const float *x; /* [count] */
    uint64_t count;
    int8_t *number; /* [count] */
    float *next, *out;
} codec_rounding;

/* The whole numbers, what is left, and what the receiver unpacks. */
static void codec_round(const codec_rounding *r, pst_codec_scale s) {
    vf inverse = v_set(s.inverse), scale = v_set(s.scale);
    uint64_t i = 0;
    for (; i + VEC_W <= r->count && s.inverse > 0; i += VEC_W) {
        vf sum = v_load(r->x + i);
        vi whole = vi_nearest(sum * inverse);
        vf unpacked = vi_float(whole) * scale;
        vi_store_bytes(r->number + i, whole);
        if (r->next) v_store(r->next + i, sum - unpacked);
        if (r->out) v_store(r->out + i, unpacked);
    }
    for (; i < r->count; i++) {
        r->number[i] = (int8_t)(s.inverse > 0 ? rintf(r->x[i] * s.inverse) : 0);
        float unpacked = (float)r->number[i] * s.scale;
        if (r->next) r->next[i] = r->x[i] - unpacked;
        if (r->out) r->out[i] = unpacked;
    }
}

/* The whole numbers to `to`, `bits` bits each (4: as codec_round; 2: -1, 0 and 1); what is left,
 * and what the receiver unpacks. Only of a block that fills vectors of bytes; returns whether it
 * does. */
VEC_INLINE int codec_round_bits(int bits, const codec_rounding *r, pst_codec_scale s, uint8_t *to) {
    const int in_byte = 8 / bits;
    const uint64_t part = r->count / (uint64_t)in_byte;
    const vf limit = v_set(s.limit), inverse = v_set(s.inverse), scale = v_set(s.scale);
    const vi low = vi_set((1u << bits) - 1);
    if (!(s.inverse > 0) || r->count % ((uint64_t)in_byte * VEC_W)) return 0;
    for (uint64_t i = 0; i < part; i += VEC_W) {
        vi bytes = vi_set(0);
        for (int k = 0; k < in_byte; k++) {
            const uint64_t at = (uint64_t)k * part + i;
            vf sum = v_load(r->x + at), unpacked;
            if (bits == 2) unpacked = v_ternary(sum, limit, scale, 1u << 2 * k, &bytes);
            else {
                vi whole = vi_nearest(sum * inverse);
                unpacked = vi_float(whole) * scale;
                bytes = vi_add(bytes, vi_left(vi_and(whole, low), bits * k));
            }
            if (r->next) v_store(r->next + at, sum - unpacked);
            if (r->out) v_store(r->out + at, unpacked);
        }
        vi_store_low_bytes(to + i, bytes);
    }
    return 1;
}

/* The same one by one, to r->number. */
static void codec_compare_each(const codec_rounding *r, pst_codec_scale s) {
    for (uint64_t i = 0; i < r->count; i++) {
        const int sign = s.inverse > 0 ? (r->x[i] >= s.limit) - (r->x[i] <= -s.limit) : 0;
        r->number[i] = (int8_t)sign;
        float unpacked = (float)sign * s.scale;
        if (r->next) r->next[i] = r->x[i] - unpacked;
        if (r->out) r->out[i] = unpacked;
    }
}

/* The mean of the magnitudes above `least`, which is at least 0; none: `least`. x: padded with
 * zeros to a multiple of PST_CODEC_LANES. */
VEC_INLINE float codec_mean_above(const float *x, uint64_t n, float least) {
    vf part[CODEC_VECTORS], from = v_set(least);
    vi count = vi_set(0);
    for (int k = 0; k < CODEC_VECTORS; k++) part[k] = v_set(0);
    for (uint64_t i = 0; i < n; i += PST_CODEC_LANES)
        for (int k = 0; k < CODEC_VECTORS; k++)
            part[k] = part[k] + v_above(v_abs(v_load(x + i + k * VEC_W)), from, &count);
    const uint32_t found = vi_sum_of(count);
    return found ? codec_tree(part) / (float)found : least;
}

/* 2bit: one of a few blocks that are packed together, step by step, so that the sums of one do not
 * wait for those of another. */
enum { CODEC_TOGETHER = 4 };
typedef struct {
    float *x; /* padded with zeros to a multiple of PST_CODEC_LANES */
    uint64_t at, n;
    uint32_t top;
    float value; /* mean of magnitudes, then the block's value */
} codec_ternary;

static void codec_send_ternary(const pst_flat_pack *p, const codec_ternary *b) {
    int8_t number[PST_CODEC_BLOCK_MAX];
    uint8_t *to = p->packed + pst_codec_bytes(p->codec, b->at), *behind = to + sizeof(float);
    const codec_rounding r = {b->x, b->n, number, p->next ? p->next + b->at : NULL,
                              p->decode ? p->x + b->at : NULL};
    const pst_codec_scale s = pst_codec_ternary_of(p->codec, b->top, b->value, p->scale);
    memcpy(to, &s.scale, sizeof s.scale);
    if (codec_round_bits(2, &r, s, behind)) return;
    codec_compare_each(&r, s);
    pst_codec_put(PST_CODEC_2BIT, number, behind, b->n);
}

/* Packs elements [at, end): at most CODEC_TOGETHER blocks, and PST_CODEC_BLOCK_MAX elements. */
static void codec_pack_ternary(const pst_flat_pack *p, uint64_t at, uint64_t end) {
    float x[PST_CODEC_BLOCK_MAX];
    codec_ternary block[CODEC_TOGETHER];
    int n = 0;
    for (uint64_t from = at; from < end; from += p->codec.block, n++) {
        codec_ternary *b = &block[n];
        *b = (codec_ternary){x + (from - at), from, pst_min_u64(p->codec.block, end - from), 0, 0};
        b->top = codec_sum(p, from, b->n, b->x, &b->value);
        for (uint64_t i = b->n; i % PST_CODEC_LANES; i++) b->x[i] = 0;
    }
    for (int i = 0; i < n && !(p->codec.threshold > 0); i++)
        block[i].value =
            codec_mean_above(block[i].x, block[i].n, block[i].value / (float)block[i].n);
    for (int i = 0; i < n; i++) codec_send_ternary(p, &block[i]);
}

/* x: padded with zeros to a multiple of VEC_W. */
static uint64_t codec_count(const float *x, uint64_t n, uint32_t least) {
    vi count = vi_set(0), from = vi_set(least);
    for (uint64_t i = 0; i < n; i += VEC_W) count = vi_count(count, v_load(x + i), from);
    return vi_sum_of(count);
}

/* Elements of a block that may be among the largest: in order, padded with zeros. Vectors may be
 * stored behind the last one. */
enum { CODEC_CANDIDATES = 256 };
typedef struct {
    uint64_t n; /* CODEC_CANDIDATES: more than fit */
    float x[CODEC_CANDIDATES + VEC_W];
    uint16_t index[CODEC_CANDIDATES + VEC_W];
} codec_candidates;

#if defined(VEC_AVX512)
/* Appends the lanes with a magnitude of `least` or more, whose indices are `index`. */
VEC_INLINE void codec_append(codec_candidates *out, vf x, vi index, vi least) {
    const __mmask16 lanes = _mm512_cmpge_epi32_mask(v_magnitude(x), least);
    const __m512i kept = _mm512_maskz_compress_epi32(lanes, index);
    v_store(out->x + out->n, _mm512_maskz_compress_ps(lanes, x));
    _mm256_storeu_si256((__m256i *)(void *)(out->index + out->n), _mm512_cvtepi32_epi16(kept));
    out->n += (uint64_t)__builtin_popcount(lanes);
}
#else
VEC_INLINE void codec_append(codec_candidates *out, vf x, vi index, vi least) {
    float of[VEC_W];
    uint32_t number[VEC_W];
    unsigned lanes = v_reaches(x, least);
    if (!lanes) return;
    v_store(of, x);
    _mm256_storeu_si256((__m256i *)(void *)number, index);
    for (; lanes; lanes &= lanes - 1, out->n++) {
        const int lane = __builtin_ctz(lanes);
        out->x[out->n] = of[lane];
        out->index[out->n] = (uint16_t)number[lane];
    }
}
#endif

/* Those with a magnitude of `least` or more. */
static void codec_find(const float *x, uint64_t n, uint32_t least, codec_candidates *out) {
    static const uint32_t lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vi from = vi_set(least);
    vi index = vi_load(lane);
    out->n = 0;
    for (uint64_t i = 0; i < n; i += VEC_W) {
        codec_append(out, v_load(x + i), index, from);
        if (out->n >= CODEC_CANDIDATES) {
            out->n = CODEC_CANDIDATES;
            return;
        }
        index = vi_add(index, vi_set(VEC_W));
    }
    for (uint64_t i = out->n; i % VEC_W; i++) out->x[i] = 0;
}

static void codec_send_picked(const pst_codec_sending *s, pst_codec_pick pick, uint64_t n) {
    uint64_t nth = 0;
    for (uint64_t i = 0; i < n && nth < s->k; i += VEC_W) {
        unsigned lanes = v_reaches(v_load(s->x + i), vi_set(pick.at));
        for (; lanes; lanes &= lanes - 1) {
            const uint64_t at = i + (unsigned)__builtin_ctz(lanes);
            if (at < n && pst_codec_picks(&pick, pst_codec_magnitude(s->x[at])))
                pst_codec_send(s, nth++, at);
        }
    }
}

/* The largest elements are chosen among those of at least a little less than `before`, the
 * threshold of the block before (0: unknown), if these are enough and fit; if not, a few lower or
 * higher limits are tried. Which ones are chosen does not depend on `before`. */
static void codec_narrow(const pst_codec_sending *s, uint64_t n, pst_codec_bracket *in,
                         uint32_t before, codec_candidates *found) {
    const uint32_t step = 1u << 19; /* of the magnitude's bits: 1/16 to 1/8 of it */
    uint32_t least = before > 8 * step ? before - step : 0;
    found->n = CODEC_CANDIDATES;
    if (s->k >= CODEC_CANDIDATES) return;
    for (int i = 0; i < 4 && least > in->low && least < in->high; i++) {
        codec_find(s->x, n, least, found);
        if (found->n >= s->k && found->n < CODEC_CANDIDATES) return;
        if (found->n < s->k) {
            *in = (pst_codec_bracket){in->low, least, found->n};
            least -= 2 * step;
        } else {
            in->low = least;
            least += step;
        }
    }
    found->n = CODEC_CANDIDATES;
}

/* Few candidates are compared with all of them, without branches that cannot be predicted. */
enum { CODEC_FEW_CANDIDATES = 64 };

/* How many candidates come before number i: larger ones, and equal ones with lower indices. */
VEC_INLINE uint64_t codec_place(const codec_candidates *found, uint64_t i, uint32_t magnitude) {
    const vi same = vi_set(magnitude), above = vi_set(magnitude + 1);
    uint64_t reaching = 0, larger = 0;
    for (uint64_t at = 0; at < found->n; at += VEC_W) {
        const vf x = v_load(found->x + at);
        reaching |= (uint64_t)v_reaches(x, same) << at;
        larger |= (uint64_t)v_reaches(x, above) << at;
    }
    const uint64_t lower = (UINT64_C(1) << i) - 1;
    return (uint64_t)__builtin_popcountll(larger | (reaching & lower));
}

/* Sends the k largest; returns the magnitude of the last of them. No magnitude is 0x7fffffff. */
static uint32_t codec_send_few(const pst_codec_sending *s, const codec_candidates *found) {
    uint32_t at = 0;
    for (uint64_t i = 0, nth = 0; i < found->n; i++) {
        const uint32_t magnitude = pst_codec_magnitude(found->x[i]);
        const uint64_t place = codec_place(found, i, magnitude);
        if (place + 1 == s->k) at = magnitude;
        if (place < s->k) pst_codec_send(s, nth++, found->index[i]);
    }
    return at;
}

static void codec_pack_topk(const pst_codec_sending *s, uint64_t n, uint32_t top,
                            uint32_t *before) {
    codec_candidates found;
    pst_codec_bracket in = {0, top + 1, 0};
    pst_codec_pick pick;
    pst_codec_send_none(s, n);
    codec_narrow(s, n, &in, *before, &found);
    if (found.n == CODEC_CANDIDATES) {
        pick = pst_codec_choose(s->x, n, s->k, in, codec_count);
        codec_send_picked(s, pick, n);
        *before = pick.at;
        return;
    }
    if (found.n <= CODEC_FEW_CANDIDATES && top < 0x7fffffff) {
        *before = codec_send_few(s, &found);
        return;
    }
    pick = pst_codec_choose(found.x, found.n, s->k, in, codec_count);
    *before = pick.at;
    for (uint64_t i = 0, nth = 0; i < found.n && nth < s->k; i++)
        if (pst_codec_picks(&pick, pst_codec_magnitude(found.x[i])))
            pst_codec_send(s, nth++, found.index[i]);
}

/* before: of topk. */
static void codec_pack_block(const pst_flat_pack *p, uint64_t at, uint64_t count,
                             uint32_t *before) {
    float apart[PST_CODEC_BLOCK_MAX], *x = apart;
    int8_t number[PST_CODEC_BLOCK_MAX];
    uint8_t *to = p->packed + pst_codec_bytes(p->codec, at), *behind = to + sizeof(float);
    const pst_codec_kind kind = p->codec.kind;
    if (kind == PST_CODEC_TOPK && p->next && !p->decode && count % PST_CODEC_LANES == 0)
        x = p->next + at;
    codec_rounding r = {x, count, number, p->next ? p->next + at : NULL,
                        p->decode ? p->x + at : NULL};
    const uint32_t top =
        p->moments ? codec_sum_steps(p, at, count, x) : codec_sum(p, at, count, x, NULL);
    for (uint64_t i = count; i % PST_CODEC_LANES; i++) x[i] = 0;
    if (kind == PST_CODEC_TOPK) {
        const uint64_t k = pst_codec_kept(p->codec, count);
        codec_pack_topk(&(pst_codec_sending){x, to, k, r.next, r.out}, count, top, before);
        return;
    }
    const pst_codec_scale s = pst_codec_scale_of(kind, top);
    memcpy(to, &s.scale, sizeof s.scale);
    if (kind == PST_CODEC_INT8) r.number = (int8_t *)behind;
    if (kind == PST_CODEC_INT4 && codec_round_bits(4, &r, s, behind)) return;
    codec_round(&r, s);
    if (kind != PST_CODEC_INT8) pst_codec_put(kind, number, behind, count);
}

#include "kernels/cpu/lowrank_vec.h"

/* Packs block `block` of powersgd. */
static void codec_pack_matrix(void *arg, uint64_t block, uint32_t thread) {
    (void)thread;
    const pst_flat_pack *p = arg;
    const uint64_t at = block * p->codec.block, n = pst_min_u64(p->codec.block, p->n - at);
    pst_lowrank_pack(&lowrank_ops, p, at, n);
}

static void codec_pack_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const pst_flat_pack *p = arg;
    const uint64_t from = tile * PST_FLAT_TILE, to = pst_min_u64(from + PST_FLAT_TILE, p->n);
    uint32_t before = 0;
    if (p->codec.kind == PST_CODEC_2BIT) {
        const uint64_t together = p->codec.block * CODEC_TOGETHER;
        const uint64_t step = together > PST_CODEC_BLOCK_MAX ? p->codec.block : together;
        for (uint64_t at = from; at < to; at += step)
            codec_pack_ternary(p, at, pst_min_u64(at + step, to));
        return;
    }
    if (p->codec.kind == PST_CODEC_BF16) {
        codec_pack_bf16(p, from, to - from);
        return;
    }
    for (uint64_t at = from; at < to; at += p->codec.block)
        codec_pack_block(p, at, pst_min_u64(p->codec.block, to - at), &before);
}

static void flat_pack(pst_pool *pool, const pst_flat_pack *of) {
    pst_flat_pack p = *of;
    const int matrix = p.codec.kind == PST_CODEC_POWERSGD;
    const uint64_t tiles = pst_div_up(p.n, matrix ? p.codec.block : PST_FLAT_TILE);
    const pst_tile_fn pack = matrix ? codec_pack_matrix : codec_pack_tile;
    if (pool) pst_pool_run(pool, pack, &p, tiles);
    else
        for (uint64_t i = 0; i < tiles; i++) pack(&p, i, 0);
}

typedef struct {
    pst_codec codec;
    const uint8_t *packed;
    float *y;
    uint64_t n;
    int add;
} codec_unpack_job;

/* A whole block of numbers of `bits` bits. */
VEC_INLINE void codec_unpack_bits(int bits, const uint8_t *from, uint64_t n, float scale, float *y,
                                  int add) {
    const int in_byte = 8 / bits;
    const uint64_t part = n / (uint64_t)in_byte;
    const vf by = v_set(scale);
    for (uint64_t i = 0; i < part; i += VEC_W) {
        const vi bytes = vi_load_low_bytes(from + i);
        for (int k = 0; k < in_byte; k++) {
            float *to = y + (uint64_t)k * part + i;
            vi number = vi_left(bytes, 32 - bits * (k + 1));
            vf unpacked = vi_float(vi_signed_right(number, 32 - bits)) * by;
            if (add) unpacked = v_load(to) + unpacked;
            v_store(to, unpacked);
        }
    }
}

static void codec_unpack_block(const codec_unpack_job *j, uint64_t at, uint64_t count) {
    int8_t apart[PST_CODEC_BLOCK_MAX];
    const uint8_t *from = j->packed + pst_codec_bytes(j->codec, at);
    const int8_t *number = (const int8_t *)from + sizeof(float);
    float scale, *y = j->y + at;
    uint64_t i = 0;
    if (j->codec.kind == PST_CODEC_BF16) {
        codec_unpack_bf16(from, count, y, j->add);
        return;
    }
    if (j->codec.kind == PST_CODEC_TOPK) {
        pst_codec_unpack_topk(j->codec, from, count, y, j->add);
        return;
    }
    memcpy(&scale, from, sizeof scale);
    if (j->codec.kind != PST_CODEC_INT8 && count % (4 * VEC_W) == 0) {
        const uint8_t *bytes = from + sizeof scale;
        if (j->codec.kind == PST_CODEC_2BIT) codec_unpack_bits(2, bytes, count, scale, y, j->add);
        else codec_unpack_bits(4, bytes, count, scale, y, j->add);
        return;
    }
    if (j->codec.kind != PST_CODEC_INT8) {
        pst_codec_take(j->codec.kind, (const uint8_t *)number, apart, count);
        number = apart;
    }
    vf by = v_set(scale);
    for (; i + VEC_W <= count; i += VEC_W) {
        vf unpacked = vi_float(vi_load_bytes(number + i)) * by;
        if (j->add) unpacked = v_load(y + i) + unpacked;
        v_store(y + i, unpacked);
    }
    for (; i < count; i++) {
        float unpacked = (float)number[i] * scale;
        y[i] = j->add ? y[i] + unpacked : unpacked;
    }
}

/* Blocks ahead, and elements of a block, of which memory is loaded ahead. */
enum { CODEC_AHEAD = 4, CODEC_FEW = 64 };
/* topk: starts to load the elements that a later block changes, which are far apart. */
static void codec_fetch(const codec_unpack_job *j, uint64_t at) {
    const uint8_t *from = j->packed + pst_codec_bytes(j->codec, at);
    for (uint64_t k = 0; k < j->codec.keep; k++) {
        uint16_t index;
        memcpy(&index, from + k * sizeof index, sizeof index);
        if (index < j->codec.block) __builtin_prefetch(j->y + at + index, 1);
    }
}

static void codec_unpack_matrix(void *arg, uint64_t block, uint32_t thread) {
    (void)thread;
    const codec_unpack_job *j = arg;
    const uint64_t at = block * j->codec.block;
    const pst_lowrank_block b = {j->codec, at, pst_min_u64(j->codec.block, j->n - at),
                                 j->packed + pst_codec_bytes(j->codec, at)};
    pst_lowrank_unpack(&lowrank_ops, &b, j->y + at, j->add);
}

static void codec_unpack_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const codec_unpack_job *j = arg;
    const uint64_t from = tile * PST_FLAT_TILE, to = pst_min_u64(from + PST_FLAT_TILE, j->n);
    const uint64_t ahead = CODEC_AHEAD * j->codec.block;
    const int fetches = j->codec.kind == PST_CODEC_TOPK && j->add && j->codec.keep <= CODEC_FEW;
    for (uint64_t at = from; at < to; at += j->codec.block) {
        if (fetches && at + ahead + j->codec.block <= j->n) codec_fetch(j, at + ahead);
        codec_unpack_block(j, at, pst_min_u64(j->codec.block, to - at));
    }
}

static void flat_unpack(pst_pool *pool, pst_codec codec, const uint8_t *from, float *y, uint64_t n,
                        int add) {
    codec_unpack_job j = {codec, from, y, n, add};
    const int matrix = codec.kind == PST_CODEC_POWERSGD;
    const uint64_t tiles = pst_div_up(n, matrix ? codec.block : PST_FLAT_TILE);
    const pst_tile_fn unpack = matrix ? codec_unpack_matrix : codec_unpack_tile;
    if (pool) pst_pool_run(pool, unpack, &j, tiles);
    else
        for (uint64_t i = 0; i < tiles; i++) unpack(&j, i, 0);
}
