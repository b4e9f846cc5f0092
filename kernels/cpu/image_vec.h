/* Images [b,H,W,C], for the vector length and element type of the including file: conversion of
 * bytes, pooling, and the table rows of convolution. */

enum { MAX_LANES = 16 }; /* maximum over all instruction sets */

typedef struct {
    const pst_call *call;
    const pst_tensor *in, *to;
    uint64_t channels, window, stride, padding;
    const vx *x, *dy;
    const int32_t *bytes;
    vx *out;
} image_job;

static image_job image_job_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    const pst_attr *a = &call->node->attr;
    return (image_job){.call = call,
                       .in = in,
                       .to = &call->graph->tensor[call->node->out[0]],
                       .channels = pst_tensor_last(in),
                       .window = a->window,
                       .stride = a->stride,
                       .padding = a->padding};
}

static void pixels_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const image_job *j = arg;
    uint64_t from = tile * PST_FLAT_TILE,
             end = pst_min_u64(from + PST_FLAT_TILE, pst_tensor_count(j->in));
    for (uint64_t i = from; i < end; i++)
        x_put(j->out + i, (float)j->bytes[i] * (2.0f / 255.0f) - 1.0f);
}

/* IN0 OUT0 */
static pst_status pixels_f(pst_device *device, const pst_call *call) {
    image_job j = image_job_of(call);
    j.bytes = call->arg[0];
    j.out = call->arg[1];
    PST_TRY(pst_call_check_index(call, j.bytes, pst_tensor_count(j.in), 256, 0));
    pst_device_run(device, pixels_tile, &j, pst_div_up(pst_tensor_count(j.in), PST_FLAT_TILE));
    return PST_OK;
}

/* Sets [*from, *end) to the pixels that window r covers along a side of `size` pixels. */
VEC_INLINE void window_span(const image_job *j, uint64_t r, uint64_t size, uint64_t *from,
                            uint64_t *end) {
    uint64_t first = r * j->stride, last = first + j->window;
    *from = first < j->padding ? 0 : first - j->padding;
    *end = pst_min_u64(last - j->padding, size);
}

/* A tile is a row of windows. */
static void max_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const image_job *j = arg;
    uint64_t columns = j->to->dim[2], top, bottom, left, right, width = j->in->dim[2];
    const vx *image = j->x + tile / j->to->dim[1] * j->in->dim[1] * width * j->channels;
    window_span(j, tile % j->to->dim[1], j->in->dim[1], &top, &bottom);
    for (uint64_t q = 0; q < columns; q++) {
        window_span(j, q, width, &left, &right);
        VEC_EACH(i, n, j->channels, {
            vf best = x_load_n(image + (top * width + left) * j->channels + i, n);
            for (uint64_t y = top; y < bottom; y++)
                for (uint64_t x = left; x < right; x++) {
                    vf value = x_load_n(image + (y * width + x) * j->channels + i, n);
                    best = v_if_gt(value, best, value, best);
                }
            x_store_n(j->out + (tile * columns + q) * j->channels + i, best, n);
        });
    }
}

/* IN0 OUT0 */
static pst_status max_pool_f(pst_device *device, const pst_call *call) {
    image_job j = image_job_of(call);
    j.x = call->arg[0];
    j.out = call->arg[1];
    pst_device_run(device, max_f_tile, &j, j.to->dim[0] * j.to->dim[1]);
    return PST_OK;
}

/* Returns the position of the maximum within a window for n channels, as row * window + column; of
 * several equal values, the first. */
VEC_INLINE vf first_largest(const image_job *j, const vx *image, uint64_t r, uint64_t q,
                            unsigned n) {
    uint64_t top, bottom, left, right, width = j->in->dim[2];
    window_span(j, r, j->in->dim[1], &top, &bottom);
    window_span(j, q, width, &left, &right);
    const uint64_t first =
        (top + j->padding - r * j->stride) * j->window + left + j->padding - q * j->stride;
    vf best = x_load_n(image + (top * width + left) * j->channels, n), at = v_set((float)first);
    for (uint64_t y = top; y < bottom; y++)
        for (uint64_t x = left; x < right; x++) {
            const vf value = x_load_n(image + (y * width + x) * j->channels, n);
            const uint64_t place = first + (y - top) * j->window + x - left;
            at = v_if_gt(value, best, v_set((float)place), at);
            best = v_if_gt(value, best, value, best);
        }
    return at;
}

/* Adds dy of window q to those pixels of row `row` that are at position `at` of the window. */
VEC_INLINE void add_largest(const image_job *j, vf at, vf dy, uint64_t row, uint64_t q,
                            float *sum) {
    uint64_t left, right;
    window_span(j, q, j->in->dim[2], &left, &right);
    for (uint64_t x = left; x < right; x++) {
        const vf place = v_set((float)(row * j->window + x + j->padding - q * j->stride));
        const vf add = v_if_ge(at, place, v_if_ge(place, at, dy, v_set(0.0f)), v_set(0.0f));
        v_store(sum + x * VEC_W, v_load(sum + x * VEC_W) + add);
    }
}

/* A tile is a row of the gradient, computed one vector of channels at a time; windows are added in
 * order, in fp32. */
static void max_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    const image_job *j = arg;
    const uint64_t height = j->in->dim[1], width = j->in->dim[2], rows = j->to->dim[1],
                   columns = j->to->dim[2], y = tile % height + j->padding;
    const uint64_t first = y < j->window ? 0 : (y - j->window) / j->stride + 1,
                   end = pst_min_u64(y / j->stride + 1, rows);
    const vx *image = j->x + tile / height * height * width * j->channels;
    const vx *dy = j->dy + tile / height * rows * columns * j->channels;
    float *sum = (float *)j->call->scratch + thread * width * MAX_LANES;
    VEC_EACH(i, n, j->channels, {
        memset(sum, 0, width * VEC_W * sizeof *sum);
        for (uint64_t r = first; r < end; r++)
            for (uint64_t q = 0; q < columns; q++)
                add_largest(j, first_largest(j, image + i, r, q, n),
                            x_load_n(dy + (r * columns + q) * j->channels + i, n),
                            y - r * j->stride, q, sum);
        for (uint64_t x = 0; x < width; x++)
            x_store_n(j->out + (tile * width + x) * j->channels + i, v_load(sum + x * VEC_W), n);
    });
}

static uint64_t max_pool_b_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    return threads * g->tensor[node->in[0]].dim[2] * MAX_LANES * sizeof(float);
}

/* IN0 DOUT0 DIN0 */
static pst_status max_pool_b(pst_device *device, const pst_call *call) {
    image_job j = image_job_of(call);
    j.x = call->arg[0];
    j.dy = call->arg[1];
    j.out = call->arg[2];
    memset(call->scratch, 0, device->threads * j.in->dim[2] * MAX_LANES * sizeof(float));
    pst_device_run(device, max_b_tile, &j, j.in->dim[0] * j.in->dim[1]);
    return PST_OK;
}

/* A tile is an image. */
static void average_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const image_job *j = arg;
    uint64_t pixels = j->in->dim[1] * j->in->dim[2];
    const vx *image = j->x + tile * pixels * j->channels;
    VEC_EACH(i, n, j->channels, {
        vf sum = v_set(0.0f);
        for (uint64_t p = 0; p < pixels; p++) sum = sum + x_load_n(image + p * j->channels + i, n);
        x_store_n(j->out + tile * j->channels + i, sum * v_set(1.0f / (float)pixels), n);
    });
}

static void average_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const image_job *j = arg;
    uint64_t pixels = j->in->dim[1] * j->in->dim[2];
    vx *image = j->out + tile * pixels * j->channels;
    VEC_EACH(i, n, j->channels, {
        vf share = x_load_n(j->dy + tile * j->channels + i, n) * v_set(1.0f / (float)pixels);
        for (uint64_t p = 0; p < pixels; p++) x_store_n(image + p * j->channels + i, share, n);
    });
}

/* IN0 OUT0 */
static pst_status average_pool_f(pst_device *device, const pst_call *call) {
    image_job j = image_job_of(call);
    j.x = call->arg[0];
    j.out = call->arg[1];
    pst_device_run(device, average_f_tile, &j, j.in->dim[0]);
    return PST_OK;
}

/* DOUT0 DIN0 */
static pst_status average_pool_b(pst_device *device, const pst_call *call) {
    image_job j = image_job_of(call);
    j.dy = call->arg[0];
    j.out = call->arg[1];
    pst_device_run(device, average_b_tile, &j, j.in->dim[0]);
    return PST_OK;
}

/* --- convolution: element-wise part as in linear ------------------------------------------- */

static pst_status convolution_f(pst_device *device, const pst_call *call) {
    return pst_convolution_forward(device, call, &linear_ops);
}
static pst_status convolution_b(pst_device *device, const pst_call *call) {
    return pst_convolution_backward(device, call, &linear_ops);
}
static pst_status convolution_w(pst_device *device, const pst_call *call) {
    return pst_convolution_weight(device, call, &linear_ops);
}
