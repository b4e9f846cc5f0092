/* test: timeout=60
 * Which device has which rank (parallel.devices): speeds, throttles and processes follow it,
 * numbers do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/runs_assert.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 4, heads: 2, channels: 24, context: 20, vocabulary: 256}\n"        \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"], validation: 0}\n"            \
    "train: {steps: 3, batch: 6, micro_batch: 1, lr: 1.0e-2}\n"                                    \
    "parallel: {threads: 1}\n"                                                                     \
    "checkpoint: {every: 2}\n"

static run_result train(const char *name, int ranks, const char *resume, const char *a,
                        const char *b) {
    const char *override[] = {"parallel.transport=self", a, b};
    run_result r = run_here(YAML, name, ranks, resume, override, 1 + (a != NULL) + (b != NULL));
    assert_int_equal(r.exit_status, 0);
    return r;
}

static const char *text_of(const run_result *r, const char *file) {
    static char text[16384];
    char path[600];
    snprintf(path, sizeof path, "%s/%s", r->folder, file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

/* Operators of the first stage. */
static int first_stage(const run_result *r) {
    int first, last;
    const char *at = strstr(text_of(r, "plan.yaml"), "nodes: [");
    assert_true(at && sscanf(at, "nodes: [%d, %d", &first, &last) == 2);
    return last - first;
}

static void speeds_follow_their_device(void **state) {
    (void)state;
    run_result even = train("even", 3, "", NULL, NULL);
    run_result last = train("last", 3, "", "parallel.throttle=[1, 1, 6]", NULL);
    run_result moved =
        train("moved", 3, "", "parallel.throttle=[1, 1, 6]", "parallel.devices=[2, 0, 1]");
    run_result first = train("first", 3, "", "parallel.throttle=[6, 1, 1]", NULL);
    assert_int_equal(first_stage(&moved), first_stage(&first));
    assert_true(first_stage(&moved) < first_stage(&last));
    run_assert_same(&moved, &even, "moved");
    assert_non_null(strstr(text_of(&moved, "plan.yaml"), "devices: [2, 0, 1]"));
    assert_null(strstr(text_of(&even, "plan.yaml"), "devices:"));
}

static void a_cluster_may_have_more(void **state) {
    (void)state;
    char path[600], key[700];
    snprintf(path, sizeof path, "%s/cluster.yaml", run_folder());
    run_write_file(path,
                   "nodes: [{devices: [{speed: 1}, {speed: 9}, {speed: 1}, {speed: 0.2}]}]\n");
    snprintf(key, sizeof key, "parallel.cluster=%s", path);
    run_result fast = train("fast", 2, "", key, "parallel.devices=[2, 0]");
    run_result slow = train("slow", 2, "", key, "parallel.devices=[3, 2]");
    run_assert_same(&fast, &slow, "cluster");
    assert_true(first_stage(&slow) < first_stage(&fast));
}

static void processes_take_their_places(void **state) {
    (void)state;
    char resume[600];
    run_result whole = train("whole", 1, "", NULL, NULL);
    run_result r = run_program(PST_BINARY, YAML, "ranks", "-q -n 3 parallel.devices='[2, 0, 1]'");
    assert_int_equal(r.exit_status, 0);
    run_assert_same(&r, &whole, "ranks");
    for (int k = 0; k < 3; k++) assert_int_equal(r.peak[k], r.predicted[k]);
    snprintf(resume, sizeof resume,
             "-q -n 4 parallel.pipeline=2 parallel.data=2 parallel.devices='[3, 1, 0, 2]'");
    run_result four = run_program(PST_BINARY, YAML, "four", resume);
    assert_int_equal(four.exit_status, 0);
    run_result same = train("same", 4, "", "parallel.pipeline=2", "parallel.data=2");
    run_assert_same(&four, &same, "four");
    snprintf(resume, sizeof resume,
             "-q -n 3 --resume '%s' parallel.devices='[1, 2, 0]' train.steps=5", r.folder);
    run_result on = run_program(PST_BINARY, YAML, "on", resume);
    assert_int_equal(on.exit_status, 0);
}

static void what_cannot_be(void **state) {
    (void)state;
    static const char *const wrong[] = {"parallel.devices=[0, 1]", "parallel.devices=[0, 1, 1]",
                                        "parallel.devices=[0, 1, 3]", "parallel.devices=[0, 1, -1]",
                                        "parallel.devices=[0, 1, x]"}; /* of 3 */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *override[] = {"parallel.transport=self", wrong[i]};
        assert_int_equal(run_here(YAML, "wrong", 3, "", override, 2).exit_status, 2);
    }
}

static int clean(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speeds_follow_their_device), cmocka_unit_test(a_cluster_may_have_more),
        cmocka_unit_test(processes_take_their_places), cmocka_unit_test(what_cannot_be)};
    return cmocka_run_group_tests(tests, NULL, clean);
}
