/* test: label=full timeout=300 isa=any
 * Layouts of every kind on a device whose memory the host cannot reach (far_module.c): the bits are
 * the CPU's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "far/far.h"
#include "skip.h"

static void one_rank(void **state) {
    (void)state;
    SAME_BITS("one", 1, "train.optimizer=adamw");
    SAME_BITS("one-sgd", 1, "train.optimizer=sgd");
    SAME_BITS("one-again", 1, "parallel.recompute=full");
}

static void several_ranks(void **state) {
    (void)state;
    SAME_BITS("two", 2, "parallel.schedule=1f1b");
    SAME_BITS("three", 3, "parallel.schedule=zb-h1", "parallel.post_validation=true");
    SAME_BITS("interleaved", 2, "parallel.schedule=interleaved");
    SAME_BITS("replicas", 4, "parallel.data=2", "parallel.zero=1");
    SAME_BITS("zero-0", 2, "parallel.data=2", "parallel.zero=0");
    SAME_BITS("zero-2", 2, "parallel.data=2", "parallel.zero=2");
    SAME_BITS("tensor", 4, "parallel.data=1", "parallel.tensor=2");
    SAME_BITS("sequence", 2, "parallel.tensor=2", "parallel.sequence=true");
    SAME_BITS("degrees", 3, "parallel.tensor=[2,1]");
    if (has_bf16("tensor ranks in bf16"))
        SAME_BITS("tensor-bf16", 2, "parallel.tensor=2", "train.precision=bf16");
    SAME_BITS("tensor-fp16", 2, "parallel.tensor=2", "train.precision=fp16",
              "parallel.sequence=true");
}

/* The CPU's ranks add three parts in another order than the device does. */
static void three_tensor_ranks(void **state) {
    (void)state;
    static const char *const more[][2] = {{"parallel.sequence=false", "train.precision=fp32"},
                                          {"parallel.sequence=true", "train.precision=fp32"},
                                          {"parallel.sequence=true", "parallel.pipeline=2"}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const char *cpu[] = {"parallel.device=cpu", "model.heads=6", "model.channels=48",
                             "parallel.tensor=3",   more[i][0],      more[i][1]};
        const char *far[] = {"parallel.device=far", "model.heads=6", "model.channels=48",
                             "parallel.tensor=3",   more[i][0],      more[i][1]};
        int ranks = i == 2 ? 6 : 3;
        char name[3][32];
        for (int k = 0; k < 3; k++) snprintf(name[k], sizeof name[k], "parts-%zu-%d", i, k);
        run_result a = run_here(YAML, name[0], ranks, "", cpu, 6),
                   b = run_here(YAML, name[1], ranks, "", far, 6);
        assert_int_equal(a.exit_status | b.exit_status, 0);
        run_assert_close(&b, &a, more[i][0]);
        run_result again = run_here(YAML, name[2], ranks, "", far, 6);
        run_assert_same(&again, &b, "the same once more");
    }
}

/* One process per rank. */
static void over_ucx(void **state) {
    (void)state;
    static const char *const words[] = {
        "-n 2 parallel.schedule=1f1b", "-n 4 parallel.data=2 parallel.schedule=zb-v",
        "-n 4 parallel.data=2 parallel.tensor=2",
        "-n 2 parallel.data=2 parallel.zero=2 parallel.schedule=interleaved"};
    for (int i = 0; i < 4; i++) {
        char name[32], more[300];
        snprintf(name, sizeof name, "self-%d", i);
        snprintf(more, sizeof more, "-q %s parallel.device=cpu", words[i]);
        run_result cpu = run_program(PST_BINARY, YAML, name, more);
        snprintf(name, sizeof name, "ucx-%d", i);
        snprintf(more, sizeof more, "-q %s parallel.device=far parallel.transport=ucx", words[i]);
        run_result far = run_program(PST_BINARY, YAML, name, more);
        if (cpu.exit_status || far.exit_status)
            fail_msg("%s: %d, %d", words[i], cpu.exit_status, far.exit_status);
        run_assert_same(&far, &cpu, words[i]);
        assert_true(far.validation == cpu.validation);
        for (int k = 0; k < far.n_rank; k++) assert_int_equal(far.peak[k], far.predicted[k]);
    }
}

int main(void) {
    setenv("PENSTOCK_MODULE", FAR_MODULE, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank), cmocka_unit_test(several_ranks),
                                       cmocka_unit_test(three_tensor_ranks),
                                       cmocka_unit_test(over_ucx)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
