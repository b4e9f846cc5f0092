/* Products of linear with 8-bit factors, for graphs in F8 (base/dtype.h): weights and activations
 * E4M3, gradients E5M2, sums in fp32, results as in bf16. Each operator has a scale for each of the
 * three, by delayed scaling as in NVIDIA's Transformer Engine: the scale in a step is computed from
 * the largest magnitudes of the 16 steps before. So it is the same for all micro-batches of a step,
 * in any order. Without history (in the first step of a process, and in evaluations before its end)
 * each tensor is scaled by its own largest magnitude. Evaluations add nothing to the history. A
 * weight is rounded once per step for F, and once, transposed, for B, into memory after the weight;
 * activations are rounded by F and again, transposed, by W: keeping them rounded would add half of
 * their memory. As in Transformer Engine, F uses fast accumulation (fewer bits between the parts of
 * a sum); sums of gradients (B, W) are promoted to fp32 in between. The history is local to a
 * process: it is not shared with other ranks and not in checkpoints. */
#ifndef PST_KERNELS_CUDA_FP8_H
#define PST_KERNELS_CUDA_FP8_H
#include "kernels/cuda/product.h"

/* The product of a pass. Its a and b, as stored: F weight and x, B weight and dy, W x and dy. Bytes
 * of both when rounded, and transposed where needed (for F8 the library multiplies rows by
 * rows). */
pst_cuda_shape pst_cuda_fp8_shape(pst_cuda_shape shape, pst_pass pass);
static inline uint64_t pst_cuda_fp8_bytes(const pst_cuda_shape *s) { return (s->m + s->n) * s->k; }
/* Only at set-up. EINPUT: the GPU is too old. */
pst_status pst_cuda_fp8_prepare(pst_device *device, const pst_node *node);
/* Queues on the compute stream. call->scratch: PST_CUDA_WORKSPACE, then pst_cuda_fp8_bytes; of: all
 * but workspace and inverses. */
pst_status pst_cuda_fp8_product(pst_device *device, const pst_call *call, pst_pass pass,
                                const pst_cuda_shape *shape, const pst_cuda_operands *of);
/* As pst_kernel_row.captures: whether that product can be captured now: later launches would be the
 * same. */
int pst_cuda_fp8_captures(pst_device *device, const pst_call *call, pst_pass pass);
#endif
