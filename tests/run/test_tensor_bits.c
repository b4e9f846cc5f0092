/* test: label=full timeout=240
 * parallel.reproducible.tensor: losses, norms and weights are equal to the bit with 1, 2 and 4
 * tensor ranks, with and without sequence, in pipelines, with replicas, after a resume, in gpt and
 * bert, in fp32 and 16 bits; no more memory is written than predicted; what cannot be is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernels/kernel.h"
#include "run/runs_assert.h"
#include "skip.h"

/* 6 heads and 257 tokens in four blocks: blocks of different sizes. */
#define GPT                                                                                        \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 6, channels: 48, context: 20, vocabulary: 257, "         \
    "dropout: 0.1, attention_dropout: 0.2}\n"                                                      \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 5, batch: 8, micro_batch: 2, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self, threads: 1, reproducible: {tensor: 4}}\n"                         \
    "checkpoint: {every: 3}\n"
#define BERT                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: bert, layers: 2, heads: 4, channels: 32, context: 24, vocabulary: 257, "        \
    "dropout: 0.1, attention_dropout: 0.2}\n"                                                      \
    "data: {kind: lines, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                          \
    "train: {steps: 4, batch: 4, micro_batch: 2, lr: 1.0e-3, warmup: 0, seed: 7}\n"                \
    "parallel: {transport: self, threads: 1, reproducible: {tensor: 4}}\n"                         \
    "checkpoint: {every: 0}\n"

enum { KEYS = 4 };
typedef struct {
    int ranks;
    const char *key[KEYS];
} layout;
static const layout alone = {1, {NULL}};

static run_result run(const char *yaml, const char *name, const layout *of, const char *more,
                      const char *resume) {
    const char *override[KEYS + 1] = {NULL};
    size_t n = 0;
    while (n < KEYS && of->key[n]) n++;
    memcpy(override, of->key, n * sizeof *override);
    if (more) override[n++] = more;
    return run_here(yaml, name, of->ranks, resume, override, n);
}

/* Every layout has the bits of one rank. */
static void same_bits(const char *yaml, const char *what, const char *more) {
    static const layout of[] = {
        {2, {"parallel.tensor=2"}},
        {4, {"parallel.tensor=4", "parallel.recompute=full"}},
        {4, {"parallel.tensor=2", "parallel.pipeline=2", "parallel.post_validation=true"}},
        {2, {"parallel.tensor=2", "parallel.sequence=true"}},
        {8,
         {"parallel.tensor=4", "parallel.sequence=true", "parallel.pipeline=2",
          "parallel.recompute={full: 1}"}},
        {1, {"parallel.sequence=true"}},
        {2, {"parallel.pipeline=2", "parallel.schedule=zb-h1"}},
    };
    char name[64];
    snprintf(name, sizeof name, "%s-one", what);
    run_result one = run(yaml, name, &alone, more, "");
    run_assert_ended(&one, &one, name);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        snprintf(name, sizeof name, "%s-%zu", what, i);
        run_result r = run(yaml, name, of + i, more, "");
        run_assert_same(&r, &one, name);
    }
}

static void gpt(void **state) {
    (void)state;
    same_bits(GPT, "gpt", NULL);
}

static void bert(void **state) {
    (void)state;
    same_bits(BERT, "bert", NULL);
}

static void sixteen_bits(void **state) {
    (void)state;
    int bf16 = (pst_cpu_isa() & PST_ISA_AVX512_BF16) != 0;
    same_bits(GPT, "gpt-half", bf16 ? "train.precision=bf16" : "train.precision=fp16");
    same_bits(BERT, "bert-half", "train.precision=fp16");
}

static void eight(void **state) {
    (void)state;
    const layout of[] = {{1, {"model.heads=8"}},
                         {8, {"model.heads=8", "parallel.tensor=8"}},
                         {8, {"model.heads=8", "parallel.tensor=8", "parallel.sequence=true"}},
                         {4, {"model.heads=8", "parallel.tensor=4"}},
                         {2, {"model.heads=8", "parallel.tensor=2", "parallel.sequence=true"}}};
    const char *key = "parallel.reproducible.tensor=8";
    run_result one = run(GPT, "eight-one", of, key, "");
    run_assert_ended(&one, &one, "eight-one");
    for (size_t i = 1; i < sizeof of / sizeof *of; i++) {
        char name[32];
        snprintf(name, sizeof name, "eight-%zu", i);
        run_result r = run(GPT, name, of + i, key, "");
        run_assert_same(&r, &one, name);
    }
}

/* Without the key, the bits differ: the test would notice. */
static void without(void **state) {
    (void)state;
    const layout two = {2, {"parallel.tensor=2"}};
    run_result a = run(GPT, "without-one", &alone, "parallel.reproducible.tensor=0", ""),
               b = run(GPT, "without-two", &two, "parallel.reproducible.tensor=0", "");
    run_assert_close(&b, &a, "without");
    assert_string_not_equal(a.hash, b.hash);
}

static void replicas(void **state) {
    (void)state;
    const layout of[] = {
        {4, {"parallel.data=2", "parallel.tensor=2"}},
        {8, {"parallel.data=2", "parallel.tensor=4", "parallel.sequence=true", "parallel.zero=0"}},
        {2, {"parallel.data=2"}},
    };
    const char *key = "parallel.reproducible.data=2";
    run_result one = run(GPT, "replicas-one", &alone, key, "");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char name[32];
        snprintf(name, sizeof name, "replicas-%zu", i);
        run_result r = run(GPT, name, of + i, key, "");
        run_assert_same(&r, &one, name);
    }
}

/* Steps that need whole parameters, and random rounding, on slices; with shares of ZeRO. */
static void optimizers(void **state) {
    (void)state;
    static const char *const optimizer[] = {"train.optimizer=lamb", "train.optimizer=muon",
                                            "train.optimizer=adamw"};
    const layout of[] = {
        {1, {"train.optimizer_state=bf16"}},
        {4, {"parallel.data=2", "parallel.tensor=2", "train.optimizer_state=bf16"}},
        {8, {"parallel.pipeline=2", "parallel.tensor=4", "train.optimizer_state=bf16"}},
        {4, {"parallel.tensor=4", "parallel.sequence=true", "train.optimizer_state=bf16"}},
    };
    const char *yaml = "name: run\n"
                       "model: {kind: gpt, layers: 2, heads: 6, channels: 48, context: 20, "
                       "vocabulary: 257}\n"
                       "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"
                       "train: {steps: 3, batch: 4, micro_batch: 2, lr: 1.0e-2, warmup: 2, "
                       "clip: 0.05}\n"
                       "parallel: {transport: self, threads: 1, reproducible: {tensor: 4, data: "
                       "2}}\n"
                       "checkpoint: {every: 0}\n";
    for (int k = 0; k < 3; k++) {
        run_result one = {0};
        for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
            char name[32];
            snprintf(name, sizeof name, "optimizers-%d-%zu", k, i);
            run_result r = run(yaml, name, of + i, optimizer[k], "");
            if (!i) one = r;
            run_assert_same(&r, &one, name);
        }
    }
}

/* Parts of a parameter have one owner on all tensor ranks, also if some of these lack a parameter
 * (wpe), else LAMB takes the norm of a part. */
static void owners(void **state) {
    (void)state;
    const layout of[] = {
        {4, {"parallel.data=2", "parallel.tensor=2", "parallel.zero=0", "model.layers=4"}},
        {4, {"parallel.data=2", "parallel.tensor=2", "parallel.zero=1", "model.layers=4"}},
        {2, {"parallel.data=2", "model.layers=4"}},
    };
    run_result first = {0};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char name[32];
        snprintf(name, sizeof name, "owners-%zu", i);
        run_result r = run(GPT, name, of + i, "train.optimizer=lamb", "");
        if (!i) first = r;
        run_assert_same(&r, &first, name);
    }
}

static void resumed(void **state) {
    (void)state;
    const layout four = {4, {"parallel.tensor=4"}}, two = {2, {"parallel.tensor=2"}};
    run_result whole = run(GPT, "whole", &alone, NULL, "");
    run_result half = run(GPT, "half", &four, "train.steps=3", "");
    run_assert_ended(&half, &half, "half");
    run_result rest = run(GPT, "rest", &two, "train.steps=5", half.folder);
    run_assert_ended(&rest, &rest, "rest");
    assert_string_equal(rest.hash, whole.hash);
}

static void refused(void **state) {
    (void)state;
    static const struct {
        layout of;
        const char *key, *why;
    } wrong[] = {
        {{3, {"parallel.tensor=3"}}, NULL, "expected a multiple of the number of tensor ranks, 3"},
        {{1, {NULL}}, "parallel.reproducible.tensor=3", "is 3; expected a power of two"},
        {{2, {"parallel.tensor=2"}}, "parallel.reproducible.tensor=8", "attn has 6 heads"},
        {{3, {"parallel.tensor=[2,1]"}}, NULL, "the same number of tensor ranks in all stages"},
        {{1, {NULL}}, "parallel.reproducible.tensor=32", "are too many"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        run_result r = run(GPT, "wrong", &wrong[i].of, wrong[i].key, "");
        assert_int_equal(r.exit_status, 2);
        if (!strstr(pst_error(), wrong[i].why)) fail_msg("%zu: %s", i, pst_error());
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gpt),        cmocka_unit_test(bert),    cmocka_unit_test(sixteen_bits),
    cmocka_unit_test(eight),      cmocka_unit_test(without), cmocka_unit_test(replicas),
    cmocka_unit_test(optimizers), cmocka_unit_test(owners),  cmocka_unit_test(resumed),
    cmocka_unit_test(refused)};

int main(void) {
    if (!(pst_cpu_isa() & PST_ISA_AVX2)) return SKIPPED("needs AVX2");
    return cmocka_run_group_tests_name("tensor_bits", tests, NULL, NULL);
}
