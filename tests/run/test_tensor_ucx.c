/* test: label=full timeout=180 isa=any
 * Tensor parallelism through the program and over UCX: the losses and weights of the same ranks in
 * one process, fp32, bf16 and fp16; and in an exchange, a rank that is stopped, sleeps, loses a
 * message or sends one of the wrong size is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/process.h"
#include "run/runs_assert.h"
#include "skip.h"
#include <math.h>

#define MODEL                                                                                      \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 3, heads: 3, channels: 36, context: 23, vocabulary: 257, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"
#define YAML                                                                                       \
    MODEL                                                                                          \
    "train: {steps: 6, batch: 6, micro_batch: 3, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7, "     \
    "validate_every: 3}\n"                                                                         \
    "checkpoint: {every: 3}\n"
#define ENDLESS                                                                                    \
    MODEL "train: {steps: 1000000, batch: 4, micro_batch: 1, warmup: 0, hang_slack: "              \
          "0.3}\ncheckpoint: {every: 0}\n"

static void same(const run_result *r, const run_result *of, const char *what) {
    run_assert_same(r, of, what);
    assert_true(r->validation == of->validation);
}

static void test_layouts(void **state) {
    (void)state;
    static const struct {
        const char *name, *degrees[2];
        int ranks;
    } way[] = {{"t2", {"parallel.tensor=2", "parallel.data=1"}, 2},
               {"t3", {"parallel.tensor=3", "parallel.sequence=true"}, 3},
               {"t2p2", {"parallel.tensor=2", "parallel.data=1"}, 4},
               {"t2d2", {"parallel.tensor=2", "parallel.data=2"}, 4},
               {"t2p2d2", {"parallel.tensor=2", "parallel.data=2"}, 8},
               {"t12", {"parallel.tensor=[1,2]", "parallel.data=1"}, 3},
               {"t31d2", {"parallel.tensor=[3,1]", "parallel.data=2"}, 8}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        const char *override[] = {"parallel.transport=self", "parallel.threads=1",
                                  way[i].degrees[0], way[i].degrees[1]};
        char words[200], name[32];
        snprintf(name, sizeof name, "%s-self", way[i].name);
        run_result base = run_here(YAML, name, way[i].ranks, "", override, 4);
        snprintf(words, sizeof words, "-q -n %d parallel.threads=1 %s %s", way[i].ranks,
                 way[i].degrees[0], way[i].degrees[1]);
        run_result r = run_program(PST_BINARY, YAML, way[i].name, words);
        same(&r, &base, way[i].name);
    }
}

/* Half as many digits: two ranks stay near one, not more; two runs are the same. */
static void test_halves(void **state) {
    (void)state;
    static const char *const precision[] = {"bf16", "fp16"};
    for (int k = has_bf16("tensor ranks in bf16") ? 0 : 1; k < 2; k++) {
        char words[120], name[32];
        snprintf(words, sizeof words, "-q -n 1 parallel.threads=1 train.precision=%s",
                 precision[k]);
        run_result one = run_program(PST_BINARY, YAML, precision[k], words);
        assert_int_equal(one.exit_status, 0);
        snprintf(words, sizeof words,
                 "-q -n 2 parallel.threads=1 train.precision=%s parallel.tensor=2", precision[k]);
        snprintf(name, sizeof name, "%s-2", precision[k]);
        run_result two = run_program(PST_BINARY, YAML, name, words);
        snprintf(name, sizeof name, "%s-again", precision[k]);
        run_result again = run_program(PST_BINARY, YAML, name, words);
        same(&again, &two, precision[k]);
        for (int i = 0; i < 6; i++)
            if (!(fabs(two.value[i] - one.value[i]) < 1e-3 * one.value[i]))
                fail_msg("%s: loss of step %d is %s, not %s", precision[k], i + 1, two.loss[i],
                         one.loss[i]);
    }
}

static void test_faults(void **state) {
    (void)state;
    static const struct {
        const char *fault, *said[2];
    } way[] = {{"stop:rank=1,message=200", {"rank 1 on ", "was stopped during "}},
               {"stall:rank=3,message=211", {"rank 3 on ", "hangs (asleep) during "}},
               {"drop:rank=1,message=200",
                {"lost a message to rank ", "send and receive are both posted"}},
               {"size:rank=1,message=200", {"rank 1 on ", "sent a message of the wrong size"}}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        const char *words[] = {"-q", "-n", "4", "parallel.threads=1", "parallel.tensor=2", NULL};
        char name[16];
        snprintf(name, sizeof name, "fault-%zu", i);
        setenv("PENSTOCK_FAULT", way[i].fault, 1);
        process p = process_train(ENDLESS, name, words);
        unsetenv("PENSTOCK_FAULT");
        int status = process_wait(&p, 120);
        const char *said = process_said(&p);
        if (status != 3 || !strstr(said, way[i].said[0]) || !strstr(said, way[i].said[1]))
            fail_msg("%s: exit status %d: %s", way[i].fault, status, said);
    }
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts),
                                       cmocka_unit_test(test_halves),
                                       cmocka_unit_test(test_faults)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
