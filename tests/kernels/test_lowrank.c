/* Gradients sent as products of low rank (PowerSGD): every table gives the reference's bits, for
 * any number of threads, with a basis and without; how much of a matrix is left. */
#include "kernels/tables.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MATRICES = PST_CODEC_MATRIX + 5000 };
static const pst_codec powersgd = {
    .kind = PST_CODEC_POWERSGD, .block = PST_CODEC_MATRIX, .rank = 4, .least = 2, .iterations = 2};

/* basis: pst_codec_basis elements, or NULL. */
static void check_matrices(pst_codec codec, uint64_t n, int decode, const float *basis) {
    static float x[MATRICES], error[MATRICES], got_x[MATRICES], got[MATRICES], next[MATRICES];
    static uint8_t want[4 * MATRICES], packed[4 * MATRICES];
    const pst_flat *list[6];
    uint32_t n_table = tables(list);
    const uint64_t bytes = pst_codec_bytes(codec, n);
    pst_rng_normal(pst_rng_key(7, "codec"), 0, 1, x, MATRICES);
    pst_rng_normal(pst_rng_key(8, "codec"), 0, 0.1f, error, MATRICES);
    memcpy(got_x, x, sizeof x);
    pst_flat_ref()->pack(NULL, &(pst_flat_pack){.x = got_x,
                                                .error = error,
                                                .scale = 2,
                                                .packed = want,
                                                .next = decode ? next : got_x,
                                                .decode = decode,
                                                .n = n,
                                                .codec = codec,
                                                .basis = basis});
    const float *left = decode ? next : got_x;
    pst_flat_ref()->unpack(NULL, codec, want, got, n, 0);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(left[i] == x[i] + 2 * error[i] - got[i]);
        if (decode) assert_memory_equal(got_x + i, got + i, 4);
    }
    for (uint32_t t = 0; t < n_table * 4; t++) {
        memcpy(got, x, sizeof x);
        list[t / 4]->pack(pools[t % 4], &(pst_flat_pack){got, error, 2, packed, decode ? next : got,
                                                         decode, n, codec, NULL, basis});
        assert_memory_equal(packed, want, bytes);
        assert_memory_equal(got, got_x, 4 * n);
        memcpy(got, error, sizeof got);
        list[t / 4]->unpack(pools[t % 4], codec, packed, got, n, 1);
        for (uint64_t i = 0; i < n && decode; i++) assert_true(got[i] == error[i] + got_x[i]);
    }
}

static void test_codec_powersgd(void **state) {
    (void)state;
    static const struct {
        uint64_t n, columns, from;
    } shapes[] = {{40000, 100, 0}, {16391, 96, 96 * 7 + 17}, {700, 24, 5},
                  {700, 1, 0},     {5000, 5000, 0},          {MATRICES, 768, PST_CODEC_MATRIX}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int decode = 0; decode < 2; decode++)
            check_matrices(pst_codec_of_rows(powersgd, shapes[i].columns, shapes[i].from),
                           shapes[i].n, decode, NULL);
}

/* With a basis: none yet; one of which columns depend on each other, or are 0; a full one. */
static void test_codec_powersgd_basis(void **state) {
    (void)state;
    static float basis[2 * 4 * 768];
    static const struct {
        uint64_t n, columns, from, elements;
    } shapes[] = {{40000, 100, 0, 400},
                  {16391, 96, 96 * 7 + 17, 384},
                  {700, 1, 0, 0},
                  {MATRICES, 768, PST_CODEC_MATRIX, 4 * 768},
                  {MATRICES, 60, 0, 2 * 240}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = shapes[i].n == MATRICES ? 2 : 0; kind < 3; kind++) {
            pst_codec codec = pst_codec_of_rows(powersgd, shapes[i].columns, shapes[i].from);
            codec.warm = 1;
            assert_int_equal(pst_codec_basis(codec, shapes[i].n), shapes[i].elements);
            memset(basis, 0, sizeof basis);
            if (kind) pst_rng_normal(pst_rng_key(11, "codec"), 0, 1, basis, shapes[i].elements);
            for (uint64_t c = 0; kind == 1 && c < shapes[i].columns; c++) {
                basis[c + shapes[i].columns] = 3 * basis[c];
                basis[c + 3 * shapes[i].columns] = 0;
            }
            check_matrices(codec, shapes[i].n, 0, basis);
        }
}

/* A matrix that stays the same: each step with the basis of the last one leaves less of it, and
 * after some steps as little as the best product of this rank; without the residual. */
static void test_codec_powersgd_warm(void **state) {
    (void)state;
    enum { COLUMNS = 60, ROWS = 100, N = ROWS * COLUMNS, STEPS = 12 };
    static float x[N], u[ROWS], v[COLUMNS], basis[4 * COLUMNS], m[N];
    static const float zero[N];
    static uint8_t packed[4 * N];
    pst_codec codec = pst_codec_of_rows(powersgd, COLUMNS, 0);
    const pst_flat *flat = pst_flat_choose(pst_cpu_isa());
    double left[STEPS], rest = 0;
    codec.warm = codec.iterations = 1;
    for (int k = 0; k < 8; k++) { /* almost orthogonal; 4 of them are what is left at best */
        const float by = powf(0.85f, (float)k);
        pst_rng_normal(pst_rng_key(20 + (uint64_t)k, "codec"), 0, 1, u, ROWS);
        pst_rng_normal(pst_rng_key(40 + (uint64_t)k, "codec"), 0, 1, v, COLUMNS);
        for (int i = 0; i < N; i++) m[i] += by * u[i / COLUMNS] * v[i % COLUMNS];
    }
    for (int step = 0; step < STEPS; step++) {
        memcpy(x, m, sizeof x);
        flat->pack(NULL, &(pst_flat_pack){x, zero, 1, packed, x, 0, N, codec, NULL, basis});
        memcpy(basis, packed, sizeof basis);
        left[step] = flat->sum_squares(NULL, x, N);
    }
    rest = left[STEPS - 1];
    printf("left of the squares: %g, %g, ..., %g\n", left[0], left[1], rest);
    for (int step = 1; step < STEPS; step++) assert_true(left[step] <= left[step - 1] * 1.0001);
    assert_true(rest < 0.99 * left[0]);
    assert_true(left[STEPS - 2] - rest < 0.01 * rest);
}

/* A matrix of rank 2 whose first and last row are not whole has rank 4, with which it is sent but
 * for rounding; zeros are zeros; one number that is not finite makes all so. */
static void test_codec_powersgd_rule(void **state) {
    (void)state;
    enum { COLUMNS = 60, FROM = 25, N = 100 * COLUMNS - 30 };
    static float x[N], before[N], u[2][101], v[2][COLUMNS];
    static const float zero[N];
    static uint8_t packed[4 * N];
    const pst_codec codec = pst_codec_of_rows(powersgd, COLUMNS, FROM);
    const pst_flat *flat = pst_flat_choose(pst_cpu_isa());
    pst_flat_pack p = {x, zero, 1, packed, x, 0, N, codec, NULL, NULL};
    float most = 0;
    pst_rng_normal(pst_rng_key(9, "codec"), 0, 1, u[0], 2 * 101);
    pst_rng_normal(pst_rng_key(10, "codec"), 0, 1, v[0], 2 * COLUMNS);
    assert_int_equal(pst_codec_bytes(codec, N), 4 * 4 * (N / COLUMNS + 2 + COLUMNS));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 2; k++) x[i] += u[k][(i + FROM) / COLUMNS] * v[k][(i + FROM) % COLUMNS];
    memcpy(before, x, sizeof x);
    flat->pack(NULL, &p);
    for (int i = 0; i < N; i++) most = fmaxf(most, fabsf(x[i]));
    printf("left of magnitudes up to about 10: %g\n", (double)most);
    assert_true(most < 1e-4f);
    memset(x, 0, sizeof x);
    flat->pack(NULL, &p);
    for (int i = 0; i < N; i++) assert_true(x[i] == 0);
    memcpy(x, before, sizeof x);
    x[N / 2] = INFINITY;
    flat->pack(NULL, &p);
    for (int i = 0; i < N; i++) assert_false(isfinite(x[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codec_powersgd),
        cmocka_unit_test(test_codec_powersgd_rule),
        cmocka_unit_test(test_codec_powersgd_basis),
        cmocka_unit_test(test_codec_powersgd_warm),
    };
    return cmocka_run_group_tests(tests, open_pools, close_pools);
}
