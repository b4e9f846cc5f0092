/* Convolution as a graph of one cuDNN operation: images [b,H,W,C] and weights [O,h,w,C] with
 * channels last, the layout that the library needs for tensor cores. */
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

/* Ids of the operands. */
enum { PST_CONV_X = 1, PST_CONV_WEIGHT, PST_CONV_Y };

/* `g` must be open. Avoids engines that may round differently from a sum of products in fp32
 * (unrequested TF32, sums in the operands' type, Winograd and FFT). */
void pst_cuda_convolution_graph(pst_dnn_graph *g, const pst_cuda_convolution_shape *shape);
/* The most bytes of workspace that a plan may need: engines for fp32 and TF32 transpose images to
 * [b,C,H,W] and back, others pad channels to the width of their tensor cores. */
uint64_t pst_cuda_convolution_workspace(const pst_cuda_convolution_shape *shape);
/* NULL, or why cuDNN cannot be used. */
const char *pst_cuda_convolution_refuses(const pst_cuda_convolution_shape *shape);
#endif
