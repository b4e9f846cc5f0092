/* Convolution as a graph of one cuDNN operation: images [b,H,W,C] and weights [O,h,w,C] with their
 * channels last, which is how the library's tensor cores want them. */
#ifndef PST_KERNELS_CUDA_CONVOLUTION_GRAPH_H
#define PST_KERNELS_CUDA_CONVOLUTION_GRAPH_H
#include "base/dtype.h"
#include "kernels/convolution.h"
#include "kernels/cuda/dnn.h"

typedef struct {
    pst_convolution_shape of;
    uint32_t dtype, tf32;  /* pst_dtype; fp32 factors may be rounded to TF32 */
    uint32_t pass, unused; /* pst_pass: F gives y, B x, W the weight; all of one type */
} pst_cuda_convolution_shape;

/* Numbers of the operands. */
enum { PST_CONV_X = 1, PST_CONV_WEIGHT, PST_CONV_Y };

/* `g` has been opened. Of engines that may be rounded otherwise than a sum of products in fp32
 * (TF32 that was not asked for, sums in the operands' type, Winograd's and Fourier's transforms),
 * none is taken. */
void pst_cuda_convolution_graph(pst_dnn_graph *g, const pst_cuda_convolution_shape *shape);
/* The most bytes of workspace that a plan may need: engines for fp32 and TF32 turn images to
 * [b,C,H,W] and back, others widen a few channels to as many as their tensor cores take at once. */
uint64_t pst_cuda_convolution_workspace(const pst_cuda_convolution_shape *shape);
/* NULL, or why the library is not asked. */
const char *pst_cuda_convolution_refuses(const pst_cuda_convolution_shape *shape);
#endif
