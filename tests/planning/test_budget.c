/* What follows from the step of a layout: failures and checkpoints as in published formulas and
 * trainings; and the options of a budget, right and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "config/number.h"
#include "planning/budget.h"
#include <math.h>
#include <string.h>

static void near_to(double value, double expected, double share) {
    if (!(fabs(value - expected) <= share * fabs(expected)))
        fail_msg("%.6g instead of %.6g", value, expected);
}

static void counts_have_decimal_units(void **unused) {
    (void)unused;
    static const char *const wrong[] = {"", "B", "3X", "3BB", "-3B", "0", "nan", "3 B", "1e999"};
    double value;
    assert_true(pst_number_count("300B", &value) && value == 300e9);
    assert_true(pst_number_count("1.5T", &value) && value == 1.5e12);
    assert_true(pst_number_count("2e9", &value) && value == 2e9);
    assert_true(pst_number_count("20K", &value) && value == 20000);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (pst_number_count(wrong[i], &value)) fail_msg("'%s' is a count", wrong[i]);
}

/* By hand: M = 1e6 s / 100 = 1e4 s, 100 s to write, every sqrt(2 x 100 x 1e4) = 1414.2 s; of M
 * 1414.2 / 2 + 600 s are lost, and of the rest 100 of 1514.2 s. */
static void failures_follow_young(void **unused) {
    (void)unused;
    pst_budget b = {
        .steps = 1e5, .checkpoint_bytes = 1e12, .request = {.mtbf_s = 1e6, .storage = 1e9}};
    pst_budget_row row = {.devices = 100, .nodes = 10, .step_s = 10};
    pst_budget_follow(&b, &row);
    near_to(row.write_s, 100, 1e-9);
    near_to(row.every_s, sqrt(2e6), 1e-9);
    near_to(row.effective, (1 - (sqrt(2e6) / 2 + 600) / 1e4) / (1 + 100 / sqrt(2e6)), 1e-9);
    near_to(row.days, 1e6 / row.effective / 86400, 1e-9);
    near_to(row.device_hours, row.days * 2400, 1e-9);
    near_to(row.failures, row.days * 86400 / 1e4, 1e-9);
    b.request.mtbf_s = 5e4; /* a failure in 500 s: less than a restart takes */
    pst_budget_follow(&b, &row);
    assert_true(row.effective == 0 && isnan(row.days));
}

/* The training of Llama 3 405B: 16,384 GPUs, 2 TB/s, 419 failures in 54 days, more than 90% of the
 * time effective. */
static void llama_3_is_as_published(void **unused) {
    (void)unused;
    const pst_plan_run_options o = {.tokens = "15.6T"};
    pst_budget b = {.steps = 1, .checkpoint_bytes = 12 * 405e9};
    pst_budget_row row = {.devices = 16384, .nodes = 2048, .step_s = 54 * 86400.0};
    assert_int_equal(pst_budget_read(&o, &b.request), PST_OK);
    pst_budget_follow(&b, &row);
    near_to(row.failures * row.effective, 419, 1e-6);
    assert_true(row.effective > 0.9 && row.effective < 0.95);
}

static void wrong_options_are_refused(void **unused) {
    (void)unused;
    static const struct {
        pst_plan_run_options o;
        const char *what;
    } cases[] = {
        {{.tokens = "many"}, "found 'many'"},
        {{.tokens = "0.5"}, "from 1 to 1e18"},
        {{.days = 3}, "--days needs --tokens"},
        {{.price = "h100=1"}, "--price needs --tokens"},
        {{.gpus = "8"}, "--gpus needs --tokens"},
        {{.mtbf = 3}, "--mtbf needs --tokens"},
        {{.storage = 3}, "--storage needs --tokens"},
        {{.tokens = "1B", .gpus = "8,,16"}, "numbers of devices from 1"},
        {{.tokens = "1B", .gpus = "8,"}, "numbers of devices from 1"},
        {{.tokens = "1B", .gpus = "0"}, "numbers of devices from 1"},
        {{.tokens = "1B", .gpus = "16,8"}, "ascending"},
        {{.tokens = "1B", .gpus = "8,8"}, "ascending"},
        {{.tokens = "1B", .gpus = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"}, "at most 16"},
        {{.tokens = "1B", .gpus = "8", .ranks = 4}, "omit -n"},
        {{.tokens = "1B", .price = "2.5"}, "such as h100=2.5"},
        {{.tokens = "1B", .price = "h100=cheap"}, "such as h100=2.5"},
        {{.tokens = "1B", .price = "h100=-1"}, "such as h100=2.5"},
        {{.tokens = "1B", .price = "h100=1,H100=2"}, "h100 is given twice"},
    };
    pst_budget_request r;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pst_budget_read(&cases[i].o, &r), PST_EINPUT);
        if (!strstr(pst_error(), cases[i].what)) fail_msg("case %zu says: %s", i, pst_error());
    }
    const pst_plan_run_options right = {
        .tokens = "300B", .days = 30, .gpus = "8,64", .price = "h100=2.5,v100=0.5", .mtbf = 100};
    assert_int_equal(pst_budget_read(&right, &r), PST_OK);
    assert_true(r.tokens == 300e9 && r.days == 30 && r.n_count == 2 && r.count[1] == 64 &&
                r.n_price == 2 && r.price[1].per_hour == 0.5 && r.mtbf_s == 360000);
    assert_string_equal(r.price[0].kind, "h100");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_have_decimal_units),
        cmocka_unit_test(failures_follow_young),
        cmocka_unit_test(llama_3_is_as_published),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
