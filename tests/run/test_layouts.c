/* test: label=quick timeout=60
 * The same numbers in every layout: losses and the final weight hash are equal to the bit for every
 * number of ranks, schedule and thread count, on `self`, with clipping that bites and dropout, and
 * for a run stopped and resumed under another -n. test_layouts_ucx.c does the same through the
 * program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/schedule/csv.h"
#include "run/runs_assert.h"
#include <signal.h>
#include <sys/time.h>

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1, attention_dropout: 0.2}\n"                                                      \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 6, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self}\n"                                                                \
    "checkpoint: {every: 3}\n"

static run_result base;

static void same(const run_result *r, const char *what) { run_assert_same(r, &base, what); }

static void test_base(void **state) {
    (void)state;
    base = run_here(YAML, "base", 1, "", NULL, 0);
    assert_int_equal(base.exit_status, 0);
    assert_int_equal(base.steps, 6);
    assert_true(base.value[5] < base.value[0]);
    assert_true(strlen(base.hash) == 16);
}

static void test_every_layout(void **state) {
    (void)state;
    uint32_t rows;
    const pst_schedule_row *row = pst_schedule_rows(&rows);
    for (int n = 1; n <= 4; n++)
        for (uint32_t s = 0; s + 1 < rows; s++) /* but forward */
            for (int threads = 1; threads <= 2; threads++) {
                char a[64], b[64], name[64];
                const char *override[] = {a, b};
#ifdef __SANITIZE_THREAD__
                /* Slow: one of the two, and of more ranks every other schedule. */
                if (threads % 2 == (n + (int)s) % 2) continue;
                if (n > 2 && s % 2 == (uint32_t)n % 2) continue;
#endif
                snprintf(a, sizeof a, "parallel.schedule=%s", row[s].name);
                snprintf(b, sizeof b, "parallel.threads=%d", threads);
                snprintf(name, sizeof name, "%s-%d-%d", row[s].name, n, threads);
                run_result r = run_here(YAML, name, n, "", override, 2);
                same(&r, name);
                for (int k = 0; k < r.n_rank; k++) assert_int_equal(r.peak[k], r.predicted[k]);
            }
}

/* Solved for these stages, in any memory and placement; what does not fit, or cannot be, is
 * refused. */
static void test_solved_schedule(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++)
        for (int chunks = 0; chunks <= 3; chunks++) {
            char name[64], a[64];
            const char *override[] = {a, "parallel.schedule=solved"};
#ifdef __SANITIZE_THREAD__
            if ((n + chunks) % 2) continue; /* slow: every other one */
#endif
            snprintf(name, sizeof name, "solved-%d-%d", n, chunks);
            snprintf(a, sizeof a, "parallel.chunks=%d", chunks);
            run_result r = run_here(YAML, name, n, "", override, 2);
            same(&r, name);
            for (int k = 0; k < r.n_rank; k++) assert_int_equal(r.peak[k], r.predicted[k]);
        }
    const char *chunks[] = {"parallel.chunks=64", "parallel.schedule=solved"};
    const char *memory[] = {"parallel.memory=100K", "parallel.schedule=solved"};
    run_result r = run_here(YAML, "solved-64-chunks", 2, "", chunks, 2);
    assert_int_equal(r.exit_status, 2);
    r = run_here(YAML, "solved-no-memory", 2, "", memory, 2);
    assert_int_equal(r.exit_status, 4);
}

/* What B computes again has the bits of the first time; the memory is less, and as predicted. */
static void test_recompute(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "zb-v"};
    static const char *const ways[] = {"none", "selective", "full", "{full: 1}", "{full: 2}"};
    for (int s = 0; s < 4; s++)
        for (int n = 1; n <= 3; n++) {
            uint64_t peak[5] = {0};
            for (int w = 0; w < 5; w++) {
                char a[64], b[64], name[64];
                const char *override[] = {a, b};
                snprintf(a, sizeof a, "parallel.schedule=%s", schedules[s]);
                snprintf(b, sizeof b, "parallel.recompute=%s", ways[w]);
                snprintf(name, sizeof name, "%s-%s-%d", ways[w], schedules[s], n);
                run_result r = run_here(YAML, name, n, "", override, 2);
                same(&r, name);
                for (int k = 0; k < r.n_rank; k++) {
                    assert_int_equal(r.peak[k], r.predicted[k]);
                    peak[w] += r.peak[k];
                }
            }
            assert_true(peak[1] < peak[0]);
            assert_true(peak[3] < peak[0] && peak[4] <= peak[3]);
            if (!strcmp(schedules[s], "gpipe")) assert_true(peak[2] < peak[1]);
        }
    const char *each[] = {"parallel.recompute=[full, {full: 1}, selective]"},
               *wrong[] = {"parallel.recompute=[full, none]"};
    run_result r = run_here(YAML, "each", 3, "", each, 1);
    same(&r, "each");
    r = run_here(YAML, "wrong", 3, "", wrong, 1);
    assert_int_equal(r.exit_status, 2);
}

/* From a file, which says ranks and micro-batches. */
static void test_custom_schedule(void **state) {
    (void)state;
    char path[600], a[700];
    const char *override[] = {a, "parallel.schedule=custom"};
    pst_schedule *s;
    snprintf(path, sizeof path, "%s/own.csv", run_folder());
    snprintf(a, sizeof a, "parallel.schedule_file=%s", path);
    assert_int_equal(pst_schedule_generate("zb-v", 2, 0, 6, &s), PST_OK);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(pst_schedule_csv_write(s, f), PST_OK);
    fclose(f);
    pst_schedule_close(s);
    run_result r = run_here(YAML, "custom", 2, "", override, 2);
    same(&r, "custom");
    r = run_here(YAML, "custom-3", 3, "", override, 2);
    assert_int_equal(r.exit_status, 2);
    /* the file has two */
    const char *chunks[] = {a, "parallel.schedule=custom", "parallel.chunks=1"};
    r = run_here(YAML, "custom-chunks", 2, "", chunks, 3);
    assert_int_equal(r.exit_status, 2);
    r = run_here(YAML, "custom-none", 2, "", override + 1, 1);
    assert_int_equal(r.exit_status, 2);
}

static void test_micro_batches(void **state) {
    (void)state;
    const char *override[] = {"train.micro_batch=6"};
    run_result r = run_here(YAML, "one-micro", 3, "", override, 1);
    assert_int_equal(r.exit_status, 0);
    assert_true(r.value[0] - base.value[0] < 1e-5 && base.value[0] - r.value[0] < 1e-5);
}

static void test_resume(void **state) {
    (void)state;
    char from[600];
    const char *early[] = {"train.steps=6"};
    for (int n = 1; n <= 3; n++) {
        char name[32], command[1300];
        snprintf(name, sizeof name, "resume-%d", n);
        run_result r = run_here(YAML, name, n, "", early, 1);
        same(&r, name);
        snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000006'", r.folder);
        assert_int_equal(system(command), 0);
        snprintf(from, sizeof from, "%s", r.folder);
        r = run_here(YAML, name, 4 - n, from, early, 1);
        same(&r, "resumed");
    }
}

static void on_alarm(int number) { (void)number; }

/* Signals that interrupt matrix products change nothing: handlers run on a stack of their own. */
static void test_signals(void **state) {
    (void)state;
    const char *override[] = {"model.channels=128", "model.context=64", "parallel.threads=1"};
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART};
    run_result quiet = run_here(YAML, "quiet", 1, "", override, 3);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    run_result r = run_here(YAML, "signals", 1, "", override, 3);
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(r.exit_status, 0);
    assert_string_equal(r.hash, quiet.hash);
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_base),
                                       cmocka_unit_test(test_every_layout),
                                       cmocka_unit_test(test_solved_schedule),
                                       cmocka_unit_test(test_recompute),
                                       cmocka_unit_test(test_custom_schedule),
                                       cmocka_unit_test(test_micro_batches),
                                       cmocka_unit_test(test_resume),
                                       cmocka_unit_test(test_signals)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
