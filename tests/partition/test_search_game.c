/* The best mean of linear functions beside weights chosen at random: no mean has a larger least
 * value, and the point that is returned shows that none can. */
#include "partition/search/game.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CASES = 200, MOST = 24, TRIES = 200 };

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double least_of(const double *value, const double *weight, uint32_t n, uint32_t rows) {
    double least = INFINITY;
    for (uint32_t i = 0; i < rows; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < n; k++) sum += weight[k] * value[k * MOST + i];
        least = fmin(least, sum);
    }
    return least;
}

static double most_at(const double *value, const double *x, uint32_t n, uint32_t rows) {
    double most = -INFINITY;
    for (uint32_t k = 0; k < n; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < rows; i++) sum += x[i] * value[k * MOST + i];
        most = fmax(most, sum);
    }
    return most;
}

static void random_weights(double *weight, uint32_t n, uint64_t *state) {
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) sum += weight[k] = pow((double)next(state) / 2147483648.0, 4);
    for (uint32_t k = 0; k < n; k++) weight[k] /= sum > 0 ? sum : 1;
}

/* Functions are added in two parts, with a solution between. */
static void check(uint64_t seed) {
    uint64_t state = seed;
    const uint32_t rows = 1 + (uint32_t)next(&state) % MOST, n = 1 + (uint32_t)next(&state) % MOST;
    const double scale = pow(10, (double)(next(&state) % 12));
    double value[MOST * MOST], weight[MOST], x[MOST], is = 0;
    pst_search_game *game;
    assert_int_equal(pst_search_game_open(rows, n, &game), PST_OK);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < rows; i++)
            value[k * MOST + i] = scale * ((double)(next(&state) % 1000) - 300);
        assert_true(pst_search_game_add(game, value + (size_t)k * MOST));
        if (k == n / 2 || k + 1 == n) is = pst_search_game_solve(game, x);
    }
    assert_false(pst_search_game_add(game, value));
    assert_int_equal(pst_search_game_weights(game, weight), n);
    const double mean = least_of(value, weight, n, rows), most = most_at(value, x, n, rows);
    if (fabs(mean - is) > 1e-6 * scale || fabs(most - is) > 1e-6 * scale)
        fail_msg("seed %llu: value %g, least of the mean %g, most at the point %g",
                 (unsigned long long)seed, is, mean, most);
    for (uint32_t i = 0; i < TRIES; i++) {
        random_weights(weight, n, &state);
        assert_true(least_of(value, weight, n, rows) <= is + 1e-6 * scale);
    }
    pst_search_game_close(game);
}

static void no_mean_is_better(void **unused) {
    (void)unused;
    for (uint64_t seed = 1; seed <= CASES; seed++) check(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_mean_is_better)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
