/* What the C code of the module's own kernels (own.c, image.c, arith.c) needs from the device. It
 * does not need the CUDA toolkit, so a host test can replace these functions. */
#ifndef PST_KERNELS_CUDA_OWN_H
#define PST_KERNELS_CUDA_OWN_H
#include "base/status.h"
#include "kernels/cuda/convolution_plain.h"
#include "kernels/cuda/launch.h"
#include "kernels/kernel.h"

/* Return, for a device: the compute stream; where kernels report an index out of range; the number
 * of the current launch; memory for sums of squares, of *blocks blocks. */
enum { PST_CUDA_SUMS = 1 << 16 };
pst_cuda_queue pst_cuda_queue_of(const pst_device *device);
pst_cuda_fault *pst_cuda_fault_of(const pst_device *device);
uint64_t pst_cuda_launch_of(const pst_device *device);
double *pst_cuda_sums_of(const pst_device *device, uint32_t *blocks);
/* Implements pst_kernel_row.captures for rows whose launches always do the same work. */
static inline int pst_cuda_captures_always(pst_device *device, const pst_call *call) {
    (void)device;
    (void)call;
    return 1;
}
/* During a capture: address in device memory from which replayed kernels read the number of the
 * sample; else NULL. */
const uint64_t *pst_cuda_sample_of(pst_device *device);
pst_status pst_cuda_launched(const char *kernel); /* see cuda.h */

/* EINPUT if a kernel of this launch or an earlier one has read an index outside of its table;
 * reported once, with operator, position and limit. */
static inline pst_status pst_cuda_fault_check(pst_cuda_fault *fault, uint64_t launch) {
    if (fault->state != PST_CUDA_FAULT_SAID || fault->launch > launch) return PST_OK;
    fault->state = PST_CUDA_FAULT_NONE;
    return pst_fail(PST_EINPUT, "%s: index %d at position %llu is outside of [0, %llu)",
                    fault->node, fault->index, (unsigned long long)fault->position,
                    (unsigned long long)fault->limit);
}

extern const pst_kernel_row pst_cuda_own_row[];
extern const uint32_t pst_cuda_own_count;
extern const pst_kernel_row pst_cuda_image_row[]; /* image.c */
extern const uint32_t pst_cuda_image_count;
/* convolution_call.c: the operands of a pass, and those of the column sum for the gradient of the
 * bias. */
pst_cuda_convolution pst_cuda_convolution_of(const pst_call *call, pst_pass pass);
pst_cuda_columns pst_cuda_convolution_bias(const pst_cuda_convolution *c, float *scratch);
extern const pst_arith pst_cuda_arith;
#endif
