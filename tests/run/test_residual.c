/* test: label=quick timeout=120 sanitize=address
 * train.residual: fp32. Models of 16 bits whose residual stream is fp32 have the same bits in every
 * schedule, number of stages, way of recomputation, and with tensor ranks and replicas in every
 * pipeline; what a rank takes is as predicted; losses lie nearer to those of fp32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/runs_assert.h"
#include "skip.h"

#define DATA(kind) "data: {kind: " kind ", paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"
#define REST                                                                                       \
    "train: {steps: 5, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7, "     \
    "precision: fp16, residual: fp32, loss_scale: 1024}\n"                                         \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 0}\n"
#define GPT                                                                                        \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 3, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n" DATA("text") REST
#define BERT                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: bert, layers: 3, heads: 2, channels: 24, context: 20, dropout: 0.1}\n" DATA(    \
        "lines") REST

static const char *const models[] = {GPT, BERT};
static run_result base[2];

/* words: overrides, NULL behind the last. */
static run_result run(int model, int ranks, const char *const words[]) {
    static int number;
    char name[32];
    size_t n = 0;
    while (words && words[n]) n++;
    snprintf(name, sizeof name, "run-%d", number++);
    return run_here(models[model], name, ranks, "", words, n);
}

static void test_base(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        base[m] = run(m, 1, NULL);
        run_result same = run(m, 1, (const char *[]){"train.residual=same", NULL});
        run_assert_ended(&base[m], &base[m], "base");
        assert_int_equal(base[m].steps, 5);
        assert_string_not_equal(same.hash, base[m].hash);
        assert_true(same.predicted[0] < base[m].predicted[0]);
        assert_true(fabs(same.value[0] - base[m].value[0]) < 0.01);
        /* nothing to widen */
        run_result wide = run(m, 1, (const char *[]){"precision=fp32", NULL});
        run_result plain =
            run(m, 1, (const char *[]){"precision=fp32", "train.residual=same", NULL});
        run_assert_same(&wide, &plain, "fp32");
    }
}

static void test_layouts(void **state) {
    (void)state;
    static const char *const schedule[] = {"gpipe",       "1f1b",  "1f1b-early",
                                           "interleaved", "zb-h1", "zb-v"};
    static const char *const recompute[] = {"none", "selective", "full"};
    for (int m = 0; m < 2; m++)
        for (int ranks = 1; ranks <= 4; ranks++)
            for (size_t s = 0; s < 6; s++) {
                char a[64], b[64], c[64], what[200];
                snprintf(a, sizeof a, "parallel.schedule=%s", schedule[s]);
                snprintf(b, sizeof b, "parallel.recompute=%s", recompute[(s + (size_t)ranks) % 3]);
                snprintf(c, sizeof c, "parallel.threads=%zu", 1 + s % 2);
                run_result r = run(m, ranks, (const char *[]){a, b, c, NULL});
                snprintf(what, sizeof what, "model %d, %d ranks, %s, %s", m, ranks, a, b);
                run_assert_same(&r, &base[m], what);
                for (int k = 0; k < r.n_rank; k++) assert_int_equal(r.peak[k], r.predicted[k]);
            }
}

/* The plan of a run of two stages, with the first operator of the second one at `cut`; returns how
 * many operators there are. */
static int move_cut(const run_result *r, const char *path, int cut) {
    char from[700], line[400];
    int last = 0;
    snprintf(from, sizeof from, "%s/plan.yaml", r->folder);
    FILE *in = fopen(from, "r"), *out = fopen(path, "w");
    assert_true(in && out);
    while (fgets(line, sizeof line, in) && strncmp(line, "predicted:", 10)) {
        if (strncmp(line, "  - {chunk:", 11)) fputs(line, out);
        else last = atoi(strchr(strchr(line, '['), ',') + 1);
    }
    fprintf(out, "  - {chunk: 0, rank: 0, nodes: [0, %d], recompute: none}\n", cut - 1);
    fprintf(out, "  - {chunk: 1, rank: 1, nodes: [%d, %d], recompute: selective}\n", cut, last);
    fclose(in);
    assert_int_equal(fclose(out), 0);
    return last + 1;
}

/* Between any two operators: the stream crosses, and what a branch has of it. */
static void test_cuts(void **state) {
    (void)state;
    for (int m = 0; m < 2; m++) {
        const run_result two = run(m, 2, NULL);
        for (int cut = 1, n = 2; cut < n; cut += 2 - m) {
            char path[600], plan[700];
            snprintf(path, sizeof path, "%s/plan.yaml", run_folder());
            snprintf(plan, sizeof plan, "parallel.plan=%s", path);
            n = move_cut(&two, path, cut);
            run_result r = run(m, 2, (const char *[]){plan, NULL});
            snprintf(plan, sizeof plan, "model %d, cut %d of %d", m, cut, n);
            run_assert_same(&r, &base[m], plan);
        }
    }
}

/* As many tensor ranks, or replicas, have the same bits in every pipeline. */
static void test_groups(void **state) {
    (void)state;
    static const char *const ways[][2] = {{"parallel.tensor=2", "parallel.sequence=false"},
                                          {"parallel.tensor=2", "parallel.sequence=true"},
                                          {"parallel.data=2", "parallel.zero=0"},
                                          {"parallel.data=2", "parallel.zero=1"}};
    for (int m = 0; m < 2; m++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            run_result first = run(m, 2, (const char *[]){ways[w][0], ways[w][1], NULL});
            run_assert_ended(&first, &base[m], ways[w][1]);
            for (int i = 0; i < base[m].steps; i++)
                assert_true(fabs(first.value[i] - base[m].value[i]) < 5e-3);
            for (int stages = 2; stages <= 3; stages++) {
                const char *schedule =
                    stages == 2 ? "parallel.schedule=zb-v" : "parallel.recompute=full";
                run_result r =
                    run(m, 2 * stages, (const char *[]){ways[w][0], ways[w][1], schedule, NULL});
                run_assert_same(&r, &first, ways[w][1]);
            }
        }
}

static double apart(const run_result *r, const run_result *from) {
    double sum = 0;
    for (int i = 0; i < from->steps; i++) sum += fabs(r->value[i] - from->value[i]);
    return sum / from->steps;
}

/* bf16 rounds the stream to 8 bits in every block. One run's losses can lie nearer by chance, the
 * mean over seeds does not, at a low learning rate. */
static void test_nearer_to_fp32(void **state) {
    (void)state;
    enum { SEEDS = 6 };
    if (!has_bf16("residual streams")) return;
    for (int m = 0; m < 2; m++) {
        double wide_apart = 0, half_apart = 0;
        for (int s = 0; s < SEEDS; s++) {
            char seed[32];
            snprintf(seed, sizeof seed, "train.seed=%d", s + 1);
            const char *deep = "model.layers=16", *drop = "model.dropout=0", *slow = "lr=1e-4";
            run_result exact =
                run(m, 1, (const char *[]){deep, drop, slow, seed, "precision=fp32", NULL});
            run_result wide =
                run(m, 1, (const char *[]){deep, drop, slow, seed, "precision=bf16", NULL});
            run_result half = run(m, 1,
                                  (const char *[]){deep, drop, slow, seed, "precision=bf16",
                                                   "train.residual=same", NULL});
            wide_apart += apart(&wide, &exact) / SEEDS;
            half_apart += apart(&half, &exact) / SEEDS;
            assert_true(fabs(wide.norm[0] - exact.norm[0]) < 0.01 * exact.norm[0]);
        }
        printf("model %d: losses lie %.6f from those of fp32, with a stream in bf16 %.6f\n", m,
               wide_apart, half_apart);
        assert_true(wide_apart < half_apart);
    }
}

static int finish(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base),           cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_cuts),           cmocka_unit_test(test_groups),
        cmocka_unit_test(test_nearer_to_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, finish);
}
