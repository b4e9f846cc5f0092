/* Vector arithmetic on flat arrays: the same operations in the same order as kernels/ref/flat.c, so
 * the same bits. */

enum { SUM_BLOCK = 4096, SUM_CHUNK = 1024 /* block sums held at a time */ };

typedef struct {
    const pst_optim_hyper *h;
    float *weight, *y;
    void *m, *v;      /* states */
    float *to_weight; /* where their new values are written */
    void *to_m, *to_v;
    pst_dtype dtype;
    uint16_t *half;
    const float *x;
    double *block;
    pst_squares *squares; /* [tiles][2] of lamb_squares */
    uint64_t n;
} array_job;

/* --- optimizer -------------------------------------------------------------------------------- */

/* What an update is compiled for: fp32 states, bf16 states, and fp32 states whose new values are
 * written past the caches. */
enum { FORM_F32, FORM_BF16, FORM_PAST, FORMS };

/* pst_optim_random for a vector of elements; 0 if nothing is rounded. */
VEC_INLINE vi noise_of(const pst_optim_hyper *h, vf weight, vf grad, int form) {
    if (form != FORM_BF16) return vi_set(0);
    vi x = vi_xor(vi_xor(v_bits(grad), vi_left(v_bits(weight), 9)), vi_set(h->noise));
    x = vi_low_product(vi_xor(x, vi_right(x, 16)), vi_set(0x85ebca6b));
    x = vi_low_product(vi_xor(x, vi_right(x, 13)), vi_set(0xc2b2ae35));
    return vi_xor(x, vi_right(x, 16));
}

VEC_INLINE vf state_load(const void *state, uint64_t i, unsigned n, int form) {
    if (form == FORM_BF16) return v_load_upper_n((const uint16_t *)state + i, n);
    return v_load_n((const float *)state + i, n);
}

VEC_INLINE void store_new(float *p, vf x, unsigned n, int form) {
    if (form == FORM_PAST && n == VEC_W) v_stream(p, x);
    else v_store_n(p, x, n);
}

/* random: below 2^16. */
VEC_INLINE void state_store(void *state, uint64_t i, vf x, vi random, unsigned n, int form) {
    if (form == FORM_BF16) v_store_upper_n((uint16_t *)state + i, vi_add(v_bits(x), random), n);
    else store_new((float *)state + i, x, n, form);
}

/* The moments of Adam after a step. */
VEC_INLINE void next_moments(const array_job *j, uint64_t i, unsigned n, vf g, vf out[2],
                             int form) {
    const pst_optim_hyper *h = j->h;
    vf rest1 = v_set(1.0f - h->beta1), rest2 = v_set(1.0f - h->beta2);
    out[0] = v_set(h->beta1) * state_load(j->m, i, n, form) + rest1 * g;
    out[1] = v_set(h->beta2) * state_load(j->v, i, n, form) + rest2 * (g * g);
}

VEC_INLINE void store_moments(const array_job *j, uint64_t i, unsigned n, const vf to[2], vi noise,
                              int form) {
    state_store(j->to_m, i, to[0], vi_and(noise, vi_set(0xffff)), n, form);
    state_store(j->to_v, i, to[1], vi_right(noise, 16), n, form);
}

VEC_INLINE void adamw_of(const array_job *j, uint64_t tile, int form) {
    const pst_optim_hyper *h = j->h;
    vf step = v_set(h->lr / h->correction1), root2 = v_set(sqrtf(h->correction2));
    vf keep = v_set(1.0f - h->lr * h->decay), eps = v_set(h->eps), scale = v_set(h->grad_scale);
    uint64_t from = tile * PST_FLAT_TILE;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->n - from), {
        vf w = v_load_n(j->weight + from + i, n), g = v_load_n(j->x + from + i, n), to[2];
        next_moments(j, from + i, n, g * scale, to, form);
        store_moments(j, from + i, n, to, noise_of(h, w, g, form), form);
        store_new(j->to_weight + from + i, w * keep - step * to[0] / (v_sqrt(to[1]) / root2 + eps),
                  n, form);
    });
}

VEC_INLINE void adam_of(const array_job *j, uint64_t tile, int form) {
    const pst_optim_hyper *h = j->h;
    vf step = v_set(h->lr / h->correction1), root2 = v_set(sqrtf(h->correction2));
    vf eps = v_set(h->eps), scale = v_set(h->grad_scale), decay = v_set(h->decay);
    uint64_t from = tile * PST_FLAT_TILE;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->n - from), {
        vf w = v_load_n(j->weight + from + i, n), g = v_load_n(j->x + from + i, n), to[2];
        next_moments(j, from + i, n, g * scale + decay * w, to, form);
        store_moments(j, from + i, n, to, noise_of(h, w, g, form), form);
        store_new(j->to_weight + from + i, w - step * to[0] / (v_sqrt(to[1]) / root2 + eps), n,
                  form);
    });
}

VEC_INLINE void sgd_of(const array_job *j, uint64_t tile, int form) {
    vf decay = v_set(j->h->decay), scale = v_set(j->h->grad_scale), rate = v_set(j->h->lr);
    vf momentum = v_set(j->h->momentum);
    uint64_t from = tile * PST_FLAT_TILE;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->n - from), {
        vf w = v_load_n(j->weight + from + i, n), raw = v_load_n(j->x + from + i, n);
        vf x = raw * scale + decay * w, g = x;
        if (j->h->t > 1) g = momentum * state_load(j->m, from + i, n, form) + g;
        vi noise = vi_and(noise_of(j->h, w, raw, form), vi_set(0xffff));
        state_store(j->to_m, from + i, g, noise, n, form);
        if (j->h->nesterov) g = x + momentum * g;
        store_new(j->to_weight + from + i, w - rate * g, n, form);
    });
}

/* LAMB's step before it is scaled, from the new moments. */
VEC_INLINE vf lamb_direction(const pst_optim_hyper *h, vf w, const vf to[2]) {
    vf root = v_sqrt(to[1] / v_set(h->correction2)) + v_set(h->eps);
    return to[0] / v_set(h->correction1) / root + v_set(h->decay) * w;
}

VEC_INLINE void lamb_of(const array_job *j, uint64_t tile, int form) {
    const pst_optim_hyper *h = j->h;
    const vf scale = v_set(h->grad_scale), rate = v_set(h->lr);
    uint64_t from = tile * PST_FLAT_TILE;
    VEC_EACH(i, n, pst_min_u64(PST_FLAT_TILE, j->n - from), {
        vf w = v_load_n(j->weight + from + i, n), g = v_load_n(j->x + from + i, n), to[2];
        next_moments(j, from + i, n, g * scale, to, form);
        store_moments(j, from + i, n, to, noise_of(h, w, g, form), form);
        store_new(j->to_weight + from + i, w - rate * lamb_direction(h, w, to), n, form);
    });
}

/* The sums of squares of a block of weights, and of steps. */
VEC_INLINE void lamb_squares_of(const array_job *j, uint64_t tile, int form) {
    const uint64_t from = tile * PST_SQUARES_BLOCK,
                   count = pst_min_u64(PST_SQUARES_BLOCK, j->n - from);
    const vf scale = v_set(j->h->grad_scale);
    float step[PST_SQUARES_BLOCK];
    VEC_EACH(i, n, count, {
        vf to[2];
        next_moments(j, from + i, n, v_load_n(j->x + from + i, n) * scale, to, form);
        v_store_n(step + i, lamb_direction(j->h, v_load_n(j->weight + from + i, n), to), n);
    });
    j->squares[2 * tile] = pst_squares_of_block(j->weight + from, count);
    j->squares[2 * tile + 1] = pst_squares_of_block(step, count);
}

#define UPDATE_TILE(rule, form)                                                                    \
    static void rule##_tile_##form(void *arg, uint64_t tile, uint32_t thread) {                    \
        (void)thread;                                                                              \
        rule##_of(arg, tile, form);                                                                \
        if (form == FORM_PAST) _mm_sfence();                                                       \
    }
UPDATE_TILE(adamw, 0)
UPDATE_TILE(adamw, 1)
UPDATE_TILE(adamw, 2)
UPDATE_TILE(adam, 0)
UPDATE_TILE(adam, 1)
UPDATE_TILE(adam, 2)
UPDATE_TILE(sgd, 0)
UPDATE_TILE(sgd, 1)
UPDATE_TILE(sgd, 2)
UPDATE_TILE(lamb, 0)
UPDATE_TILE(lamb, 1)
UPDATE_TILE(lamb, 2)
UPDATE_TILE(lamb_squares, 0)
UPDATE_TILE(lamb_squares, 1)

static void run_pool(pst_pool *pool, pst_tile_fn fn, array_job *j, uint64_t tiles) {
    if (pool) pst_pool_run(pool, fn, j, tiles);
    else
        for (uint64_t i = 0; i < tiles; i++) fn(j, i, 0);
}

static int form_of(const pst_optim_hyper *h, const array_job *j, int past) {
    const uintptr_t at = (uintptr_t)j->to_weight | (uintptr_t)j->to_m | (uintptr_t)j->to_v;
    if (h->state == PST_BF16) return FORM_BF16;
    return past && at % (VEC_W * sizeof(float)) == 0 ? FORM_PAST : FORM_F32;
}

static void flat_update_to(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                           const pst_flat_param *p, const pst_flat_new *to) {
    array_job j = {.h = h,
                   .weight = p->weight,
                   .x = p->grad,
                   .m = p->state[0],
                   .v = p->state[1],
                   .to_weight = to->weight,
                   .to_m = to->state[0],
                   .to_v = to->state[1],
                   .n = p->n};
    static const pst_tile_fn tile[PST_OPTIM_COUNT][FORMS] = {
        {adamw_tile_0, adamw_tile_1, adamw_tile_2},
        {sgd_tile_0, sgd_tile_1, sgd_tile_2},
        {adam_tile_0, adam_tile_1, adam_tile_2},
        {lamb_tile_0, lamb_tile_1, lamb_tile_2}};
    run_pool(pool, tile[kind][form_of(h, &j, to->past)], &j, pst_div_up(p->n, PST_FLAT_TILE));
}

static void flat_update(pst_pool *pool, pst_optim_kind kind, const pst_optim_hyper *h,
                        const pst_flat_param *p) {
    flat_update_to(pool, kind, h, p, &(pst_flat_new){p->weight, {p->state[0], p->state[1]}, 0});
}

static void flat_lamb_squares(pst_pool *pool, const pst_optim_hyper *h, const pst_flat_param *p,
                              pst_squares out[2]) {
    enum { BLOCKS = 64 };
    const uint64_t size = h->state == PST_BF16 ? sizeof(uint16_t) : sizeof(float);
    pst_squares squares[2 * BLOCKS];
    out[0] = out[1] = (pst_squares){PST_SQUARES_NONE, {0}};
    for (uint64_t from = 0; from < p->n; from += BLOCKS * PST_SQUARES_BLOCK) {
        array_job j = {.h = h,
                       .weight = p->weight + from,
                       .x = p->grad + from,
                       .m = (uint8_t *)p->state[0] + from * size,
                       .v = (uint8_t *)p->state[1] + from * size,
                       .squares = squares,
                       .n = pst_min_u64(BLOCKS * PST_SQUARES_BLOCK, p->n - from)};
        const uint64_t blocks = pst_div_up(j.n, PST_SQUARES_BLOCK);
        run_pool(pool, h->state == PST_BF16 ? lamb_squares_tile_1 : lamb_squares_tile_0, &j,
                 blocks);
        for (uint64_t b = 0; b < 2 * blocks; b++) pst_squares_add(out + b % 2, squares + b);
    }
}

/* --- sums, and the rest ----------------------------------------------------------------------- */

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
