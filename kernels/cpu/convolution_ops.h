/* Direct convolution, without a matrix of windows: a band of an image is copied with its padding
 * into memory that fits in a cache, and register blocks read windows from there. In images with
 * channels last a row of a window is one run of numbers, and the windows of neighbouring pixels are
 * runs at a fixed distance that overlap: a matrix product of which nothing is written out (compare
 * M. Dukhan: The Indirect Convolution Algorithm, 2019).
 *
 * Channels are taken in slices. Sizes of slices depend on the shape alone, as they affect the bits;
 * register blocks, bands of F and B, and threads do not affect them. */
#ifndef PST_KERNELS_CPU_CONVOLUTION_OPS_H
#define PST_KERNELS_CPU_CONVOLUTION_OPS_H
#include "kernels/kernel.h"

/* Pixels of a row of an image, with padding, as they are copied: the first `left` pixels are zero,
 * then `n` pixels that lie `pixel` elements apart, then `right` of zero. from == NULL: all zero. */
typedef struct {
    const void *from;
    uint64_t left, n, right, pixel;
    uint64_t channels; /* copied of each pixel */
    void *to;          /* F: steps; W: fp32 */
} pst_conv_copy;

/* A panel of the weight, [steps][cols of a panel]: terms are contiguous and items (columns) `ld`
 * elements apart, or the other way round (`across`). Missing items are zero. */
typedef struct {
    const void *from;
    uint64_t ld, items, terms;
    int across;
    void *to;
} pst_conv_pack;

/* F: c[n,cols] (+)= the windows of n neighbouring pixels times a panel of the weight. A window is
 * `runs` runs of `steps` steps; a step is one term, of bf16 two. */
typedef struct {
    const void *a, *b;
    uint64_t pixel, row; /* steps between windows; between runs of a window */
    uint64_t runs, steps, n, cols;
    float *c;
    uint64_t ld;
    int add; /* 0: c is overwritten */
} pst_conv_row;

/* W: c[outs,cols] (+)= the sum over rows x n pixels of the products of dy's `outs` channels and
 * `cols` numbers of a run of x. As many channels of dy as a panel has are read. */
typedef struct {
    const float *dy, *x;
    uint64_t dy_row, dy_pixel, x_row, x_pixel; /* fp32 numbers between rows; between pixels */
    uint64_t rows, n, outs, cols;
    float *c;
    uint64_t ld;
    int add;
} pst_conv_sum;

/* A row of `n` tiles of Winograd's algorithm F(2x2, 3x3) (Lavin, Gray 2015): 16 numbers for each
 * channel, `plane` fp32 numbers apart. Of a band, whose rows and pixels lie `row` and `channels`
 * numbers apart, into tiles; and of tiles, into `rows` (at most 2) rows of `columns` pixels. */
enum { PST_CONV_TILE = 16 };
typedef struct {
    const float *from;
    uint64_t n, row, channels, plane;
    float *to;
} pst_conv_tiles_in;
typedef struct {
    const float *from;
    uint64_t n, ld, plane, cols; /* ld: between tiles */
    float *to;
    uint64_t rows, columns, row, pixel;
} pst_conv_tiles_out;

/* For every instruction set, the columns of the packed weight are zero-padded to a multiple of
 * PST_CONV_COLS, and the channels of dy that W reads to one of PST_CONV_OUTS. */
enum { PST_CONV_COLS = 32, PST_CONV_OUTS = 16 };

/* Direct convolution of one instruction set and type. */
typedef struct {
    uint32_t terms;                           /* of a step */
    uint32_t cols;                            /* of a panel of the weight */
    uint32_t outs;                            /* of a panel of dy */
    uint32_t run_cols;                        /* columns of a register block of W */
    void (*copy)(const pst_conv_copy *copy);  /* for F: steps; an odd last term gets a zero */
    void (*widen)(const pst_conv_copy *copy); /* for W: fp32 */
    /* dy: n pixels, `channels` of each, into panels [n][outs] that lie `panel` numbers apart. */
    void (*spread)(const pst_conv_copy *copy, uint64_t panel);
    void (*pack)(const pst_conv_pack *pack);
    void (*multiply)(const pst_conv_row *row);
    void (*tiles_in)(const pst_conv_tiles_in *tiles);
    void (*tiles_out)(const pst_conv_tiles_out *tiles);
    /* The first 9 planes of n numbers, places of a 3x3 window, become 16. */
    void (*tiles_of_weight)(float *planes, uint64_t n);
    void (*sum)(const pst_conv_sum *sum);
    /* y[i] = x[i], or += if add. */
    void (*put)(float *y, const float *x, uint64_t n, int add);
} pst_conv_ops;
#endif
