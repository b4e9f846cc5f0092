/* test: wrap=pst_monotonic_ns
 * Choices of algorithms of a made-up cuBLASLt (fake_blas.c): they are measured once, kept and found
 * again. */
#include "cuda/opened.h"

static int open_idle(void) {
    const int status = open_device(NULL);
    fake.lt = 130100; /* as in KEY */
    fake_blas.idle = 1;
    fake.free_bytes = 1 << 30;
    return status;
}

static int open_choices(void **state) {
    (void)state;
    const int status = open_idle();
    return status ? status : pst_cuda_choices.give(device, 1, NULL, 0) != PST_OK;
}

static pst_status forward(uint64_t t, uint64_t f) {
    const kernel_case k = {
        .op = "linear", .b = 1, .t = t, .c = 5, .f = f, .second = 1, .dtype = PST_BF16};
    pst_cuda_rows rows = pst_cuda_linear_rows();
    case_state s;
    assert_int_equal(case_open(&k, 1, 0, &s), PST_OK);
    pst_status status =
        run_case(&s, case_row(rows.row, rows.n, &k, PST_PASS_F, PST_ISA_CUDA), (case_flags){0});
    case_close(&s);
    return status;
}

static uint32_t chosen(pst_choice *list) {
    uint32_t n = 0;
    while (pst_cuda_choices.take(device, n, &list[n])) n++;
    return n;
}

static void again(const pst_choice *list, uint32_t n) {
    assert_int_equal(close_device(NULL), 0);
    assert_int_equal(open_idle(), 0);
    assert_int_equal(pst_cuda_choices.give(device, 1, list, n), PST_OK);
}

#define KEY "Fake x132 cublasLt 130100 BF16 BF16 TN bias 4x3x5"
#define ZEROS                                                                                      \
    " 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 "       \
    "0000000000000000"

static void choices_are_measured_once(void **state) {
    (void)state;
    pst_choice list[4];
    fake.free_bytes = 1 << 20; /* too little to measure with */
    assert_int_equal(forward(3, 4), PST_ENOMEM);
    assert_int_equal(chosen(list), 0);
    again(NULL, 0);
    assert_int_equal(forward(3, 4), PST_OK);
    assert_int_equal(fake_blas.ran, 101);
    assert_int_equal(forward(3, 6), PST_OK);
    assert_int_equal(forward(3, 4), PST_OK);
    assert_int_equal(fake_blas.asked, 2);
    assert_int_equal(chosen(list), 2);
    assert_string_equal(list[0].of, KEY);
    assert_string_equal(list[0].is, "0000000000000065 0000000000000007" ZEROS);
    again(list, 2);
    assert_int_equal(forward(3, 4), PST_OK);
    assert_int_equal(fake_blas.ran, 101);
    assert_int_equal(fake_blas.asked, 0);
    assert_int_equal(forward(3, 7), PST_OK); /* one that was not there */
    assert_int_equal(fake_blas.asked, 1);
}

/* What does not run is not chosen, and where nothing runs nothing is kept. */
static void choices_that_do_not_run(void **state) {
    (void)state;
    pst_choice list[4];
    fake_blas.unfit = 2;
    fake_blas.broken = 1;
    assert_int_equal(forward(3, 4), PST_OK);
    assert_int_equal(fake_blas.ran, 102);
    fake_blas.unfit = 2;
    fake_blas.broken = 5;
    assert_int_equal(forward(3, 6), PST_EINTERNAL);
    assert_non_null(strstr(pst_error(), "none of cuBLASLt's 2 algorithms for the matrix product "));
    assert_int_equal(chosen(list), 1);
}

static void choices_by_the_library(void **state) {
    (void)state;
    assert_int_equal(pst_cuda_choices.give(device, 0, NULL, 0), PST_OK);
    assert_int_equal(forward(3, 4), PST_OK);
    assert_int_equal(fake_blas.ran, 100);
    fake_blas.unfit = 1; /* it says that its first proposal does not run */
    assert_int_equal(forward(3, 5), PST_OK);
    assert_int_equal(fake_blas.ran, 101);
}

static void choices_that_are_given(void **state) {
    (void)state;
    const pst_choice list[] = {{KEY "0", "1"}, {KEY, "0000000000000066 7 0 0 0 0 0 0"}},
                     few = {KEY, "66 7"}, wrong = {KEY, "5 7 0 0 0 0 0 0"};
    again(list, 2);
    assert_int_equal(forward(3, 4), PST_OK);
    assert_int_equal(fake_blas.ran, 102); /* by hand, though it is slow */
    again(NULL, 0);
    assert_int_equal(forward(3, 4), PST_OK);
    assert_int_equal(pst_cuda_choices.give(device, 1, list, 2), PST_OK); /* what another rank has
                                                                            measured */
    assert_int_equal(forward(3, 4), PST_OK);
    assert_int_equal(fake_blas.ran, 102);
    assert_int_equal(pst_cuda_choices.give(device, 1, &few, 1), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "expected 8 numbers of 16"));
    again(&wrong, 1);
    assert_int_equal(forward(3, 4), PST_EINPUT);
    assert_non_null(
        strstr(pst_error(), "the plan's algorithm for '" KEY "' does not run on this GPU"));
}

static void choices_beside_the_best(void **state) {
    (void)state;
    pst_choice_times times;
    pst_choice before[2], after[2];
    assert_int_equal(forward(3, 4), PST_OK);
    chosen(before);
    assert_int_equal(pst_cuda_choices.compare(device, 0, &times), PST_OK);
    assert_int_equal(times.tried, 3);
    assert_true(times.best_s > 0 && times.best_s == times.measured_s &&
                times.first_s > times.measured_s);
    chosen(after);
    assert_string_equal(after[0].is, before[0].is);
    assert_int_equal(pst_cuda_choices.compare(device, 1, &times), PST_EINTERNAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(choices_are_measured_once, open_choices, close_device),
        cmocka_unit_test_setup_teardown(choices_that_do_not_run, open_choices, close_device),
        cmocka_unit_test_setup_teardown(choices_by_the_library, open_choices, close_device),
        cmocka_unit_test_setup_teardown(choices_that_are_given, open_choices, close_device),
        cmocka_unit_test_setup_teardown(choices_beside_the_best, open_choices, close_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
