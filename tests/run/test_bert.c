/* test: label=quick timeout=120
 * Lines with masked tokens and the model that fills them in: training lowers the loss, every layout
 * has the same numbers, a run goes on elsewhere, and models and data that do not belong together
 * are refused. All ranks over `self`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/runs_assert.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: bert, layers: 2, heads: 3, channels: 24, context: 21, dropout: 0.1, "           \
    "attention_dropout: 0.1}\n"                                                                    \
    "data: {kind: lines, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                          \
    "train: {steps: 6, batch: 6, micro_batch: 2, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 3}\n"

static run_result base;

static run_result run(const char *name, int ranks, const char *const *override, size_t n) {
    return run_here(YAML, name, ranks, "", override, n);
}

static void test_base(void **state) {
    (void)state;
    base = run("base", 1, NULL, 0);
    assert_int_equal(base.exit_status, 0);
    assert_int_equal(base.steps, 6);
}

/* Of bytes alone, at most ln 257 = 5.55; the shares of bytes give less than 4. */
static void test_learns(void **state) {
    (void)state;
    const char *longer[] = {"train.steps=120", "train.clip=1", "train.batch=16",
                            "train.micro_batch=8"};
    run_result r = run("longer", 1, longer, 4);
    assert_int_equal(r.exit_status, 0);
    assert_true(base.validation > 3 && base.validation < 6);
    assert_true(base.value[0] > 4.5 && base.value[0] < 6.5); /* likewise of targets alone */
    if (!(r.validation < 3.7 && r.validation < base.validation - 0.3))
        fail_msg("validation loss %g after %g", r.validation, base.validation);
}

static void test_layouts(void **state) {
    (void)state;
    static const char *const schedule[] = {"gpipe",       "1f1b",  "1f1b-early",
                                           "interleaved", "zb-h1", "zb-v"};
    static const char *const recompute[] = {"none", "selective", "full"};
    for (int ranks = 1; ranks <= 3; ranks++)
        for (size_t s = 0; s < sizeof schedule / sizeof *schedule; s++) {
            char a[64], b[64], c[64], name[64];
            const char *override[] = {a, b, c};
            snprintf(a, sizeof a, "parallel.schedule=%s", schedule[s]);
            snprintf(b, sizeof b, "parallel.threads=%zu", 1 + s % 2);
            snprintf(c, sizeof c, "parallel.recompute=%s", recompute[(s + (size_t)ranks) % 3]);
            snprintf(name, sizeof name, "%s-%d", schedule[s], ranks);
            run_result r = run(name, ranks, override, 3);
            run_assert_same(&r, &base, name);
            assert_true(r.validation == base.validation);
        }
}

/* Without types and with the logits of all positions, as before these were keys; and with as many
 * predictions as the data ever gives. */
static void test_options(void **state) {
    (void)state;
    const char *all[] = {"model.max_predictions=21", "model.token_types=0"},
               *few[] = {"model.max_predictions=1"}, *pipeline[] = {"model.max_predictions=1"};
    run_result a = run("all", 1, all, 2), b = run("all-2", 2, all, 2), c = run("few", 1, few, 1),
               d = run("few-3", 3, pipeline, 1);
    run_assert_same(&b, &a, "all logits");
    run_assert_same(&d, &c, "one prediction");
    assert_true(a.value[0] > 4.5 && a.value[0] < 6.5 && c.value[0] > 3 && c.value[0] < 7);
    assert_true(a.value[0] != base.value[0] && a.value[0] != c.value[0]);
}

/* Sums in another order; the same bits again. */
static void test_grid(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *a, *b;
    } way[] = {{3, "parallel.data=3", "parallel.zero=1"},
               {2, "parallel.tensor=2", "parallel.sequence=false"},
               {6, "parallel.tensor=3", "parallel.sequence=true"}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char name[64], again[64];
        const char *override[] = {way[i].a, way[i].b};
        snprintf(name, sizeof name, "grid-%zu", i);
        snprintf(again, sizeof again, "again-%zu", i);
        run_result first = run(name, way[i].ranks, override, 2),
                   second = run(again, way[i].ranks, override, 2);
        run_assert_close(&first, &base, name);
        run_assert_same(&second, &first, again);
    }
}

/* Stopped on two ranks, gone on with on three. */
static void test_resume(void **state) {
    (void)state;
    char command[1300];
    run_result r = run("resume", 2, NULL, 0);
    run_assert_same(&r, &base, "resume");
    snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000006'", r.folder);
    assert_int_equal(system(command), 0);
    r = run_here(YAML, "resume", 3, r.folder, NULL, 0);
    run_assert_same(&r, &base, "resumed");
}

static void refused(const char *name, const char *const *override, size_t n, const char *words) {
    run_result r = run(name, 1, override, n);
    assert_int_equal(r.exit_status, 2);
    if (!strstr(pst_error(), words)) fail_msg("%s: \"%s\" lacks \"%s\"", name, pst_error(), words);
}

static void test_refused(void **state) {
    (void)state;
    const char *gpt[] = {"model.kind=gpt"}, *small[] = {"model.kind=gpt", "model.vocabulary=256"};
    const char *text[] = {"data.kind=text"}, *relu[] = {"model.activation=relu"},
               *heads[] = {"model.heads=5"};
    refused("gpt", gpt, 1,
            "model.kind gpt reads tokens, targets, but a sample of data.kind lines has tokens, "
            "targets, lengths; "
            "use data.kind: text");
    refused("small", small, 2, "model.vocabulary is 256, but the data has 257 different tokens");
    refused("text", text, 1,
            "model.kind bert reads tokens, targets, lengths, types, positions, but a sample of "
            "data.kind text has tokens, targets; "
            "use data.kind: lines");
    refused("relu", relu, 1, "model.activation is not used by model.kind bert");
    refused("heads", heads, 1, "model.heads is 5");
    const char *next[] = {"model.next_sentence=true"}, *words[] = {"data.mask=words"};
    refused("next", next, 1, "pairs of segments need a tokenizer");
    refused("words", words, 1, "words consist of tokens with a tokenizer only");
}

static int close_folder(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base),    cmocka_unit_test(test_learns),
        cmocka_unit_test(test_layouts), cmocka_unit_test(test_options),
        cmocka_unit_test(test_grid),    cmocka_unit_test(test_resume),
        cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, close_folder);
}
