/* What the C code beside our own kernels (own.c, arith.c) knows of the device: nothing that needs
 * the toolkit, so that a host test can stand in for it. */
#ifndef PST_KERNELS_CUDA_OWN_H
#define PST_KERNELS_CUDA_OWN_H
#include "base/status.h"
#include "kernels/cuda/convolution_plain.h"
#include "kernels/cuda/launch.h"
#include "kernels/kernel.h"

/* Of the device: its compute stream; where kernels write what they complain of; the number of the
 * launch that runs this; room for the sums of so many blocks. */
enum { PST_CUDA_SUMS = 1 << 16 };
pst_cuda_queue pst_cuda_queue_of(const pst_device *device);
pst_cuda_fault *pst_cuda_fault_of(const pst_device *device);
uint64_t pst_cuda_launch_of(const pst_device *device);
double *pst_cuda_sums_of(const pst_device *device, uint32_t *blocks);
/* Of rows whose launches are the same each time (pst_kernel_row.captures). */
static inline int pst_cuda_captures_always(pst_device *device, const pst_call *call) {
    (void)device;
    (void)call;
    return 1;
}
/* Where kernels find the number of their sample when they are replayed; NULL but in a capture. */
const uint64_t *pst_cuda_sample_of(pst_device *device);
pst_status pst_cuda_launched(const char *kernel); /* see cuda.h */

/* EINPUT, once, when a kernel of that launch or an earlier one has met an index outside its table:
 * of which operator, where, how large it may be. */
static inline pst_status pst_cuda_fault_check(pst_cuda_fault *fault, uint64_t launch) {
    if (fault->state != PST_CUDA_FAULT_SAID || fault->launch > launch) return PST_OK;
    fault->state = PST_CUDA_FAULT_NONE;
    return pst_fail(PST_EINPUT, "%s: index %d at position %llu is outside [0, %llu)", fault->node,
                    fault->index, (unsigned long long)fault->position,
                    (unsigned long long)fault->limit);
}

extern const pst_kernel_row pst_cuda_own_row[];
extern const uint32_t pst_cuda_own_count;
extern const pst_kernel_row pst_cuda_image_row[]; /* image.c */
extern const uint32_t pst_cuda_image_count;
/* convolution_call.c: a pass's operands, and of W what the sum for the bias takes. */
pst_cuda_convolution pst_cuda_convolution_of(const pst_call *call, pst_pass pass);
pst_cuda_columns pst_cuda_convolution_bias(const pst_cuda_convolution *c, float *scratch);
extern const pst_arith pst_cuda_arith;
#endif
