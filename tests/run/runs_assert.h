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

/* "_" stands for a space, which separates keys. */
static inline char *run_cluster_of(char *key) {
    for (char *at = key; !strncmp(key, "parallel.cluster", 16) && *at; at++)
        if (*at == '_') *at = ' ';
    return key;
}

/* A run in a folder of its own; keys: "key=value key=value". */
static inline run_result run_with(const char *yaml, const char *resume, int ranks,
                                  const char *keys) {
    static int n;
    char name[20], text[600], *rest = text;
    const char *override[16];
    size_t k = 0;
    snprintf(name, sizeof name, "run-%d", n++);
    snprintf(text, sizeof text, "%s", keys);
    for (char *key; (key = strsep(&rest, " "));)
        if (*key) override[k++] = run_cluster_of(key);
    return run_here(yaml, name, ranks, resume, override, k);
}

/* A copy of a run's folder as it was after `step`; overwritten by the next call. */
static inline const char *run_copy_until(const run_result *r, int step) {
    static char folder[600];
    static int n;
    char command[2000];
    snprintf(folder, sizeof folder, "%s/copy-%d", run_folder(), n++);
    snprintf(command, sizeof command,
             "cp -r '%s' '%s' && cd '%s/checkpoints' && for c in step-*; do "
             "test $c = step-%08d || rm -r $c; done",
             r->folder, folder, folder, step);
    assert_int_equal(system(command), 0);
    return folder;
}
#endif
