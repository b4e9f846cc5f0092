/* The sizes of a convolution of images [b,H,W,C], for C and CUDA kernels. pst_convolution_shape_of
 * (kernels/shape.h) reads them from the graph. */
#ifndef PST_KERNELS_CONVOLUTION_H
#define PST_KERNELS_CONVOLUTION_H
#include <stdint.h>

typedef struct {
    uint64_t images, height, width, in; /* x[images,height,width,in] */
    uint64_t rows, columns, out;        /* y[images,rows,columns,out] */
    uint64_t h, w;                      /* weight[out,h,w,in] */
    uint64_t stride, padding;
} pst_convolution_shape;
#endif
