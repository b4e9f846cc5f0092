/* test: label=full timeout=180 isa=any
 * Replicas through the program and over UCX: the bits are those of all ranks in one process; with
 * an accumulator for every part of a step they are those of one rank, also for a run whose rank was
 * killed, or that was interrupted, and went on with another number of replicas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/process.h"
#include "run/runs_assert.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 3, heads: 2, channels: 32, context: 20, dropout: 0.1}\n"           \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 6, batch: 8, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7, "     \
    "validate_every: 3}\n"                                                                         \
    "parallel: {threads: 1}\n"                                                                     \
    "checkpoint: {every: 3}\n"
enum { LONG_STEPS = 240 };
#define LONG                                                                                       \
    "train.steps=240 train.validate_every=0 train.lr=1e-3 checkpoint.every=20 "                    \
    "parallel.reproducible=4"

static void as_in_one_process(void **state) {
    (void)state;
    static const char *const words[] = {
        "-n 2 parallel.data=2",
        "-n 2 parallel.data=2 parallel.zero=0",
        "-n 4 parallel.data=2 parallel.schedule=zb-v",
        "-n 4 parallel.data=4 parallel.zero=0",
        "-n 6 parallel.data=2 parallel.schedule=1f1b-early",
        "-n 2 parallel.replicas=[2,6] parallel.data=2",
        "-n 4 parallel.data=2 parallel.tensor=2",
        "-n 2 parallel.data=2 parallel.zero=2 parallel.schedule=interleaved",
        "-n 4 parallel.data=2 parallel.zero=2 parallel.schedule=zb-v"};
    for (int i = 0; i < 9; i++) {
        char name[32], more[300];
        snprintf(name, sizeof name, "self-%d", i);
        snprintf(more, sizeof more, "-q %s parallel.transport=self", words[i]);
        run_result self = run_program(PST_BINARY, YAML, name, more);
        snprintf(name, sizeof name, "ucx-%d", i);
        snprintf(more, sizeof more, "-q %s", words[i]);
        run_result r = run_program(PST_BINARY, YAML, name, more);
        assert_int_equal(self.exit_status, 0);
        assert_int_equal(self.steps, 6);
        run_assert_same(&r, &self, words[i]);
        assert_true(r.validation == self.validation);
        for (int k = 0; k < r.n_rank; k++) assert_in_range(r.peak[k], 1, r.predicted[k]);
    }
}

static void same_bits_as_one_rank(void **state) {
    (void)state;
    run_result one = run_program(PST_BINARY, YAML, "one", "-q -n 1 parallel.reproducible=4");
    static const char *const words[] = {"-n 2 parallel.data=2", "-n 4 parallel.data=4",
                                        "-n 4 parallel.data=2"};
    assert_int_equal(one.exit_status, 0);
    for (int i = 0; i < 3; i++) {
        char name[32], more[300];
        snprintf(name, sizeof name, "many-%d", i);
        snprintf(more, sizeof more, "-q %s parallel.reproducible=4", words[i]);
        run_result r = run_program(PST_BINARY, YAML, name, more);
        run_assert_same(&r, &one, words[i]);
    }
}

/* Two replicas until a rank is killed or the job interrupted, behind the first checkpoint; then
 * one, or four. */
static void goes_on(void **state) {
    (void)state;
    run_result one = run_program(PST_BINARY, YAML, "long-one", "-q -n 1 " LONG);
    assert_int_equal(one.exit_status, 0);
    for (int kills = 0; kills < 2; kills++) {
        char name[32], run[600], words[900];
        const char *first[] = {"-q",
                               "-n",
                               "2",
                               "parallel.data=2",
                               "train.steps=240",
                               "train.validate_every=0",
                               "train.lr=1e-3",
                               "checkpoint.every=20",
                               "parallel.reproducible=4",
                               NULL};
        snprintf(name, sizeof name, "goes-on-%d", kills);
        snprintf(run, sizeof run, "%s/%s/run", run_folder(), name);
        process p = process_train(YAML, name, first);
        /* the checkpoint of step 20 is whole before that of step 40 begins */
        if (!process_reaches(&p, run, 45, 60))
            fail_msg("%s: ended before step 45: %s", name, process_said(&p));
        pid_t child[PROCESS_MAX_CHILD], victim = 0;
        int n = process_children(p.pid, child);
        for (int k = 0; k < n; k++)
            if (process_rank(child[k]) == 1) victim = child[k];
        assert_true(victim);
        assert_int_equal(kill(kills ? victim : p.pid, kills ? SIGKILL : SIGINT), 0);
        assert_int_equal(process_wait(&p, 60), kills ? 3 : 0);
        assert_true(process_steps(run) < LONG_STEPS);
        snprintf(words, sizeof words, "-q -n %d --resume '%s' parallel.data=%d " LONG,
                 kills ? 4 : 1, run, kills ? 4 : 1);
        run_result r = run_program(PST_BINARY, YAML, name, words);
        run_assert_same(&r, &one, name);
    }
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_in_one_process),
                                       cmocka_unit_test(same_bits_as_one_rank),
                                       cmocka_unit_test(goes_on)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
