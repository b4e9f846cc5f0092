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
    check_all_differences(seed, run, NULL);
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
