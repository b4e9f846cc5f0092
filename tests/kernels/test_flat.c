/* Flat arithmetic: every table gives the reference's bits, for any number of threads and any
 * address; the rules are those of the optimizers (checked in double). And the cpu device's own
 * behaviour. */
#include "kernels/hyper.h"
#include "kernels/tables.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t lengths[] = {1, 3, 7, 17, 33, 65, 4095, 4096, 4097, 16384, 40001, 5000011};
enum { ARRAYS = 4, LAST_SIZE = 11 /* the longest is for sums only */ };

/* weight, grad, state 0, state 1: each n long, `shift` elements off its alignment. */
static void make(float *array[ARRAYS], uint64_t n, uint64_t shift) {
    for (int i = 0; i < ARRAYS; i++) {
        array[i] = aligned_alloc(64, (4 * (n + shift) + 63) / 64 * 64);
        assert_non_null(array[i]);
        array[i] += shift;
        pst_rng_normal(pst_rng_key(5, "flat") + (uint64_t)i, 0, 1, array[i], n);
    }
    for (uint64_t i = 0; i < n; i++) array[3][i] = fabsf(array[3][i]);
}

static void drop(float *array[ARRAYS], uint64_t shift) {
    for (int i = 0; i < ARRAYS; i++) free(array[i] - shift);
}

/* The states become bf16. */
static void make_narrow(float *array[ARRAYS], uint64_t n) {
    for (int s = 2; s < ARRAYS; s++) pst_bf16_pack(array[s], n);
}

typedef struct {
    const pst_flat *flat;
    pst_optim_kind kind;
    const pst_optim_hyper *h;
    uint64_t n;
} update_case;

/* The same update from `from`, which stays as it is, to another place. */
static void check_elsewhere(const update_case *c, pst_pool *pool, int past, float *from[ARRAYS],
                            float *want[ARRAYS]) {
    const uint64_t bytes = (sizeof(float) * c->n + 63) / 64 * 64,
                   of_state = pst_dtype_bytes(c->h->state) * c->n;
    const int n_state = c->kind == PST_OPTIM_SGD ? 1 : 2;
    uint8_t *to[ARRAYS], *before[ARRAYS];
    for (int a = 0; a < ARRAYS; a++) {
        to[a] = aligned_alloc(64, bytes);
        before[a] = aligned_alloc(64, bytes);
        memcpy(before[a], from[a], sizeof(float) * c->n);
    }
    c->flat->update_to(pool, c->kind, c->h,
                       &(pst_flat_param){from[0], from[1], {from[2], from[3]}, c->n},
                       &(pst_flat_new){(float *)(void *)to[0], {to[2], to[3]}, past});
    assert_memory_equal(to[0], want[0], sizeof(float) * c->n);
    for (int a = 2; a < 2 + n_state; a++) assert_memory_equal(to[a], want[a], of_state);
    for (int a = 0; a < ARRAYS; a++) {
        assert_memory_equal(from[a], before[a], sizeof(float) * c->n);
        free(to[a]);
        free(before[a]);
    }
}

static void check_update(pst_optim_kind kind, uint64_t t, pst_dtype state) {
    pst_optim_hyper h = hyper_of(t);
    h.state = state;
    h.noise = 0x12345678;
    h.decay = 0.1f;
    const pst_flat *list[6];
    uint32_t n_table = tables(list);
    for (size_t l = 0; l < LAST_SIZE; l++) {
        float *want[ARRAYS], *got[ARRAYS];
        make(want, lengths[l], 0);
        if (state == PST_BF16) make_narrow(want, lengths[l]);
        pst_flat_ref()->update(NULL, kind, &h,
                               &(pst_flat_param){want[0], want[1], {want[2], want[3]}, lengths[l]});
        for (uint32_t i = 0; i < n_table * 4; i++) {
            uint64_t shift = i % 3;
            make(got, lengths[l], shift);
            if (state == PST_BF16) make_narrow(got, lengths[l]);
            if (i % 2)
                check_elsewhere(&(update_case){list[i / 4], kind, &h, lengths[l]}, pools[i % 4],
                                i % 4 == 1, got, want);
            list[i / 4]->update(pools[i % 4], kind, &h,
                                &(pst_flat_param){got[0], got[1], {got[2], got[3]}, lengths[l]});
            for (int a = 0; a < ARRAYS; a++) assert_memory_equal(got[a], want[a], 4 * lengths[l]);
            drop(got, shift);
        }
        drop(want, 0);
    }
}

/* LAMB's sums: the same bits in every table, also of two halves. */
static void check_squares(uint64_t t, pst_dtype type) {
    const pst_flat *list[6];
    const uint64_t n = 40001, cut = 12345, size = pst_dtype_bytes(type);
    uint32_t n_table = tables(list);
    pst_optim_hyper h = {.decay = 0.1f,
                         .beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .eps = 1e-8f,
                         .grad_scale = 0.7f,
                         .t = t,
                         .correction1 = 0.271f,
                         .correction2 = 0.1426f,
                         .state = type};
    float *x[ARRAYS];
    pst_squares want[2], got[2], rest[2];
    make(x, n, 0);
    if (type == PST_BF16) make_narrow(x, n);
    const pst_flat_param all = {x[0], x[1], {x[2], x[3]}, n}, low = {x[0], x[1], {x[2], x[3]}, cut};
    const pst_flat_param high = {x[0] + cut,
                                 x[1] + cut,
                                 {(uint8_t *)x[2] + cut * size, (uint8_t *)x[3] + cut * size},
                                 n - cut};
    pst_flat_ref()->lamb_squares(NULL, &h, &all, want);
    for (uint32_t i = 0; i < n_table * 4; i++) {
        list[i / 4]->lamb_squares(pools[i % 4], &h, &all, got);
        assert_memory_equal(got, want, sizeof want);
        list[i / 4]->lamb_squares(pools[i % 4], &h, &low, got);
        list[i / 4]->lamb_squares(pools[i % 4], &h, &high, rest);
        for (int k = 0; k < 2; k++) pst_squares_add(got + k, rest + k);
        assert_memory_equal(got, want, sizeof want);
    }
    drop(x, 0);
}

static void test_update_bits(void **state) {
    (void)state;
    for (int half = 0; half < 2; half++) {
        const pst_dtype state_type = half ? PST_BF16 : PST_F32;
        check_update(PST_OPTIM_ADAMW, 1, state_type);
        check_update(PST_OPTIM_ADAMW, 7, state_type);
        check_update(PST_OPTIM_ADAM, 2, state_type);
        check_update(PST_OPTIM_SGD, 1, state_type);
        check_update(PST_OPTIM_SGD, 7, state_type);
        check_update(PST_OPTIM_SGD, 8, state_type);
        check_update(PST_OPTIM_LAMB, 3, state_type);
        check_squares(3, state_type);
    }
}

/* A state that a step changes by less than half a unit in the last place: rounded at random, its
 * mean follows the state that fp32 keeps, with neighbours and steps independent; rounded to
 * nearest, it would stay. Exact numbers stay exact. */
static void test_random_rounding(void **state) {
    (void)state;
    enum { N = 4096, STEPS = 100 };
    static float w[N], g[N];
    static uint16_t m[N], v[N];
    const uint16_t start = pst_bf16_from_f32(1.0f);
    pst_optim_hyper h = {.beta1 = 0.0f,
                         .beta2 = 0.999f,
                         .eps = 1e-8f,
                         .grad_scale = 1,
                         .correction1 = 1,
                         .correction2 = 1,
                         .state = PST_BF16};
    for (int i = 0; i < N; i++) {
        w[i] = 0.5f;
        v[i] = start;
    }
    for (h.t = 1; h.t <= STEPS; h.t++) {
        pst_optim_noise(&h, 7);
        for (int i = 0; i < N; i++) g[i] = 1e-6f * (float)(i + 1);
        pst_flat_choose(pst_cpu_isa())
            ->update(NULL, PST_OPTIM_ADAMW, &h, &(pst_flat_param){w, g, {m, v}, N});
    }
    double mean = 0, square = 0, want = pow(0.999, STEPS), left = 0;
    for (int i = 0; i < N; i++) {
        double value = (double)pst_f32_from_bf16(v[i]);
        mean += value / N;
        square += value * value / N;
        left += (double)pst_f32_from_bf16(m[i]) / (double)g[i] / N;
    }
    assert_true(fabs(mean - want) < 2e-3);
    /* steps of 1/256: a walk of 100 draws with probability about a quarter */
    double spread = sqrt(square - mean * mean);
    assert_true(spread > 0.008 && spread < 0.03);
    assert_true(fabs(left - 1) < 2e-4);
    assert_int_equal(pst_bf16_from_f32(pst_f32_from_bf16(start) * 0.999f), start);
    assert_int_equal(pst_optim_rounded(0x3f800000, 0xffff), start);
}

/* --- codecs ----------------------------------------------------------------------------------- */

enum { CODED = 40001, BLOCK = 64 };
typedef struct {
    float *x, *error, *next;
    uint8_t *packed;
} coded;

/* Gradients of very different sizes from block to block; some blocks are 0, or nearly. */
static coded make_coded(void) {
    static float x[CODED], error[CODED];
    coded c = {malloc(4 * CODED), malloc(4 * CODED), malloc(4 * CODED), malloc(6 * CODED + 1)};
    assert_true(c.x && c.error && c.next && c.packed);
    if (error[0] == 0) {
        pst_rng_normal(pst_rng_key(5, "codec"), 0, 1, x, CODED);
        pst_rng_normal(pst_rng_key(6, "codec"), 0, 0.1f, error, CODED);
    }
    memcpy(c.x, x, sizeof x);
    memcpy(c.error, error, sizeof error);
    for (uint64_t i = 0; i < CODED; i++) {
        float size = ldexpf(1, (int)(i / BLOCK % 7) * 20 - 60);
        if (i / BLOCK % 11 == 3) size = 0;
        if (i / BLOCK % 11 == 5) size = 0x1p-130f;
        c.x[i] *= size;
        c.error[i] *= size;
    }
    memset(c.packed, 0xee, 6 * CODED + 1);
    memset(c.next, 0xee, 4 * CODED);
    return c;
}

static void drop_coded(coded *c) {
    free(c->x);
    free(c->error);
    free(c->next);
    free(c->packed);
}

static pst_flat_pack pack_of(const coded *c, pst_codec codec, uint64_t n, int decode) {
    return (pst_flat_pack){.x = c->x,
                           .error = c->error,
                           .scale = 2.0f,
                           .packed = c->packed,
                           .next = decode ? c->next : c->x,
                           .decode = decode,
                           .n = n,
                           .codec = codec};
}

static void check_codec(pst_codec codec, uint64_t n, int decode) {
    const pst_flat *list[6];
    uint32_t n_table = tables(list);
    coded want = make_coded(), plain = make_coded();
    const uint64_t bytes = pst_codec_bytes(codec, n);
    pst_flat_pack p = pack_of(&want, codec, n, decode);
    pst_flat_ref()->pack(NULL, &p);
    assert_int_equal(want.packed[bytes], 0xee); /* and not a byte more */
    float *unpacked = malloc(4 * n);
    assert_non_null(unpacked);
    pst_flat_ref()->unpack(NULL, codec, want.packed, unpacked, n, 0);
    uint64_t different = 0;
    for (uint64_t i = 0; i < n; i++) { /* what is sent and what is left add up */
        float x = plain.x[i] + 2.0f * plain.error[i];
        different += unpacked[i] != 0;
        assert_true(p.next[i] == x - unpacked[i]);
        if (decode) assert_memory_equal(want.x + i, unpacked + i, 4);
    }
    assert_true(different > 0 || n < 64 || codec.threshold > 0);
    for (uint32_t t = 0; t < n_table * 4; t++) {
        coded got = make_coded();
        p = pack_of(&got, codec, n, decode);
        list[t / 4]->pack(pools[t % 4], &p);
        assert_memory_equal(got.packed, want.packed, bytes + 1);
        assert_memory_equal(got.next, want.next, 4 * CODED);
        assert_memory_equal(got.x, want.x, 4 * CODED);
        for (int add = 0; add < 2; add++) {
            memcpy(got.error, plain.error, 4 * CODED);
            list[t / 4]->unpack(pools[t % 4], codec, got.packed, got.error, n, add);
            for (uint64_t i = 0; i < n; i++) {
                float sum = add ? plain.error[i] + unpacked[i] : unpacked[i];
                if (codec.kind == PST_CODEC_TOPK) assert_true(got.error[i] == sum);
                else assert_memory_equal(got.error + i, &sum, 4);
            }
            assert_memory_equal(got.error + n, plain.error + n, 4 * (CODED - n));
        }
        drop_coded(&got);
    }
    free(unpacked);
    drop_coded(&want);
    drop_coded(&plain);
}

static void test_codec_bits(void **state) {
    (void)state;
    static const pst_codec codecs[] = {{.kind = PST_CODEC_INT8},
                                       {.kind = PST_CODEC_INT4},
                                       {.kind = PST_CODEC_BF16},
                                       {.kind = PST_CODEC_2BIT},
                                       {.kind = PST_CODEC_2BIT, .threshold = 0.4f},
                                       {.kind = PST_CODEC_TOPK, .keep = 1},
                                       {.kind = PST_CODEC_TOPK, .keep = 17},
                                       {.kind = PST_CODEC_TOPK, .keep = BLOCK}};
    static const uint64_t n[] = {1, 63, 64, 65, 16384, 16391, 40000};
    for (size_t k = 0; k < sizeof codecs / sizeof *codecs; k++)
        for (size_t l = 0; l < sizeof n / sizeof *n; l++) {
            pst_codec codec = codecs[k];
            codec.block = BLOCK;
            check_codec(codec, n[l], (int)l % 2);
            codec.block = PST_CODEC_BLOCK_MAX;
            check_codec(codec, n[l], 1);
        }
}

/* Rounding is to the nearest whole number of the block's own scale, ties to even; the largest
 * number keeps its value to the last bit but one. */
static void test_codec_rule(void **state) {
    (void)state;
    const pst_flat *flat = pst_flat_choose(pst_cpu_isa());
    float x[32] = {127, 1, 2.5f, 3.5f, -2.5f, -127, 0.4f}, zero[32] = {0};
    uint8_t packed[64];
    pst_flat_pack p = {.x = x,
                       .error = zero,
                       .scale = 1,
                       .packed = packed,
                       .next = x,
                       .n = 32,
                       .codec = {.kind = PST_CODEC_INT8, .block = 32}};
    flat->pack(NULL, &p);
    static const int8_t want[7] = {127, 1, 2, 4, -2, -127, 0};
    assert_memory_equal(packed + 4, want, sizeof want);
    assert_true(x[2] == 0.5f && x[3] == -0.5f && x[6] == 0.4f && x[0] == 0);
    float y[32] = {7, -7, 3.5f, 1, 0, -3};
    p.x = y;
    p.next = NULL;
    p.decode = 1;
    p.codec.kind = PST_CODEC_INT4;
    flat->pack(NULL, &p);
    assert_int_equal(pst_codec_bytes(p.codec, 32), 20);
    assert_int_equal(packed[4], 7);
    assert_int_equal(packed[5], 0x9); /* -7 */
    assert_int_equal(packed[6], 4);   /* of 3.5 */
    assert_true(y[0] == 7 && y[1] == -7 && y[2] == 4);
}

static void test_codec_bf16(void **state) {
    (void)state;
    static const uint32_t edges[] = {0x3f808000, 0x3f818000, 0x3f808001, 0xbf808000, 0x00008000,
                                     0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffffffff};
    enum { EDGES = sizeof edges / sizeof *edges };
    float x[EDGES], zero[EDGES] = {0};
    uint16_t half[EDGES];
    memcpy(x, edges, sizeof x);
    pst_flat_pack p = {.x = x,
                       .error = zero,
                       .scale = 1,
                       .packed = (uint8_t *)half,
                       .n = EDGES,
                       .codec = {.kind = PST_CODEC_BF16, .block = 32}};
    pst_flat_choose(pst_cpu_isa())->pack(NULL, &p);
    assert_int_equal(pst_codec_bytes(p.codec, EDGES), sizeof half);
    for (int i = 0; i < EDGES; i++) {
        if (isnan(x[i])) assert_true(isnan(pst_f32_from_bf16(half[i])));
        else assert_int_equal(half[i], pst_bf16_from_f32(x[i]));
    }
}

/* MXNet's rule with a given threshold, which the loss scale multiplies; then the block's own: of
 * the magnitudes 4, 2, 1 and 0 those above their mean, 1.75, have the mean 3, and those of at
 * least 1.5 become 3. */
static void test_codec_2bit(void **state) {
    (void)state;
    const pst_flat *flat = pst_flat_choose(pst_cpu_isa());
    float x[32] = {3, -3, 2.9f, -2.9f, 100, 0, -100}, zero[32] = {0};
    uint8_t packed[64];
    pst_flat_pack p = {.x = x,
                       .error = zero,
                       .scale = 2,
                       .packed = packed,
                       .next = x,
                       .n = 32,
                       .codec = {.kind = PST_CODEC_2BIT, .block = 32, .threshold = 1.5f}};
    flat->pack(NULL, &p);
    assert_int_equal(pst_codec_bytes(p.codec, 32), 12);
    static const float left[7] = {0, 0, 2.9f, -2.9f, 97, 0, -97};
    for (int i = 0; i < 7; i++) assert_true(x[i] == left[i]);
    static const uint8_t bits[7] = {1, 3, 0, 0, 1, 0, 3};
    for (int i = 0; i < 7; i++) assert_int_equal(packed[4 + i] & 3, bits[i]);
    static const float numbers[4] = {4, -2, 1, 0}, become[4] = {3, -3, 0, 0};
    for (int i = 0; i < 32; i++) x[i] = numbers[i % 4];
    p.codec.threshold = 0;
    p.decode = 1;
    p.next = NULL;
    flat->pack(NULL, &p);
    for (int i = 0; i < 32; i++) assert_true(x[i] == become[i % 4]);
}

/* By sorting: the largest magnitudes, and of equal ones those with lower indices. */
typedef struct {
    float magnitude;
    int index;
} ranked;

static int by_magnitude(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->magnitude != y->magnitude) return x->magnitude < y->magnitude ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static void test_codec_topk(void **state) {
    (void)state;
    enum { N = 300 };
    const pst_flat *list[6];
    uint32_t n_table = tables(list);
    for (uint64_t round = 0; round < 200; round++) {
        float x[N], zero[N] = {0}, y[N];
        ranked rank[N];
        uint8_t packed[6 * N];
        const uint32_t levels = 1u << round % 12; /* few: many ties */
        for (int i = 0; i < N; i++) {
            uint32_t draw[4];
            pst_rng_words(pst_rng_key(round, "topk"), 0, (uint64_t)i, draw);
            x[i] = (float)(draw[0] % levels) * (draw[1] & 1 ? 1 : -1);
            rank[i] = (ranked){fabsf(x[i]), i};
        }
        qsort(rank, N, sizeof *rank, by_magnitude);
        const pst_codec codec = {
            .kind = PST_CODEC_TOPK, .block = 512, .keep = (uint32_t)(1 + round * 2)};
        const uint64_t k = pst_codec_kept(codec, N);
        for (uint32_t t = 0; t < n_table; t++) {
            pst_flat_pack p = {x, zero, 1, packed, y, 0, N, codec, NULL, NULL};
            list[t]->pack(NULL, &p);
            for (uint64_t i = 0; i < N; i++)
                assert_true(y[rank[i].index] == (i < k ? 0 : x[rank[i].index]));
        }
    }
}

/* Steps instead of gradients: AdamW's rule without momentum; the same bits from every table. A
 * gradient that is not finite, or whose square is not, changes no second moment. */
static void test_codec_steps(void **state) {
    (void)state;
    enum { N = 2 * BLOCK + 77 };
    static float x[N], v[N], error[N], got_x[N], got_v[N], want_x[N], want_v[N];
    static uint8_t packed[8 * N], want[8 * N];
    const pst_codec codec = {.kind = PST_CODEC_TOPK, .block = BLOCK, .keep = 9, .moments = 1};
    const pst_flat *list[6];
    const uint32_t n_table = tables(list);
    pst_flat_moments m = {want_v, 0.5f, 0.25f, 0.95f, 1e-8f, 1.5f};
    pst_rng_normal(pst_rng_key(11, "codec"), 0, 1, x, N);
    pst_rng_normal(pst_rng_key(12, "codec"), 0, 1, error, N);
    for (int i = 0; i < N; i++) v[i] = x[N - 1 - i] * x[N - 1 - i];
    x[3] = NAN;
    x[BLOCK + 5] = 1e30f;
    memcpy(want_x, x, sizeof x);
    memcpy(want_v, v, sizeof v);
    pst_flat_ref()->pack(NULL,
                         &(pst_flat_pack){want_x, error, 1, want, want_x, 0, N, codec, &m, NULL});
    for (int i = 0; i < N; i++) {
        const double g = 0.5 * x[i], next = 0.95f * (double)v[i] + (1 - 0.95f) * g * g;
        const double step = g / (sqrt(next) * 1.5 + 1e-8) * 0.25 + error[i];
        if (i == 3 || i == BLOCK + 5) assert_true(want_v[i] == v[i]);
        else assert_true(fabs(want_v[i] - next) <= 1e-6 * next);
        if (want_x[i] != 0 && i != 3 && i != BLOCK + 5)
            assert_true(fabs(want_x[i] - step) <= 1e-5 * (1 + fabs(step)));
    }
    assert_true(want_x[3] != want_x[3] || want_x[3] == 0);
    m.second = got_v;
    for (uint32_t t = 0; t < n_table * 4; t++) {
        memcpy(got_x, x, sizeof x);
        memcpy(got_v, v, sizeof v);
        list[t / 4]->pack(pools[t % 4],
                          &(pst_flat_pack){got_x, error, 1, packed, got_x, 0, N, codec, &m, NULL});
        assert_memory_equal(packed, want, pst_codec_bytes(codec, N));
        assert_memory_equal(got_x, want_x, sizeof x);
        assert_memory_equal(got_v, want_v, sizeof v);
    }
}

/* A number that is not finite makes its whole block so (with topk at least that number), but no
 * other block. */
static void check_not_finite(const pst_flat *flat, pst_codec codec, float bad, int at) {
    float x[96], zero[96] = {0};
    uint8_t packed[256];
    for (int i = 0; i < 96; i++) x[i] = (float)i;
    x[at] = bad;
    pst_flat_pack p = {x, zero, 1, packed, NULL, 1, 96, codec, NULL, NULL};
    flat->pack(NULL, &p);
    for (int i = 0; i < 96; i++)
        if (codec.kind != PST_CODEC_TOPK || i == at)
            assert_int_equal(!isfinite(x[i]), i / 32 == at / 32);
}

static void test_codec_not_finite(void **state) {
    (void)state;
    static const pst_codec codecs[] = {{.kind = PST_CODEC_INT8, .block = 32},
                                       {.kind = PST_CODEC_2BIT, .block = 32},
                                       {.kind = PST_CODEC_2BIT, .block = 32, .threshold = 1},
                                       {.kind = PST_CODEC_TOPK, .block = 32, .keep = 1}};
    const pst_flat *list[6];
    uint32_t n_table = tables(list);
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (uint32_t t = 0; t < n_table; t++)
        for (int b = 0; b < 3; b++)
            for (int at = 0; at < 40; at += 13)
                for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++)
                    check_not_finite(list[t], codecs[c], bad[b], at);
}

static void test_adamw_rule(void **state) {
    (void)state;
    pst_optim_hyper h = {.lr = 1e-2f,
                         .decay = 0.1f,
                         .beta1 = 0.9f,
                         .beta2 = 0.999f,
                         .eps = 1e-8f,
                         .grad_scale = 0.5f,
                         .correction1 = 0.271f,
                         .correction2 = 0.002997f,
                         .t = 3};
    float w = 0.8f, g = -0.6f, m = 0.05f, v = 0.02f;
    double x = 0.5 * g, dm = 0.9 * m + 0.1 * x, dv = 0.999 * v + 0.001 * x * x;
    double want = w - 1e-2 * 0.1 * w - 1e-2 / 0.271 * dm / (sqrt(dv) / sqrt(0.002997) + 1e-8);
    const pst_flat *flat = pst_flat_choose(pst_cpu_isa());
    flat->update(NULL, PST_OPTIM_ADAMW, &h, &(pst_flat_param){&w, &g, {&m, &v}, 1});
    assert_true(fabs(w - want) < 1e-7 && fabs(m - dm) < 1e-7 && fabs(v - dv) < 1e-7);
}

static void test_adam_rule(void **state) {
    (void)state;
    pst_optim_hyper h = {.lr = 1e-2f,
                         .decay = 0.1f,
                         .beta1 = 0.9f,
                         .beta2 = 0.999f,
                         .eps = 1e-8f,
                         .grad_scale = 0.5f,
                         .correction1 = 0.271f,
                         .correction2 = 0.002997f,
                         .t = 3};
    float w = 0.8f, g = -0.6f, m = 0.05f, v = 0.02f;
    double x = 0.5 * g + 0.1 * w, dm = 0.9 * m + 0.1 * x, dv = 0.999 * v + 0.001 * x * x;
    double want = w - 1e-2 / 0.271 * dm / (sqrt(dv) / sqrt(0.002997) + 1e-8);
    const pst_flat *flat = pst_flat_choose(pst_cpu_isa());
    flat->update(NULL, PST_OPTIM_ADAM, &h, &(pst_flat_param){&w, &g, {&m, &v}, 1});
    assert_true(fabs(w - want) < 1e-7 && fabs(m - dm) < 1e-7 && fabs(v - dv) < 1e-7);
}

static void test_nesterov_rule(void **state) {
    (void)state;
    pst_optim_hyper h = {
        .lr = 1e-2f, .decay = 0.1f, .momentum = 0.9f, .grad_scale = 0.5f, .t = 3, .nesterov = 1};
    float w = 0.8f, g = -0.6f, m = 0.05f;
    double x = 0.5 * g + 0.1 * w, dm = 0.9 * m + x, want = w - 1e-2 * (x + 0.9 * dm);
    const pst_flat *flat = pst_flat_choose(pst_cpu_isa());
    flat->update(NULL, PST_OPTIM_SGD, &h, &(pst_flat_param){&w, &g, {&m, NULL}, 1});
    assert_true(fabs(w - want) < 1e-7 && fabs(m - dm) < 1e-7);
}

/* Rounding to bf16 and fp16, ties and NaN included. */
static void test_narrow(void **state) {
    (void)state;
    const pst_flat *list[6];
    uint32_t n_table = tables(list);
    float x[100] = {0.0f,    -0.0f,    1.00390625f, 1.01171875f, -1.00390625f,
                    3.4e38f, INFINITY, -INFINITY,   NAN,         1e-30f};
    pst_rng_normal(11, 0, 1, x + 10, 90);
    for (uint32_t i = 0; i < n_table * 8; i++) {
        uint64_t shift = i % 3, n = 100 - i;
        pst_dtype dtype = i % 2 ? PST_F16 : PST_BF16;
        uint16_t y[104];
        memset(y, 0x55, sizeof y);
        list[i / 8]->narrow(pools[i / 2 % 4], dtype, x, y + shift, n);
        for (uint64_t k = 0; k < n; k++)
            assert_true(isnan(x[k]) ? isnan(pst_f32_from_half(dtype, y[k + shift]))
                                    : y[k + shift] == pst_half_from_f32(dtype, x[k]));
        assert_int_equal(y[n + shift], 0x5555);
    }
}

static void test_sums(void **state) {
    (void)state;
    const pst_flat *list[6];
    uint32_t n_table = tables(list);
    for (size_t l = 0; l <= LAST_SIZE; l++) {
        uint64_t n = lengths[l];
        float *x = malloc(4 * (n + 1)), *y = malloc(4 * n);
        assert_non_null(x);
        assert_non_null(y);
        pst_rng_normal(9, 0, 1, x, n);
        double plain = 0, want = pst_flat_ref()->sum_squares(NULL, x, n);
        for (uint64_t i = 0; i < n; i++) plain += (double)x[i] * x[i];
        assert_true(fabs(want - plain) <= 1e-12 * plain);
        for (uint32_t i = 0; i < n_table * 4; i++) {
            double got = list[i / 4]->sum_squares(pools[i % 4], x, n);
            assert_memory_equal(&got, &want, sizeof got);
            memmove(x + 1, x, 4 * n);
            got = list[i / 4]->sum_squares(pools[i % 4], x + 1, n);
            assert_memory_equal(&got, &want, sizeof got);
            memmove(x, x + 1, 4 * n);
            memcpy(y, x, 4 * n);
            list[i / 4]->accumulate(pools[i % 4], y, x, n);
            for (uint64_t e = 0; e < n; e++) assert_true(y[e] == 2 * x[e]);
        }
        free(x);
        free(y);
    }
}

static pst_status nothing(pst_device *device, const void *call) {
    (void)device;
    *(int *)(uintptr_t)call += 1;
    return PST_OK;
}

static pst_status failing(pst_device *device, const void *call) {
    (void)device;
    (void)call;
    return PST_EINTERNAL;
}

static void test_device(void **state) {
    (void)state;
    pst_device_config config = {.threads = 0};
    assert_non_null(pst_device_cpu.reject(&config));
    config.threads = 2;
    assert_null(pst_device_cpu.reject(&config));
    pst_device *d;
    assert_int_equal(pst_device_cpu.open(&config, &d), PST_OK);
    assert_int_equal(pst_pool_threads(d->pool), 2);
    int calls = 0;
    uint64_t event = 0, start, end, last = 0;
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(pst_device_cpu.launch(d, nothing, &calls, 0, 0, &event), PST_OK);
        assert_int_equal(calls, i + 1);
        assert_int_equal(pst_device_cpu.test(d, event, &start, &end), PST_OK);
        assert_true(start <= end && start >= last);
        last = end;
    }
    assert_int_equal(pst_device_cpu.test(d, event + 1, &start, &end), PST_EINTERNAL);
    assert_int_equal(pst_device_cpu.test(d, 0, &start, &end), PST_EINTERNAL);
    assert_int_equal(pst_device_cpu.launch(d, failing, &calls, 0, 0, &event), PST_EINTERNAL);
    assert_true(pst_device_cpu.next_ns(d) == PST_NEVER);
    pst_device_cpu.close(d);
    pst_device_cpu.close(NULL);
}

static void test_rows(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_cpu(&n);
    for (uint32_t i = 1; i < n; i++) assert_true(rows[i - 1].isa >= rows[i].isa); /* best first */
    pst_device none = {.isa = 0};
    assert_non_null(rows[0].reject(NULL, NULL, &none));
    assert_true(pst_cpu_peak_flops(pst_cpu_isa(), PST_F32, 1) > 1e8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_update_bits),      cmocka_unit_test(test_random_rounding),
        cmocka_unit_test(test_codec_bits),       cmocka_unit_test(test_codec_rule),
        cmocka_unit_test(test_codec_bf16),       cmocka_unit_test(test_codec_steps),
        cmocka_unit_test(test_codec_not_finite), cmocka_unit_test(test_codec_2bit),
        cmocka_unit_test(test_codec_topk),       cmocka_unit_test(test_adamw_rule),
        cmocka_unit_test(test_adam_rule),        cmocka_unit_test(test_nesterov_rule),
        cmocka_unit_test(test_narrow),           cmocka_unit_test(test_sums),
        cmocka_unit_test(test_device),           cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, open_pools, close_pools);
}
