/* Launchers of convolution without cuDNN, for every shape and type, and of the kernels that add the
 * bias and accumulate gradients for cuDNN. */
#ifndef PST_KERNELS_CUDA_CONVOLUTION_PLAIN_H
#define PST_KERNELS_CUDA_CONVOLUTION_PLAIN_H
#include "kernels/convolution.h"
#include "kernels/cuda/launch.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const void *x, *weight, *bias, *dy; /* bias NULL: none */
    void *y, *dx;
    /* if `first` overwritten, else added to; dbias is computed by pst_cuda_column_sum */
    float *dweight, *dbias;
    pst_convolution_shape of;
    int first;
} pst_cuda_convolution;
void pst_cuda_convolution_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c);
void pst_cuda_convolution_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c);
void pst_cuda_convolution_w(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_convolution *c);
/* elementwise.cu: y[rows,columns] += bias[columns]; y (+)= x, y fp32. */
void pst_cuda_add_columns(pst_cuda_queue q, pst_dtype dtype, void *y, const void *bias,
                          uint64_t rows, uint64_t columns);
void pst_cuda_accumulate(pst_cuda_queue q, pst_dtype dtype, const void *x, float *y, uint64_t n,
                         int first);
#ifdef __cplusplus
}
#endif
#endif
