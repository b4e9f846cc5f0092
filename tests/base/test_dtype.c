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
    assert_string_equal(pst_dtype_name(PST_DTYPE_COUNT), "?");
    assert_int_equal(pst_dtype_bytes(PST_DTYPE_COUNT), 0);
}

static void bf16_rounds_to_nearest_even(void **state) {
    (void)state;
    assert_int_equal(pst_bf16_from_f32(1.0f), 0x3f80);
    assert_int_equal(pst_bf16_from_f32(-0.0f), 0x8000);
    assert_int_equal(pst_bf16_from_f32(from_bits(0x3f808000)), 0x3f80); /* a tie goes to the even one */
    assert_int_equal(pst_bf16_from_f32(from_bits(0x3f818000)), 0x3f82);
    assert_int_equal(pst_bf16_from_f32(from_bits(0x3f808001)), 0x3f81);
    assert_int_equal(pst_bf16_from_f32(from_bits(0x7f7fffff)), 0x7f80); /* beyond the largest: infinity */
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
        if (near & 0x7fff) assert_true(error <= fabs((double)pst_f32_from_bf16((uint16_t)(near - 1)) - f));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_picks_the_nearest),
        cmocka_unit_test(hashes_are_xxhash),
        cmocka_unit_test(hash_in_parts),
        cmocka_unit_test(clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
