/* The learning rate of each schedule, step by step, against its formula. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "run/learning_rate.h"
#include <math.h>

enum { STEPS = 100, WARMUP = 10 };
static const double LR = 0.01, LOW = 0.001;

static pst_config *config_of(const char *decay) {
    const char *override[] = {decay, "steps=100", "warmup=10%", "lr=0.01", "lr_min=0.001"};
    pst_config *c = NULL;
    assert_int_equal(pst_config_open("test", override, sizeof override / sizeof *override, &c),
                     PST_OK);
    return c;
}

static void expect(const pst_config *c, uint64_t step, double want) {
    double got = pst_learning_rate(c, step);
    if (!(fabs(got - want) < 1e-15))
        fail_msg("%s, step %llu: %.17g, expected %.17g", c->train.decay, (unsigned long long)step,
                 got, want);
}

static void rises(const pst_config *c) {
    for (uint64_t s = 0; s < WARMUP; s++) expect(c, s, LR * (double)(s + 1) / WARMUP);
}

static void constant(void **state) {
    (void)state;
    pst_config *c = config_of("decay=none");
    rises(c);
    for (uint64_t s = WARMUP; s < STEPS + 20; s++) expect(c, s, LR);
    pst_config_close(c);
}

static void linear_and_cosine(void **state) {
    (void)state;
    pst_config *linear = config_of("decay=linear"), *cosine = config_of("decay=cosine");
    rises(linear);
    rises(cosine);
    for (uint64_t s = WARMUP; s < STEPS + 20; s++) {
        double x = s < STEPS ? (double)(s - WARMUP) / (STEPS - WARMUP) : 1;
        expect(linear, s, LOW + (LR - LOW) * (1 - x));
        expect(cosine, s, LOW + (LR - LOW) * (1 + cos(acos(-1) * x)) / 2);
    }
    pst_config_close(linear);
    pst_config_close(cosine);
}

/* Constant up to the last fifth, which is the default, then linear. */
static void stable_then_decay(void **state) {
    (void)state;
    pst_config *c = config_of("decay=wsd");
    rises(c);
    for (uint64_t s = WARMUP; s < 80; s++) expect(c, s, LR);
    for (uint64_t s = 80; s < STEPS; s++) expect(c, s, LOW + (LR - LOW) * (double)(100 - s) / 20);
    expect(c, STEPS + 5, LOW);
    pst_config_close(c);
}

/* It begins where the warm-up ends, and does not fall below lr_min. */
static void inverse_root(void **state) {
    (void)state;
    pst_config *c = config_of("decay=inverse-sqrt");
    rises(c);
    for (uint64_t s = WARMUP; s < STEPS; s++) expect(c, s, LR * sqrt(10.0 / (double)(s + 1)));
    expect(c, 1000000, LOW);
    pst_config_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant),
        cmocka_unit_test(linear_and_cosine),
        cmocka_unit_test(stable_then_decay),
        cmocka_unit_test(inverse_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
