/* test: label=quick */
/* Philox against the known-answer vectors of Random123, and the shapes of what is drawn from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void philox_known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        pst_philox4x32(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].out, sizeof out);
    }
}

static void words_use_key_and_position(void **state) {
    (void)state;
    uint32_t out[4], expected[4];
    const uint32_t counter[4] = {0x55667788, 0x11223344, 0xccddeeff, 0x8899aabb},
                   key[2] = {0x9abcdef0, 0x12345678};
    pst_philox4x32(counter, key, expected);
    pst_rng_words(0x123456789abcdef0, 0x8899aabbccddeeff, 0x1122334455667788, out);
    assert_memory_equal(out, expected, sizeof out);
    assert_int_equal(pst_rng_key(7, "wte"), pst_hash64("wte", 3, 7));
    assert_true(pst_rng_key(7, "wte") != pst_rng_key(8, "wte"));
}

static void uniform_is_below_one(void **state) {
    (void)state;
    assert_true(pst_rng_uniform(0) == 0.0f);
    assert_true(pst_rng_uniform(~0u) < 1.0f);
    assert_true(pst_rng_uniform(1u << 31) == 0.5f);
}

static void normal_has_moments_and_positions(void **state) {
    (void)state;
    enum { N = 40000 };
    float *x = malloc(N * sizeof *x), part[7];
    pst_rng_normal(42, 1.0f, 0.5f, x, N);
    double sum = 0, squares = 0, fourth = 0;
    for (int i = 0; i < N; i++) {
        double z = (x[i] - 1.0) / 0.5;
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
    }
    assert_true(fabs(sum / N) < 5 / sqrt(N));
    assert_true(fabs(squares / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(fourth / N - 3) < 5 * sqrt(96.0 / N));
    pst_rng_normal(42, 1.0f, 0.5f, part, 7); /* a prefix, and one that ends inside a block */
    assert_memory_equal(part, x, sizeof part);
    free(x);
}

static void permute_is_a_bijection(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 255, 256, 257, 1000, 4097};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint64_t n = sizes[s], fixed = 0;
        uint8_t *seen = calloc(n, 1);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t item = pst_rng_permute(99, n, i);
            assert_true(item < n);
            assert_int_equal(seen[item]++, 0);
            fixed += item == i;
        }
        if (n > 200) assert_true(fixed < 12); /* one is expected */
        free(seen);
    }
    uint64_t big = (1ull << 61) + 12345;
    assert_true(pst_rng_permute(1, big, big - 1) < big);
    assert_true(pst_rng_permute(1, 1000, 3) != pst_rng_permute(2, 1000, 3));
}

/* Over many keys, every item comes first about equally often, tiny sets included. */
static void permute_is_even(void **state) {
    (void)state;
    enum { KEYS = 20000 };
    for (uint64_t n = 2; n <= 7; n++) {
        uint64_t count[7] = {0};
        for (uint64_t key = 0; key < KEYS; key++)
            count[pst_rng_permute(pst_rng_key(key, "even"), n, 0)]++;
        double expected = (double)KEYS / n;
        for (uint64_t i = 0; i < n; i++)
            assert_true(fabs(count[i] - expected) < 6 * sqrt(expected));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(words_use_key_and_position),
        cmocka_unit_test(uniform_is_below_one),
        cmocka_unit_test(normal_has_moments_and_positions),
        cmocka_unit_test(permute_is_a_bijection),
        cmocka_unit_test(permute_is_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
