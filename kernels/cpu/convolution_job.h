/* Types and functions that all passes of a direct convolution use (convolution_direct.c,
 * convolution_weight.c). */
#ifndef PST_KERNELS_CPU_CONVOLUTION_JOB_H
#define PST_KERNELS_CPU_CONVOLUTION_JOB_H
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"

/* Images in memory. pixel, row, image: distance in elements between neighbouring pixels, rows and
 * images. */
typedef struct {
    uint64_t height, width, channels;
    uint64_t pixel, row, image;
} pst_conv_images;

typedef struct {
    uint64_t shared, thread; /* bytes of scratch: shared by all threads; per thread */
} pst_conv_sizes;

/* to[row, column] is the sum over a window of h x w pixels of `from`. The first pixel of the window
 * is at (row * step - top, column * step - left). */
typedef struct {
    pst_device *device;
    const pst_linear_ops *ops;
    pst_dtype dtype;
    uint64_t size, terms; /* bytes of an element; terms per step of a product */
    uint64_t images;
    pst_conv_images from, to;
    int64_t top, left;
    uint64_t step, h, w, rows, columns;
    uint64_t to_first; /* number of elements of `y` before the first pixel of `to` */
    /* Layout of the weight, in elements. weight_ld: distance between columns (if `across`, between
     * terms); weight_first: offset of the first place of the window; weight_row, weight_column:
     * distance between vertically and horizontally adjacent places. */
    int across;
    uint64_t weight_ld, weight_first;
    int64_t weight_row, weight_column;
    uint64_t slice, range, band_rows, group; /* slice: channels of `from`; range: channels of `to`;
                                                rows per band; images per group */
    int fast; /* 1: Winograd's algorithm with tiles of 2x2 pixels (convolution_fast.c) */
    pst_conv_sizes sizes;
    uint8_t *weights, *bands;
    const uint8_t *x, *weight, *bias;
    uint8_t *y;
} pst_conv_job;

/* A band: rows of `to` in several images, and the channels of `from` that are copied to compute
 * these rows. */
typedef struct {
    uint64_t image, images, row, rows, channel, channels;
    int wide; /* 1: copied as fp32 */
} pst_conv_band;

static inline uint64_t pst_conv_band_columns(const pst_conv_job *j) {
    return (j->columns - 1) * j->step + j->w;
}
/* Returns the number of rows of `from` from which `rows` rows of `to` are computed. */
static inline uint64_t pst_conv_in_rows(const pst_conv_job *j, uint64_t rows) {
    return (rows - 1) * j->step + j->h;
}

/* Returns the job of F; W reads x in the same way. */
pst_conv_job pst_conv_forward_job(const pst_convolution_shape *s, pst_dtype dtype);
/* Returns the job of B that computes pixels (y, x), (y, x + stride), ... of the input gradient, for
 * y, x < stride. If there is no such pixel, or no place of the window, rows or h is 0. */
pst_conv_job pst_conv_backward_job(const pst_convolution_shape *s, pst_dtype dtype, uint64_t y,
                                   uint64_t x);
/* Returns the number of matrices in a packed weight: the places of the window or, with Winograd's
 * algorithm, the numbers of a tile. */
static inline uint64_t pst_conv_planes(const pst_conv_job *j) {
    return j->fast ? PST_CONV_TILE : j->h * j->w;
}
/* Returns the job with rows and columns rounded up to whole tiles. */
pst_conv_job pst_conv_whole_tiles(const pst_conv_job *j);
pst_conv_sizes pst_conv_sizes_of(const pst_conv_job *j);
pst_conv_sizes pst_conv_backward_sizes(const pst_convolution_shape *s, pst_dtype dtype);
/* Returns the number of steps for `channels` channels of a pixel. */
uint64_t pst_conv_steps(const pst_conv_job *j, uint64_t channels);
/* Bytes of a thread's scratch: pst_conv_copy_bytes for the copied band, pst_conv_band_bytes for
 * everything except the sums. */
uint64_t pst_conv_copy_bytes(const pst_conv_job *j);
uint64_t pst_conv_band_bytes(const pst_conv_job *j);
/* Returns the number of rows of `to`, at least 1, for which the band takes at most `bytes` bytes as
 * fp32. */
uint64_t pst_conv_band_rows(const pst_conv_job *j, uint64_t bytes);
/* A tile of work of F or B: a band and a range of output channels. */
typedef struct {
    const pst_conv_job *of;
    pst_conv_band band;
    uint64_t col, cols;
    uint8_t *copy;
    float *sum; /* address of the sum for the first pixel and the first channel of the range */
    uint64_t sum_pixel, sum_row, sum_image;
} pst_conv_tile;
/* Adds the convolution of a slice of channels, whose weight is packed at `slice`, to the sums. */
void pst_conv_fast_slice(const pst_conv_tile *t, const uint8_t *slice);
void pst_conv_copy_band(const pst_conv_job *j, const pst_conv_band *b, uint8_t *to);
#endif
