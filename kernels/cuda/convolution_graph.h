/* Convolution as a graph of one cuDNN operation: images [b,H,W,C] and weights [O,h,w,C] with
 * channels last, the layout that the library needs for tensor cores. */
#ifndef PST_KERNELS_CUDA_CONVOLUTION_GRAPH_H
#define PST_KERNELS_CUDA_CONVOLUTION_GRAPH_H
#include "base/dtype.h"
#include "kernels/convolution.h"
#include "kernels/cuda/dnn.h"

typedef struct {
    pst_convolution_shape of;
    /* pst_dtype of images and weights; 1: fp32 operands may be rounded to TF32 */
    uint32_t dtype, tf32;
    uint32_t pass, unused; /* pst_pass: F computes y, B the gradient of x, W that of the weight */
} pst_cuda_convolution_shape;

/* Ids of the operands. */
enum { PST_CONV_X = 1, PST_CONV_WEIGHT, PST_CONV_Y };

/* Adds the operation to `g`, which must be open. Excludes engines whose results may differ from
 * sums of products in fp32 by more than rounding (TF32 that was not requested, sums in the
 * operands' type, Winograd, FFT). */
void pst_cuda_convolution_graph(pst_dnn_graph *g, const pst_cuda_convolution_shape *shape);
/* Maximum workspace, in bytes, that a plan may need: engines for fp32 and TF32 transpose images to
 * [b,C,H,W] and back, others pad channels to the width of their tensor cores. */
uint64_t pst_cuda_convolution_workspace(const pst_cuda_convolution_shape *shape);
/* Why cuDNN does not support this shape; NULL: it does. */
const char *pst_cuda_convolution_refuses(const pst_cuda_convolution_shape *shape);
#endif
