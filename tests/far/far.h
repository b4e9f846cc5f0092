/* Runs on the device of far_module.c beside the same runs on the CPU. */
#ifndef TESTS_FAR_FAR_H
#define TESTS_FAR_FAR_H
#include "kernels/kernel.h"
#include "run/runs_assert.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 3, heads: 2, channels: 32, context: 20, dropout: 0.1}\n"           \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 4, batch: 8, micro_batch: 2, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7, "     \
    "validate_every: 2}\n"                                                                         \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 2}\n"

enum { MOST = 8 };

/* The same run on both devices; words: overrides, NULL behind the last. */
static inline void same_bits(const char *name, int ranks, const char *const *words) {
    const char *override[MOST];
    size_t n = 1;
    char other[64];
    for (; words[n - 1]; n++) override[n] = words[n - 1];
    override[0] = "parallel.device=cpu";
    run_result cpu = run_here(YAML, name, ranks, "", override, n);
    snprintf(other, sizeof other, "%s-far", name);
    override[0] = "parallel.device=far";
    run_result far = run_here(YAML, other, ranks, "", override, n);
    if (cpu.exit_status || far.exit_status)
        fail_msg("%s: status %d, %d", name, cpu.exit_status, far.exit_status);
    assert_int_equal(cpu.steps, 4);
    run_assert_same(&far, &cpu, name);
    assert_true(far.validation == cpu.validation);
    for (int k = 0; k < far.n_rank; k++) assert_in_range(far.peak[k], 1, far.predicted[k]);
}
#define SAME_BITS(name, ranks, ...) same_bits(name, ranks, (const char *const[]){__VA_ARGS__, NULL})
#endif
