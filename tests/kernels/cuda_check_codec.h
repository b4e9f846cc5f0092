/* Codecs on a GPU (or emulated threads) against the reference: the same bits. See cuda_check.h. */
#ifndef PST_TESTS_KERNELS_CUDA_CHECK_CODEC_H
#define PST_TESTS_KERNELS_CUDA_CHECK_CODEC_H
#include "kernels/cuda_check_arith.h"
#include "kernels/codec.h"

enum { CODEC_MOST = 5003, CODEC_GUARD = 64 };

/* Where results go: beside x, to x, and what the receiver unpacks to x. */
typedef enum { CODEC_BESIDE, CODEC_IN_PLACE, CODEC_DECODES, CODEC_ONLY } codec_way;

/* Blocks of ordinary numbers, of zeros, tiny ones, and with one that is not finite. */
static void codec_fill(float *x, float *error, uint64_t n, uint32_t block) {
    pst_rng_normal(3, 0, 1, x, n);
    pst_rng_normal(4, 0, 1, error, n);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t of = i / block % 9;
        if (of == 3) x[i] = error[i] = 0;
        if (of == 5) x[i] *= 1e-35f;
        if (of == 5) error[i] *= 1e-35f;
        if (of == 7 && i % block == 5) x[i] = i / block % 2 ? NAN : -INFINITY;
        if (of == 8) x[i] *= 1e30f;
        if (i % 11 == 0) error[i] = 0;
        if (i % 13 == 0) x[i] = rintf(4 * x[i]) / 8; /* some are halfway between two */
    }
}

/* Of a number that is not finite only that counts: the bits of what is not a number differ. */
static void codec_assert_floats(const float *got, const float *want, uint64_t n, const char *what) {
    for (uint64_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got) && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s: element %llu is %a, not %a", what, (unsigned long long)i, (double)got[i],
                     (double)want[i]);
}

static void codec_assert_packed(pst_codec codec, const uint8_t *got, const uint8_t *want,
                                uint64_t bytes) {
    const uint64_t halves = codec.kind == PST_CODEC_BF16 ? bytes / 2 : 0;
    for (uint64_t i = 0; i < halves; i++) {
        uint16_t a, b;
        memcpy(&a, got + 2 * i, sizeof a);
        memcpy(&b, want + 2 * i, sizeof b);
        assert_true(a == b || (isnan(pst_codec_from_bf16(a)) && isnan(pst_codec_from_bf16(b))));
    }
    assert_memory_equal(got + 2 * halves, want + 2 * halves, bytes + CODEC_GUARD - 2 * halves);
}

static void check_unpack(pst_codec codec, const uint8_t *packed, uint64_t n, int add) {
    float *y = random_floats(n, 8, 0), *got = random_floats(n, 8, 0);
    const uint64_t bytes = pst_codec_bytes(codec, n);
    const uint8_t *there = runner->put(packed, bytes);
    float *out = runner->put(y, (n + 8) * sizeof *y);
    assert_int_equal(runner->arith->unpack(runner->device, codec, there, out, n, add), PST_OK);
    pst_flat_ref()->unpack(NULL, codec, packed, y, n, add);
    runner->get(got, out, (n + 8) * sizeof *got);
    codec_assert_floats(got, y, n + 8, "unpacked");
    free(y);
    free(got);
}

static void check_codec(pst_codec codec, uint64_t n, codec_way way) {
    static float x[CODEC_MOST], error[CODEC_MOST], next[CODEC_MOST], got[CODEC_MOST];
    static uint8_t want[4 * CODEC_MOST], packed[4 * CODEC_MOST];
    const uint64_t bytes = pst_codec_bytes(codec, n);
    memset(want, 0xa5, sizeof want);
    memset(next, 0, sizeof next);
    codec_fill(x, error, n, codec.block);
    float *there = runner->put(x, n * sizeof *x), *left = runner->put(next, n * sizeof *x);
    pst_flat_pack p = {.x = there,
                       .error = runner->put(error, n * sizeof *error),
                       .scale = way == CODEC_IN_PLACE ? -1 : 0.375f,
                       .packed = runner->put(want, bytes + CODEC_GUARD),
                       .decode = way == CODEC_DECODES,
                       .n = n,
                       .codec = codec};
    pst_flat_pack here = p;
    here.x = x;
    here.error = error;
    here.packed = want;
    if (way == CODEC_BESIDE || way == CODEC_DECODES) {
        p.next = left;
        here.next = next;
    } else if (way == CODEC_IN_PLACE) {
        p.next = there;
        here.next = x;
    }
    assert_int_equal(runner->arith->pack(runner->device, &p), PST_OK);
    pst_flat_ref()->pack(NULL, &here);
    runner->get(packed, p.packed, bytes + CODEC_GUARD);
    codec_assert_packed(codec, packed, want, bytes);
    runner->get(got, there, n * sizeof *got);
    codec_assert_floats(got, x, n, "x");
    runner->get(got, left, n * sizeof *got);
    codec_assert_floats(got, next, n, "what is left");
    for (int add = 0; add < 2; add++) check_unpack(codec, want, n, add);
    runner->clear();
}

static void test_codecs(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 31, 256, 777, CODEC_MOST};
    static const pst_codec codecs[] = {{.kind = PST_CODEC_INT8, .block = 256},
                                       {.kind = PST_CODEC_INT8, .block = 32},
                                       {.kind = PST_CODEC_INT8, .block = 1024},
                                       {.kind = PST_CODEC_INT4, .block = 128},
                                       {.kind = PST_CODEC_INT4, .block = 4096},
                                       {.kind = PST_CODEC_2BIT, .block = 256},
                                       {.kind = PST_CODEC_2BIT, .block = 512, .threshold = 0.5f},
                                       {.kind = PST_CODEC_BF16, .block = 256}};
    for (size_t k = 0; k < sizeof codecs / sizeof *codecs; k++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            runner->turn((int)(k + i) % 2);
            check_codec(codecs[k], counts[i], (codec_way)((k + i) % 4));
        }
    for (int way = 0; way < 4; way++) check_codec(codecs[0], 777, (codec_way)way);
    runner->turn(0);
}

/* Codecs without a kernel, and messages that begin between two numbers, are errors. */
static void test_codec_errors(void **state) {
    (void)state;
    static uint8_t packed[1024];
    float x[8] = {0};
    const pst_codec topk = {.kind = PST_CODEC_TOPK, .block = 32, .keep = 1};
    const pst_codec int8 = {.kind = PST_CODEC_INT8, .block = 32};
    assert_int_equal(runner->arith->unpack(runner->device, topk, packed, x, 8, 0), PST_EINTERNAL);
    assert_int_equal(runner->arith->unpack(runner->device, int8, packed + 1, x, 8, 0),
                     PST_EINTERNAL);
}

static void test_scale(void **state) {
    (void)state;
    enum { N = 5001 };
    for (uint64_t shift = 0; shift < 2; shift++) {
        float *x = random_floats(N, 1, 0), *got = random_floats(N, 2, 0);
        float *from = runner->put(x, N * sizeof *x), *to = runner->put(got, N * sizeof *got);
        assert_int_equal(runner->arith->scale(runner->device, 0.3f, from + shift, to, N - shift),
                         PST_OK);
        runner->get(got, to, N * sizeof *got);
        for (uint64_t i = 0; i < N - shift; i++) assert_true(got[i] == x[i + shift] * 0.3f);
        free(x);
        free(got);
        runner->clear();
    }
}
#endif
