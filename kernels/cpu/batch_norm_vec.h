/* Batch norm of images [b,H,W,C], for the vector length and element type of the including file.
 * Here a row is the C channels of a pixel. Sums over rows add the rows of a block in order, then
 * the blocks in order, in fp64. The variance is computed from the variances and means of the blocks
 * (Chan, Golub, LeVeque 1983), so images are read from memory only once. */

enum { IMAGE_ROWS = 256 }; /* of a block */

typedef struct {
    uint64_t rows, n, blocks;
    const vx *x, *z, *weight, *bias, *y, *dy;
    vx *out, *dz;
    const float *mean, *rstd;
    float *mean_out, *rstd_out;
    float *partial; /* [blocks][2][n] */
    float *sums;    /* [2][n] of B: of g h, of g */
    double eps;
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
    uint64_t from = tile * IMAGE_ROWS, end = pst_min_u64(from + IMAGE_ROWS, j->rows)

/* Calls f(.., i, vectors, lanes of the last vector) for all channels, `most` vectors at a time, so
 * that long contiguous parts of a row are read. */
#define BATCH_STRIPS(f, most, ...)                                                                 \
    do {                                                                                           \
        uint64_t i_ = 0;                                                                           \
        for (; i_ + (most)*VEC_W <= j->n; i_ += (most)*VEC_W) f(__VA_ARGS__, i_, most, VEC_W);     \
        for (; i_ + VEC_W <= j->n; i_ += VEC_W) f(__VA_ARGS__, i_, 1, VEC_W);                      \
        if (i_ < j->n) f(__VA_ARGS__, i_, 1, (unsigned)(j->n - i_));                               \
    } while (0)
enum { BATCH_WIDE = VEC_W / 2, BATCH_HALF = VEC_W / 4 };

/* Rows [from, end) and where their sums are stored. */
typedef struct {
    uint64_t from, end;
    float *out;
} batch_block;

/* Computes the sum over the rows of a block, then the sum of squared deviations from the block's
 * mean. */
VEC_INLINE void batch_moments(const batch_job *j, const batch_block *block, uint64_t i,
                              unsigned vectors, unsigned n) {
    const uint64_t from = block->from, end = block->end;
    float *out = block->out;
    vf sum[BATCH_WIDE], mean[BATCH_WIDE];
    const vx *x = j->x + i;
    VEC_UNROLL for (unsigned v = 0; v < vectors; v++) sum[v] = v_set(0.0f);
    for (uint64_t r = from; r < end; r++) {
        VEC_UNROLL for (unsigned v = 0; v < vectors; v++) sum[v] =
            sum[v] + x_load_n(x + r * j->n + v * VEC_W, n);
    }
    VEC_UNROLL for (unsigned v = 0; v < vectors; v++) {
        v_store_n(out + i + v * VEC_W, sum[v], n);
        mean[v] = sum[v] / v_set((float)(end - from));
        sum[v] = v_set(0.0f);
    }
    for (uint64_t r = from; r < end; r++) {
        VEC_UNROLL for (unsigned v = 0; v < vectors; v++) {
            vf d = x_load_n(x + r * j->n + v * VEC_W, n) - mean[v];
            sum[v] = v_fma(d, d, sum[v]);
        }
    }
    VEC_UNROLL for (unsigned v = 0; v < vectors; v++)
        v_store_n(out + j->n + i + v * VEC_W, sum[v], n);
}

static void batch_moments_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    float *out = j->partial + tile * 2 * j->n;
    BATCH_STRIPS(batch_moments, BATCH_WIDE, j, &(batch_block){from, end, out});
}

/* --- sums over the blocks, in fp64: PST_SUM_COLS channels per tile ----------------------------
 */

static void batch_total(const batch_job *j, uint64_t which, uint64_t from, uint64_t n,
                        double *sum) {
    memset(sum, 0, n * sizeof *sum);
    for (uint64_t b = 0; b < j->blocks; b++)
        for (uint64_t c = 0; c < n; c++) sum[c] += j->partial[(2 * b + which) * j->n + from + c];
}

/* Returns a block's sum of squared deviations from the mean of all rows, given the block's sum and
 * the squared deviations from the block's own mean. */
static double batch_deviation(float sum, float squares, double rows, double mean) {
    const double own = sum / (float)rows, d = own - mean;
    return squares + d * (2 * (sum - rows * own) + rows * d);
}

static void batch_mean_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const batch_job *j = arg;
    const uint64_t from = tile * PST_SUM_COLS, n = pst_min_u64(PST_SUM_COLS, j->n - from);
    double mean[PST_SUM_COLS], sum[PST_SUM_COLS] = {0};
    batch_total(j, 0, from, n, mean);
    for (uint64_t c = 0; c < n; c++) mean[c] /= (double)j->rows;
    for (uint64_t b = 0; b < j->blocks; b++) {
        const double rows = (double)pst_min_u64(IMAGE_ROWS, j->rows - b * IMAGE_ROWS);
        const float *first = j->partial + 2 * b * j->n + from, *second = first + j->n;
        for (uint64_t c = 0; c < n; c++)
            sum[c] += batch_deviation(first[c], second[c], rows, mean[c]);
    }
    for (uint64_t c = 0; c < n; c++) {
        j->mean_out[from + c] = (float)mean[c];
        j->rstd_out[from + c] = (float)(1 / sqrt(sum[c] / (double)j->rows + j->eps));
    }
}

static void batch_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    const vf zero = v_set(0.0f);
    for (uint64_t r = from; r < end; r++)
        VEC_EACH(i, n, j->n, {
            vf scale = v_load_n(j->rstd + i, n) * x_load_n(j->weight + i, n);
            vf y = v_fma(x_load_n(j->x + r * j->n + i, n) - v_load_n(j->mean + i, n), scale,
                         x_load_n(j->bias + i, n));
            if (j->z) y = y + x_load_n(j->z + r * j->n + i, n);
            if (j->relu) y = v_if_gt(zero, y, zero, y); /* keeps NaN */
            x_store_n(j->out + r * j->n + i, y, n);
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
    j.mean = j.mean_out = mean;
    j.rstd = j.rstd_out = rstd;
    j.eps = (double)call->node->attr.eps;
    if (call->train) {
        pst_device_run(device, batch_moments_tile, &j, j.blocks);
        pst_device_run(device, batch_mean_tile, &j, pst_div_up(j.n, PST_SUM_COLS));
    } else
        for (uint64_t c = 0; c < j.n; c++) {
            mean[c] = x_get(((const vx *)arg[2])[c]);
            rstd[c] = (float)(1 / sqrt((double)x_get(((const vx *)arg[3])[c]) + j.eps));
        }
    pst_device_run(device, batch_f_tile, &j, j.blocks);
    return PST_OK;
}

/* Returns the gradient of the activation's input for channels [i, i + n) of row r. */
VEC_INLINE vf batch_g(const batch_job *j, uint64_t r, uint64_t i, unsigned n) {
    vf dy = x_load_n(j->dy + r * j->n + i, n), zero = v_set(0.0f);
    return j->relu ? v_if_gt(x_load_n(j->y + r * j->n + i, n), zero, dy, zero) : dy;
}

VEC_INLINE void batch_b_sums(const batch_job *j, const batch_block *block, uint64_t i,
                             unsigned vectors, unsigned n) {
    const uint64_t from = block->from, end = block->end;
    float *out = block->out;
    vf gh[BATCH_HALF], sum[BATCH_HALF], mean[BATCH_HALF], rstd[BATCH_HALF];
    VEC_UNROLL for (unsigned v = 0; v < vectors; v++) {
        gh[v] = sum[v] = v_set(0.0f);
        mean[v] = v_load_n(j->mean + i + v * VEC_W, n);
        rstd[v] = v_load_n(j->rstd + i + v * VEC_W, n);
    }
    for (uint64_t r = from; r < end; r++) {
        VEC_UNROLL for (unsigned v = 0; v < vectors; v++) {
            const uint64_t at = i + v * VEC_W;
            vf g = batch_g(j, r, at, n);
            gh[v] = v_fma(g, (x_load_n(j->x + r * j->n + at, n) - mean[v]) * rstd[v], gh[v]);
            sum[v] = sum[v] + g;
        }
    }
    VEC_UNROLL for (unsigned v = 0; v < vectors; v++) {
        v_store_n(out + i + v * VEC_W, gh[v], n);
        v_store_n(out + j->n + i + v * VEC_W, sum[v], n);
    }
}

static void batch_b_sum_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    float *out = j->partial + tile * 2 * j->n;
    BATCH_STRIPS(batch_b_sums, BATCH_HALF, j, &(batch_block){from, end, out});
}

static void batch_b_total_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const batch_job *j = arg;
    const uint64_t from = tile * PST_SUM_COLS, n = pst_min_u64(PST_SUM_COLS, j->n - from);
    double sum[PST_SUM_COLS];
    for (uint64_t which = 0; which < 2; which++) {
        batch_total(j, which, from, n, sum);
        for (uint64_t c = 0; c < n; c++) j->sums[which * j->n + from + c] = (float)sum[c];
    }
}

static void batch_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    BATCH_BLOCK;
    const vf share = v_set(1.0f / (float)j->rows);
    for (uint64_t r = from; r < end; r++)
        VEC_EACH(i, n, j->n, {
            vf rstd = v_load_n(j->rstd + i, n), scale = rstd * x_load_n(j->weight + i, n);
            vf gh_mean = v_load_n(j->sums + i, n) * share,
               g_mean = v_load_n(j->sums + j->n + i, n) * share;
            vf g = batch_g(j, r, i, n),
               h = (x_load_n(j->x + r * j->n + i, n) - v_load_n(j->mean + i, n)) * rstd;
            x_store_n(j->out + r * j->n + i, v_fnma(h, gh_mean, g - g_mean) * scale, n);
            if (j->dz) x_store_n(j->dz + r * j->n + i, g, n);
        });
}

/* IN0 PARAM0 SAVED0 [OUT0] DOUT0 SAVED1 DIN0, or .. DIN0 DIN1 */
static pst_status batch_norm_b(pst_device *device, const pst_call *call) {
    batch_job j = batch_job_of(call);
    void *const *arg = call->arg + 3 + j.relu;
    j.weight = call->arg[1];
    j.mean = call->arg[2];
    j.rstd = j.mean + j.n;
    j.y = j.relu ? call->arg[3] : NULL;
    j.dy = arg[0];
    j.sums = arg[1];
    j.out = arg[2];
    j.dz = call->node->n_in > 1 ? arg[3] : NULL;
    pst_device_run(device, batch_b_sum_tile, &j, j.blocks);
    pst_device_run(device, batch_b_total_tile, &j, pst_div_up(j.n, PST_SUM_COLS));
    pst_device_run(device, batch_b_tile, &j, j.blocks);
    return PST_OK;
}
