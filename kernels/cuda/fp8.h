/* Products of linear with factors of 8 bits, as graphs in F8 have them (base/dtype.h): weights and
 * activations E4M3, gradients E5M2, sums in fp32, results as in bf16. Each operator has a scale for
 * each of the three, after the delayed scaling of NVIDIA's Transformer Engine: in a step it follows
 * from the largest magnitudes of the 16 steps before. So it is the same for all micro-batches of a
 * step, and in whatever order they come. Until there is such a step, which is in the first one of a
 * process and in evaluations before its end, each tensor is scaled by its own largest magnitude.
 * Evaluations add nothing. A weight is rounded once in a step for F, and once, turned, for B, into
 * room behind it; activations are rounded by F and again, turned, by W: to keep them would take
 * half as much memory as they do. F may sum fast, as Transformer Engine has it: fewer bits between
 * the parts of a sum; sums of gradients (B, W) are promoted to fp32 in between. The history is each
 * process's own: not of other ranks, nor of checkpoints. */
#ifndef PST_KERNELS_CUDA_FP8_H
#define PST_KERNELS_CUDA_FP8_H
#include "kernels/cuda/product.h"

/* The product of a pass: F weight and x, B weight and dy, W x and dy are what a and b are, as they
 * are stored. Rounded, and turned where F8 asks for it (the library multiplies rows with rows),
 * they take that many bytes. */
pst_cuda_shape pst_cuda_fp8_shape(pst_cuda_shape shape, pst_pass pass);
static inline uint64_t pst_cuda_fp8_bytes(const pst_cuda_shape *s) { return (s->m + s->n) * s->k; }
/* Not in steps. EINPUT: the GPU is too old. */
pst_status pst_cuda_fp8_prepare(pst_device *device, const pst_node *node);
/* Queued on the compute stream. call->scratch: PST_CUDA_WORKSPACE, then pst_cuda_fp8_bytes; of: but
 * for workspace and inverses. */
pst_status pst_cuda_fp8_product(pst_device *device, const pst_call *call, pst_pass pass,
                                const pst_cuda_shape *shape, const pst_cuda_operands *of);
/* As pst_kernel_row.captures: whether that product would do the same each time now. */
int pst_cuda_fp8_captures(pst_device *device, const pst_call *call, pst_pass pass);
#endif
