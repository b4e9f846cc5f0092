/* Convolution with 3x3 windows and stride 1 by Winograd's minimal filtering, F(2x2, 3x3) (A. Lavin,
 * S. Gray: Fast Algorithms for Convolutional Neural Networks, 2015): a tile of 4x4 pixels becomes
 * 16 numbers for each channel, the weight likewise, and 16 matrix products give the tiles of the
 * result, of 2x2 pixels: 4 multiplications for a pixel instead of 9. Everything is in fp32. */
#include "kernels/cpu/convolution_job.h"

/* The copied band as tiles, [16][tiles][channels] at `to`. */
static void change(const pst_conv_tile *t, const pst_conv_job *whole, uint64_t tiles, float *to) {
    const uint64_t across = whole->columns / 2, down = pst_div_up(t->band.rows, 2),
                   channels = t->band.channels, line = pst_conv_band_columns(whole) * channels,
                   in_rows = pst_conv_in_rows(whole, 2 * down);
    for (uint64_t image = 0; image < t->band.images; image++)
        for (uint64_t r = 0; r < down; r++) {
            const pst_conv_tiles_in in = {.from = (const float *)(const void *)t->copy +
                                                  (image * in_rows + 2 * r) * line,
                                          .n = across,
                                          .row = line,
                                          .channels = channels,
                                          .plane = tiles * channels,
                                          .to = to + (image * down + r) * across * channels};
            t->of->ops->direct->tiles_in(&in);
        }
}

static void change_back(const pst_conv_tile *t, uint64_t tiles, const float *from) {
    const pst_conv_job *j = t->of;
    const uint64_t across = pst_div_up(j->columns, 2), down = pst_div_up(t->band.rows, 2);
    for (uint64_t image = 0; image < t->band.images; image++)
        for (uint64_t r = 0; r < down; r++) {
            const pst_conv_tiles_out out = {.from = from + (image * down + r) * across * t->cols,
                                            .n = across,
                                            .ld = t->cols,
                                            .plane = tiles * t->cols,
                                            .cols = t->cols,
                                            .to =
                                                t->sum + image * t->sum_image + 2 * r * t->sum_row,
                                            .rows = pst_min_u64(2, t->band.rows - 2 * r),
                                            .columns = j->columns,
                                            .row = t->sum_row,
                                            .pixel = t->sum_pixel};
            j->ops->direct->tiles_out(&out);
        }
}

void pst_conv_fast_slice(const pst_conv_tile *t, const uint8_t *slice) {
    const pst_conv_job *j = t->of;
    const pst_conv_job whole = pst_conv_whole_tiles(j);
    const uint64_t channels = t->band.channels, cols = j->ops->direct->cols;
    const uint64_t tiles = t->band.images * pst_div_up(t->band.rows, 2) * (whole.columns / 2);
    pst_conv_band band = t->band;
    band.rows = (band.rows + 1) / 2 * 2;
    pst_conv_copy_band(&whole, &band, t->copy);
    float *in = (float *)(void *)(t->copy + pst_conv_copy_bytes(j)),
          *out = in + tiles * j->slice * PST_CONV_TILE;
    change(t, &whole, tiles, in);
    for (uint64_t e = 0; e < PST_CONV_TILE; e++)
        for (uint64_t col = t->col; col < t->col + t->cols; col += cols) {
            const pst_conv_row row = {.a = in + e * tiles * channels,
                                      .b = slice + (col * PST_CONV_TILE + e * cols) * channels *
                                                       sizeof(float),
                                      .pixel = channels,
                                      .runs = 1,
                                      .steps = channels,
                                      .n = tiles,
                                      .cols = pst_min_u64(cols, t->col + t->cols - col),
                                      .c = out + e * tiles * t->cols + (col - t->col),
                                      .ld = t->cols,
                                      .add = t->band.channel > 0};
            j->ops->direct->multiply(&row);
        }
    if (t->band.channel + channels == j->from.channels) change_back(t, tiles, out);
}
