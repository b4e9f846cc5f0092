/* allocations.h for tests that train: what of a run may fail without ending it. */
#ifndef TESTS_RUN_ALLOCATIONS_RUN_H
#define TESTS_RUN_ALLOCATIONS_RUN_H
#include "run/allocations.h"
#include "backends/machine.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "run/feed.h"

/* A step begins: what fails from here on may be survived (a checkpoint is not written, a timeline
 * not drawn). */
pst_status __real_pst_feed_batch(pst_trainer *t);
pst_status __wrap_pst_feed_batch(pst_trainer *t);
pst_status __wrap_pst_feed_batch(pst_trainer *t) {
    if (!alloc_state.mark) alloc_state.mark = alloc_state.n;
    return __real_pst_feed_batch(t);
}

/* Something was said that is no status: metrics cannot be written, no events for TensorBoard. */
static int complaints;
void __wrap_pst_log(pst_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void __wrap_pst_log(pst_log_level level, const char *format, ...) {
    (void)format;
    complaints += level <= PST_LOG_WARN;
}

/* Takes milliseconds, and no memory but for threads: without them it measures fewer. */
double __wrap_pst_cpu_peak_flops(uint32_t isa, pst_dtype dtype, uint32_t threads);
double __wrap_pst_cpu_peak_flops(uint32_t isa, pst_dtype dtype, uint32_t threads) {
    (void)isa;
    (void)dtype;
    (void)threads;
    return 1e9;
}

/* What a run does without, and goes on: a limit of memory that is not known; the CPU's name; old
 * rubbish, and which old checkpoints may go. */
#define OPTIONAL(type, name, args, ...)                                                            \
    type __real_##name args;                                                                       \
    type __wrap_##name args;                                                                       \
    type __wrap_##name args {                                                                      \
        alloc_optional++;                                                                          \
        type value = __real_##name(__VA_ARGS__);                                                   \
        alloc_optional--;                                                                          \
        return value;                                                                              \
    }
void __real_pst_ckpt_clean(const char *folder);
void __wrap_pst_ckpt_clean(const char *folder);
void __wrap_pst_ckpt_clean(const char *folder) {
    alloc_optional++;
    __real_pst_ckpt_clean(folder);
    alloc_optional--;
}
void __real_pst_ckpt_prune(const char *folder, const pst_ckpt_kept *kept);
void __wrap_pst_ckpt_prune(const char *folder, const pst_ckpt_kept *kept);
void __wrap_pst_ckpt_prune(const char *folder, const pst_ckpt_kept *kept) {
    alloc_optional++;
    __real_pst_ckpt_prune(folder, kept);
    alloc_optional--;
}
OPTIONAL(uint64_t, pst_machine_memory, (void))
OPTIONAL(const char *, pst_machine_cpu_model, (char *name, size_t bytes), name, bytes)
#endif
