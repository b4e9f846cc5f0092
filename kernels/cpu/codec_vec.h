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
VEC_INLINE vi vi_nearest(vf x) { return _mm512_cvtps_epi32(x); }
VEC_INLINE vf vi_float(vi x) { return _mm512_cvtepi32_ps(x); }
VEC_INLINE vi v_magnitude(vf x) {
    return _mm512_and_si512(_mm512_castps_si512(x), vi_set(0x7fffffff));
}
VEC_INLINE vi vi_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
VEC_INLINE uint32_t vi_max_of(vi x) { return (uint32_t)_mm512_reduce_max_epi32(x); }
#else
VEC_INLINE void vi_store_bytes(int8_t *to, vi number) {
    __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(number), _mm256_extracti128_si256(number, 1));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packs_epi16(words, words));
}
VEC_INLINE vi vi_load_bytes(const int8_t *from) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
VEC_INLINE vi vi_nearest(vf x) { return _mm256_cvtps_epi32(x); }
VEC_INLINE vf vi_float(vi x) { return _mm256_cvtepi32_ps(x); }
VEC_INLINE vi v_magnitude(vf x) {
    return _mm256_and_si256(_mm256_castps_si256(x), vi_set(0x7fffffff));
}
VEC_INLINE vi vi_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
VEC_INLINE uint32_t vi_max_of(vi x) {
    uint32_t lane[VEC_W], top = 0;
    _mm256_storeu_si256((__m256i *)(void *)lane, x);
    for (int i = 0; i < VEC_W; i++) top = lane[i] > top ? lane[i] : top;
    return top;
}
#endif

/* x = numbers + scale * error; returns the largest magnitude as bits. */
static uint32_t codec_sum(const pst_flat_pack *p, uint64_t at, uint64_t count, float *x) {
    vi top = vi_set(0);
    vf scale = v_set(p->scale);
    const float *number = p->x + at, *error = p->error + at;
    VEC_EACH(i, n, count, {
        vf sum = v_load_n(number + i, n) + scale * v_load_n(error + i, n);
        v_store_n(x + i, sum, n);
        top = vi_max(top, v_magnitude(sum));
    });
    return vi_max_of(top);
}

/* The whole numbers, what is left, and what the receiver unpacks. */
static void codec_round(const pst_flat_pack *p, uint64_t at, pst_codec_scale s, const float *x,
                        int8_t *number, uint64_t count) {
    vf inverse = v_set(s.inverse), scale = v_set(s.scale);
    uint64_t i = 0;
    float *next = p->next ? p->next + at : NULL;
    float *out = p->decode ? p->x + at : NULL;
    for (; i + VEC_W <= count && s.inverse > 0; i += VEC_W) {
        vf sum = v_load(x + i);
        vi whole = vi_nearest(sum * inverse);
        vf unpacked = vi_float(whole) * scale;
        vi_store_bytes(number + i, whole);
        if (next) v_store(next + i, sum - unpacked);
        if (out) v_store(out + i, unpacked);
    }
    for (; i < count; i++) {
        number[i] = (int8_t)(s.inverse > 0 ? rintf(x[i] * s.inverse) : 0);
        float unpacked = (float)number[i] * s.scale;
        if (next) next[i] = x[i] - unpacked;
        if (out) out[i] = unpacked;
    }
}

static void codec_pack_block(const pst_flat_pack *p, uint64_t at, uint64_t count) {
    float x[PST_CODEC_BLOCK_MAX];
    int8_t half[PST_CODEC_BLOCK_MAX];
    uint8_t *to = p->packed + pst_codec_bytes(p->codec, at), *behind = to + sizeof(float);
    int8_t *number = p->codec.kind == PST_CODEC_INT4 ? half : (int8_t *)behind;
    const uint32_t top = codec_sum(p, at, count, x);
    if (p->codec.kind == PST_CODEC_BF16) {
        pst_codec_pack_bf16(x, count, to, p->next ? p->next + at : NULL,
                            p->decode ? p->x + at : NULL);
        return;
    }
    const pst_codec_scale s = pst_codec_scale_of(p->codec.kind, top);
    memcpy(to, &s.scale, sizeof s.scale);
    codec_round(p, at, s, x, number, count);
    if (p->codec.kind == PST_CODEC_INT4) pst_codec_put_nibbles(half, behind, count);
}

static void codec_pack_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const pst_flat_pack *p = arg;
    const uint64_t from = tile * PST_FLAT_TILE, to = pst_min_u64(from + PST_FLAT_TILE, p->n);
    for (uint64_t at = from; at < to; at += p->codec.block)
        codec_pack_block(p, at, pst_min_u64(p->codec.block, to - at));
}

static void flat_pack(pst_pool *pool, const pst_flat_pack *of) {
    pst_flat_pack p = *of;
    const uint64_t tiles = pst_div_up(p.n, PST_FLAT_TILE);
    if (pool) pst_pool_run(pool, codec_pack_tile, &p, tiles);
    else
        for (uint64_t i = 0; i < tiles; i++) codec_pack_tile(&p, i, 0);
}

typedef struct {
    pst_codec codec;
    const uint8_t *packed;
    float *y;
    uint64_t n;
    int add;
} codec_unpack_job;

static void codec_unpack_block(const codec_unpack_job *j, uint64_t at, uint64_t count) {
    int8_t half[PST_CODEC_BLOCK_MAX];
    const uint8_t *from = j->packed + pst_codec_bytes(j->codec, at);
    const int8_t *number = (const int8_t *)from + sizeof(float);
    float scale, *y = j->y + at;
    uint64_t i = 0;
    if (j->codec.kind == PST_CODEC_BF16) {
        pst_codec_unpack_bf16(from, count, y, j->add);
        return;
    }
    memcpy(&scale, from, sizeof scale);
    if (j->codec.kind == PST_CODEC_INT4) {
        pst_codec_take_nibbles((const uint8_t *)number, half, count);
        number = half;
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

static void codec_unpack_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const codec_unpack_job *j = arg;
    const uint64_t from = tile * PST_FLAT_TILE, to = pst_min_u64(from + PST_FLAT_TILE, j->n);
    for (uint64_t at = from; at < to; at += j->codec.block)
        codec_unpack_block(j, at, pst_min_u64(j->codec.block, to - at));
}

static void flat_unpack(pst_pool *pool, pst_codec codec, const uint8_t *from, float *y, uint64_t n,
                        int add) {
    codec_unpack_job j = {codec, from, y, n, add};
    const uint64_t tiles = pst_div_up(n, PST_FLAT_TILE);
    if (pool) pst_pool_run(pool, codec_unpack_tile, &j, tiles);
    else
        for (uint64_t i = 0; i < tiles; i++) codec_unpack_tile(&j, i, 0);
}
