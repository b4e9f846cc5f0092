/* Linear as precision fp8 computes it (docs/layouts.md), on a processor: its kernels in bf16 on
 * copies of the factors that have been rounded. The rule for scales is written down a second time
 * here, by step instead of by what came before. */
#ifndef TESTS_FAR_FAR_F8_H
#define TESTS_FAR_FAR_F8_H
#include "kernels/kernel.h"

enum { FAR_F8_STEPS = 200, FAR_F8_TENSORS = 256 };
typedef struct {
    char node[PST_NAME_MAX];
    int which, noted;         /* a name of far_f8.c; some step is in most */
    uint64_t first, latest;   /* steps that are */
    float most[FAR_F8_STEPS]; /* the largest magnitude in each */
} far_f8_tensor;
typedef struct {
    far_f8_tensor tensor[FAR_F8_TENSORS];
    uint32_t n;
    int made[2];
    uint16_t nearest[2][1 << 16]; /* E4M3, E5M2 */
} far_f8;

/* 1: a product in 8 bits. */
int far_f8_takes(const pst_kernel_row *row, const pst_call *call);
pst_status far_f8_launch(far_f8 *f, const pst_kernel_row *row, pst_device *cpu,
                         const pst_call *call);
#endif
