/* Sizes and jobs of direct convolutions (convolution_direct.c): which images and windows a pass
 * reads, and how they are cut into slices, bands and ranges. */
#include "kernels/cpu/convolution_job.h"

/* --- sizes ------------------------------------------------------------------------------------ */

enum {
    WINDOW_TERMS = 576, /* of a window that are summed at a time; their panel fits in an L2 cache */
    LEAST_SLICE = 16,
    MOST_SLICE = 256,
    BAND_BYTES = 192 << 10,
    BAND_PIXELS = 256, /* images are taken together up to this many */
    RANGE_COLS = 128,  /* output channels for which a band is copied once */
    TILES = 16,        /* so many, if there are enough rows */
    FAST_TILES = 64,   /* of 2x2 pixels, of a band */
    FAST_COLS = 64,
    FAST_CHANNELS = 32, /* with fewer, changing into tiles and back takes longer than it saves */
    FAST_SIDE = 8       /* smaller images are mostly edges */
};

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most) {
    return pst_min_u64(n > least ? n : least, most);
}

/* Splits n into as few equal parts as possible, none longer than `most`. */
static uint64_t part_of(uint64_t n, uint64_t most, uint64_t unit) {
    return pst_div_up(pst_div_up(n, pst_div_up(n, most)), unit) * unit;
}

static uint64_t slice_of(uint64_t channels, uint64_t places) {
    uint64_t most = WINDOW_TERMS / places / LEAST_SLICE * LEAST_SLICE;
    return pst_min_u64(channels, part_of(channels, clamp(most, LEAST_SLICE, MOST_SLICE), 2));
}

uint64_t pst_conv_band_rows(const pst_conv_job *j, uint64_t bytes) {
    uint64_t row = pst_conv_band_columns(j) * j->slice * sizeof(float), fit = bytes / row;
    return clamp(fit > j->h ? (fit - j->h) / j->step + 1 : 1, 1, j->rows);
}

static uint64_t even(uint64_t n) { return (n + 1) / 2 * 2; }

pst_conv_job pst_conv_whole_tiles(const pst_conv_job *j) {
    pst_conv_job whole = *j;
    whole.rows = even(j->rows);
    whole.columns = even(j->columns);
    whole.band_rows = even(j->band_rows);
    return whole;
}

static int is_fast(const pst_conv_job *j) {
    return j->terms == 1 && j->h == 3 && j->w == 3 && j->step == 1 && j->rows >= FAST_SIDE &&
           j->columns >= FAST_SIDE && j->from.channels >= FAST_CHANNELS &&
           j->to.channels >= FAST_CHANNELS;
}

static void choose_fast_sizes(pst_conv_job *j) {
    const uint64_t down = pst_div_up(j->rows, 2), across = pst_div_up(j->columns, 2);
    j->range = part_of(j->to.channels, FAST_COLS, PST_CONV_COLS);
    const uint64_t tiles = j->images * pst_div_up(j->to.channels, j->range);
    uint64_t pairs = part_of(down, clamp(FAST_TILES / across, 1, down), 1);
    if (tiles < TILES) pairs = pst_min_u64(pairs, pst_div_up(down, pst_div_up(TILES, tiles)));
    j->band_rows = pst_min_u64(2 * pairs, j->rows);
    j->group = 1;
    if (pairs < down) return;
    const uint64_t fit = FAST_TILES / (down * across);
    j->group = part_of(j->images, clamp(fit, 1, pst_div_up(tiles, TILES)), 1);
}

static void choose_sizes(pst_conv_job *j) {
    j->fast = is_fast(j);
    j->slice = slice_of(j->from.channels, j->h * j->w);
    if (j->fast) {
        choose_fast_sizes(j);
        return;
    }
    j->range = part_of(j->to.channels, RANGE_COLS, PST_CONV_COLS);
    uint64_t enough = TILES / (j->images * pst_div_up(j->to.channels, j->range));
    j->band_rows = part_of(j->rows, pst_conv_band_rows(j, BAND_BYTES), 1);
    if (enough > 1) j->band_rows = pst_min_u64(j->band_rows, pst_div_up(j->rows, enough));
    j->group = 1;
    if (enough > 1 || j->band_rows < j->rows) return;
    uint64_t image = pst_conv_band_columns(j) * pst_conv_in_rows(j, j->rows) * j->slice,
             fit = pst_min_u64(BAND_BYTES / (image * sizeof(float)),
                               BAND_PIXELS / (j->rows * j->columns));
    const uint64_t tiles = j->images * pst_div_up(j->to.channels, j->range);
    j->group = part_of(j->images, clamp(fit, 1, pst_div_up(tiles, TILES)), 1);
}

uint64_t pst_conv_steps(const pst_conv_job *j, uint64_t channels) {
    return pst_div_up(channels, j->terms);
}

static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

static uint64_t weight_bytes(const pst_conv_job *j) {
    const uint64_t rest = j->from.channels % j->slice, whole = j->from.channels / j->slice;
    const uint64_t cols = pst_div_up(j->to.channels, PST_CONV_COLS) * PST_CONV_COLS;
    return (whole * pst_conv_steps(j, j->slice) + pst_conv_steps(j, rest)) * pst_conv_planes(j) *
           cols * 4;
}

uint64_t pst_conv_copy_bytes(const pst_conv_job *j) {
    const pst_conv_job whole = j->fast ? pst_conv_whole_tiles(j) : *j;
    return aligned(j->group * pst_conv_in_rows(&whole, whole.band_rows) *
                   pst_conv_band_columns(&whole) * pst_conv_steps(j, j->slice) * 4);
}

uint64_t pst_conv_band_bytes(const pst_conv_job *j) {
    const uint64_t tiles = j->group * pst_div_up(j->band_rows, 2) * pst_div_up(j->columns, 2);
    if (!j->fast) return pst_conv_copy_bytes(j);
    return pst_conv_copy_bytes(j) +
           aligned(tiles * (j->slice + j->range) * PST_CONV_TILE * sizeof(float));
}

static uint64_t sum_bytes(const pst_conv_job *j) {
    if (j->dtype == PST_F32) return 0;
    return aligned(j->group * j->band_rows * j->columns * j->range * sizeof(float));
}

/* --- jobs ------------------------------------------------------------------------------------- */

static pst_conv_images images_of(uint64_t height, uint64_t width, uint64_t channels) {
    return (pst_conv_images){
        height, width, channels, channels, width * channels, height * width * channels};
}

pst_conv_job pst_conv_forward_job(const pst_convolution_shape *s, pst_dtype dtype) {
    pst_conv_job j = {.dtype = dtype,
                      .size = pst_dtype_bytes(dtype),
                      .terms = dtype == PST_BF16 ? 2 : 1,
                      .images = s->images,
                      .from = images_of(s->height, s->width, s->in),
                      .to = images_of(s->rows, s->columns, s->out),
                      .top = (int64_t)s->padding,
                      .left = (int64_t)s->padding,
                      .step = s->stride,
                      .h = s->h,
                      .w = s->w,
                      .rows = s->rows,
                      .columns = s->columns,
                      .weight_ld = s->h * s->w * s->in,
                      .weight_row = (int64_t)(s->w * s->in),
                      .weight_column = (int64_t)s->in};
    if (s->h * s->w == 1 && !s->padding) { /* pixels between are not copied */
        j.from.height = s->rows;
        j.from.width = s->columns;
        j.from.pixel *= s->stride;
        j.from.row *= s->stride;
        j.step = 1;
    }
    choose_sizes(&j);
    return j;
}

/* Along one side: which pixels of the input gradient, and which places of the window they see. */
typedef struct {
    uint64_t pixels, places, first; /* first: place of the window */
    int64_t padding;
} side;

static side side_of(uint64_t size, uint64_t window, const pst_convolution_shape *s, uint64_t at) {
    const uint64_t first = (at + s->padding) % s->stride;
    const uint64_t places = window > first ? pst_div_up(window - first, s->stride) : 0;
    return (side){size > at ? pst_div_up(size - at, s->stride) : 0, places, first,
                  (int64_t)places - 1 - (int64_t)((at + s->padding) / s->stride)};
}

pst_conv_job pst_conv_backward_job(const pst_convolution_shape *s, pst_dtype dtype, uint64_t y,
                                   uint64_t x) {
    const side v = side_of(s->height, s->h, s, y), u = side_of(s->width, s->w, s, x);
    const uint64_t last =
        (v.first + (v.places - 1) * s->stride) * s->w + u.first + (u.places - 1) * s->stride;
    pst_conv_job j = {.dtype = dtype,
                      .size = pst_dtype_bytes(dtype),
                      .terms = dtype == PST_BF16 ? 2 : 1,
                      .images = s->images,
                      .from = images_of(s->rows, s->columns, s->out),
                      .to = images_of(s->height, s->width, s->in),
                      .top = v.padding,
                      .left = u.padding,
                      .step = 1,
                      .h = u.places ? v.places : 0,
                      .w = u.places,
                      .rows = u.pixels ? v.pixels : 0,
                      .columns = u.pixels,
                      .across = 1,
                      .weight_ld = s->h * s->w * s->in,
                      .weight_first = last * s->in,
                      .weight_row = -(int64_t)(s->stride * s->w * s->in),
                      .weight_column = -(int64_t)(s->stride * s->in)};
    j.to_first = y * j.to.row + x * j.to.pixel;
    j.to.row *= s->stride;
    j.to.pixel *= s->stride;
    if (j.rows && j.h) choose_sizes(&j);
    return j;
}

pst_conv_sizes pst_conv_sizes_of(const pst_conv_job *j) {
    return (pst_conv_sizes){weight_bytes(j), pst_conv_band_bytes(j) + sum_bytes(j)};
}

pst_conv_sizes pst_conv_backward_sizes(const pst_convolution_shape *s, pst_dtype dtype) {
    pst_conv_sizes most = {0, 0};
    for (uint64_t y = 0; y < s->stride; y++)
        for (uint64_t x = 0; x < s->stride; x++) {
            const pst_conv_job j = pst_conv_backward_job(s, dtype, y, x);
            if (!j.rows || !j.h) continue;
            const pst_conv_sizes own = pst_conv_sizes_of(&j);
            if (own.shared > most.shared) most.shared = own.shared;
            if (own.thread > most.thread) most.thread = own.thread;
        }
    return most;
}

uint64_t pst_conv_forward_scratch(const pst_convolution_shape *s, pst_dtype dtype,
                                  uint32_t threads) {
    const pst_conv_job j = pst_conv_forward_job(s, dtype);
    const pst_conv_sizes sizes = pst_conv_sizes_of(&j);
    return sizes.shared + threads * sizes.thread;
}

uint64_t pst_conv_backward_scratch(const pst_convolution_shape *s, pst_dtype dtype,
                                   uint32_t threads) {
    const pst_conv_sizes sizes = pst_conv_backward_sizes(s, dtype);
    return sizes.shared + threads * sizes.thread;
}
