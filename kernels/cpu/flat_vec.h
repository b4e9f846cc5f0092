/* Vector arithmetic on flat arrays: the same operations in the same order as kernels/ref/flat.c, so
 * the same bits. */

enum { SUM_BLOCK = 4096, SUM_CHUNK = 1024 /* block sums held at a time */ };

typedef struct {
    const pst_optim_hyper *h;
    float *weight, *m, *v, *y;
    pst_dtype dtype;
    uint16_t *half;
    const float *x;
    double *block;
    uint64_t n;
} array_job;

static void adamw_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const array_job *j = arg;
    const pst_optim_hyper *h = j->h;
    vf step = v_set(h->lr / h->correction1), root2 = v_set(sqrtf(h->correction2));
    vf keep = v_set(1.0f - h->lr * h->decay);
    vf rest1 = v_set(1.0f - h->beta1), rest2 = v_set(1.0f - h->beta2), eps = v_set(h->eps);
    vf beta1 = v_set(h->beta1), beta2 = v_set(h->beta2), scale = v_set(h->grad_scale);
    uint64_t from = tile * PST_FLAT_TILE;
    float *weight = j->weight + from, *m_at = j->m + from, *v_at = j->v + from;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->n - from), {
        vf g = v_load_n(j->x + from + i, n) * scale;
        vf m = beta1 * v_load_n(m_at + i, n) + rest1 * g;
        vf v = beta2 * v_load_n(v_at + i, n) + rest2 * (g * g);
        v_store_n(m_at + i, m, n);
        v_store_n(v_at + i, v, n);
        v_store_n(weight + i, v_load_n(weight + i, n) * keep - step * m / (v_sqrt(v) / root2 + eps),
                  n);
    });
}

static void adam_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const array_job *j = arg;
    const pst_optim_hyper *h = j->h;
    vf step = v_set(h->lr / h->correction1), root2 = v_set(sqrtf(h->correction2));
    vf rest1 = v_set(1.0f - h->beta1), rest2 = v_set(1.0f - h->beta2), eps = v_set(h->eps);
    vf beta1 = v_set(h->beta1), beta2 = v_set(h->beta2), scale = v_set(h->grad_scale);
    vf decay = v_set(h->decay);
    uint64_t from = tile * PST_FLAT_TILE;
    float *weight = j->weight + from, *m_at = j->m + from, *v_at = j->v + from;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->n - from), {
        vf w = v_load_n(weight + i, n);
        vf g = v_load_n(j->x + from + i, n) * scale + decay * w;
        vf m = beta1 * v_load_n(m_at + i, n) + rest1 * g;
        vf v = beta2 * v_load_n(v_at + i, n) + rest2 * (g * g);
        v_store_n(m_at + i, m, n);
        v_store_n(v_at + i, v, n);
        v_store_n(weight + i, w - step * m / (v_sqrt(v) / root2 + eps), n);
    });
}

static void sgd_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const array_job *j = arg;
    vf decay = v_set(j->h->decay), scale = v_set(j->h->grad_scale), rate = v_set(j->h->lr);
    vf momentum = v_set(j->h->momentum);
    uint64_t from = tile * PST_FLAT_TILE;
    float *weight = j->weight + from, *buffer = j->m + from;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->n - from), {
        vf w = v_load_n(weight + i, n);
        vf x = v_load_n(j->x + from + i, n) * scale + decay * w, g = x;
        if (j->h->t > 1) g = momentum * v_load_n(buffer + i, n) + g;
        v_store_n(buffer + i, g, n);
        if (j->h->nesterov) g = x + momentum * g;
        v_store_n(weight + i, w - rate * g, n);
    });
}

static void run_pool(pst_pool *pool, pst_tile_fn fn, array_job *j, uint64_t tiles) {
    if (pool) pst_pool_run(pool, fn, j, tiles);
    else
        for (uint64_t i = 0; i < tiles; i++) fn(j, i, 0);
}

static void flat_update(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                        const pst_flat_param *p) {
    array_job j = {
        .h = h, .weight = p->weight, .x = p->grad, .m = p->state[0], .v = p->state[1], .n = p->n};
    static const pst_tile_fn tile[PST_OPTIM_COUNT] = {adamw_tile, sgd_tile, adam_tile};
    run_pool(pool, tile[kind], &j, pst_div_up(p->n, PST_FLAT_TILE));
}

/* Running sum l has the elements i with i % 16 == l, as in kernels/ref/flat.c. */
static double block_sum(const float *x, uint64_t n) {
    double sum[16] = {0};
    uint64_t i = 0;
#if defined(VEC_AVX512)
    __m512d low = _mm512_setzero_pd(), high = low;
    for (; i + 16 <= n; i += 16) {
        __m512d a = _mm512_cvtps_pd(_mm256_loadu_ps(x + i)),
                b = _mm512_cvtps_pd(_mm256_loadu_ps(x + i + 8));
        low = _mm512_fmadd_pd(a, a, low);
        high = _mm512_fmadd_pd(b, b, high);
    }
    _mm512_storeu_pd(sum, low);
    _mm512_storeu_pd(sum + 8, high);
#else
    __m256d part[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(),
                       _mm256_setzero_pd()};
    for (; i + 16 <= n; i += 16) VEC_UNROLL
    for (int k = 0; k < 4; k++) {
        __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * (uint64_t)k));
        part[k] = _mm256_fmadd_pd(a, a, part[k]);
    }
    VEC_UNROLL
    for (int k = 0; k < 4; k++) _mm256_storeu_pd(sum + 4 * k, part[k]);
#endif
    for (; i < n; i++) sum[i % 16] += (double)x[i] * (double)x[i];
    for (int half = 8; half; half /= 2)
        for (int k = 0; k < half; k++) sum[k] += sum[k + half];
    return sum[0];
}

/* Several blocks of 4096 per tile. */
enum { SUM_TILE = 8 };

static void sum_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const array_job *j = arg;
    uint64_t end = pst_min_u64((tile + 1) * SUM_TILE, pst_div_up(j->n, SUM_BLOCK));
    for (uint64_t b = tile * SUM_TILE; b < end; b++)
        j->block[b] = block_sum(j->x + b * SUM_BLOCK, pst_min_u64(SUM_BLOCK, j->n - b * SUM_BLOCK));
}

static double flat_sum_squares(pst_pool *pool, const float *x, uint64_t n) {
    double block[SUM_CHUNK], total = 0;
    for (uint64_t from = 0; from < n; from += (uint64_t)SUM_CHUNK * SUM_BLOCK) {
        array_job j = {.x = x + from,
                       .block = block,
                       .n = pst_min_u64((uint64_t)SUM_CHUNK * SUM_BLOCK, n - from)};
        uint64_t blocks = pst_div_up(j.n, SUM_BLOCK);
        run_pool(pool, sum_tile, &j, pst_div_up(blocks, SUM_TILE));
        for (uint64_t b = 0; b < blocks; b++) total += block[b];
    }
    return total;
}

typedef struct {
    const float *x;
    pst_squares *block;
    uint64_t n;
} squares_job;

static void squares_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const squares_job *j = arg;
    uint64_t from = tile * PST_SQUARES_BLOCK;
    j->block[tile] = pst_squares_of_block(j->x + from, pst_min_u64(PST_SQUARES_BLOCK, j->n - from));
}

static pst_squares flat_squares(pst_pool *pool, const float *x, uint64_t n) {
    enum { BLOCKS = 64 };
    pst_squares block[BLOCKS], total = {PST_SQUARES_NONE, {0}};
    for (uint64_t from = 0; from < n; from += BLOCKS * PST_SQUARES_BLOCK) {
        squares_job j = {x + from, block, pst_min_u64(BLOCKS * PST_SQUARES_BLOCK, n - from)};
        uint64_t blocks = pst_div_up(j.n, PST_SQUARES_BLOCK);
        if (pool) pst_pool_run(pool, squares_tile, &j, blocks);
        else
            for (uint64_t b = 0; b < blocks; b++) squares_tile(&j, b, 0);
        for (uint64_t b = 0; b < blocks; b++) pst_squares_add(&total, block + b);
    }
    return total;
}

static void accumulate_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const array_job *j = arg;
    uint64_t from = tile * PST_FLAT_TILE;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->n - from), {
        v_store_n(j->y + from + i, v_load_n(j->y + from + i, n) + v_load_n(j->x + from + i, n), n);
    });
}

static void flat_accumulate(pst_pool *pool, float *y, const float *x, uint64_t n) {
    array_job j = {.y = y, .x = x, .n = n};
    run_pool(pool, accumulate_tile, &j, pst_div_up(n, PST_FLAT_TILE));
}

static void narrow_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const array_job *j = arg;
    uint64_t from = tile * PST_FLAT_TILE, count = pst_min_u64(PST_FLAT_TILE, j->n - from);
#if defined(VEC_HALF)
    if (j->dtype == linear_ops.dtype) {
        VEC_EACH(i, n, count, { x_store_n(j->half + from + i, v_load_n(j->x + from + i, n), n); });
        return;
    }
#endif
#if defined(VEC_AVX512) && !defined(VEC_F16)
    if (j->dtype == PST_F16) { /* every AVX-512 converts */
        VEC_EACH(i, n, count, {
            __m256i half = _mm512_cvtps_ph(v_load_n(j->x + from + i, n),
                                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            _mm256_mask_storeu_epi16(j->half + from + i, v_first(n), half);
        });
        return;
    }
#endif
    for (uint64_t i = from; i < from + count; i++)
        j->half[i] = pst_half_from_f32(j->dtype, j->x[i]);
}

static void flat_narrow(pst_pool *pool, pst_dtype dtype, const float *x, uint16_t *y, uint64_t n) {
    array_job j = {.x = x, .dtype = dtype, .half = y, .n = n};
    run_pool(pool, narrow_tile, &j, pst_div_up(n, PST_FLAT_TILE));
}

/* 12 independent chains: enough for two units with a latency of 4 to 6 cycles. */
static double fma_loop(uint64_t turns, float *sink) {
    vf sum[12], a = v_set(0.999f), b = v_set(1e-3f);
    VEC_UNROLL
    for (int k = 0; k < 12; k++) sum[k] = v_set((float)k);
    for (uint64_t i = 0; i < turns; i++) VEC_UNROLL
#if defined(VEC_BF16)
    for (int k = 0; k < 12; k++) sum[k] = _mm512_dpbf16_ps(sum[k], (__m512bh)a, (__m512bh)b);
#else
    for (int k = 0; k < 12; k++) sum[k] = v_fma(sum[k], a, b);
#endif
    VEC_UNROLL
    for (int k = 0; k < 12; k++) *sink += (float)v_sum(sum[k]);
#if defined(VEC_BF16)
    return (double)turns * 12 * 2 * VEC_W * 2;
#else
    return (double)turns * 12 * 2 * VEC_W;
#endif
}
