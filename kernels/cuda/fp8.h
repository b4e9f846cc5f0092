/* FP8 matrix products of linear, for graphs in F8 (base/dtype.h): weights and activations are
 * rounded to E4M3, gradients to E5M2, products are summed in fp32, results have the type of a bf16
 * graph. Each operator has one scale each for weight, activations and gradients, with delayed
 * scaling as in NVIDIA's Transformer Engine: the scale of a step is computed from the largest
 * magnitudes of the 16 previous steps, so it is the same for all micro-batches of a step, in any
 * order. Without history (in the first step of a process, and in evaluations before the end of that
 * step) each tensor is scaled by its own largest magnitude. Evaluations do not change the history.
 * A weight is rounded once per step for F and once, transposed, for B, into memory after the
 * weight; activations are rounded by F and again, transposed, by W, because keeping them rounded
 * would take half of their memory in addition. As in Transformer Engine, F uses fast accumulation
 * (partial sums have fewer bits than fp32), and partial sums of B and W are promoted to fp32. The
 * history is local to a process: neither shared with other ranks nor saved in checkpoints. */
#ifndef PST_KERNELS_CUDA_FP8_H
#define PST_KERNELS_CUDA_FP8_H
#include "kernels/cuda/product.h"

/* pst_cuda_fp8_shape: the FP8 product for a pass of linear. Its operands a and b, as stored: F
 * weight and x, B weight and dy, W x and dy. pst_cuda_fp8_bytes: bytes of both operands in FP8
 * (transposed where needed, because cuBLASLt supports only the TN layout for FP8). */
pst_cuda_shape pst_cuda_fp8_shape(pst_cuda_shape shape, pst_pass pass);
static inline uint64_t pst_cuda_fp8_bytes(const pst_cuda_shape *s) { return (s->m + s->n) * s->k; }
/* Prepares the scales of an operator; to be called at set-up. EINPUT: the GPU does not support
 * FP8. */
pst_status pst_cuda_fp8_prepare(pst_device *device, const pst_node *node);
/* Rounds the operands and queues the product on the compute stream. call->scratch has
 * PST_CUDA_WORKSPACE bytes, then pst_cuda_fp8_bytes; of: all members but workspace, a_inverse and
 * b_inverse. */
pst_status pst_cuda_fp8_product(pst_device *device, const pst_call *call, pst_pass pass,
                                const pst_cuda_shape *shape, const pst_cuda_operands *of);
/* As pst_kernel_row.captures: 1: later launches of this product do the same work, so it can be
 * captured. */
int pst_cuda_fp8_captures(pst_device *device, const pst_call *call, pst_pass pass);
#endif
