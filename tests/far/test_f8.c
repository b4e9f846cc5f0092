/* test: label=full timeout=300
 * Training with factors of 8 bits, on the device of far_module.c: near bf16's curve, the same bits
 * in every layout and with more evaluations, other bits than bf16. Skipped where kernels of bf16
 * are not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "kernels/kernel.h"
#include "run/runs_assert.h"
#include "skip.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 64, context: 32, dropout: 0.1}\n"           \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 8, batch: 8, micro_batch: 4, lr: 3.0e-3, warmup: 2, clip: 1, seed: 7}\n"       \
    "parallel: {transport: self, threads: 1, device: far}\n"

enum { MOST = 6, STEPS = 8 };
static run_result plain, base;

static run_result trained(const char *name, int ranks, const char *const *words) {
    const char *override[MOST];
    size_t n = 0;
    for (; words[n]; n++) override[n] = words[n];
    run_result r = run_here(YAML, name, ranks, "", override, n);
    if (r.exit_status) fail_msg("%s: status %d: %s", name, r.exit_status, pst_error());
    return r;
}
#define TRAINED(name, ranks, ...) trained(name, ranks, (const char *const[]){__VA_ARGS__, NULL})

static void near_bf16(void **state) {
    (void)state;
    double sum = 0, of = 0;
    plain = TRAINED("bf16", 1, "train.precision=bf16");
    base = TRAINED("fp8", 1, "train.precision=fp8");
    assert_int_equal(base.steps, STEPS);
    assert_string_not_equal(base.hash, plain.hash);
    for (int i = 0; i < base.steps; i++) {
        sum += base.value[i];
        of += plain.value[i];
        if (!(fabs(base.value[i] - plain.value[i]) < 0.05 * plain.value[i]))
            fail_msg("step %d: loss %g in fp8, %g in bf16", i + 1, base.value[i], plain.value[i]);
    }
    printf("mean loss %g in fp8, %g in bf16; last %g, %g\n", sum / STEPS, of / STEPS,
           base.value[STEPS - 1], plain.value[STEPS - 1]);
    assert_true(fabs(sum - of) < 0.02 * of);
    assert_true(base.value[STEPS - 1] < base.value[0]);
}

static void layouts(void **state) {
    (void)state;
    run_result r = TRAINED("recomputed", 1, "train.precision=fp8", "parallel.recompute=full");
    run_assert_same(&r, &base, "recomputed");
    r = TRAINED("interleaved", 2, "train.precision=fp8", "parallel.schedule=interleaved",
                "parallel.recompute=selective");
    run_assert_same(&r, &base, "interleaved");
}

static void evaluations(void **state) {
    (void)state;
    run_result r = TRAINED("evaluated", 1, "train.precision=fp8", "train.validate_every=2");
    assert_string_equal(r.hash, base.hash);
}

int main(void) {
    setenv("PENSTOCK_MODULE", FAR_MODULE, 1);
    if (!has_bf16("fp8")) return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {cmocka_unit_test(near_bf16), cmocka_unit_test(layouts),
                                       cmocka_unit_test(evaluations)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
