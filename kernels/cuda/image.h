/* Launchers of kernels for images [b,H,W,C]: batch_norm.cu, image.cu. See launch.h. A row is a
 * pixel, a column is a channel. */
#ifndef PST_KERNELS_CUDA_IMAGE_H
#define PST_KERNELS_CUDA_IMAGE_H
#include "kernels/cuda/launch.h"
#ifdef __cplusplus
extern "C" {
#endif

/* --- batch_norm.cu ---------------------------------------------------------------------------- */
typedef struct {
    /* z: added before the activation; NULL: nothing; bias: F only */
    const void *x, *z, *weight, *bias;
    const void *running_mean, *running_variance; /* NULL: use the statistics of the micro-batch */
    const void *out, *dy;                        /* out: the output of F, read by B with relu */
    /* F: output y; B: output dx, which may alias dy if dz is NULL */
    void *y;
    void *dz; /* B: gradient of z, may alias dy; NULL if z is NULL */
    /* [2,columns]. saved: mean, 1/deviation. sums: column sums of g h and of g, where h is the
     * normalised x and g the gradient of the normalised output */
    float *saved, *sums;
    uint64_t rows, columns;
    float eps;
    int relu;
    float *scratch;
} pst_cuda_batch;
uint64_t pst_cuda_batch_norm_scratch(pst_dtype dtype, uint64_t rows, uint64_t columns);
void pst_cuda_batch_norm_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_batch *batch);
void pst_cuda_batch_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_batch *batch);
/* W: adds to the accumulators of weight, bias and running statistics. */
typedef struct {
    const float *saved, *sums;
    float *to[4];
    uint64_t rows, columns;
    float eps;
    int first;
} pst_cuda_batch_sums;
void pst_cuda_batch_norm_w(pst_cuda_queue q, const pst_cuda_batch_sums *sums);

/* --- image.cu --------------------------------------------------------------------------------- */
/* y = x / 127.5 - 1 for n numbers below x.limit = 256. */
void pst_cuda_pixels(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_index *x, void *y,
                     uint64_t n);

/* rows x columns windows on images of height x width pixels. */
typedef struct {
    const void *x, *dy;
    void *to; /* output: y (F) or dx (B) */
    uint64_t images, height, width, rows, columns, channels;
    uint32_t window, stride, padding;
} pst_cuda_pool;
void pst_cuda_max_pool_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *pool);
void pst_cuda_max_pool_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *pool);
/* Average over all pixels of an image; uses only x, dy, to, images, height, width and channels. */
void pst_cuda_average_pool_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *pool);
void pst_cuda_average_pool_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *pool);
#ifdef __cplusplus
}
#endif
#endif
