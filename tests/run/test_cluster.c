/* A cluster file in a run: slower devices get smaller stages and fewer micro-batches, with the same
 * bits; their memory is a limit; throttled ranks are planned for alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/runs.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 4, heads: 2, channels: 24, context: 20, vocabulary: 256}\n"        \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"], validation: 0}\n"            \
    "train: {steps: 3, batch: 6, micro_batch: 1, lr: 1.0e-2}\n"                                    \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 0}\n"

static run_result train(const char *name, int ranks, const char *a, const char *b) {
    const char *override[] = {a, b};
    return run_here(YAML, name, ranks, "", override, (a != NULL) + (b != NULL));
}

static const char *cluster(const char *nodes) {
    static char key[700];
    char path[600];
    snprintf(path, sizeof path, "%s/cluster.yaml", run_folder());
    run_write_file(path, nodes);
    snprintf(key, sizeof key, "parallel.cluster=%s", path);
    return key;
}

/* The first operator of the second stage. */
static int cut_of(const run_result *r) {
    char path[600], line[512];
    int chunk, rank, first, second = -1;
    snprintf(path, sizeof path, "%s/plan.yaml", r->folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, " - {chunk: %d, rank: %d, nodes: [%d", &chunk, &rank, &first) == 3 &&
            chunk == 1)
            second = first;
    fclose(f);
    assert_true(second > 0);
    return second;
}

static void slower_stages_are_smaller(void **unused) {
    (void)unused;
    run_result even = train("even", 2, NULL, NULL);
    run_result slow =
        train("slow", 2, cluster("nodes: [{devices: [{speed: 1}, {speed: 0.25}]}]\n"), NULL);
    run_result throttled = train("throttled", 2, "parallel.throttle=[1, 4]", NULL);
    assert_int_equal(even.exit_status | slow.exit_status | throttled.exit_status, 0);
    assert_true(cut_of(&slow) > cut_of(&even) + 5);
    assert_int_equal(cut_of(&throttled), cut_of(&slow));
    assert_string_equal(slow.hash, even.hash);
    assert_string_equal(throttled.hash, even.hash);
    for (int k = 0; k < 2; k++) assert_int_equal(slow.peak[k], slow.predicted[k]);
}

/* 6 micro-batches over speeds 1 and 1/2: 4 and 2, as `replicas` can say, too. */
static void slower_replicas_take_less(void **unused) {
    (void)unused;
    run_result given = train("given", 2, "parallel.data=2", "parallel.replicas=[4, 2]");
    run_result slow = train("slower", 2, "parallel.data=2",
                            cluster("nodes: [{devices: [{}]}, {devices: [{speed: 0.5}]}]\n"));
    assert_int_equal(given.exit_status | slow.exit_status, 0);
    assert_string_equal(slow.hash, given.hash);
}

static void memory_and_devices_are_limits(void **unused) {
    (void)unused;
    run_result r = train("small", 2, cluster("nodes: [{devices: [{}, {memory: 64K}]}]\n"), NULL);
    assert_int_equal(r.exit_status, 4);
    assert_non_null(strstr(pst_error(), "rank 1 needs"));
    assert_non_null(strstr(pst_error(), "limit is 64.0 KiB"));
    r = train("few", 2, cluster("nodes: [{devices: [{}]}]\n"), NULL);
    assert_int_equal(r.exit_status, 2);
    assert_non_null(strstr(pst_error(), "has only 1 device; expected at least 2"));
}

static int clean_up(void **unused) {
    (void)unused;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slower_stages_are_smaller),
        cmocka_unit_test(slower_replicas_take_less),
        cmocka_unit_test(memory_and_devices_are_limits),
    };
    return cmocka_run_group_tests(tests, NULL, clean_up);
}
