/* Direct convolution, without a matrix of windows: a band of an image is copied with its padding
 * into memory that fits in a cache, and register blocks read windows from there. In images with
 * channels last a row of a window is one run (contiguous range) of numbers, and the windows of
 * neighbouring pixels are runs at a fixed distance that overlap: a matrix product whose left
 * operand is not stored (compare M. Dukhan: The Indirect Convolution Algorithm, 2019).
 *
 * Channels are taken in slices. Sizes of slices depend on the shape alone, as they affect the bits;
 * register blocks, bands of F and B, and threads do not affect them. */
#ifndef PST_KERNELS_CPU_CONVOLUTION_OPS_H
#define PST_KERNELS_CPU_CONVOLUTION_OPS_H
#include "kernels/cpu/pack.h"
#include "kernels/kernel.h"

/* A copy of a row of an image, with padding: `left` pixels of zeros, then `n` pixels with a
 * distance of `pixel` elements, then `right` pixels of zeros. from NULL: all pixels are zeros. */
typedef struct {
    const void *from;
    uint64_t left, n, right, pixel;
    uint64_t channels; /* number of channels copied of each pixel */
    void *to;          /* F: steps; W: fp32 */
} pst_conv_copy;

/* F: c[n,cols] (+)= the windows of n neighbouring pixels times a panel of the weight. A window has
 * `runs` runs of `steps` steps; a step is one term, for bf16 two terms. */
typedef struct {
    const void *a, *b;
    uint64_t pixel, row; /* distance in steps between windows, and between runs of a window */
    uint64_t runs, steps, n, cols;
    float *c;
    uint64_t ld;
    int add; /* 0: c is overwritten */
} pst_conv_row;

/* W: c[outs,cols] (+)= the sum over rows x n pixels of the products of dy's `outs` channels and
 * `cols` numbers of a run of x. Reads all channels of the panel of dy, also those after `outs`. */
typedef struct {
    const float *dy, *x;
    uint64_t dy_row, dy_pixel, x_row, x_pixel; /* distance in fp32 numbers between rows, and between
                                                  pixels */
    uint64_t rows, n, outs, cols;
    float *c;
    uint64_t ld;
    int add;
} pst_conv_sum;

/* A row of `n` tiles of Winograd's algorithm F(2x2, 3x3) (Lavin, Gray 2015): 16 numbers per
 * channel, with a distance of `plane` fp32 numbers. pst_conv_tiles_in: conversion of a band, whose
 * rows and pixels have distances of `row` and `channels` numbers, to tiles; pst_conv_tiles_out:
 * conversion of tiles to `rows` (at most 2) rows of `columns` pixels. */
enum { PST_CONV_TILE = 16 };
typedef struct {
    const float *from;
    uint64_t n, row, channels, plane;
    float *to;
} pst_conv_tiles_in;
typedef struct {
    const float *from;
    uint64_t n, ld, plane, cols; /* ld: distance between tiles */
    float *to;
    uint64_t rows, columns, row, pixel;
} pst_conv_tiles_out;

/* For every instruction set, the columns of the packed weight are zero-padded to a multiple of
 * PST_CONV_COLS, and the channels of dy that W reads to a multiple of PST_CONV_OUTS. */
enum { PST_CONV_COLS = 32, PST_CONV_OUTS = 16 };

/* The functions of direct convolution for one instruction set and element type. */
typedef struct {
    uint32_t terms;                           /* terms per step */
    uint32_t cols;                            /* columns of a panel of the weight */
    uint32_t outs;                            /* channels of a panel of dy */
    uint32_t run_cols;                        /* columns of a register block of W */
    void (*copy)(const pst_conv_copy *copy);  /* F: to steps; pads an odd last term with 0 */
    void (*widen)(const pst_conv_copy *copy); /* W: to fp32 */
    /* Copies n pixels of dy, `channels` channels of each, to panels [n][outs] with a distance of
     * `panel` numbers. */
    void (*spread)(const pst_conv_copy *copy, uint64_t panel);
    /* Packs one panel of the weight, [steps][cols]; missing items (columns) are zero. */
    void (*pack)(const pst_pack *pack);
    void (*multiply)(const pst_conv_row *row);
    void (*tiles_in)(const pst_conv_tiles_in *tiles);
    void (*tiles_out)(const pst_conv_tiles_out *tiles);
    /* Converts 9 planes of n numbers, one per place of a 3x3 window, to 16 planes, in place. */
    void (*tiles_of_weight)(float *planes, uint64_t n);
    void (*sum)(const pst_conv_sum *sum);
    /* y[i] = x[i]; if add: y[i] += x[i]. */
    void (*put)(float *y, const float *x, uint64_t n, int add);
} pst_conv_ops;
#endif
