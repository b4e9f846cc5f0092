/* What tests say of runs.h's results; of tests that include cmocka.h before. */
#ifndef TESTS_RUN_RUNS_ASSERT_H
#define TESTS_RUN_RUNS_ASSERT_H
#include "run/runs.h"
#include <math.h>

/* No rank took more bytes than its arena has. */
static inline void run_assert_ended(const run_result *r, const run_result *want, const char *what) {
    if (r->exit_status) fail_msg("%s: exit status %d: %s", what, r->exit_status, pst_error());
    assert_int_equal(r->steps, want->steps);
    for (int k = 0; k < r->n_rank; k++) assert_in_range(r->peak[k], 1, r->predicted[k]);
}

/* The same bits: losses, norms, weights. */
static inline void run_assert_same(const run_result *r, const run_result *want, const char *what) {
    run_assert_ended(r, want, what);
    for (int i = 0; i < want->steps; i++)
        if (strcmp(r->loss[i], want->loss[i]) || r->norm[i] != want->norm[i])
            fail_msg("%s: loss of step %d is %s, not %s", what, i + 1, r->loss[i], want->loss[i]);
    assert_string_equal(r->hash, want->hash);
}

/* Sums in another order. */
static inline void run_assert_close(const run_result *r, const run_result *want, const char *what) {
    run_assert_ended(r, want, what);
    for (int i = 0; i < want->steps; i++)
        if (!(fabs(r->value[i] - want->value[i]) <= 1e-5 * want->value[i]))
            fail_msg("%s: loss of step %d is %s, not %s", what, i + 1, r->loss[i], want->loss[i]);
}
#endif
