/* What the tests of the CPU's kernels share: the tolerance of an operand beside the reference, and
 * devices of one to three threads. */
#ifndef TESTS_KERNELS_BACKENDS_H
#define TESTS_KERNELS_BACKENDS_H
#include "case.h"

/* Relative L2 distance of one written operand from the reference, which sums in double. Of a few
 * elements alone, all may be small differences of larger terms. What is stored in bf16 (8 bits) or
 * fp16 (11) may round the other way here and there, and linear's dx follows from a dz that was
 * rounded before. */
static const double TOLERANCE = 3e-6, TOLERANCE_OF_FEW = 1e-4, TOLERANCE_BF16 = 0x1p-8,
                    TOLERANCE_BF16_OF_FEW = 0x1p-7;
static const double TOLERANCE_F16 = 0x1p-11, TOLERANCE_F16_OF_FEW = 0x1p-10;
enum { FEW = 8 };

static uint64_t seed;
static pst_device *device[4]; /* by threads */

static inline double tolerance(const case_buffer *b) {
    if (b->dtype == PST_BF16) return b->n < FEW ? TOLERANCE_BF16_OF_FEW : TOLERANCE_BF16;
    if (b->dtype == PST_F16) return b->n < FEW ? TOLERANCE_F16_OF_FEW : TOLERANCE_F16;
    return b->n < FEW ? TOLERANCE_OF_FEW : TOLERANCE;
}

static inline pst_status run_on(case_state *s, const pst_kernel_row *row, uint32_t threads,
                                case_flags flags) {
    return case_run(s, row, device[threads], flags);
}

static inline int open_devices(void **state) {
    (void)state;
    seed = case_seed();
    for (uint32_t threads = 1; threads <= 3; threads++)
        if (pst_device_cpu.open(&(pst_device_config){.threads = threads}, &device[threads]))
            return -1;
    return 0;
}

static inline int close_devices(void **state) {
    (void)state;
    for (uint32_t threads = 1; threads <= 3; threads++) pst_device_cpu.close(device[threads]);
    return 0;
}
#endif
