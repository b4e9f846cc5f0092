/* Convolution. With AVX2 it is direct (convolution_ops.h), but for 1x1 windows with stride 1, whose
 * image is a matrix already. Otherwise it is a matrix product: the windows of a band of pixels are
 * copied as rows of a matrix into scratch (im2col, Chellapilla et al. 2006), then multiplied as in
 * linear. Images have their channels last, so that one row of a window is one copy. With stride 1
 * the input gradient is a convolution of the output gradient with the flipped weight; else
 * gradients of windows are computed and summed per pixel. The bands depend on the shape alone,
 * because they affect the result's bits. */
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"
#include <string.h>

enum { BAND_BYTES = 4 << 20, BAND_ROWS = 512, COPY_ROWS = 64, CHANNELS = 512 };

typedef struct {
    const pst_linear_ops *ops;
    pst_convolution_shape of;
    uint64_t top, left;      /* padding before the first pixel */
    uint64_t windows, terms; /* windows of the batch; numbers per window */
    uint64_t size;           /* bytes of an element */
    int plain;               /* 1x1 windows, stride 1, no padding */
    const uint8_t *x, *bias;
    uint8_t *y;
    void *patches;
    uint64_t first, n; /* windows of the band; images, where bands are whole images */
} job;

static job job_of(const pst_graph *g, const pst_node *node) {
    job j = {.of = pst_convolution_shape_of(g, node)};
    j.top = j.left = j.of.padding;
    j.windows = j.of.images * j.of.rows * j.of.columns;
    j.terms = j.of.h * j.of.w * j.of.in;
    j.plain = j.of.h * j.of.w == 1 && j.of.stride == 1;
    j.size = pst_dtype_bytes(g->dtype);
    return j;
}

/* Whether B is a convolution as well: that of `turned`, which computes the input gradient from the
 * output gradient. */
static int turns(const job *j) { return j->of.stride == 1 && !j->plain; }

static job turned(const job *j) {
    job t = *j;
    t.of.height = j->of.rows;
    t.of.width = j->of.columns;
    t.of.in = j->of.out;
    t.of.rows = j->of.height;
    t.of.columns = j->of.width;
    t.of.out = j->of.in;
    t.top = j->of.h - 1 - j->top;
    t.left = j->of.w - 1 - j->left;
    t.windows = t.of.images * t.of.rows * t.of.columns;
    t.terms = t.of.h * t.of.w * t.of.in;
    return t;
}

/* --- bands ------------------------------------------------------------------------------------ */

/* Bands of F and W: windows with elements of the graph's type. */
static uint64_t band_windows(const job *j) {
    if (j->plain) return j->windows;
    uint64_t fit = BAND_BYTES / (j->terms * j->size) / BAND_ROWS * BAND_ROWS;
    return pst_min_u64(j->windows, fit ? fit : BAND_ROWS);
}

/* Bands of B: windows of whole images, in fp32. */
static uint64_t band_images(const job *j) {
    if (j->plain) return j->of.images;
    uint64_t fit = BAND_BYTES / (j->of.rows * j->of.columns * j->terms * sizeof(float));
    return pst_min_u64(j->of.images, fit ? fit : 1);
}

static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

static uint64_t patch_bytes(const job *j, pst_pass pass) {
    if (j->plain) return 0;
    if (pass == PST_PASS_B)
        return aligned(band_images(j) * j->of.rows * j->of.columns * j->terms * sizeof(float));
    return aligned(band_windows(j) * j->terms * j->size);
}

/* Scratch for the products of all bands; the last band may be shorter. */
static uint64_t product_bytes(const job *j, pst_pass pass, pst_dtype dtype, uint32_t threads) {
    const uint64_t windows = j->of.rows * j->of.columns, in = j->terms, out = j->of.out;
    const uint64_t band = pass == PST_PASS_B ? band_images(j) * windows : band_windows(j);
    uint64_t most = 0;
    for (int last = 0; last < 2; last++) {
        uint64_t n = last ? (j->windows - 1) % band + 1 : band, bytes;
        if (pass == PST_PASS_F)
            bytes = pst_gemm_scratch(dtype, n, out, in, dtype == PST_F32, threads);
        else if (pass == PST_PASS_W) bytes = pst_gemm_scratch(dtype, out, in, n, 1, threads);
        else bytes = pst_gemm_scratch(dtype, n, in, out, !j->plain || dtype == PST_F32, threads);
        if (bytes > most) most = bytes;
    }
    return most;
}

static uint64_t forward_bytes(const job *j, pst_dtype dtype, uint32_t threads) {
    return patch_bytes(j, PST_PASS_F) + product_bytes(j, PST_PASS_F, dtype, threads);
}

static uint64_t weight_bytes(const job *j) { return aligned(j->of.out * j->terms * j->size); }

uint64_t pst_convolution_forward_scratch(const pst_graph *g, const pst_node *node,
                                         uint32_t threads) {
    job j = job_of(g, node);
    return forward_bytes(&j, g->dtype, threads);
}

uint64_t pst_convolution_backward_scratch(const pst_graph *g, const pst_node *node,
                                          uint32_t threads) {
    job j = job_of(g, node), t = turned(&j);
    if (turns(&j)) return weight_bytes(&j) + forward_bytes(&t, g->dtype, threads);
    return patch_bytes(&j, PST_PASS_B) + product_bytes(&j, PST_PASS_B, g->dtype, threads);
}

uint64_t pst_convolution_weight_scratch(const pst_graph *g, const pst_node *node,
                                        uint32_t threads) {
    job j = job_of(g, node);
    return patch_bytes(&j, PST_PASS_W) + product_bytes(&j, PST_PASS_W, g->dtype, threads);
}

/* 1x1 windows with stride 1 are a product in any case. */
uint64_t pst_convolution_direct_forward_scratch(const pst_graph *g, const pst_node *node,
                                                uint32_t threads) {
    job j = job_of(g, node);
    if (j.plain) return forward_bytes(&j, g->dtype, threads);
    return pst_conv_forward_scratch(&j.of, g->dtype, threads);
}

uint64_t pst_convolution_direct_backward_scratch(const pst_graph *g, const pst_node *node,
                                                 uint32_t threads) {
    job j = job_of(g, node);
    if (j.plain) return product_bytes(&j, PST_PASS_B, g->dtype, threads);
    return pst_conv_backward_scratch(&j.of, g->dtype, threads);
}

uint64_t pst_convolution_direct_weight_scratch(const pst_graph *g, const pst_node *node,
                                               uint32_t threads) {
    job j = job_of(g, node);
    if (j.plain) return product_bytes(&j, PST_PASS_W, g->dtype, threads);
    return pst_conv_weight_scratch(&j.of, g->dtype, threads);
}

/* Fields that all products of a convolution share; their scratch follows the patches. */
static pst_gemm product_of(const job *j, pst_pass pass) {
    return (pst_gemm){.dtype = j->ops->dtype,
                      .scratch = (uint8_t *)j->patches + patch_bytes(j, pass),
                      .ops = j->ops->product};
}

/* --- windows as rows -------------------------------------------------------------------------- */

/* One row of a window: pixels from, from + 1, ... of an image row, 0 outside. */
static void copy_pixels(const job *j, const uint8_t *row, uint64_t from, uint8_t *to) {
    uint64_t pixel = j->of.in * j->size,
             left = from < j->left ? pst_min_u64(j->left - from, j->of.w) : 0;
    uint64_t at = from + left - j->left,
             n = at < j->of.width ? pst_min_u64(j->of.w - left, j->of.width - at) : 0;
    memset(to, 0, left * pixel);
    if (n) memcpy(to + left * pixel, row + at * pixel, n * pixel);
    memset(to + (left + n) * pixel, 0, (j->of.w - left - n) * pixel);
}

static void copy_window(const job *j, uint64_t window, uint8_t *to) {
    uint64_t image = window / (j->of.rows * j->of.columns), r = window / j->of.columns % j->of.rows,
             c = window % j->of.columns;
    uint64_t line = j->of.w * j->of.in * j->size, row = j->of.width * j->of.in * j->size;
    for (uint64_t i = 0; i < j->of.h; i++, to += line) {
        uint64_t y = r * j->of.stride + i;
        if (y < j->top || y - j->top >= j->of.height) memset(to, 0, line);
        else copy_pixels(j, j->x + (image * j->of.height + y - j->top) * row, c * j->of.stride, to);
    }
}

static void copy_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const job *j = arg;
    uint64_t from = tile * COPY_ROWS, end = pst_min_u64(from + COPY_ROWS, j->n);
    for (uint64_t i = from; i < end; i++)
        copy_window(j, j->first + i, (uint8_t *)j->patches + i * j->terms * j->size);
}

/* The band's windows as a matrix [n, terms]. */
static const void *patches_of(pst_device *device, job *j) {
    if (j->plain) return j->x + j->first * j->terms * j->size;
    pst_device_run(device, copy_tile, j, pst_div_up(j->n, COPY_ROWS));
    return j->patches;
}

/* --- passes ----------------------------------------------------------------------------------- */

static void finish(void *arg, const pst_gemm_tile *of) {
    const job *j = arg;
    uint64_t ld = j->of.out;
    pst_linear_tile tile = {.sum = of->sum,
                            .sum_ld = of->ld,
                            .y = j->y + (of->row * ld + of->col) * j->size,
                            .bias = j->bias ? j->bias + of->col * j->size : NULL,
                            .rows = of->rows,
                            .cols = of->cols,
                            .ld = ld};
    j->ops->finish(PST_ACT_NONE, &tile);
}

/* y of x and the weight, with scratch at j->patches. */
static pst_status multiply(pst_device *device, job *j, const void *weight, uint8_t *y) {
    uint64_t band = band_windows(j);
    for (j->first = 0; j->first < j->windows; j->first += band) {
        j->n = pst_min_u64(band, j->windows - j->first);
        j->y = y + j->first * j->of.out * j->size;
        pst_gemm gemm = product_of(j, PST_PASS_F);
        gemm.trans_b = 1;
        gemm.m = j->n;
        gemm.n = j->of.out;
        gemm.k = j->terms;
        gemm.b = weight;
        gemm.ldb = j->terms;
        gemm.c = j->ops->dtype == PST_F32 ? (float *)(void *)j->y : NULL;
        gemm.ldc = j->of.out;
        if (j->bias || !gemm.c) {
            gemm.finish = finish;
            gemm.finish_arg = j;
        }
        gemm.a = patches_of(device, j);
        gemm.lda = j->terms;
        PST_TRY(pst_gemm_run(device, &gemm));
    }
    return PST_OK;
}

/* IN0 PARAM0 [PARAM1] OUT0 */
pst_status pst_convolution_forward(pst_device *device, const pst_call *call,
                                   const pst_linear_ops *ops) {
    job j = job_of(call->graph, call->node);
    int biased = call->node->n_param > 1;
    j.ops = ops;
    j.x = call->arg[0];
    j.bias = biased ? call->arg[2] : NULL;
    j.patches = call->scratch;
    if (ops->direct && !j.plain) {
        const pst_conv_call direct = {.x = j.x,
                                      .weight = call->arg[1],
                                      .bias = j.bias,
                                      .y = call->arg[2 + biased],
                                      .scratch = call->scratch};
        pst_conv_forward(device, ops, &j.of, &direct);
        return PST_OK;
    }
    return multiply(device, &j, call->arg[1], call->arg[2 + biased]);
}

/* --- B: convolution with the flipped weight --------------------------------------------------- */

typedef struct {
    const job *of;
    const uint8_t *weight; /* [out, h, w, in] */
    uint8_t *turned;       /* [in, h, w, out], height and width reversed */
} turn_job;

/* One position of the window. */
static void turn_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const turn_job *t = arg;
    const job *j = t->of;
    uint64_t places = j->of.h * j->of.w, back = places - 1 - tile;
    for (uint64_t o = 0; o < j->of.out; o++)
        for (uint64_t k = 0; k < j->of.in; k++) {
            const uint8_t *from = t->weight + ((o * places + back) * j->of.in + k) * j->size;
            uint8_t *to = t->turned + ((k * places + tile) * j->of.out + o) * j->size;
            if (j->size == 4) memcpy(to, from, 4);
            else memcpy(to, from, 2);
        }
}

static pst_status turn_and_multiply(pst_device *device, const pst_call *call, const job *j) {
    turn_job turning = {j, call->arg[0], call->scratch};
    job t = turned(j);
    uint8_t *behind = (uint8_t *)call->scratch + weight_bytes(j);
    pst_device_run(device, turn_tile, &turning, j->of.h * j->of.w);
    t.x = call->arg[1];
    t.patches = behind;
    return multiply(device, &t, call->scratch, call->arg[2]);
}

/* --- B: gradients of windows, summed per pixel ------------------------------------------------ */

typedef struct {
    uint64_t y, x;
} pixel;

/* Adds the gradients of all windows that cover a pixel: channels [from, from + n). */
static void gather(const job *j, const float *patches, pixel at, uint64_t from, uint64_t n,
                   float *sum) {
    memset(sum, 0, n * sizeof *sum);
    for (uint64_t i = 0; i < j->of.h; i++) {
        uint64_t r = at.y + j->top - i;
        if (at.y + j->top < i || r % j->of.stride || r / j->of.stride >= j->of.rows) continue;
        for (uint64_t k = 0; k < j->of.w; k++) {
            uint64_t c = at.x + j->left - k;
            if (at.x + j->left < k || c % j->of.stride || c / j->of.stride >= j->of.columns)
                continue;
            uint64_t window = r / j->of.stride * j->of.columns + c / j->of.stride;
            j->ops->accumulate(
                NULL, sum, patches + window * j->terms + (i * j->of.w + k) * j->of.in + from, n);
        }
    }
}

/* A row of an image's gradient. */
static void gather_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const job *j = arg;
    float sum[CHANNELS];
    const float *patches =
        (const float *)j->patches + tile / j->of.height * j->of.rows * j->of.columns * j->terms;
    for (uint64_t x = 0; x < j->of.width; x++)
        for (uint64_t from = 0; from < j->of.in; from += CHANNELS) {
            uint64_t n = pst_min_u64(CHANNELS, j->of.in - from);
            gather(j, patches, (pixel){tile % j->of.height, x}, from, n, sum);
            pst_linear_tile out = {.sum = sum, .sum_ld = n, .rows = 1, .cols = n, .ld = n};
            out.y = j->y + ((tile * j->of.width + x) * j->of.in + from) * j->size;
            j->ops->finish(PST_ACT_NONE, &out);
        }
}

/* PARAM0 DOUT0 DIN0 */
pst_status pst_convolution_backward(pst_device *device, const pst_call *call,
                                    const pst_linear_ops *ops) {
    job j = job_of(call->graph, call->node);
    const uint8_t *dy = call->arg[1];
    uint8_t *dx = call->arg[2];
    uint64_t band = band_images(&j), windows = j.of.rows * j.of.columns,
             image = j.of.height * j.of.width * j.of.in;
    j.ops = ops;
    j.patches = call->scratch;
    if (ops->direct && !j.plain) {
        const pst_conv_call direct = {
            .x = dy, .weight = call->arg[0], .y = dx, .scratch = call->scratch};
        pst_conv_backward(device, ops, &j.of, &direct);
        return PST_OK;
    }
    if (turns(&j)) return turn_and_multiply(device, call, &j);
    for (j.first = 0; j.first < j.of.images; j.first += band) {
        j.n = pst_min_u64(band, j.of.images - j.first);
        j.y = dx + j.first * image * j.size;
        job whole = j; /* finish writes [windows, terms] for 1x1 windows */
        whole.of.out = j.terms;
        pst_gemm gemm = product_of(&j, PST_PASS_B);
        gemm.m = j.n * windows;
        gemm.n = j.terms;
        gemm.k = j.of.out;
        gemm.a = dy + j.first * windows * j.of.out * j.size;
        gemm.lda = j.of.out;
        gemm.b = call->arg[0];
        gemm.ldb = j.terms;
        gemm.ldc = j.terms;
        if (!j.plain) gemm.c = j.patches;
        else if (ops->dtype == PST_F32) gemm.c = (float *)(void *)j.y;
        else {
            gemm.finish = finish;
            gemm.finish_arg = &whole;
        }
        PST_TRY(pst_gemm_run(device, &gemm));
        if (!j.plain) pst_device_run(device, gather_tile, &j, j.n * j.of.height);
    }
    return PST_OK;
}

typedef struct {
    const job *of;
    const uint8_t *dy;
    float *out;
    int first;
} bias_job;

static void bias_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const bias_job *b = arg;
    const job *j = b->of;
    uint64_t col = tile * PST_SUM_COLS, cols = pst_min_u64(PST_SUM_COLS, j->of.out - col);
    j->ops->column_sum(b->dy + col * j->size, j->windows, cols, j->of.out, b->out + col, b->first);
}

/* IN0 DOUT0 DPARAM0 [DPARAM1] */
pst_status pst_convolution_weight(pst_device *device, const pst_call *call,
                                  const pst_linear_ops *ops) {
    job j = job_of(call->graph, call->node);
    const uint8_t *dy = call->arg[1];
    uint64_t band = band_windows(&j);
    j.ops = ops;
    j.x = call->arg[0];
    j.patches = call->scratch;
    if (call->node->n_param > 1) {
        bias_job b = {&j, dy, call->arg[3], call->first};
        pst_device_run(device, bias_tile, &b, pst_div_up(j.of.out, PST_SUM_COLS));
    }
    if (ops->direct && !j.plain) {
        const pst_conv_call direct = {
            .x = j.x, .dy = dy, .y = call->arg[2], .scratch = call->scratch};
        pst_conv_weight(device, ops, &j.of, &direct, !call->first);
        return PST_OK;
    }
    for (j.first = 0; j.first < j.windows; j.first += band) {
        j.n = pst_min_u64(band, j.windows - j.first);
        pst_gemm gemm = product_of(&j, PST_PASS_W);
        gemm.trans_a = 1;
        gemm.m = j.of.out;
        gemm.n = j.terms;
        gemm.k = j.n;
        gemm.a = dy + j.first * j.of.out * j.size;
        gemm.lda = j.of.out;
        gemm.c = call->arg[2];
        gemm.ldc = j.terms;
        gemm.add = !call->first || j.first;
        gemm.b = patches_of(device, &j);
        gemm.ldb = j.terms;
        PST_TRY(pst_gemm_run(device, &gemm));
    }
    return PST_OK;
}
