/* What the passes of a direct convolution share (convolution_direct.c, convolution_weight.c). */
#ifndef PST_KERNELS_CPU_CONVOLUTION_JOB_H
#define PST_KERNELS_CPU_CONVOLUTION_JOB_H
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"

/* Elements between pixels, rows and images. */
typedef struct {
    uint64_t height, width, channels;
    uint64_t pixel, row, image;
} pst_conv_images;

typedef struct {
    uint64_t shared, thread; /* bytes of scratch: of all threads together, of each */
} pst_conv_sizes;

/* to[row, column] is the sum over a window of h x w pixels of `from`, whose first one is at
 * (row * step - top, column * step - left). */
typedef struct {
    pst_device *device;
    const pst_linear_ops *ops;
    pst_dtype dtype;
    uint64_t size, terms; /* bytes of an element; terms of a step */
    uint64_t images;
    pst_conv_images from, to;
    int64_t top, left;
    uint64_t step, h, w, rows, columns;
    uint64_t to_first; /* elements before the first pixel */
    /* Of the weight, elements: between columns (across: between terms); of the first place of the
     * window; between places below and beside each other. */
    int across;
    uint64_t weight_ld, weight_first;
    int64_t weight_row, weight_column;
    uint64_t slice, range, band_rows, group; /* channels, columns, rows, images */
    int fast;                                /* by tiles of 2x2 pixels: convolution_fast.c */
    pst_conv_sizes sizes;
    uint8_t *weights, *bands;
    const uint8_t *x, *weight, *bias;
    uint8_t *y;
} pst_conv_job;

/* Rows of `to` of several images, and channels of `from` that are copied for them. */
typedef struct {
    uint64_t image, images, row, rows, channel, channels;
    int wide; /* as fp32 */
} pst_conv_band;

static inline uint64_t pst_conv_band_columns(const pst_conv_job *j) {
    return (j->columns - 1) * j->step + j->w;
}
/* Rows of `from` that `rows` rows of `to` read. */
static inline uint64_t pst_conv_in_rows(const pst_conv_job *j, uint64_t rows) {
    return (rows - 1) * j->step + j->h;
}

/* F, and W's view of x. */
pst_conv_job pst_conv_forward_job(const pst_convolution_shape *s, pst_dtype dtype);
/* Pixels (y, x), (y, x + stride), ... of the input gradient, for y, x < stride. Without any pixel
 * or place, rows or h is 0. */
pst_conv_job pst_conv_backward_job(const pst_convolution_shape *s, pst_dtype dtype, uint64_t y,
                                   uint64_t x);
/* Matrices of a packed weight: places of the window or, with tiles, numbers of a tile. */
static inline uint64_t pst_conv_planes(const pst_conv_job *j) {
    return j->fast ? PST_CONV_TILE : j->h * j->w;
}
/* The job whose rows and columns are those of whole tiles. */
pst_conv_job pst_conv_whole_tiles(const pst_conv_job *j);
pst_conv_sizes pst_conv_sizes_of(const pst_conv_job *j);
pst_conv_sizes pst_conv_backward_sizes(const pst_convolution_shape *s, pst_dtype dtype);
/* Of that many channels of a pixel. */
uint64_t pst_conv_steps(const pst_conv_job *j, uint64_t channels);
/* Of a thread's scratch: the copied band; all but the sums. */
uint64_t pst_conv_copy_bytes(const pst_conv_job *j);
uint64_t pst_conv_band_bytes(const pst_conv_job *j);
/* Rows of `to` whose band takes at most that many bytes as fp32; at least one. */
uint64_t pst_conv_band_rows(const pst_conv_job *j, uint64_t bytes);
/* A tile of work of F or B: a band and a range of output channels. */
typedef struct {
    const pst_conv_job *of;
    pst_conv_band band;
    uint64_t col, cols;
    uint8_t *copy;
    float *sum; /* of the first pixel and the first channel of the range */
    uint64_t sum_pixel, sum_row, sum_image;
} pst_conv_tile;
/* Adds the convolution of a slice of channels, whose weight is packed at `slice`, to the sums. */
void pst_conv_fast_slice(const pst_conv_tile *t, const uint8_t *slice);
void pst_conv_copy_band(const pst_conv_job *j, const pst_conv_band *b, uint8_t *to);
#endif
