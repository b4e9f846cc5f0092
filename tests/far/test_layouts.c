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

#define PACKS "parallel.compress.links=all", "parallel.compress.min_bytes=0"

static void slow_links(void **state) {
    (void)state;
    SAME_BITS("2bit", 4, "parallel.data=2", "parallel.compress.up=2bit", PACKS,
              "parallel.schedule=1f1b");
    SAME_BITS("bf16", 2, "parallel.data=2", "parallel.compress.up=bf16", "parallel.zero=0", PACKS);
    SAME_BITS("int4", 3, "parallel.data=3", "parallel.compress.up=int4",
              "parallel.compress.down=bf16", PACKS);
    SAME_BITS("int8-tensor", 4, "parallel.data=2", "parallel.tensor=2", "parallel.compress.up=int8",
              PACKS);
    if (has_bf16("packed gradients in bf16"))
        SAME_BITS("int8-bf16", 2, "parallel.data=2", "parallel.compress.up=int8",
                  "train.precision=bf16", PACKS);
    SAME_BITS("stages-bf16", 2, "parallel.compress.stages=bf16", "parallel.schedule=zb-h1", PACKS);
    SAME_BITS("delayed-zero", 4, "parallel.data=2", "parallel.update=delayed", "parallel.zero=1",
              "parallel.staleness=2");
    SAME_BITS("delayed-four", 4, "parallel.data=4", "parallel.update=delayed");
    SAME_BITS("servers", 3, "parallel.data=2", "parallel.servers=1");
}

/* Residuals, copies of weights and pending gradients, from one device to the other. */
static void resumed(void **state) {
    (void)state;
    static const char *const words[][4] = {
        {"parallel.compress.up=int8", "parallel.compress.down=int8", PACKS},
        {"parallel.update=delayed", "parallel.zero=0", PACKS}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *on[2][6], *half[2][7];
        for (int k = 0; k < 2; k++) {
            on[k][0] = k ? "parallel.device=far" : "parallel.device=cpu";
            on[k][1] = "parallel.data=2";
            memcpy(on[k] + 2, words[i], sizeof words[i]);
            memcpy(half[k], on[k], sizeof on[k]);
            half[k][6] = "train.steps=2";
        }
        char whole_name[32];
        snprintf(whole_name, sizeof whole_name, "slow-whole-%zu", i);
        const run_result whole = run_here(YAML, whole_name, 2, "", on[0], 6);
        for (int k = 0; k < 2; k++) {
            char name[32];
            snprintf(name, sizeof name, "slow-half-%zu-%d", i, k);
            run_result r = run_here(YAML, name, 2, "", half[k], 7);
            assert_int_equal(r.exit_status, 0);
            run_result rest = run_here(YAML, name, 2, r.folder, on[1 - k], 6);
            if (rest.exit_status) fail_msg("%s: %s", name, pst_error());
            assert_string_equal(rest.hash, whole.hash);
        }
    }
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank),           cmocka_unit_test(several_ranks),
        cmocka_unit_test(slow_links),         cmocka_unit_test(resumed),
        cmocka_unit_test(three_tensor_ranks), cmocka_unit_test(over_ucx)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
