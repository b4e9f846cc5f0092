/* Launchers of what works on images [b,H,W,C] and is all our own: batch_norm.cu, image.cu. See
 * launch.h; a row here is a pixel, its columns are the channels. */
#ifndef PST_KERNELS_CUDA_IMAGE_H
#define PST_KERNELS_CUDA_IMAGE_H
#include "kernels/cuda/launch.h"
#ifdef __cplusplus
extern "C" {
#endif

/* --- batch_norm.cu ---------------------------------------------------------------------------- */
typedef struct {
    const void *x, *z, *weight, *bias;           /* z NULL: nothing is added; bias: of F */
    const void *running_mean, *running_variance; /* NULL: the micro-batch's own */
    const void *out, *dy;                        /* out: F's, for B with relu */
    void *y;             /* of F; of B dx, which may be dy where dz is NULL */
    void *dz;            /* of B, may be dy; NULL where nothing was added */
    float *saved, *sums; /* [2,columns]: mean, 1/deviation; sums of g h and of g */
    uint64_t rows, columns;
    float eps;
    int relu;
    float *scratch;
} pst_cuda_batch;
uint64_t pst_cuda_batch_norm_scratch(pst_dtype dtype, uint64_t rows, uint64_t columns);
void pst_cuda_batch_norm_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_batch *batch);
void pst_cuda_batch_norm_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_batch *batch);
/* What saved and sums add to the accumulators of weight, bias and running statistics. */
typedef struct {
    const float *saved, *sums;
    float *to[4];
    uint64_t rows, columns;
    float eps;
    int first;
} pst_cuda_batch_sums;
void pst_cuda_batch_norm_w(pst_cuda_queue q, const pst_cuda_batch_sums *sums);

/* --- image.cu --------------------------------------------------------------------------------- */
/* y = x / 127.5 - 1 for n numbers below x.limit, which is 256. */
void pst_cuda_pixels(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_index *x, void *y,
                     uint64_t n);

/* Windows at rows x columns places of images of height x width pixels. */
typedef struct {
    const void *x, *dy;
    void *to; /* y, or dx */
    uint64_t images, height, width, rows, columns, channels;
    uint32_t window, stride, padding;
} pst_cuda_pool;
void pst_cuda_max_pool_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *pool);
void pst_cuda_max_pool_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *pool);
/* Of all pixels of an image; x, dy and to are of images, height, width and channels. */
void pst_cuda_average_pool_f(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *pool);
void pst_cuda_average_pool_b(pst_cuda_queue q, pst_dtype dtype, const pst_cuda_pool *pool);
#ifdef __cplusplus
}
#endif
#endif
