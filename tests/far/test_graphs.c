/* test: label=full timeout=300 isa=any
 * Launches that are captured and replayed (pipeline/execute/executor_capture.c), on a device that
 * notes them and queues them once more (far_module.c): the bits are the CPU's in every layout, an
 * operator that fails in one is named with its instruction, and where capturing fails, or there is
 * none, all is launched as before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backends/module.h"
#include "far/far.h"
#include "skip.h"

/* Times of operators are taken in the first three steps and in the one that is drawn, which is the
 * first; so 4 to 9 may be captured, and evaluation passes stand between them. */
#define STEPS "train.steps=9", "train.validate_every=3", "checkpoint.every=3", "log.trace=1"
enum {
    FEWEST = 4 /* of so many steps all may be replayed but for operators that are not captured */
};

static void counted(int *captures, int *replays) {
    const char *about = pst_module_get()->about(0);
    const char *at = strstr(about, "asked for, ");
    if (!at || sscanf(at, "asked for, %d captures, %d replays", captures, replays) != 2)
        fail_msg("it says: %s", about);
}

/* The same on the CPU, and on the device with its launches captured, or not. */
static void same(const char *name, int ranks, int captured, const char *const *words) {
    const char *override[MOST + 4] = {"parallel.device=cpu", STEPS};
    char other[64];
    size_t n = 5;
    int before[2], after[2];
    for (; *words; words++) override[n++] = *words;
    run_result cpu = run_here(YAML, name, ranks, "", override, n);
    snprintf(other, sizeof other, "%s-far", name);
    override[0] = "parallel.device=far";
    counted(&before[0], &before[1]);
    run_result far = run_here(YAML, other, ranks, "", override, n);
    counted(&after[0], &after[1]);
    if (cpu.exit_status || far.exit_status)
        fail_msg("%s: status %d, %d", name, cpu.exit_status, far.exit_status);
    assert_int_equal(cpu.steps, 9);
    run_assert_same(&far, &cpu, name);
    assert_true(far.validation == cpu.validation);
    for (int k = 0; k < far.n_rank; k++) assert_in_range(far.peak[k], 1, far.predicted[k]);
    int captures = after[0] - before[0], replays = after[1] - before[1];
    if (captured ? captures < ranks || replays < FEWEST * captures : captures + replays)
        fail_msg("%s: %d captures, %d replays", name, captures, replays);
}
#define SAME(name, ranks, ...) same(name, ranks, 1, (const char *const[]){__VA_ARGS__, NULL})

static void one_rank(void **state) {
    (void)state;
    SAME("one", 1, "train.optimizer=adamw");
    SAME("plain", 1, "model.dropout=0");
    SAME("again", 1, "parallel.recompute=full");
    SAME("selective", 1, "parallel.recompute=selective", "parallel.post_validation=true");
    SAME("fp16", 1, "train.precision=fp16");
    SAME("one-batch", 1, "train.batch=2");
    same("grows", 2, 1,
         (const char *const[]){"train.batch=8", "train.batch_warmup.from=4",
                               "train.batch_warmup.tokens=100", NULL});
    same("off", 1, 0, (const char *const[]){"parallel.graphs=false", NULL});
}

static void schedules(void **state) {
    (void)state;
    static const char *const list[] = {"gpipe",  "1f1b",  "interleaved", "zb-h1",     "zb-h2",
                                       "v-half", "v-min", "zb-v",        "dualpipev", "solved"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char schedule[64];
        snprintf(schedule, sizeof schedule, "parallel.schedule=%s", list[i]);
        SAME(list[i], 2, schedule, "train.batch=12",
             i % 2 ? "parallel.recompute=selective" : "parallel.recompute=none");
    }
}

static void layouts(void **state) {
    (void)state;
    SAME("replicas", 4, "parallel.data=2", "parallel.zero=1");
    SAME("zero-0", 2, "parallel.data=2", "parallel.zero=0");
    SAME("zero-2", 2, "parallel.data=2", "parallel.zero=2");
    SAME("parts", 2, "parallel.data=2", "parallel.reproducible=4");
    SAME("tensor", 4, "parallel.data=1", "parallel.tensor=2");
    SAME("sequence", 2, "parallel.tensor=2", "parallel.sequence=true");
}

/* Products of 8 bits look at the step's number; what stands between them is captured. */
static void eight_bits(void **state) {
    (void)state;
    int captures[3], replays[3];
    run_result r[2];
    if (!has_bf16("captures in fp8")) return;
    counted(&captures[0], &replays[0]);
    for (int i = 0; i < 2; i++) {
        const char *override[] = {"parallel.device=far", STEPS, "train.precision=fp8",
                                  "model.context=32",
                                  i ? "parallel.graphs=true" : "parallel.graphs=false"};
        r[i] = run_here(YAML, i ? "fp8" : "fp8-off", 2, "", override, 8);
        assert_int_equal(r[i].exit_status, 0);
        counted(&captures[1 + i], &replays[1 + i]);
    }
    run_assert_same(&r[1], &r[0], "fp8");
    assert_int_equal(captures[1], captures[0]);
    assert_true(replays[2] > replays[1]);
}

/* In a process of its own, with a variable; what it says is in NAME.log. */
static run_result program(const char *variable, const char *value, const char *name,
                          const char *device) {
    char words[200];
    snprintf(
        words, sizeof words,
        "parallel.device=%s log.level=debug train.steps=9 train.validate_every=3 log.trace=1 -n 1",
        device);
    setenv(variable, value, 1);
    run_result r = run_program(PST_BINARY, YAML, name, words);
    unsetenv(variable);
    return r;
}

static void says(const char *name, const char *pattern) {
    char command[700];
    snprintf(command, sizeof command, "grep -q '%s' '%s/%s.log'", pattern, run_folder(), name);
    if (system(command))
        fail_msg("%s: it does not say '%s': see %s/%s.log", name, pattern, run_folder(), name);
}

static void falls_back(void **state) {
    (void)state;
    run_result cpu = program("FAR_CAPTURE", "1", "cpu", "cpu");
    run_result good = program("FAR_CAPTURE", "100000", "good", "far");
    run_result first = program("FAR_CAPTURE", "1", "first", "far");
    run_result third = program("FAR_CAPTURE", "3", "third", "far");
    run_result none = program("FAR_CAPTURE", "0", "none", "far");
    run_assert_same(&good, &cpu, "good");
    run_assert_same(&first, &cpu, "first");
    run_assert_same(&third, &cpu, "third");
    run_assert_same(&none, &cpu, "none");
    says("good",
         "rank 0: captured [0-9]* graphs with [0-9]* operators in total, launched [0-9]* times");
    says("first", "rank 0: operators are launched one by one, because graph capture failed: far: "
                  "no captures today");
    says("first", "rank 0: captured 0 graphs with 0 operators in total, launched 0 times");
    says("third", "rank 0: operators are launched one by one, because graph capture failed: far: "
                  "no captures today");
    says("third", "rank 0: captured 2 graphs with ");
}

/* The 23rd time: in the sixth step, whose micro-batches are replayed. */
static void failures_are_named(void **state) {
    (void)state;
    run_result r = program("FAR_FAIL", "h.1.attn:B:23", "failing", "far");
    assert_int_equal(r.exit_status, 5);
    says("failing", "rank 0 BW c0 m2: far: an illegal address");
}

static void processors_capture_nothing(void **state) {
    (void)state;
    uint32_t n;
    const pst_kernel_row *row = pst_kernels_cpu(&n);
    assert_null(pst_device_cpu.capture_begin);
    for (uint32_t i = 0; i < n; i++) assert_null(row[i].captures);
}

int main(void) {
    setenv("PENSTOCK_MODULE", FAR_MODULE, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank),
                                       cmocka_unit_test(schedules),
                                       cmocka_unit_test(layouts),
                                       cmocka_unit_test(eight_bits),
                                       cmocka_unit_test(falls_back),
                                       cmocka_unit_test(failures_are_named),
                                       cmocka_unit_test(processors_capture_nothing)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (!failed) run_folder_remove(); /* else its logs say more */
    return failed;
}
