/* B and W of the reference against finite differences of its F. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "kernels/differences.h"

static uint64_t seed;

static void run(case_state *s, pst_pass pass) {
    uint32_t n;
    const pst_kernel_row *rows = pst_kernels_ref(&n);
    case_flags flags = {.first = 1, .train = 1, .no_sum = 1};
    assert_int_equal(case_run(s, case_row(rows, n, &s->spec, pass, 0), NULL, flags), PST_OK);
}

static void test_all(void **state) {
    (void)state;
    static const kernel_case cases[] = {
        {.op = "embedding", .b = 2, .t = 3, .c = 3, .f = 5, .second = 1},
        {.op = "embedding", .b = 2, .t = 5, .c = 2, .f = 3},
        {.op = "layer_norm", .b = 2, .t = 3, .c = 7},
        {.op = "layer_norm", .b = 1, .t = 1, .c = 17},
        {.op = "linear", .b = 1, .t = 3, .c = 5, .f = 4, .second = 1},
        {.op = "linear", .b = 2, .t = 2, .c = 3, .f = 7, .act = PST_ACT_GELU_TANH, .second = 1},
        {.op = "linear", .b = 2, .t = 2, .c = 3, .f = 7, .act = PST_ACT_GELU_ERF, .second = 1},
        {.op = "linear", .b = 1, .t = 3, .c = 5, .f = 3, .act = PST_ACT_RELU},
        {.op = "attention", .b = 2, .t = 4, .c = 6, .heads = 2},
        {.op = "attention", .b = 1, .t = 7, .c = 3, .heads = 3},
        {.op = "attention", .b = 2, .t = 5, .c = 6, .heads = 2, .bidirectional = 1},
        {.op = "attention", .b = 5, .t = 6, .c = 4, .heads = 2, .bidirectional = 1, .lengths = 1},
        {.op = "attention", .b = 5, .t = 4, .c = 3, .heads = 1, .lengths = 1},
        {.op = "dropout", .b = 2, .t = 3, .c = 5, .rate = 0.4f},
        {.op = "cross_entropy", .b = 2, .t = 3, .c = 7},
        {.op = "convolution",
         .b = 2,
         .t = 4,
         .w = 3,
         .c = 2,
         .f = 3,
         .window = 3,
         .stride = 1,
         .padding = 1,
         .second = 1},
        {.op = "convolution", .b = 1, .t = 6, .w = 7, .c = 3, .f = 2, .window = 3, .stride = 2, .padding = 1},
        {.op = "convolution", .b = 2, .t = 5, .w = 4, .c = 3, .f = 4, .window = 1, .stride = 2, .padding = 0},
        {.op = "batch_norm", .b = 2, .t = 3, .w = 2, .c = 3},
        {.op = "batch_norm", .b = 2, .t = 2, .w = 2, .c = 4, .act = PST_ACT_RELU, .second = 1},
        {.op = "max_pool", .b = 2, .t = 5, .w = 6, .c = 2, .window = 3, .stride = 2, .padding = 1},
        {.op = "average_pool", .b = 2, .t = 3, .w = 4, .c = 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_differences(&cases[i], seed, run);
}

static int setup(void **state) {
    (void)state;
    seed = case_seed();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
