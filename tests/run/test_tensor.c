/* test: label=quick timeout=60
 * Tensor parallelism, all ranks over `self`: three heads and 257 tokens on two and three ranks, so
 * that nothing divides; tied embeddings on the first and the last stage; dropout and clipping that
 * bites. Losses are those of one rank within 1e-5, and to the bit the same in every repeated run
 * and whatever pipeline and schedule; checkpoints go from any degree to any other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/runs_assert.h"
#include <math.h>

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 3, channels: 24, context: 21, "                          \
    "vocabulary: 257, dropout: 0.1, attention_dropout: 0.2}\n"                                     \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 6, batch: 6, micro_batch: 2, lr: 1.0e-2, warmup: 2, clip: "                    \
    "0.05, seed: 7}\n"                                                                             \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 3}\n"

static run_result base;

static run_result run(const char *name, int ranks, int tensor, const char *more,
                      const char *more2) {
    char degree[64];
    const char *override[] = {degree, more, more2};
    snprintf(degree, sizeof degree, "parallel.tensor=%d", tensor);
    return run_here(YAML, name, ranks, "", override, 1 + (more != NULL) + (more2 != NULL));
}

static void test_base(void **state) {
    (void)state;
    base = run_here(YAML, "base", 1, "", NULL, 0);
    assert_int_equal(base.exit_status, 0);
    assert_int_equal(base.steps, 6);
    assert_true(base.value[5] < base.value[0]);
}

/* along: the sequence is split, too, or not. */
static void check_degree(int tensor, const char *along) {
    static const char *const schedule[] = {"parallel.schedule=gpipe", "parallel.schedule=1f1b",
                                           "parallel.schedule=interleaved",
                                           "parallel.schedule=zb-v"};
    char name[64];
    snprintf(name, sizeof name, "tensor-%d-%s", tensor, along + strlen("parallel."));
    run_result first = run(name, tensor, tensor, along, NULL);
    run_assert_close(&first, &base, name);
    snprintf(name, sizeof name, "again-%d-%s", tensor, along + strlen("parallel."));
    run_result again = run(name, tensor, tensor, along, NULL);
    run_assert_same(&again, &first, name);
    for (int p = 2; p <= 3; p++)
        for (size_t s = 0; s < sizeof schedule / sizeof *schedule; s++) {
            snprintf(name, sizeof name, "tensor-%d-%d-%zu-%s", tensor, p, s,
                     along + strlen("parallel."));
            run_result r = run(name, p * tensor, tensor, schedule[s], along);
            run_assert_same(&r, &first, name);
        }
}

static void test_degrees(void **state) {
    (void)state;
    for (int tensor = 2; tensor <= 3; tensor++) check_degree(tensor, "parallel.sequence=false");
}

static void test_sequence(void **state) {
    (void)state;
    for (int tensor = 2; tensor <= 3; tensor++) check_degree(tensor, "parallel.sequence=true");
    run_result whole = run("whole", 2, 2, "train.micro_batch=6", NULL);
    run_result part = run("part", 2, 2, "train.micro_batch=6", "parallel.sequence=true");
    assert_true(part.peak[0] < whole.peak[0]);
}

/* From one degree to another in the middle. */
static void test_resume(void **state) {
    (void)state;
    static const struct {
        int ranks, tensor, to_ranks, to_tensor;
    } way[] = {{2, 2, 1, 1}, {1, 1, 4, 2}, {4, 2, 3, 3}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char name[32], command[1300], from[600], degree[64];
        const char *override[] = {degree};
        snprintf(name, sizeof name, "resume-%zu", i);
        run_result r = run(name, way[i].ranks, way[i].tensor, NULL, NULL);
        run_assert_close(&r, &base, name);
        snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000006'", r.folder);
        assert_int_equal(system(command), 0);
        snprintf(from, sizeof from, "%s", r.folder);
        snprintf(degree, sizeof degree, "parallel.tensor=%d", way[i].to_tensor);
        r = run_here(YAML, name, way[i].to_ranks, from, override, 1);
        run_assert_close(&r, &base, "resumed");
    }
}

/* Several replicas of several tensor ranks, with and without a shared optimizer. */
static void test_data(void **state) {
    (void)state;
    run_result first = run("data", 4, 2, "parallel.data=2", "parallel.zero=0");
    run_assert_close(&first, &base, "data");
    run_result deep = run("data, deep", 8, 2, "parallel.data=2", "parallel.zero=1");
    run_assert_same(&deep, &first, "data, deep");
    run_result along = run("along", 4, 2, "parallel.data=2", "parallel.sequence=true");
    run_assert_close(&along, &base, "data, sequence");
    deep = run("along, deep", 8, 2, "parallel.data=2", "parallel.sequence=true");
    run_assert_same(&deep, &along, "data, sequence, deep");
}

static void test_refused(void **state) {
    (void)state;
    run_result r = run("heads", 4, 4, NULL, NULL);
    assert_int_equal(r.exit_status, 2);
    r = run("product", 3, 2, NULL, NULL);
    assert_int_equal(r.exit_status, 2);
    r = run("product", 4, 2, "parallel.pipeline=3", NULL);
    assert_int_equal(r.exit_status, 2);
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base),     cmocka_unit_test(test_degrees),
        cmocka_unit_test(test_sequence), cmocka_unit_test(test_resume),
        cmocka_unit_test(test_data),     cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
