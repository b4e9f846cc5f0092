/* LAMB and Muon on the CPU: near the reference, the same bits for any number of threads, and what
 * they promise: LAMB's step has lr times the norm of the weight; Muon's is nearly orthogonal. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/muon.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 4, GUARD = 64, POOLS = 3 };
static const uint32_t threads[POOLS] = {1, 2, 3};
static pst_pool *pools[POOLS];
static const pst_matrix_shape shapes[] = {{1, 1},   {3, 7},    {7, 3},    {16, 16},
                                          {48, 96}, {100, 33}, {65, 130}, {200, 150}};

static pst_optim_hyper hyper(uint64_t t) {
    return (pst_optim_hyper){.lr = 1e-2f,
                             .beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .eps = 1e-8f,
                             .momentum = 0.95f,
                             .grad_scale = 0.7f,
                             .t = t,
                             .correction1 = (float)(1 - pow(0.9, (double)t)),
                             .correction2 = (float)(1 - pow(0.95, (double)t))};
}

/* weight, grad, state 0, state 1 (not negative) */
static void make(float *array[ARRAYS], uint64_t n) {
    for (int i = 0; i < ARRAYS; i++) {
        array[i] = malloc(n * sizeof **array);
        assert_non_null(array[i]);
        pst_rng_normal(pst_rng_key(5, "whole") + (uint64_t)i, 0, 1, array[i], n);
    }
    for (uint64_t i = 0; i < n; i++) array[3][i] = fabsf(array[3][i]);
}

static void drop(float *array[ARRAYS]) {
    for (int i = 0; i < ARRAYS; i++) free(array[i]);
}

static pst_arith_param param_of(float *const array[ARRAYS], uint64_t n) {
    return (pst_arith_param){
        .weight = array[0], .grad = array[1], .state = {array[2], array[3]}, .n = n, .decay = 0.1f};
}

static void run_lamb(pst_device *device, pst_optim_hyper *h, pst_arith_param *p) {
    pst_squares term[2]; /* no test has more elements */
    pst_squares_total of[2] = {PST_SQUARES_ZERO, PST_SQUARES_ZERO};
    assert_int_equal(pst_lamb_terms(p->n), 2);
    assert_int_equal(pst_arith_cpu.lamb_squares(device, h, p, term), PST_OK);
    for (int k = 0; k < 2; k++) pst_squares_total_add(of + k, term + k);
    double weight = sqrt(pst_squares_total_value(of)), step = sqrt(pst_squares_total_value(of + 1));
    p->trust = weight > 0 && step > 0 ? (float)(weight / step) : 1;
    assert_int_equal(pst_arith_cpu.update(device, PST_OPTIM_LAMB, h, PST_F32, p, 1), PST_OK);
}

/* On the pool; nothing is written behind the scratch memory. */
static void run(pst_optim_kind kind, const pst_matrix_shape *of, float *const array[ARRAYS],
                int pool) {
    pst_device device = {.pool = pools[pool], .isa = pst_cpu_isa()};
    pst_optim_hyper h = hyper(3);
    pst_arith_param p = param_of(array, of->rows * of->cols);
    if (kind == PST_OPTIM_LAMB) {
        run_lamb(&device, &h, &p);
        return;
    }
    uint64_t bytes = pst_muon_scratch(of, threads[pool]);
    uint8_t *scratch = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch + bytes, 0x5a, GUARD);
    float *x = (float *)(void *)scratch;
    assert_int_equal(pst_muon_direction(&device, &h, &p, x), PST_OK);
    assert_int_equal(pst_muon_orthogonalize(&device, of, scratch, &x), PST_OK);
    pst_muon_apply(&device, &(pst_muon_rule){&h, *of, PST_F32}, &p, x);
    for (int i = 0; i < GUARD; i++) assert_int_equal(scratch[bytes + (uint64_t)i], 0x5a);
    free(scratch);
}

static double distance(const float *x, const float *y, uint64_t n) {
    double off = 0, size = 0;
    for (uint64_t i = 0; i < n; i++) {
        off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        size += (double)y[i] * (double)y[i];
    }
    return size > 0 ? sqrt(off / size) : sqrt(off);
}

static void check(pst_optim_kind kind, const pst_matrix_shape *of) {
    const uint64_t n = of->rows * of->cols;
    float *want[ARRAYS], *first[ARRAYS], *got[ARRAYS];
    const pst_optim_hyper h = hyper(3);
    make(want, n);
    const pst_arith_param p = param_of(want, n);
    assert_int_equal(kind == PST_OPTIM_LAMB ? pst_lamb_ref(&h, &p) : pst_muon_ref(&h, &p, of),
                     PST_OK);
    make(first, n);
    run(kind, of, first, 0);
    for (int a = 0; a < ARRAYS; a++)
        if (!(distance(first[a], want[a], n) < 1e-5))
            fail_msg("kind %d, %lux%lu, array %d: %g", (int)kind, (unsigned long)of->rows,
                     (unsigned long)of->cols, a, distance(first[a], want[a], n));
    for (int pool = 1; pool < POOLS; pool++) {
        make(got, n);
        run(kind, of, got, pool);
        for (int a = 0; a < ARRAYS; a++) assert_memory_equal(got[a], first[a], n * sizeof **got);
        drop(got);
    }
    drop(first);
    drop(want);
}

static void near_the_reference(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check(PST_OPTIM_LAMB, shapes + i);
        check(PST_OPTIM_MUON, shapes + i);
    }
    check(PST_OPTIM_LAMB, &(pst_matrix_shape){100, 4097}); /* many blocks */
}

/* |step| = lr |w|; a weight of zeros moves by lr times the direction. */
static void length_of_lamb(void **state) {
    (void)state;
    const pst_matrix_shape of = {20, 30};
    float *before[ARRAYS], *after[ARRAYS];
    double step = 0, size = 0;
    make(before, 600);
    make(after, 600);
    run(PST_OPTIM_LAMB, &of, after, 0);
    for (int i = 0; i < 600; i++) {
        double d = (double)before[0][i] - (double)after[0][i];
        step += d * d;
        size += (double)before[0][i] * (double)before[0][i];
    }
    assert_true(fabs(sqrt(step) / sqrt(size) - 1e-2) < 1e-7);
    memset(after[0], 0, 600 * sizeof(float));
    run(PST_OPTIM_LAMB, &of, after, 0);
    int moved = 0;
    for (int i = 0; i < 600; i++) moved += after[0][i] != 0 && fabsf(after[0][i]) < 1;
    assert_true(moved > 590);
    drop(before);
    drop(after);
}

/* The step over its scale has X X^T near the identity: singular values between 0.6 and 1.3. */
static void muon_is_nearly_orthogonal(void **state) {
    (void)state;
    enum { ROWS = 24, COLS = 40 };
    const pst_matrix_shape of = {ROWS, COLS};
    float *before[ARRAYS], *after[ARRAYS];
    make(before, ROWS * COLS);
    make(after, ROWS * COLS);
    run(PST_OPTIM_MUON, &of, after, 0);
    double x[ROWS][COLS], scale = 1e-2 * PST_MUON_RMS * sqrt(COLS), trace = 0;
    for (int i = 0; i < ROWS * COLS; i++)
        x[i / COLS][i % COLS] = ((double)before[0][i] * (1 - 1e-3) - (double)after[0][i]) / scale;
    for (int i = 0; i < ROWS; i++) {
        double own = 0, others = 0;
        for (int j = 0; j < ROWS; j++) {
            double sum = 0;
            for (int k = 0; k < COLS; k++) sum += x[i][k] * x[j][k];
            if (i == j) own = sum;
            else others += sum * sum;
        }
        assert_true(own > 0.36 && own < 1.69 && others < 0.5);
        trace += own;
    }
    assert_true(trace / ROWS > 0.7 && trace / ROWS < 1.2);
    drop(before);
    drop(after);
}

static int open_pools(void **state) {
    (void)state;
    for (int i = 1; i < POOLS; i++)
        if (pst_pool_open(threads[i], NULL, NULL, &pools[i]) != PST_OK) return 1;
    return 0;
}

static int close_pools(void **state) {
    (void)state;
    for (int i = 1; i < POOLS; i++) pst_pool_close(pools[i]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_the_reference),
        cmocka_unit_test(length_of_lamb),
        cmocka_unit_test(muon_is_nearly_orthogonal),
    };
    return cmocka_run_group_tests(tests, open_pools, close_pools);
}
