/* test: label=quick */
/* Element types, the hash's published values, the clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/rng.h"
#include <math.h>
#include <string.h>

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static void names_and_sizes(void **state) {
    (void)state;
    assert_int_equal(pst_dtype_bytes(PST_F32), 4);
    assert_int_equal(pst_dtype_bytes(PST_BF16), 2);
    assert_int_equal(pst_dtype_bytes(PST_I32), 4);
    assert_int_equal(pst_dtype_bytes(PST_F64), 8);
    assert_string_equal(pst_dtype_name(PST_BF16), "BF16");
    assert_int_equal(pst_dtype_bytes(PST_F16), 2);
    assert_string_equal(pst_dtype_name(PST_F16), "F16");
    assert_string_equal(pst_dtype_precision(PST_F16), "fp16");
    assert_int_equal(pst_dtype_of_precision("bf16"), PST_BF16);
    assert_int_equal(pst_dtype_of_precision("fp4"), PST_DTYPE_COUNT);
    assert_int_equal(pst_dtype_stored(pst_dtype_of_precision("tf32")), PST_F32);
    assert_int_equal(pst_dtype_stored(pst_dtype_of_precision("fp8")), PST_BF16);
    assert_int_equal(pst_dtype_stored(PST_F16), PST_F16);
    assert_int_equal(pst_dtype_bytes(PST_F8), 1);
    assert_string_equal(pst_dtype_name(PST_DTYPE_COUNT), "?");
    assert_int_equal(pst_dtype_bytes(PST_DTYPE_COUNT), 0);
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    assert_int_equal(pst_bf16_from_f32(1.0f), 0x3f80);
    assert_int_equal(pst_bf16_from_f32(-0.0f), 0x8000);
    /* a tie goes to the even one */
    assert_int_equal(pst_bf16_from_f32(from_bits(0x3f808000)), 0x3f80);
    assert_int_equal(pst_bf16_from_f32(from_bits(0x3f818000)), 0x3f82);
    assert_int_equal(pst_bf16_from_f32(from_bits(0x3f808001)), 0x3f81);
    /* beyond the largest: infinity */
    assert_int_equal(pst_bf16_from_f32(from_bits(0x7f7fffff)), 0x7f80);
    assert_int_equal(pst_bf16_from_f32(INFINITY), 0x7f80);
    assert_true(isnan(pst_f32_from_bf16(pst_bf16_from_f32(from_bits(0x7f800001)))));
    assert_true(isnan(pst_f32_from_bf16(pst_bf16_from_f32(from_bits(0xffffffff)))));
    for (uint32_t v = 0; v < 65536; v++) {
        float f = pst_f32_from_bf16((uint16_t)v);
        if (!isnan(f)) assert_int_equal(pst_bf16_from_f32(f), v);
    }
}

static void bf16_picks_the_nearest(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t word[4];
        pst_rng_words(5, 0, i, word);
        float f = from_bits(word[0]);
        if (isnan(f) || fabsf(f) > 1e38f) continue;
        uint16_t near = pst_bf16_from_f32(f);
        double error = fabs((double)pst_f32_from_bf16(near) - f);
        assert_true(error <= fabs((double)pst_f32_from_bf16((uint16_t)(near + 1)) - f));
        if (near & 0x7fff)
            assert_true(error <= fabs((double)pst_f32_from_bf16((uint16_t)(near - 1)) - f));
    }
}

static void fp16_rounds_to_nearest_even(void **state) {
    (void)state;
    static const struct {
        float value;
        uint16_t half;
    } known[] = {
        {1.0f, 0x3c00},          {-0.0f, 0x8000}, {65504.0f, 0x7bff}, {65519.0f, 0x7bff},
        {65520.0f, 0x7c00},      {1e30f, 0x7c00}, {0x1p-24f, 1},      {0x1p-25f, 0},
        {0x1.8p-24f, 2},         {0x1.7p-24f, 1}, {0x1p-14f, 0x0400}, {0x1.ff8p-15f, 0x3ff},
        {0x1.ffcp-15f, 0x400},   {-2.0f, 0xc000}, {1e-30f, 0},        {1.00048828125f, 0x3c00},
        {1.00146484375f, 0x3c02}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (pst_f16_from_f32(known[i].value) != known[i].half)
            fail_msg("%a is %04x, not %04x", known[i].value, pst_f16_from_f32(known[i].value),
                     known[i].half);
    assert_int_equal(pst_f16_from_f32(-INFINITY), 0xfc00);
    assert_true(isnan(pst_f32_from_f16(pst_f16_from_f32(from_bits(0x7f800001)))));
    assert_true(isinf(pst_f32_from_f16(0x7c00)) && pst_f32_from_f16(0x0001) == 0x1p-24f);
    for (uint32_t v = 0; v < 65536; v++) {
        float f = pst_f32_from_f16((uint16_t)v);
        if (!isnan(f)) assert_int_equal(pst_f16_from_f32(f), v);
    }
}

static void fp16_picks_the_nearest(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t word[4];
        pst_rng_words(6, 0, i, word);
        float f = from_bits((word[0] & 0x807fffff) | (96 + word[1] % 46) << 23); /* 2^-31 to 2^14 */
        uint16_t near = pst_f16_from_f32(f);
        double error = fabs((double)pst_f32_from_f16(near) - f);
        assert_true(error <= fabs((double)pst_f32_from_f16((uint16_t)(near + 1)) - f));
        if (near & 0x7fff)
            assert_true(error <= fabs((double)pst_f32_from_f16((uint16_t)(near - 1)) - f));
    }
}

/* Values of the specification's own test vectors, and of xxhsum. */
static void hashes_are_xxhash(void **state) {
    (void)state;
    assert_int_equal(pst_hash64("", 0, 0), 0xef46db3751d8e999u);
    assert_int_equal(pst_hash64("abc", 3, 0), 0x44bc2cf5ad770999u);
    assert_int_equal(pst_hash_bytes("", 0), 0x2d06800538d394c2u);
    assert_int_equal(pst_hash_bytes("abc", 3), 0x78af5f94892f3950u);
}

static void hash_in_parts(void **state) {
    (void)state;
    uint8_t data[5000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7 + i / 256);
    pst_hasher *h = pst_hasher_open();
    assert_non_null(h);
    for (size_t part = 1; part < sizeof data; part = part * 3 + 1) {
        pst_hasher_reset(h);
        for (size_t at = 0; at < sizeof data; at += part)
            pst_hasher_add(h, data + at, sizeof data - at < part ? sizeof data - at : part);
        assert_int_equal(pst_hasher_value(h), pst_hash_bytes(data, sizeof data));
    }
    pst_hasher_close(h);
}

static void clocks(void **state) {
    (void)state;
    uint64_t a = pst_monotonic_ns(), b = pst_clock_now(NULL);
    assert_true(b >= a && a > 0);
    pst_clock moved = {.is_virtual = 1, .virtual_ns = 42}, real = {0};
    assert_int_equal(pst_clock_now(&moved), 42);
    assert_true(pst_clock_now(&real) >= b);
}

/* Every code is its own number, and what lies between two goes to the nearer, in the middle to the
 * even one. */
static void f8_rounds_to_nearest_even(void **state) {
    (void)state;
    static const struct {
        float most, least;
        uint8_t code, nan;
    } want[] = {{448, 0x1p-9f, 0x7e, 0x7f}, {57344, 0x1p-16f, 0x7b, 0x7f}};
    for (int wide = 0; wide < 2; wide++) {
        uint8_t largest = want[wide].code;
        assert_true(pst_f32_from_f8(wide, largest) == want[wide].most &&
                    pst_f32_from_f8(wide, 1) == want[wide].least);
        assert_true(isnan(pst_f32_from_f8(wide, want[wide].nan)));
        for (int code = 0; code < largest; code++) {
            float low = pst_f32_from_f8(wide, (uint8_t)code),
                  high = pst_f32_from_f8(wide, (uint8_t)(code + 1));
            float middle = (low + high) / 2;
            assert_true(low < high);
            assert_int_equal(pst_f8_from_f32(wide, low), code);
            assert_int_equal(pst_f8_from_f32(wide, -low), code | 0x80);
            assert_int_equal(pst_f8_from_f32(wide, middle), code + code % 2);
            assert_int_equal(pst_f8_from_f32(wide, nextafterf(middle, 0)), code);
            assert_int_equal(pst_f8_from_f32(wide, nextafterf(middle, INFINITY)), code + 1);
        }
        assert_int_equal(pst_f8_from_f32(wide, 1e30f), largest);
        assert_int_equal(pst_f8_from_f32(wide, -1e30f), largest | 0x80);
        assert_int_equal(pst_f8_from_f32(wide, INFINITY), want[wide].nan);
        assert_int_equal(pst_f8_from_f32(wide, NAN) & 0x7f, want[wide].nan);
    }
    assert_true(isinf(pst_f32_from_f8(1, 0x7c)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(f8_rounds_to_nearest_even),
        cmocka_unit_test(bf16_picks_the_nearest),
        cmocka_unit_test(fp16_rounds_to_nearest_even),
        cmocka_unit_test(fp16_picks_the_nearest),
        cmocka_unit_test(hashes_are_xxhash),
        cmocka_unit_test(hash_in_parts),
        cmocka_unit_test(clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
