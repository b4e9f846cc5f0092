/* test: label=quick timeout=60
 * precision: bf16. The same bits in every layout, as in fp32; losses close to fp32's; checkpoints
 * hold fp32 master weights, which either precision goes on from; status 2 where the CPU lacks the
 * instructions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernels/kernel.h"
#include "run/runs_assert.h"
#include "skip.h"
#include <math.h>

#define DATA "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"
#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1, attention_dropout: 0.2}\n" DATA                                                 \
    "train: {steps: 6, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, "                          \
    "clip: 0.05, seed: 7, precision: bf16}\n"                                                      \
    "parallel: {transport: self}\n"                                                                \
    "checkpoint: {every: 3}\n"

static run_result base;

static void same(const run_result *r, const char *what) { run_assert_same(r, &base, what); }

static void test_every_layout(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b", "1f1b-early"};
    base = run_here(YAML, "base", 1, "", NULL, 0);
    assert_int_equal(base.exit_status, 0);
    assert_int_equal(base.steps, 6);
    for (int n = 1; n <= 4; n++)
        for (int threads = 1; threads <= 2; threads++) {
            char a[64], b[64], name[64];
            const char *override[] = {a, b}, *schedule = schedules[(n + threads) % 3];
            snprintf(a, sizeof a, "parallel.schedule=%s", schedule);
            snprintf(b, sizeof b, "parallel.threads=%d", threads);
            snprintf(name, sizeof name, "%s-%d-%d", schedule, n, threads);
            run_result r = run_here(YAML, name, n, "", override, 2);
            same(&r, name);
        }
}

/* Activations, and weights as kernels read them, take half; masters come on top. */
static void test_memory(void **state) {
    (void)state;
    const char *override[] = {"train.precision=fp32"};
    run_result r = run_here(YAML, "memory", 1, "", override, 1);
    assert_int_equal(r.exit_status, 0);
    assert_true(base.predicted[0] < r.predicted[0] + r.predicted[0] / 4);
    assert_true(strcmp(r.hash, base.hash) != 0);
}

/* From step 3 of a bf16 run, whose later checkpoint is taken away. */
static run_result resume(const char *name, int ranks, const char *precision) {
    char command[1300], a[64], from[600];
    const char *override[] = {a};
    run_result r = run_here(YAML, name, 1, "", NULL, 0);
    same(&r, name);
    snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000006'", r.folder);
    assert_int_equal(system(command), 0);
    snprintf(from, sizeof from, "%s", r.folder);
    snprintf(a, sizeof a, "train.precision=%s", precision);
    return run_here(YAML, name, ranks, from, override, 1);
}

static void test_resume(void **state) {
    (void)state;
    run_result r = resume("resumed", 3, "bf16");
    same(&r, "resumed");
    r = resume("resumed-fp32", 2, "fp32");
    assert_int_equal(r.exit_status, 0);
    assert_int_equal(r.steps, 6);
    for (int i = 3; i < 6; i++)
        assert_true(fabs(r.value[i] - base.value[i]) < 0.02 * base.value[i]);
    assert_string_not_equal(r.loss[3], base.loss[3]);
}

/* Sentences of some thirty words, always the same ones. */
static void write_text(const char *path) {
    static const char *const words[] = {"the",   "pipe",  "carries", "water", "to",    "every",
                                        "wheel", "of",    "this",    "mill",  "and",   "a",
                                        "gate",  "holds", "back",    "what",  "river", "after",
                                        "rain",  "would", "bring",   "down",  "upon",  "it"};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    uint32_t x = 1;
    for (int i = 1; i <= 20000; i++) {
        x = x * 1664525u + 1013904223u;
        fprintf(f, "%s%s", words[(x >> 16) % 24], i % 11 ? " " : ".\n");
    }
    assert_int_equal(fclose(f), 0);
}

/* Rounding is noise around fp32's run: the same text is learned as fast. A single batch of four
 * feels more of it. */
static void test_loss_near_fp32(void **state) {
    (void)state;
    char text[600], yaml[1024];
    snprintf(text, sizeof text, "%s/text", run_folder());
    write_text(text);
    snprintf(yaml, sizeof yaml,
             "name: run\nmodel: {kind: gpt, preset: nano}\ndata: {kind: text, paths: [\"%s\"]}\n"
             "train: {steps: 50, batch: 4, lr: 1.0e-3, warmup: 10}\nparallel: {transport: self}\n"
             "checkpoint: {every: 0}\n",
             text);
    const char *override[] = {"train.precision=bf16"};
    run_result exact = run_here(yaml, "near-fp32", 1, "", NULL, 0),
               r = run_here(yaml, "near-bf16", 1, "", override, 1);
    assert_int_equal(r.exit_status, 0);
    assert_int_equal(r.steps, 50);
    double sum = 0, exact_sum = 0;
    for (int i = 0; i < 50; i++) {
        sum += r.value[i];
        exact_sum += exact.value[i];
        if (!(fabs(r.value[i] - exact.value[i]) < 0.1 * exact.value[i]))
            fail_msg("step %d: loss %g in bf16, %g in fp32", i + 1, r.value[i], exact.value[i]);
    }
    printf("mean loss %g in bf16, %g in fp32; validation %g, %g\n", sum / 50, exact_sum / 50,
           r.validation, exact.validation);
    assert_true(fabs(sum - exact_sum) < 0.01 * exact_sum);
    assert_true(exact.value[49] < 0.7 * exact.value[0]);
    assert_true(fabs(r.validation - exact.validation) < 0.01 * exact.validation);
}

static void test_refused_elsewhere(void **state) {
    (void)state;
    isa_lower("avx2");
    run_result r = run_here(YAML, "avx2", 1, "", NULL, 0);
    assert_int_equal(r.exit_status, 2);
    assert_non_null(strstr(pst_error(), "train.precision bf16 needs AVX512-BF16"));
    const char *override[] = {"parallel.device=timed"}; /* times only: computes nothing */
    r = run_here(YAML, "avx2-timed", 2, "", override, 1);
    isa_restore();
    assert_int_equal(r.exit_status, 0);
}

/* Only a GPU has such products; a step can be timed without. */
static void test_refused_on_cpus(void **state) {
    (void)state;
    static const char *const precision[][2] = {
        {"train.precision=tf32", "tf32 needs a GPU; use fp32"},
        {"train.precision=fp8", "fp8 needs a GPU; use bf16"}};
    for (int i = 0; i < 2; i++) {
        const char *override[] = {precision[i][0], "parallel.device=cpu"};
        char name[40];
        snprintf(name, sizeof name, "factors-timed-%d", i);
        run_result r = run_here(YAML, "factors", 1, "", override, 2);
        assert_int_equal(r.exit_status, 2);
        assert_non_null(strstr(pst_error(), precision[i][1]));
        override[1] = "parallel.device=timed";
        r = run_here(YAML, name, 2, "", override, 2);
        assert_int_equal(r.exit_status, 0);
    }
    const char *override[] = {"train.precision=fp8", "parallel.device=timed",
                              "parallel.reproducible=2"};
    run_result r = run_here(YAML, "factors-reproducible", 1, "", override, 3);
    assert_int_equal(r.exit_status, 2);
    assert_non_null(strstr(pst_error(), "parallel.reproducible does not support fp8"));
    const char *loose[] = {"train.precision=fp32", "parallel.deterministic=false",
                           "parallel.reproducible=2"};
    r = run_here(YAML, "loose-reproducible", 1, "", loose, 3);
    assert_int_equal(r.exit_status, 2);
    assert_non_null(strstr(pst_error(), "parallel.reproducible needs parallel.deterministic"));
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest without[] = {cmocka_unit_test(test_refused_elsewhere),
                                         cmocka_unit_test(test_refused_on_cpus)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_loss_near_fp32),
        cmocka_unit_test(test_refused_elsewhere),
        cmocka_unit_test(test_refused_on_cpus),
    };
    if (has_bf16("training in bf16")) return cmocka_run_group_tests(tests, NULL, cleanup);
    return cmocka_run_group_tests(without, NULL, cleanup);
}
