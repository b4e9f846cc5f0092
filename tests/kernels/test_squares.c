/* test: label=quick */
/* Sums of squares in any order (kernels/squares.h): equal to the bit for every division into lists
 * and for every instruction set, and exact but for 2^-65 of the largest square. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/rng.h"
#include "kernels/kernel.h"
#include "rank/rank.h"
#include <math.h>
#include <string.h>

enum { N = 20000, DIVISIONS = 40 };
static float x[N];

static float uniform(uint64_t key, uint64_t i) {
    uint32_t word[4];
    pst_rng_words(key, 0, i, word);
    return pst_rng_uniform(word[0]);
}

/* Magnitudes from subnormal to almost the largest. */
static void fill(uint64_t seed, int least, int most) {
    uint64_t key = pst_rng_key(seed, "squares");
    for (uint64_t i = 0; i < N; i++) {
        float part = uniform(key, 2 * i);
        int exponent = least + (int)(uniform(key, 2 * i + 1) * (float)(most - least));
        x[i] = ldexpf(part - 0.5f, exponent);
    }
}

static double total(const pst_squares *s) { return s->sum[0] + s->sum[1] + s->sum[2]; }

static pst_squares in_parts(const pst_flat *flat, uint64_t seed, uint64_t most) {
    uint64_t key = pst_rng_key(seed, "parts");
    pst_squares sum = {PST_SQUARES_NONE, {0}};
    for (uint64_t from = 0, i = 0; from < N; i++) {
        uint64_t n = 1 + (uint64_t)(uniform(key, i) * (float)most);
        if (n > N - from) n = N - from;
        pst_squares part = flat->squares(NULL, x + from, n);
        pst_squares_add(&sum, &part);
        from += n;
    }
    return sum;
}

static void divided(void **state) {
    (void)state;
    static const int range[][2] = {{-10, 10}, {-149, 128}, {-149, -120}, {100, 128}, {0, 1}};
    for (size_t r = 0; r < sizeof range / sizeof *range; r++) {
        fill(r, range[r][0], range[r][1]);
        pst_squares whole = pst_flat_ref()->squares(NULL, x, N);
        long double exact = 0;
        for (int i = 0; i < N; i++) exact += (long double)x[i] * (long double)x[i];
        assert_true(fabsl((long double)total(&whole) - exact) <= 1e-15L * exact);
        for (uint64_t d = 0; d < DIVISIONS; d++) {
            pst_squares parts = in_parts(pst_flat_choose(pst_cpu_isa()), d, 1 + d * d * 10);
            assert_memory_equal(&parts, &whole, sizeof whole);
        }
    }
}

static void special(void **state) {
    (void)state;
    const pst_flat *flat[] = {pst_flat_ref(), pst_flat_choose(pst_cpu_isa())};
    for (int k = 0; k < 2; k++) {
        memset(x, 0, sizeof x);
        pst_squares none = flat[k]->squares(NULL, x, N), empty = flat[k]->squares(NULL, x, 0);
        assert_true(total(&none) == 0 && total(&empty) == 0);
        x[N - 1] = 3;
        pst_squares nine = flat[k]->squares(NULL, x, N);
        assert_true(total(&nine) == 9);
        x[5] = INFINITY;
        pst_squares infinite = flat[k]->squares(NULL, x, N);
        pst_squares_add(&nine, &infinite);
        assert_true(isnan(total(&nine)));
        x[5] = NAN;
        infinite = flat[k]->squares(NULL, x, N);
        assert_true(isnan(total(&infinite)));
    }
}

/* Of a step whose gradients are all zero. */
static void nothing_to_add(void **state) {
    (void)state;
    double piece[sizeof(pst_squares) / sizeof(double)];
    memset(x, 0, sizeof x);
    const pst_squares none = pst_flat_ref()->squares(NULL, x, N);
    memcpy(piece, &none, sizeof piece);
    pst_rank_squares sum = PST_RANK_NO_SQUARES;
    pst_rank_add_squares(&sum, piece, sizeof piece / sizeof *piece);
    assert_true(pst_rank_total_squares(&sum) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(divided), cmocka_unit_test(special),
                                       cmocka_unit_test(nothing_to_add)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
