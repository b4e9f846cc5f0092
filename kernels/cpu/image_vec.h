/* Images [b,H,W,C], for the vector length and element type of the including file: batch norm,
 * pools, pixels. A row here is a pixel, its C channels. Sums over rows are in fp64: rows of a block
 * in order, then the blocks in order. */

enum { IMAGE_ROWS = 256 }; /* of a block */

typedef struct {
    uint64_t rows, n, blocks;
    const vx *x, *z, *weight, *bias, *y, *dy;
    vx *out, *dz;
    const float *mean, *rstd;
    float *partial;    /* [blocks][2][n] */
    const float *sums; /* [2][n] of B: of g h, of g */
    int relu;
} batch_job;

static uint64_t batch_blocks(uint64_t rows) { return pst_div_up(rows, IMAGE_ROWS); }

static uint64_t batch_norm_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    const pst_tensor *x = &g->tensor[node->in[0]];
    (void)threads;
    return batch_blocks(pst_tensor_rows(x)) * 2 * pst_tensor_last(x) * sizeof(float);
}

static batch_job batch_job_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    return (batch_job){.rows = pst_tensor_rows(in),
                       .n = pst_tensor_last(in),
                       .blocks = batch_blocks(pst_tensor_rows(in)),
                       .x = call->arg[0],
                       .partial = call->scratch,
                       .relu = call->node->attr.activation == PST_ACT_RELU};
}

#define BATCH_BLOCK                                                                                \
    (void)thread;                                                                                  \
    const batch_job *j = arg;                                                                      \
    uint64_t from = tile * IMAGE_ROWS, end = pst_min_u64(from + IMAGE_ROWS, j->rows);              \
    float *first = j->partial + tile * 2 * j->n, *second = first + j->n

/* First pass: sums of x. Second pass: sums of squared deviations from the mean. */
static void batch_sum_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    VEC_EACH(i, n, j->n, {
        vf sum = v_set(0.0f);
        for (uint64_t r = from; r < end; r++) sum = sum + x_load_n(j->x + r * j->n + i, n);
        v_store_n(first + i, sum, n);
        v_store_n(second + i, v_set(0.0f), n);
    });
}

static void batch_square_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    (void)first;
    VEC_EACH(i, n, j->n, {
        vf sum = v_set(0.0f), mean = v_load_n(j->mean + i, n);
        for (uint64_t r = from; r < end; r++) {
            vf d = x_load_n(j->x + r * j->n + i, n) - mean;
            sum = v_fma(d, d, sum);
        }
        v_store_n(second + i, sum, n);
    });
}

static double batch_total(const batch_job *j, uint64_t which, uint64_t c) {
    double sum = 0;
    for (uint64_t b = 0; b < j->blocks; b++) sum += j->partial[(2 * b + which) * j->n + c];
    return sum;
}

static void batch_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    (void)first;
    (void)second;
    VEC_EACH(i, n, j->n, {
        vf scale = v_load_n(j->rstd + i, n) * x_load_n(j->weight + i, n),
           mean = v_load_n(j->mean + i, n);
        vf bias = x_load_n(j->bias + i, n), zero = v_set(0.0f);
        for (uint64_t r = from; r < end; r++) {
            vf y = v_fma(x_load_n(j->x + r * j->n + i, n) - mean, scale, bias);
            if (j->z) y = y + x_load_n(j->z + r * j->n + i, n);
            if (j->relu) y = v_if_gt(zero, y, zero, y); /* keeps NaN */
            x_store_n(j->out + r * j->n + i, y, n);
        }
    });
}

/* IN0 [IN1] PARAM0 PARAM1 PARAM2 PARAM3 OUT0 SAVED0 */
static pst_status batch_norm_f(pst_device *device, const pst_call *call) {
    batch_job j = batch_job_of(call);
    void *const *arg = call->arg + call->node->n_in;
    float *mean = arg[5], *rstd = mean + j.n;
    j.z = call->node->n_in > 1 ? call->arg[1] : NULL;
    j.weight = arg[0];
    j.bias = arg[1];
    j.out = arg[4];
    j.mean = mean;
    j.rstd = rstd;
    if (call->train) pst_device_run(device, batch_sum_tile, &j, j.blocks);
    for (uint64_t c = 0; c < j.n; c++)
        mean[c] = call->train ? (float)(batch_total(&j, 0, c) / (double)j.rows)
                              : x_get(((const vx *)arg[2])[c]);
    if (call->train) pst_device_run(device, batch_square_tile, &j, j.blocks);
    for (uint64_t c = 0; c < j.n; c++) {
        double variance = call->train ? batch_total(&j, 1, c) / (double)j.rows
                                      : (double)x_get(((const vx *)arg[3])[c]);
        rstd[c] = (float)(1 / sqrt(variance + (double)call->node->attr.eps));
    }
    pst_device_run(device, batch_f_tile, &j, j.blocks);
    return PST_OK;
}

/* The gradient of the activation's input, for n channels from i on of row r. */
VEC_INLINE vf batch_g(const batch_job *j, uint64_t r, uint64_t i, unsigned n) {
    vf dy = x_load_n(j->dy + r * j->n + i, n), zero = v_set(0.0f);
    return j->relu ? v_if_gt(x_load_n(j->y + r * j->n + i, n), zero, dy, zero) : dy;
}

static void batch_b_sum_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    VEC_EACH(i, n, j->n, {
        vf gh = v_set(0.0f), sum = gh, mean = v_load_n(j->mean + i, n),
           rstd = v_load_n(j->rstd + i, n);
        for (uint64_t r = from; r < end; r++) {
            vf g = batch_g(j, r, i, n);
            gh = v_fma(g, (x_load_n(j->x + r * j->n + i, n) - mean) * rstd, gh);
            sum = sum + g;
        }
        v_store_n(first + i, gh, n);
        v_store_n(second + i, sum, n);
    });
}

static void batch_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    (void)first;
    (void)second;
    vf share = v_set(1.0f / (float)j->rows);
    VEC_EACH(i, n, j->n, {
        vf mean = v_load_n(j->mean + i, n), rstd = v_load_n(j->rstd + i, n);
        vf scale = rstd * x_load_n(j->weight + i, n);
        vf gh_mean = v_load_n(j->sums + i, n) * share,
           g_mean = v_load_n(j->sums + j->n + i, n) * share;
        for (uint64_t r = from; r < end; r++) {
            vf g = batch_g(j, r, i, n), h = (x_load_n(j->x + r * j->n + i, n) - mean) * rstd;
            x_store_n(j->out + r * j->n + i, v_fnma(h, gh_mean, g - g_mean) * scale, n);
            if (j->dz) x_store_n(j->dz + r * j->n + i, g, n);
        }
    });
}

/* IN0 PARAM0 SAVED0 [OUT0] DOUT0 SAVED1 DIN0, or .. DIN0 DIN1 */
static pst_status batch_norm_b(pst_device *device, const pst_call *call) {
    batch_job j = batch_job_of(call);
    void *const *arg = call->arg + 3 + j.relu;
    float *sums = arg[1];
    j.weight = call->arg[1];
    j.mean = call->arg[2];
    j.rstd = j.mean + j.n;
    j.y = j.relu ? call->arg[3] : NULL;
    j.dy = arg[0];
    j.sums = sums;
    j.out = arg[2];
    j.dz = call->node->n_in > 1 ? arg[3] : NULL;
    pst_device_run(device, batch_b_sum_tile, &j, j.blocks);
    for (uint64_t c = 0; c < j.n; c++)
        for (uint64_t which = 0; which < 2; which++)
            sums[which * j.n + c] = (float)batch_total(&j, which, c);
    pst_device_run(device, batch_b_tile, &j, j.blocks);
    return PST_OK;
}

/* --- pixels and pools ------------------------------------------------------------------------- */

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

/* The pixels [*from, *end) that window r covers along a side of `size` pixels. */
VEC_INLINE void window_span(const image_job *j, uint64_t r, uint64_t size, uint64_t *from,
                            uint64_t *end) {
    uint64_t first = r * j->stride, last = first + j->window;
    *from = first < j->padding ? 0 : first - j->padding;
    *end = pst_min_u64(last - j->padding, size);
}

/* A row of windows. */
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

/* The pixel of a window's maximum in one channel; the first one if several are equal. */
static uint64_t first_largest(const image_job *j, const vx *image, uint64_t r, uint64_t q,
                              uint64_t c) {
    uint64_t top, bottom, left, right, width = j->in->dim[2];
    window_span(j, r, j->in->dim[1], &top, &bottom);
    window_span(j, q, width, &left, &right);
    uint64_t best = top * width + left;
    for (uint64_t y = top; y < bottom; y++)
        for (uint64_t x = left; x < right; x++)
            if (x_get(image[(y * width + x) * j->channels + c]) >
                x_get(image[best * j->channels + c]))
                best = y * width + x;
    return best;
}

/* PST_SUM_COLS channels of one image: windows are added in order, in fp32. */
static void max_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const image_job *j = arg;
    uint64_t parts = pst_div_up(j->channels, PST_SUM_COLS), n = tile / parts,
             c = tile % parts * PST_SUM_COLS;
    uint64_t pixels = j->in->dim[1] * j->in->dim[2], windows = j->to->dim[1] * j->to->dim[2];
    const vx *image = j->x + n * pixels * j->channels, *dy = j->dy + n * windows * j->channels;
    float *sum = (float *)j->call->scratch + tile * pixels;
    for (uint64_t end = pst_min_u64(c + PST_SUM_COLS, j->channels); c < end; c++) {
        memset(sum, 0, pixels * sizeof *sum);
        for (uint64_t w = 0; w < windows; w++)
            sum[first_largest(j, image, w / j->to->dim[2], w % j->to->dim[2], c)] +=
                x_get(dy[w * j->channels + c]);
        for (uint64_t i = 0; i < pixels; i++)
            x_put(j->out + (n * pixels + i) * j->channels + c, sum[i]);
    }
}

static uint64_t max_pool_b_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    const pst_tensor *x = &g->tensor[node->in[0]];
    (void)threads;
    return x->dim[0] * pst_div_up(x->dim[3], PST_SUM_COLS) * x->dim[1] * x->dim[2] * sizeof(float);
}

/* IN0 DOUT0 DIN0 */
static pst_status max_pool_b(pst_device *device, const pst_call *call) {
    image_job j = image_job_of(call);
    j.x = call->arg[0];
    j.dy = call->arg[1];
    j.out = call->arg[2];
    pst_device_run(device, max_b_tile, &j, j.in->dim[0] * pst_div_up(j.channels, PST_SUM_COLS));
    return PST_OK;
}

/* An image. */
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
