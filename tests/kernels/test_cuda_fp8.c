/* test: label=quick isa=any
 * Rounding to 8 bits (kernels/cuda/fp8.cu) on emulated threads: every number, as it lies and
 * turned, against base/dtype.h; scales that are the largest powers of two that fit; what is noted
 * for later steps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "base/rng.h"
#include "kernels/cuda/launch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern int emulate_backwards;
int emulate_backwards;

static float as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float largest(const uint16_t *x, uint64_t n) {
    float most = 0;
    for (uint64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(pst_f32_from_bf16(x[i])));
    return most;
}

static void random_numbers(uint64_t key, float std, uint16_t *x, uint64_t n) {
    float *value = malloc(n * sizeof *value);
    assert_non_null(value);
    pst_rng_normal(key, 0, std, value, n);
    for (uint64_t i = 0; i < n; i++) x[i] = pst_bf16_from_f32(value[i]);
    free(value);
}

/* Of numbers that fit or do not. */
static uint8_t expected(int wide, uint16_t x, float scale) {
    float most = wide ? 57344 : 448, value = pst_f32_from_bf16(x);
    return pst_f8_from_f32(wide,
                           isfinite(value) ? fminf(fmaxf(value * scale, -most), most) : value);
}

static void check_round(uint64_t rows, uint64_t columns, int wide, float std, float scale) {
    uint64_t n = rows * columns;
    uint16_t *x = aligned_alloc(16, n * 2);
    uint8_t *y = aligned_alloc(16, n);
    assert_true(x && y);
    random_numbers(rows + columns, std, x, n);
    x[n / 2] = 0x7f80;
    x[n / 3] = 0xffc1;
    x[1] = 0x8000; /* infinity, NaN, -0 */
    for (int turned = 0; turned < 2; turned++) {
        pst_cuda_scaling s = {.scale = scale};
        const pst_cuda_round r = {x, y, rows, columns, &s, wide, turned, 1};
        memset(y, 0xee, n);
        pst_cuda_round_f8(NULL, &r);
        for (uint64_t i = 0; i < n; i++) {
            uint8_t got = y[turned ? i % columns * rows + i / columns : i],
                    want = expected(wide, x[i], scale);
            if (got != want &&
                !(isnan(pst_f32_from_f8(wide, got)) && isnan(pst_f32_from_f8(wide, want))))
                fail_msg("%lu x %lu, wide %d, turned %d: element %lu is %02x, not %02x", rows,
                         columns, wide, turned, i, got, want);
        }
        assert_true(s.amax > 0x7f800000); /* the NaN */
        x[n / 2] = x[n / 3] = 0;
        s.amax = 0;
        pst_cuda_round_f8(NULL, &r);
        assert_true(as_float(s.amax) == largest(x, n));
        x[n / 2] = 0x7f80;
        x[n / 3] = 0xffc1;
    }
    free(x);
    free(y);
}

static void numbers_are_rounded(void **state) {
    (void)state;
    static const uint64_t shape[][2] = {{16, 16}, {64, 64}, {16, 272}, {80, 48}, {208, 144}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int wide = 0; wide < 2; wide++) {
            emulate_backwards = (int)i % 2;
            check_round(shape[i][0], shape[i][1], wide, 1, wide ? 0x1p14f : 0x1p7f);
            check_round(shape[i][0], shape[i][1], wide, 1e-3f, 0x1p3f); /* subnormal ones */
            check_round(shape[i][0], shape[i][1], wide, 1e6f, 1);       /* that do not fit */
        }
}

static void own_scale(void **state) {
    (void)state;
    enum { N = 96 * 32 };
    static const float std[] = {1e-30f, 1e-6f, 1, 30, 1e9f};
    uint16_t *x = aligned_alloc(16, N * 2);
    assert_non_null(x);
    for (size_t i = 0; i < sizeof std / sizeof *std; i++)
        for (int wide = 0; wide < 2; wide++) {
            pst_cuda_scaling s = {.own = 0x7f000000};
            random_numbers(i, std[i], x, N);
            emulate_backwards = wide;
            pst_cuda_scale_by_own(NULL, &(pst_cuda_round){x, NULL, 96, 32, &s, wide, 0, 0});
            float reached = largest(x, N) * s.scale, most = wide ? 57344 : 448;
            int exponent;
            assert_true(frexpf(s.scale, &exponent) == 0.5f && s.inverse == 1 / s.scale);
            assert_true(reached <= most);
            if (s.scale < 0x1p100f) assert_true(reached * 2 > most);
            assert_int_equal(s.amax, 0);
        }
    memset(x, 0, N * 2);
    pst_cuda_scaling s = {0};
    pst_cuda_scale_by_own(NULL, &(pst_cuda_round){x, NULL, 96, 32, &s, 0, 0, 0});
    assert_true(s.scale == 1 && s.inverse == 1);
    x[77] = 0x7fc0;
    pst_cuda_scale_by_own(NULL, &(pst_cuda_round){x, NULL, 96, 32, &s, 0, 0, 0});
    assert_true(s.scale == 1);
    free(x);
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The largest of the latest 16 counts, what was not finite does not. */
static void history_gives_scales(void **state) {
    (void)state;
    pst_cuda_scaling s[2] = {0};
    for (uint32_t step = 0; step < 40; step++) {
        s[0].amax = bits_of(step == 3 ? 400.0f : 3.0f);
        s[1].amax = step == 5 ? 0x7fc00000 : bits_of(14336);
        pst_cuda_scale_by_history(NULL, s, 2, 2);
        assert_int_equal(s[0].amax | s[1].amax, 0);
        assert_true(s[0].scale == (step >= 3 && step < 3 + PST_CUDA_AMAX_STEPS ? 1 : 128));
        assert_true(s[0].inverse == 1 / s[0].scale);
        assert_true(s[1].scale == 4);
    }
    assert_int_equal(s[0].steps, 40);
    for (uint32_t step = 0; step < PST_CUDA_AMAX_STEPS; step++)
        pst_cuda_scale_by_history(NULL, s, 1, 0);
    assert_true(s[0].scale == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_rounded),
                                       cmocka_unit_test(own_scale),
                                       cmocka_unit_test(history_gives_scales)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
