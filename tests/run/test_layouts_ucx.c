/* test: label=full timeout=180 isa=any
 * The same numbers in every layout, through the program and over UCX: every loss and the final hash
 * are those of a run in one process, for each number of ranks, schedule and thread count, for a run
 * that was interrupted and went on under another -n, and under mpirun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/schedule/schedule.h"
#include "run/process.h"
#include "run/runs_assert.h"
#include "skip.h"

#define MODEL                                                                                      \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 3, heads: 3, channels: 33, context: 20, dropout: 0.1}\n"           \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"
#define YAML                                                                                       \
    MODEL                                                                                          \
    "train: {steps: 6, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7, "     \
    "validate_every: 3}\n"                                                                         \
    "checkpoint: {every: 3}\n"
#define LONG                                                                                       \
    MODEL "train: {steps: 240, batch: 6, micro_batch: 1, lr: 1.0e-3, warmup: 2, clip: 0.05, "      \
          "seed: 7}\n"                                                                             \
          "checkpoint: {every: 0}\n"

static run_result base, long_base;

static void same(const run_result *r, const run_result *of, const char *what) {
    run_assert_same(r, of, what);
    assert_true(r->validation == of->validation);
}

static void test_base(void **state) {
    (void)state;
    const char *self[] = {"parallel.transport=self", "parallel.threads=1"};
    base = run_here(YAML, "base", 1, "", self, 2);
    long_base = run_here(LONG, "long-base", 1, "", self, 2);
    assert_int_equal(base.steps, 6);
    assert_int_equal(long_base.steps, 240);
    assert_int_equal(strlen(base.hash), 16);
}

static void test_every_layout(void **state) {
    (void)state;
    uint32_t rows;
    const pst_schedule_row *row = pst_schedule_rows(&rows);
    for (int n = 1; n <= 4; n++)
        for (uint32_t s = 0; s + 1 < rows; s++) { /* but forward */
            char name[64], words[200];
            int threads = 1 + (n + (int)s) % 2;
            snprintf(name, sizeof name, "%s-%d-%d", row[s].name, n, threads);
            snprintf(words, sizeof words, "-q -n %d parallel.schedule=%s parallel.threads=%d", n,
                     row[s].name, threads);
            run_result r = run_program(PST_BINARY, YAML, name, words);
            same(&r, &base, name);
            assert_int_equal(r.n_rank, n);
            for (int k = 0; k < r.n_rank; k++) assert_int_equal(r.peak[k], r.predicted[k]);
        }
}

/* Interrupts a run of n ranks in the middle; it writes a checkpoint and exits with 0. How many
 * steps it had made. */
static int interrupt(const char *name, const char *n, const char *folder) {
    const char *words[] = {"-q", "-n", n, NULL};
    process p = process_train(LONG, name, words);
    if (!process_reaches(&p, folder, 5, 60))
        fail_msg("%s: ended before step 5: %s", name, process_said(&p));
    kill(p.pid, SIGINT);
    int status = process_wait(&p, 60);
    if (status) fail_msg("%s: exit status %d after SIGINT: %s", name, status, process_said(&p));
    return process_steps(folder);
}

static void test_interrupted(void **state) {
    (void)state;
    static const char *const before[] = {"2", "4", "1"}, *const after[] = {"3", "1", "2"};
    for (int i = 0; i < 3; i++) {
        char name[32], folder[600], words[900];
        snprintf(name, sizeof name, "interrupted-%d", i);
        snprintf(folder, sizeof folder, "%s/%s/run", run_folder(), name);
        int steps = interrupt(name, before[i], folder);
        if (steps >= 240) fail_msg("%s: all steps were made before the interrupt came", name);
        snprintf(words, sizeof words, "-q -n %s --resume '%s' parallel.schedule=gpipe", after[i],
                 folder);
        run_result r = run_program(PST_BINARY, LONG, name, words);
        same(&r, &long_base, name);
    }
}

static void test_mpirun(void **state) {
    (void)state;
    if (system("command -v mpirun >/dev/null 2>&1")) {
        (void)SKIPPED("layouts under mpirun: no mpirun here (apt-get install openmpi-bin)");
        skip();
    }
    char file[600], runs[600];
    snprintf(file, sizeof file, "%s/mpi.yaml", run_folder());
    snprintf(runs, sizeof runs, "%s/mpi", run_folder());
    run_write_file(file, YAML);
    const char *argv[] = {"mpirun",          "-n",       "3",     "--allow-run-as-root",
                          "--oversubscribe", PST_BINARY, "train", file,
                          "--runs",          runs,       "-q",    NULL};
    process p = process_start(argv, "mpi");
    int status = process_wait(&p, 60);
    if (status) fail_msg("mpirun: exit status %d: %s", status, process_said(&p));
    run_result r = {.exit_status = 0};
    snprintf(r.folder, sizeof r.folder, "%s/mpi/run", run_folder());
    run_read(&r);
    same(&r, &base, "mpirun");
    assert_int_equal(r.n_rank, 3);
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base), cmocka_unit_test(test_every_layout),
        cmocka_unit_test(test_interrupted), cmocka_unit_test(test_mpirun)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
