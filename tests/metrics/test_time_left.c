/* test: label=quick */
/* The time left on the progress line is that of a run which goes on at its pace: runs are
 * synthetic, step by step, and what is said after each is compared with what they really take from
 * there on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "metrics/metrics.h"
#include <math.h>

/* A run whose steps and evaluations take so many seconds each. */
typedef struct {
    uint64_t first, steps, every, passes;
    double step_s, evaluation_s;
} run;

static uint64_t evaluations_after(const run *r, uint64_t step) {
    uint64_t n = 1; /* at the end */
    for (uint64_t s = step; s < r->steps; s++) n += r->every && s % r->every == 0;
    return r->passes ? n : 0;
}

/* Plays it. exact_from: the step whose line and later ones have to be right, not only near. */
static void play(const run *r, uint64_t exact_from) {
    const pst_batches same = {1, {{0, 0, 8}}};
    pst_metrics_progress p = {.first = r->first,
                              .steps = r->steps,
                              .every = r->every,
                              .passes = r->passes,
                              .batches = &same};
    for (p.step = r->first + 1; p.step <= r->steps; p.step++) {
        p.elapsed_s += r->step_s;
        double really = (double)(r->steps - p.step) * r->step_s +
                        (double)evaluations_after(r, p.step) * r->evaluation_s;
        double said = pst_metrics_time_left(&p), slack = p.step >= exact_from ? 1e-9 : 0.25;
        if (fabs(said - really) > slack * really + 1e-9)
            fail_msg("after step %llu: said %g, are %g", (unsigned long long)p.step, said, really);
        if (!r->passes || !r->every || p.step % r->every) continue;
        p.evaluations++;
        p.evaluated_s += r->evaluation_s;
        p.elapsed_s += r->evaluation_s;
    }
}

static void runs(void **state) {
    (void)state;
    /* evaluations are half of it, and a pass takes what is guessed before the first */
    play(&(run){.steps = 600, .every = 100, .passes = 300, .step_s = 0.1, .evaluation_s = 10}, 1);
    /* a pass takes half as long again as guessed: known from the first on */
    play(&(run){.steps = 600, .every = 100, .passes = 30, .step_s = 0.1, .evaluation_s = 1.5}, 101);
    play(&(run){.first = 250,
                .steps = 600,
                .every = 100,
                .passes = 30,
                .step_s = 0.1,
                .evaluation_s = 1.5},
         301);
    /* one, at the end */
    play(&(run){.steps = 60, .every = 0, .passes = 30, .step_s = 0.1, .evaluation_s = 1}, 1);
    /* the same */
    play(&(run){.steps = 60, .every = 60, .passes = 30, .step_s = 0.1, .evaluation_s = 1}, 1);
    play(&(run){.steps = 60, .every = 7, .passes = 0, .step_s = 0.1}, 1); /* none */
    play(&(run){.steps = 1, .every = 1, .passes = 3, .step_s = 1, .evaluation_s = 1}, 1);
}

/* A step takes as long as its samples do: 10 steps of 4, then steps of 16. */
static void growing_batches(void **state) {
    const pst_batches grows = {2, {{0, 0, 4}, {10, 40, 16}}};
    pst_metrics_progress p = {.steps = 30, .batches = &grows};
    (void)state;
    for (p.step = 1; p.step <= p.steps; p.step++) {
        p.elapsed_s += p.step <= 10 ? 0.4 : 1.6;
        double really =
            p.step <= 10 ? (double)(10 - p.step) * 0.4 + 20 * 1.6 : (double)(30 - p.step) * 1.6;
        assert_true(fabs(pst_metrics_time_left(&p) - really) < 1e-9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs), cmocka_unit_test(growing_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
