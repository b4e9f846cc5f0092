/* Direct convolution: F, and B as convolutions of the output gradient. With a stride, the pixels of
 * the input gradient at the same place of the stride's grid form a convolution of their own, whose
 * window has every stride-th row and column of the weight. */
#include "kernels/cpu/convolution_job.h"
#include <string.h>

/* --- packing the weight ----------------------------------------------------------------------- */

/* One panel of all slices; then memory of threads, whose bands are not all used. */
static void pack_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const pst_conv_job *j = arg;
    const pst_conv_ops *ops = j->ops->direct;
    const uint64_t padded = pst_div_up(j->to.channels, PST_CONV_COLS) * PST_CONV_COLS;
    const uint64_t col = tile * ops->cols, columns = j->to.channels;
    if (col >= padded) {
        memset(j->bands + (tile - padded / ops->cols) * j->sizes.thread, 0, j->sizes.thread);
        return;
    }
    const uint64_t items = columns > col ? pst_min_u64(ops->cols, columns - col) : 0;
    const uint64_t item = items ? col : 0, planes = pst_conv_planes(j);
    uint8_t *slice = j->weights;
    for (uint64_t from = 0; from < j->from.channels; from += j->slice) {
        const uint64_t terms = pst_min_u64(j->slice, j->from.channels - from);
        const uint64_t place = pst_conv_steps(j, terms) * ops->cols * 4, places = j->h * j->w;
        for (uint64_t i = 0; i < places; i++) {
            const int64_t at = (int64_t)(i / j->w) * j->weight_row +
                               (int64_t)(i % j->w) * j->weight_column + (int64_t)j->weight_first;
            const uint64_t first =
                j->across ? from * j->weight_ld + item : item * j->weight_ld + from;
            const pst_pack pack = {.from = j->weight + ((uint64_t)at + first) * j->size,
                                   .ld = j->weight_ld,
                                   .items = items,
                                   .terms = terms,
                                   .across = j->across,
                                   .to = slice + (tile * planes + i) * place};
            ops->pack(&pack);
        }
        if (j->fast)
            ops->tiles_of_weight((float *)(void *)(slice + tile * planes * place), place / 4);
        slice += planes * pst_conv_steps(j, terms) * padded * 4;
    }
}

/* --- multiplying ------------------------------------------------------------------------------ */

static pst_conv_tile tile_of(pst_conv_job *j, uint64_t tile, uint32_t thread) {
    const uint64_t ranges = pst_div_up(j->to.channels, j->range);
    const uint64_t bands = pst_div_up(j->rows, j->band_rows);
    const uint64_t col = tile % ranges * j->range, row = tile / ranges % bands * j->band_rows,
                   image = tile / ranges / bands * j->group;
    pst_conv_tile t = {.of = j, .col = col, .cols = pst_min_u64(j->range, j->to.channels - col)};
    t.band = (pst_conv_band){.image = image,
                             .images = pst_min_u64(j->group, j->images - image),
                             .row = row,
                             .rows = pst_min_u64(j->band_rows, j->rows - row)};
    t.copy = j->bands + thread * j->sizes.thread;
    if (j->dtype == PST_F32) {
        t.sum = (float *)(void *)j->y + image * j->to.image + row * j->to.row + col;
        t.sum_pixel = j->to.pixel;
        t.sum_row = j->to.row;
        t.sum_image = j->to.image;
    } else {
        t.sum = (float *)(void *)(t.copy + pst_conv_band_bytes(j));
        t.sum_pixel = t.cols;
        t.sum_row = t.cols * j->columns;
        t.sum_image = t.sum_row * t.band.rows;
    }
    return t;
}

/* A band times one panel, of a slice. */
static void multiply_panel(const pst_conv_tile *t, uint64_t col, const uint8_t *panel) {
    const pst_conv_job *j = t->of;
    const uint64_t pixel = pst_conv_steps(j, t->band.channels),
                   line = pst_conv_band_columns(j) * pixel;
    const uint64_t in_rows = pst_conv_in_rows(j, t->band.rows);
    pst_conv_row row = {.b = panel,
                        .pixel = j->step * pixel,
                        .row = line,
                        .runs = j->h,
                        .steps = j->w * pixel,
                        .n = j->columns,
                        .cols = pst_min_u64(j->ops->direct->cols, t->col + t->cols - col),
                        .ld = t->sum_pixel,
                        .add = t->band.channel > 0};
    for (uint64_t image = 0; image < t->band.images; image++)
        for (uint64_t r = 0; r < t->band.rows; r++) {
            row.a = t->copy + (image * in_rows + r * j->step) * line * 4;
            row.c = t->sum + image * t->sum_image + r * t->sum_row + (col - t->col);
            j->ops->direct->multiply(&row);
        }
}

/* column: bytes of a column of the weight. */
static void multiply_slice(const pst_conv_tile *t, const uint8_t *slice, uint64_t column) {
    pst_conv_copy_band(t->of, &t->band, t->copy);
    for (uint64_t col = t->col; col < t->col + t->cols; col += t->of->ops->direct->cols)
        multiply_panel(t, col, slice + col * column);
}

static void finish_rows(const pst_conv_tile *t) {
    const pst_conv_job *j = t->of;
    for (uint64_t image = 0; image < t->band.images; image++)
        for (uint64_t r = 0; r < t->band.rows; r++) {
            const uint64_t at =
                (t->band.image + image) * j->to.image + (t->band.row + r) * j->to.row + t->col;
            const pst_linear_tile tile = {.sum = t->sum + image * t->sum_image + r * t->sum_row,
                                          .sum_ld = t->sum_pixel,
                                          .y = j->y + at * j->size,
                                          .bias = j->bias ? j->bias + t->col * j->size : NULL,
                                          .rows = j->columns,
                                          .cols = t->cols,
                                          .ld = j->to.pixel};
            j->ops->finish(PST_ACT_NONE, &tile);
        }
}

static void run_tile(void *arg, uint64_t tile, uint32_t thread) {
    pst_conv_job *j = arg;
    pst_conv_tile t = tile_of(j, tile, thread);
    const uint64_t padded = pst_div_up(j->to.channels, PST_CONV_COLS) * PST_CONV_COLS;
    const uint8_t *slice = j->weights;
    for (uint64_t from = 0; from < j->from.channels; from += j->slice) {
        t.band.channel = from;
        t.band.channels = pst_min_u64(j->slice, j->from.channels - from);
        const uint64_t column = pst_conv_steps(j, t.band.channels) * pst_conv_planes(j) * 4;
        if (j->fast) pst_conv_fast_slice(&t, slice);
        else multiply_slice(&t, slice, column);
        slice += padded * column;
        pst_device_poll(j->device, thread);
    }
    if (j->bias || j->dtype != PST_F32) finish_rows(&t);
}

static void run(pst_conv_job *j, int first) {
    const pst_conv_ops *ops = j->ops->direct;
    const uint64_t padded = pst_div_up(j->to.channels, PST_CONV_COLS) * PST_CONV_COLS;
    const uint64_t threads = j->device ? j->device->threads : 1;
    pst_device_run(j->device, pack_tile, j, padded / ops->cols + (first ? threads : 0));
    pst_device_run(j->device, run_tile, j,
                   pst_div_up(j->images, j->group) * pst_div_up(j->rows, j->band_rows) *
                       pst_div_up(j->to.channels, j->range));
}

static void bind(pst_conv_job *j, pst_device *device, const pst_linear_ops *ops, void *scratch,
                 pst_conv_sizes sizes) {
    j->device = device;
    j->ops = ops;
    j->sizes = sizes;
    j->weights = scratch;
    j->bands = j->weights + sizes.shared;
}

void pst_conv_forward(pst_device *device, const pst_linear_ops *ops, const pst_convolution_shape *s,
                      const pst_conv_call *call) {
    pst_conv_job j = pst_conv_forward_job(s, ops->dtype);
    bind(&j, device, ops, call->scratch, pst_conv_sizes_of(&j));
    j.x = call->x;
    j.y = call->y;
    j.weight = call->weight;
    j.bias = call->bias;
    run(&j, 1);
}

/* A row of pixels that no window has. */
static void clear_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const pst_conv_job *j = arg;
    const uint64_t at = tile / j->rows * j->to.image + tile % j->rows * j->to.row;
    for (uint64_t x = 0; x < j->columns; x++)
        memset(j->y + (at + x * j->to.pixel) * j->size, 0, j->to.channels * j->size);
}

void pst_conv_backward(pst_device *device, const pst_linear_ops *ops,
                       const pst_convolution_shape *s, const pst_conv_call *call) {
    const pst_conv_sizes sizes = pst_conv_backward_sizes(s, ops->dtype);
    int first = 1;
    for (uint64_t y = 0; y < s->stride; y++)
        for (uint64_t x = 0; x < s->stride; x++) {
            pst_conv_job j = pst_conv_backward_job(s, ops->dtype, y, x);
            bind(&j, device, ops, call->scratch, sizes);
            j.x = call->x;
            j.y = (uint8_t *)call->y + j.to_first * j.size;
            j.weight = call->weight;
            if (!j.rows) continue;
            if (!j.h) pst_device_run(device, clear_tile, &j, j.images * j.rows);
            else {
                run(&j, first);
                first = 0;
            }
        }
}
