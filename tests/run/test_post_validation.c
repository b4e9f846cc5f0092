/* test: label=quick timeout=60
 * Post-validation: steps that do not wait for the norm give the same bits as those that do, in
 * every kind of layout, when they were right, when they were wrong and are taken back, and when a
 * step is skipped; what is kept for that lies in the memory that was predicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/runs.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 3, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"], validation: 0}\n"            \
    "train: {steps: 6, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, seed: 7}\n"                \
    "parallel: {transport: self}\n"                                                                \
    "checkpoint: {every: 2}\n"

/* Ranks that went back, over all steps; -1 when some line does not say. */
static int rolled_back(const run_result *r) {
    char path[600], line[4096];
    int n = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *j = json_loads(line, 0, NULL), *ranks = json_object_get(j, "rolled_back_ranks");
        if (!json_object_get(j, "event") && n >= 0)
            n = json_is_integer(ranks) ? n + (int)json_integer_value(ranks) : -1;
        json_decref(j);
    }
    if (f) fclose(f);
    return n;
}

/* Both ways; returns how many ranks went back. */
static int compare(const char *name, int ranks, const char *a, const char *b, const char *c) {
    const char *override[] = {a, b, c, "parallel.post_validation=true"};
    char other[64];
    snprintf(other, sizeof other, "%s-post", name);
    run_result waits = run_here(YAML, name, ranks, "", override, 3);
    run_result ahead = run_here(YAML, other, ranks, "", override, 4);
    if (waits.exit_status || ahead.exit_status)
        fail_msg("%s: status %d, %d", name, waits.exit_status, ahead.exit_status);
    assert_int_equal(waits.steps, 6);
    for (int i = 0; i < 6; i++)
        if (strcmp(waits.loss[i], ahead.loss[i]))
            fail_msg("%s: step %d: %s, %s", name, i + 1, waits.loss[i], ahead.loss[i]);
    assert_string_equal(waits.hash, ahead.hash);
    /* What a step ahead keeps may be the last of the arena, and steps may never be ahead. */
    for (int k = 0; k < ahead.n_rank; k++) assert_in_range(ahead.peak[k], 1, ahead.predicted[k]);
    assert_int_equal(rolled_back(&waits), -1);
    return rolled_back(&ahead);
}

static void test_right_and_wrong(void **state) {
    (void)state;
    static const char *const schedules[] = {"parallel.schedule=1f1b", "parallel.schedule=zb-v",
                                            "parallel.schedule=gpipe"};
    int wrong = 0;
    for (int n = 1; n <= 3; n++) {
        char name[32];
        snprintf(name, sizeof name, "free-%d", n);
        assert_int_equal(
            compare(name, n, schedules[n - 1], "train.clip=0", "train.optimizer=adamw"), 0);
        snprintf(name, sizeof name, "tight-%d", n);
        /* all wait */
        assert_int_equal(
            compare(name, n, schedules[n - 1], "train.clip=0.01", "train.optimizer=sgd"), 0);
        for (int clip = 1; clip <= 4; clip++) {
            char limit[32];
            snprintf(limit, sizeof limit, "train.clip=%d", clip);
            snprintf(name, sizeof name, "clip-%d-%d", clip, n);
            int back = compare(name, n, schedules[n - 1], limit, "train.optimizer=adamw");
            if (n == 1) assert_int_equal(back, 0); /* it knows all there is */
            assert_true(back >= 0);
            wrong += back;
        }
    }
    assert_true(wrong > 0);
}

static void test_layouts(void **state) {
    (void)state;
    assert_true(
        compare("replicas", 4, "parallel.data=2", "train.clip=2", "parallel.recompute=full") >= 0);
    assert_true(compare("replicas-zero", 4, "parallel.data=2", "train.clip=2", "parallel.zero=0") >=
                0);
    assert_true(
        compare("tensor", 4, "parallel.tensor=2", "train.clip=2", "parallel.schedule=zb-h1") >= 0);
}

/* An overflow that only some ranks see. */
static void test_fp16(void **state) {
    (void)state;
    assert_true(compare("fp16", 3, "train.precision=fp16", "train.loss_scale_start=16777216",
                        "train.clip=2") >= 0);
}

/* The end of the arena is for what a step ahead keeps; where none ever is ahead, it is not
 * written. */
static void test_nothing_is_kept(void **state) {
    (void)state;
    const char *override[] = {"train.clip=1e-6", "parallel.post_validation=true"};
    run_result r = run_here(YAML, "never-ahead", 1, "", override, 2);
    assert_int_equal(r.exit_status, 0);
    assert_in_range(r.peak[0], 1, r.predicted[0] - 1);
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right_and_wrong),
                                       cmocka_unit_test(test_nothing_is_kept),
                                       cmocka_unit_test(test_layouts), cmocka_unit_test(test_fp16)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
