/* test: label=quick timeout=120
 * BERT as published, on pairs of segments with a WordPiece vocabulary and whole-word masking:
 * training lowers both losses, every layout has the same numbers, also where the two losses are on
 * different ranks, and a validation of any layout gives the same loss. All ranks over `self`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/kernel.h"
#include "run/runs_assert.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: bert, layers: 2, heads: 3, channels: 24, context: 37, dropout: 0.1, "           \
    "next_sentence: true}\n"                                                                       \
    "data: {kind: lines, paths: [\"%s/text.txt\"], tokenizer: \"%s/vocab.txt\", mask: words, "     \
    "cache: \"%s/cache\"}\n"                                                                       \
    "train: {steps: 6, batch: 6, micro_batch: 2, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 3}\n"

static char yaml[2000];
static run_result base;

/* Documents of sentences of their own words, some of which have two tokens. */
static int write_files(void **state) {
    char path[400];
    (void)state;
    snprintf(yaml, sizeof yaml, YAML, run_folder(), run_folder(), run_folder());
    snprintf(path, sizeof path, "%s/vocab.txt", run_folder());
    FILE *f = fopen(path, "w");
    if (!f) return 1;
    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n##x\n##y\n", f);
    for (int i = 0; i < 90; i++) fprintf(f, "w%d\n", i);
    if (fclose(f)) return 1;
    snprintf(path, sizeof path, "%s/text.txt", run_folder());
    f = fopen(path, "w");
    if (!f) return 1;
    for (int line = 0; line < 600; line++) {
        const int topic = line / 12 % 6;
        if (line % 12 == 0) fputs("\n", f);
        for (int i = 0; i < 4 + line % 5; i++)
            fprintf(f, "w%d%s ", topic * 15 + (line * 7 + i * i) % 15, i % 3 ? "" : "x");
        fputs("\n", f);
    }
    return fclose(f);
}

static run_result run(const char *name, int ranks, const char *const *override, size_t n) {
    return run_here(yaml, name, ranks, "", override, n);
}

static void test_base(void **state) {
    (void)state;
    base = run("base", 1, NULL, 0);
    assert_int_equal(base.exit_status, 0);
    assert_int_equal(base.steps, 6);
    /* ln 97 for the tokens and ln 2 for the segments */
    assert_true(base.value[0] > 4.8 && base.value[0] < 5.8);
}

static void test_learns(void **state) {
    (void)state;
    const char *longer[] = {"train.steps=150", "train.clip=1", "train.batch=16",
                            "train.micro_batch=8", "model.dropout=0"};
    run_result r = run("longer", 1, longer, 5);
    assert_int_equal(r.exit_status, 0);
    if (!(r.validation < base.validation - 0.3))
        fail_msg("validation loss %g after %g", r.validation, base.validation);
}

static void test_layouts(void **state) {
    (void)state;
    static const char *const schedule[] = {"gpipe",       "1f1b",  "1f1b-early",
                                           "interleaved", "zb-h1", "zb-v"};
    static const char *const recompute[] = {"none", "selective", "full"};
    for (int ranks = 2; ranks <= 4; ranks++)
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

/* Sums in another order; the same bits again. */
static void test_grid(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *a, *b;
    } way[] = {{3, "parallel.data=3", "parallel.zero=2"},
               {2, "parallel.tensor=2", "parallel.sequence=false"},
               {3, "parallel.tensor=3", "parallel.sequence=true"},
               {6, "parallel.tensor=3", "parallel.sequence=true"}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char name[64], again[64];
        const char *override[] = {way[i].a, way[i].b};
        snprintf(name, sizeof name, "grid-%zu", i);
        snprintf(again, sizeof again, "again-%zu", i);
        run_result first = run(name, way[i].ranks, override, 2),
                   second = run(again, way[i].ranks, override, 2);
        run_assert_close(&first, &base, name);
        if (!(fabs(first.validation - base.validation) <= 1e-4 * base.validation))
            fail_msg("%s: validation loss %g, not %g", name, first.validation, base.validation);
        run_assert_same(&second, &first, again);
    }
}

/* With blocks of sums, tensor ranks change no bit, also not those that the sequence is divided
 * over. */
static void test_blocks(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *a, *b;
    } way[] = {{1, "parallel.tensor=1", "parallel.sequence=false"},
               {2, "parallel.tensor=2", "parallel.sequence=false"},
               {2, "parallel.tensor=2", "parallel.sequence=true"},
               {4, "parallel.tensor=2", "parallel.sequence=true"}};
    run_result one = {0};
    if (!(pst_cpu_isa() & PST_ISA_AVX2)) {
        printf("skipped: blocks: needs AVX2\n");
        return;
    }
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char name[64];
        const char *override[] = {way[i].a, way[i].b, "parallel.reproducible.tensor=2",
                                  "model.heads=4"};
        snprintf(name, sizeof name, "blocks-%zu", i);
        run_result r = run(name, way[i].ranks, override, 4);
        if (i) run_assert_same(&r, &one, name);
        else one = r;
    }
}

static int close_folder(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_base), cmocka_unit_test(test_learns),
                                       cmocka_unit_test(test_layouts), cmocka_unit_test(test_grid),
                                       cmocka_unit_test(test_blocks)};
    return cmocka_run_group_tests(tests, write_files, close_folder);
}
