/* test: label=quick timeout=120 isa=any
 * Batches that train.micro_batch does not divide: the first micro-batch of a step has the rest. The
 * step is that of the whole batch up to rounding; its bits are the same for every pipeline,
 * schedule and recomputation, with parallel.reproducible for every number of replicas or tensor
 * ranks, and after a resume in another layout; and no rank takes other memory than predicted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/runs_assert.h"

/* 11 samples: 3, 4 and 4. */
#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1, attention_dropout: 0.2}\n"                                                      \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 4, batch: 11, micro_batch: 4, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"   \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "eval: {every: 2, tokens: 600}\n"                                                              \
    "checkpoint: {every: 2}\n"

typedef struct {
    int ranks;
    const char *keys;
} layout;

/* All have the bits of the first; base: "" or keys of all. */
static void same(const char *base, const layout *l, size_t n) {
    char keys[300];
    run_result first = {0};
    for (size_t i = 0; i < n; i++) {
        snprintf(keys, sizeof keys, "%s%s%s", base, *base && *l[i].keys ? " " : "", l[i].keys);
        run_result r = run_with(YAML, "", l[i].ranks, keys);
        if (!i) first = r;
        run_assert_same(&r, &first, keys);
        assert_true(r.validation == first.validation);
        assert_true(r.validation_tokens == 600);
    }
}
#define SAME(base, layouts) same(base, layouts, sizeof(layouts) / sizeof *(layouts))

static void pipelines(void **state) {
    (void)state;
    const layout of[] = {{1, ""},
                         {2, "parallel.schedule=gpipe"},
                         {3, "parallel.schedule=1f1b parallel.recompute=full"},
                         {2, "parallel.schedule=zb-h1 parallel.threads=2"},
                         {2, "parallel.schedule=zb-v parallel.recompute=selective"},
                         {2, "parallel.schedule=interleaved parallel.post_validation=true"},
                         {2, "parallel.schedule=solved"}};
    SAME("", of);
}

static void replicas(void **state) {
    (void)state;
    const layout two[] = {{2, ""},
                          {2, "parallel.zero=0"},
                          {4, "parallel.schedule=zb-h2"},
                          {2, "parallel.replicas=[2,1]"}},
                 three[] = {{3, ""}, {6, ""}, {3, "parallel.zero=2"}},
                 packed[] = {{2, ""}, {4, "parallel.schedule=gpipe"}},
                 islands[] = {{2, ""}, {4, ""}};
    SAME("parallel.data=2", two);
    SAME("parallel.data=3", three);
    SAME("parallel.data=2 parallel.compress.up=int8 parallel.compress.min_bytes=0 "
         "parallel.compress.links=all",
         packed);
    SAME("parallel.data=2 parallel.local.steps=2", islands);
    SAME("parallel.data=2 parallel.update=delayed", islands);
}

static void reproducible(void **state) {
    (void)state;
    const layout data[] = {{1, ""}, {2, "parallel.data=2"}, {4, "parallel.data=4"}},
                 tensor[] = {{1, ""},
                             {2, "parallel.tensor=2"},
                             {4, "parallel.tensor=2 parallel.sequence=true"}};
    SAME("train.batch=15 parallel.reproducible.data=4", data);
    SAME("parallel.reproducible.tensor=2", tensor);
}

static void whole_batch(void **state) {
    (void)state;
    const run_result whole = run_with(YAML, "", 1, "train.micro_batch=11");
    static const layout of[] = {{1, ""},
                                {1, "train.micro_batch=10"},
                                {3, "train.micro_batch=3 parallel.data=3"},
                                {2, "parallel.tensor=2"},
                                {4, "train.micro_batch=2 parallel.data=2 parallel.tensor=2"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const run_result r = run_with(YAML, "", of[i].ranks, of[i].keys);
        run_assert_close(&r, &whole, of[i].keys);
        assert_true(fabs(r.validation - whole.validation) < 1e-5 * whole.validation);
    }
}

/* Sizes of 1, 2, ... x 11 samples: each has its own first micro-batch. */
static void growing(void **state) {
    (void)state;
    const layout of[] = {{1, ""}, {2, ""}, {3, "parallel.schedule=zb-h1"}};
    SAME("train.batch=33 train.micro_batch=5 train.batch_warmup.from=11 "
         "train.batch_warmup.tokens=500",
         of);
}

static void resumes(void **state) {
    (void)state;
    const run_result one = run_with(YAML, "", 1, "");
    const run_result r = run_with(YAML, run_copy_until(&one, 2), 2, "parallel.schedule=zb-h1");
    if (r.exit_status) fail_msg("%s", pst_error());
    assert_string_equal(r.hash, one.hash);
}

static int clean(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipelines),   cmocka_unit_test(replicas), cmocka_unit_test(reproducible),
        cmocka_unit_test(whole_batch), cmocka_unit_test(growing),  cmocka_unit_test(resumes)};
    return cmocka_run_group_tests(tests, NULL, clean);
}
