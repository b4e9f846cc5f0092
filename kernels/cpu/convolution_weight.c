/* Direct convolution, W. The gradient is cut into tiles of output channels and slices of input
 * channels, and the bands of all images into parts; a part of a tile is summed by one thread, then
 * the parts are added in order. Tiles, bands, chunks and parts affect the bits and depend on the
 * shape alone. */
#include "kernels/cpu/convolution_job.h"
#include <string.h>

enum {
    TILE_OUTS = 64,
    TILES = 16, /* tiles times parts: at least so many, if there are enough bands */
    BAND_BYTES = 192 << 10,
    BAND_PIXELS = 768,
    CHUNK_PIXELS = 128, /* summed at a time: a run of their x fits in an L1 cache */
    NEAR_PIXELS = 64    /* channels of dy up to which a chunk of it stays in an L1 cache */
};

typedef struct {
    pst_conv_job of; /* as of F */
    uint64_t bands, parts, slices;
    const uint8_t *dy;
    float *sums; /* [parts][out][terms], by tile */
    float *out;
    int add;
} weight_job;

static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

static uint64_t terms_of(const pst_conv_job *j) { return j->h * j->w * j->from.channels; }

static weight_job job_of(const pst_convolution_shape *s, pst_dtype dtype) {
    weight_job w = {.of = pst_conv_forward_job(s, dtype)};
    pst_conv_job *j = &w.of;
    const uint64_t few = BAND_PIXELS / j->columns;
    j->band_rows = pst_min_u64(pst_conv_band_rows(j, BAND_BYTES), few ? few : 1);
    w.bands = pst_div_up(j->rows, j->band_rows);
    w.slices = pst_div_up(j->from.channels, j->slice);
    const uint64_t tiles = w.slices * pst_div_up(j->to.channels, TILE_OUTS);
    w.parts = pst_min_u64(j->images * w.bands, pst_div_up(TILES, tiles));
    return w;
}

static uint64_t copy_bytes(const pst_conv_job *j) {
    return aligned(pst_conv_in_rows(j, j->band_rows) * pst_conv_band_columns(j) * j->slice *
                   sizeof(float));
}

/* Panels of few fp32 channels are read where they are. */
static int in_place(const pst_conv_job *j) {
    return j->dtype == PST_F32 && j->to.channels <= NEAR_PIXELS &&
           j->to.channels % PST_CONV_OUTS == 0;
}

static uint64_t dy_bytes(const pst_conv_job *j) {
    if (in_place(j)) return 0;
    const uint64_t outs = pst_min_u64(j->to.channels, TILE_OUTS);
    return j->band_rows * j->columns * pst_div_up(outs, PST_CONV_OUTS) * PST_CONV_OUTS *
           sizeof(float);
}

static pst_conv_sizes sizes_of(const weight_job *w) {
    const pst_conv_job *j = &w->of;
    return (pst_conv_sizes){aligned(w->parts * j->to.channels * terms_of(j) * sizeof(float)),
                            copy_bytes(j) + dy_bytes(j)};
}

uint64_t pst_conv_weight_scratch(const pst_convolution_shape *s, pst_dtype dtype,
                                 uint32_t threads) {
    const weight_job w = job_of(s, dtype);
    const pst_conv_sizes sizes = sizes_of(&w);
    return sizes.shared + threads * sizes.thread;
}

/* --- a part of a tile ------------------------------------------------------------------------- */

typedef struct {
    const weight_job *of;
    uint64_t out, outs; /* output channels */
    pst_conv_band band;
    float *x, *copied, *sum; /* copied: dy */
    const float *dy;
    /* fp32 numbers between panels, rows and pixels of dy */
    uint64_t panel, row, pixel;
    int add; /* to what earlier bands gave */
} tile_job;

static void find_dy(tile_job *t) {
    const pst_conv_job *j = &t->of->of;
    const uint64_t at = t->band.image * j->to.image + t->band.row * j->to.row + t->out,
                   outs = j->ops->direct->outs;
    if (in_place(j)) {
        t->dy = (const float *)(const void *)t->of->dy + at;
        t->panel = outs;
        t->row = j->to.row;
        t->pixel = j->to.pixel;
        return;
    }
    t->panel = t->band.rows * j->columns * outs;
    t->row = j->columns * outs;
    t->pixel = outs;
    t->dy = t->copied;
    const pst_conv_copy copy = {.from = t->of->dy + at * j->size,
                                .n = t->band.rows * j->columns,
                                .pixel = j->to.pixel,
                                .channels = t->outs,
                                .to = t->copied};
    j->ops->direct->spread(&copy, t->panel);
}

/* Rows of a band: every run of the window, every panel of dy. */
static void sum_chunk(const tile_job *t, uint64_t row, uint64_t rows, int add) {
    const pst_conv_job *j = &t->of->of;
    const pst_conv_ops *ops = j->ops->direct;
    const uint64_t run = j->w * t->band.channels,
                   line = pst_conv_band_columns(j) * t->band.channels;
    for (uint64_t i = 0; i < j->h; i++)
        for (uint64_t col = 0; col < run; col += ops->run_cols)
            for (uint64_t out = 0; out < t->outs; out += ops->outs) {
                const pst_conv_sum sum = {.dy = t->dy + out / ops->outs * t->panel + row * t->row,
                                          .x = t->x + (row * j->step + i) * line + col,
                                          .dy_row = t->row,
                                          .dy_pixel = t->pixel,
                                          .x_row = j->step * line,
                                          .x_pixel = j->step * t->band.channels,
                                          .rows = rows,
                                          .n = j->columns,
                                          .outs = pst_min_u64(ops->outs, t->outs - out),
                                          .cols = pst_min_u64(ops->run_cols, run - col),
                                          .c = t->sum + (out * j->h + i) * run + col,
                                          .ld = j->h * run,
                                          .add = add};
                ops->sum(&sum);
            }
}

static void sum_band(tile_job *t) {
    const pst_conv_job *j = &t->of->of;
    const uint64_t few = CHUNK_PIXELS / j->columns, chunk = few ? few : 1;
    pst_conv_copy_band(j, &t->band, (uint8_t *)t->x);
    find_dy(t);
    for (uint64_t row = 0; row < t->band.rows; row += chunk)
        sum_chunk(t, row, pst_min_u64(chunk, t->band.rows - row), t->add || row);
}

static void run_tile(void *arg, uint64_t tile, uint32_t thread) {
    const weight_job *w = arg;
    const pst_conv_job *j = &w->of;
    const uint64_t units = j->images * w->bands, part = tile % w->parts, at = tile / w->parts,
                   end = units * (part + 1) / w->parts;
    tile_job t = {.of = w, .out = at / w->slices * TILE_OUTS};
    t.outs = pst_min_u64(TILE_OUTS, j->to.channels - t.out);
    t.band.wide = 1;
    t.band.images = 1;
    t.band.channel = at % w->slices * j->slice;
    t.band.channels = pst_min_u64(j->slice, j->from.channels - t.band.channel);
    t.x = (float *)(void *)(j->bands + thread * j->sizes.thread);
    t.copied = t.x + copy_bytes(j) / sizeof(float);
    t.sum = w->sums + (part * j->to.channels + t.out) * terms_of(j) +
            t.outs * j->h * j->w * t.band.channel;
    for (uint64_t unit = units * part / w->parts; unit < end; unit++) {
        t.band.image = unit / w->bands;
        t.band.row = unit % w->bands * j->band_rows;
        t.band.rows = pst_min_u64(j->band_rows, j->rows - t.band.row);
        sum_band(&t);
        t.add = 1;
        pst_device_poll(j->device, thread);
    }
}

/* --- the sum of the parts --------------------------------------------------------------------- */

/* The gradient of one output channel; then memory of threads, whose bands are not all used. */
static void add_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const weight_job *w = arg;
    const pst_conv_job *j = &w->of;
    const uint64_t terms = terms_of(j), places = j->h * j->w;
    if (tile >= j->to.channels) {
        memset(j->bands + (tile - j->to.channels) * j->sizes.thread, 0, j->sizes.thread);
        return;
    }
    const uint64_t first = tile / TILE_OUTS * TILE_OUTS,
                   outs = pst_min_u64(TILE_OUTS, j->to.channels - first);
    for (uint64_t channel = 0; channel < j->from.channels; channel += j->slice) {
        const uint64_t n = pst_min_u64(j->slice, j->from.channels - channel);
        const uint64_t at = first * terms + (outs * channel + (tile - first) * n) * places;
        for (uint64_t part = 0; part < w->parts; part++)
            for (uint64_t i = 0; i < places; i++)
                j->ops->direct->put(w->out + tile * terms + i * j->from.channels + channel,
                                    w->sums + part * j->to.channels * terms + at + i * n, n,
                                    w->add || part);
    }
}

void pst_conv_weight(pst_device *device, const pst_linear_ops *ops, const pst_convolution_shape *s,
                     const pst_conv_call *call, int add) {
    weight_job w = job_of(s, ops->dtype);
    w.of.device = device;
    w.of.ops = ops;
    w.of.sizes = sizes_of(&w);
    w.of.bands = (uint8_t *)call->scratch + w.of.sizes.shared;
    w.of.x = call->x;
    w.dy = call->dy;
    w.sums = call->scratch;
    w.out = call->y;
    w.add = add;
    const uint64_t tiles = w.slices * pst_div_up(w.of.to.channels, TILE_OUTS);
    pst_device_run(device, run_tile, &w, tiles * w.parts);
    pst_device_run(device, add_tile, &w, w.of.to.channels + (device ? device->threads : 1));
}
