/* Vector layer norm and RMS norm, which has neither a mean nor a bias: `rms` is a constant where
 * functions are inlined. Row statistics: two passes over the row, lane sums added in double. */

enum { NORM_ROWS = 16 }; /* rows per tile in F and B */

typedef struct {
    uint64_t rows, n;
    float eps;
    int rms, first, wide_x, wide_y; /* 1: x, sum and dx (wide_x), or y and dy (wide_y), are fp32 */
    const vx *weight, *bias;
    const void *x, *dy, *sum;
    const float *saved;
    void *out;
    float *stats, *dweight, *dbias;
    const pst_blocks *blocks; /* W: with blocks of positions, each has sums of its own */
    uint64_t positions;       /* of a sample */
} norm_job;

/* Four running sums hide the latency of an addition; the order is the same for every row of this
 * width. */
VEC_INLINE double row_sum(const void *x, uint64_t from, uint64_t count, int wide) {
    vf sum[4] = {v_set(0.0f), v_set(0.0f), v_set(0.0f), v_set(0.0f)};
    uint64_t i = 0;
    for (; i + 4 * VEC_W <= count; i += 4 * VEC_W) VEC_UNROLL
    for (int j = 0; j < 4; j++)
        sum[j] = sum[j] + s_load_n(x, from + i + (uint64_t)j * VEC_W, VEC_W, wide);
    VEC_EACH(k, n, count - i, { sum[0] = sum[0] + s_load_n(x, from + i + k, n, wide); });
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

VEC_INLINE double row_variance(const void *x, uint64_t from, uint64_t count, float mean, int wide) {
    vf sum[4] = {v_set(0.0f), v_set(0.0f), v_set(0.0f), v_set(0.0f)}, m = v_set(mean);
    uint64_t i = 0;
    for (; i + 4 * VEC_W <= count; i += 4 * VEC_W) VEC_UNROLL
    for (int j = 0; j < 4; j++) {
        vf d = s_load_n(x, from + i + (uint64_t)j * VEC_W, VEC_W, wide) - m;
        sum[j] = v_fma(d, d, sum[j]);
    }
    VEC_EACH(k, n, count - i, {
        vf d = v_keep_n(s_load_n(x, from + i + k, n, wide) - m, 0.0f, n);
        sum[0] = v_fma(d, d, sum[0]);
    });
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3])) / (double)count;
}

VEC_INLINE vf norm_scaled(vf x, vf mean, vf rstd, int rms) {
    return rms ? x * rstd : (x - mean) * rstd;
}

/* SAVED0 has mean and rstd of each row, or rstd alone. */
VEC_INLINE vf norm_mean(const norm_job *j, uint64_t r, int rms) {
    return v_set(rms ? 0.0f : j->saved[2 * r]);
}
VEC_INLINE vf norm_rstd(const norm_job *j, uint64_t r, int rms) {
    return v_set(rms ? j->saved[r] : j->saved[2 * r + 1]);
}

VEC_INLINE void norm_f_rows(const norm_job *j, uint64_t tile, int rms, int wide_x, int wide_y) {
    uint64_t end = pst_min_u64((tile + 1) * NORM_ROWS, j->rows);
    for (uint64_t r = tile * NORM_ROWS; r < end; r++) {
        uint64_t at = r * j->n;
        float mean = rms ? 0.0f : (float)(row_sum(j->x, at, j->n, wide_x) / (double)j->n);
        double variance = row_variance(j->x, at, j->n, mean, wide_x);
        float rstd = (float)(1 / sqrt(variance + (double)j->eps));
        VEC_EACH(i, n, j->n, {
            vf h = norm_scaled(s_load_n(j->x, at + i, n, wide_x), v_set(mean), v_set(rstd), rms);
            vf w = x_load_n(j->weight + i, n);
            vf y = h * w;
            if (!rms) y = v_fma(h, w, x_load_n(j->bias + i, n));
            s_store_n(j->out, at + i, y, n, wide_y);
        });
        if (!rms) j->stats[2 * r] = mean;
        j->stats[rms ? r : 2 * r + 1] = rstd;
    }
}

static void norm_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const norm_job *j = arg;
    if (j->rms) VEC_FORMS(norm_f_rows, j->wide_x, j->wide_y, j, tile, 1);
    else VEC_FORMS(norm_f_rows, j->wide_x, j->wide_y, j, tile, 0);
}

static norm_job norm_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    return (norm_job){.rows = pst_tensor_rows(in),
                      .n = pst_tensor_last(in),
                      .eps = call->node->attr.eps,
                      .rms = call->node->n_param == 1,
                      .first = call->first,
                      .blocks = &call->node->attr.blocks,
                      .positions = in->n_dim > 1 ? in->dim[1] : 1,
                      .wide_x = is_wide(call, call->node->in[0]),
                      .wide_y = is_wide(call, call->node->out[0]),
                      .x = call->arg[0]};
}

/* IN0 PARAM0 [PARAM1] OUT0 SAVED0 */
static pst_status layer_norm_f(pst_device *device, const pst_call *call) {
    norm_job j = norm_of(call);
    void *const *behind = &call->arg[j.rms ? 2 : 3];
    j.weight = call->arg[1];
    j.bias = j.rms ? NULL : call->arg[2];
    j.out = behind[0];
    j.stats = behind[1];
    pst_device_run(device, norm_f_tile, &j, pst_div_up(j.rows, NORM_ROWS));
    return PST_OK;
}

/* g = dy * weight, h = (x - mean) * rstd: dx = rstd * (g - mean(g) - h * mean(g h)) + sum. RMS
 * norm: h = x * rstd, dx = rstd * (g - h * mean(g h)) + sum. */
VEC_INLINE void norm_b_row(const norm_job *j, uint64_t r, int rms, int wide_x, int wide_y) {
    uint64_t at = r * j->n;
    vf mean = norm_mean(j, r, rms), rstd = norm_rstd(j, r, rms);
    vf g_sum = v_set(0.0f), gh_sum = v_set(0.0f);
    VEC_EACH(i, n, j->n, {
        /* lanes past the end are 0 */
        vf g = s_load_n(j->dy, at + i, n, wide_y) * x_load_n(j->weight + i, n);
        if (!rms) g_sum = g_sum + g;
        gh_sum = v_fma(g, norm_scaled(s_load_n(j->x, at + i, n, wide_x), mean, rstd, rms), gh_sum);
    });
    vf g_mean = v_set((float)(v_sum(g_sum) / (double)j->n)),
       gh_mean = v_set((float)(v_sum(gh_sum) / (double)j->n));
    VEC_EACH(i, n, j->n, {
        vf g = s_load_n(j->dy, at + i, n, wide_y) * x_load_n(j->weight + i, n);
        vf h = norm_scaled(s_load_n(j->x, at + i, n, wide_x), mean, rstd, rms);
        if (!rms) g = g - g_mean;
        vf d = v_fnma(h, gh_mean, g) * rstd;
        if (j->sum) d = d + s_load_n(j->sum, at + i, n, wide_x);
        s_store_n(j->out, at + i, d, n, wide_x);
    });
}

VEC_INLINE void norm_b_rows(const norm_job *j, uint64_t tile, int rms, int wide_x, int wide_y) {
    uint64_t end = pst_min_u64((tile + 1) * NORM_ROWS, j->rows);
    for (uint64_t r = tile * NORM_ROWS; r < end; r++) norm_b_row(j, r, rms, wide_x, wide_y);
}

static void norm_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const norm_job *j = arg;
    if (j->rms) VEC_FORMS(norm_b_rows, j->wide_x, j->wide_y, j, tile, 1);
    else VEC_FORMS(norm_b_rows, j->wide_x, j->wide_y, j, tile, 0);
}

/* IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0 */
static pst_status layer_norm_b(pst_device *device, const pst_call *call) {
    norm_job j = norm_of(call);
    j.weight = call->arg[1];
    j.saved = call->arg[2];
    j.dy = call->arg[3];
    j.sum = call->arg[4];
    j.out = call->arg[5];
    pst_device_run(device, norm_b_tile, &j, pst_div_up(j.rows, NORM_ROWS));
    return PST_OK;
}

/* Sums over rows, of up to PST_SUM_COLS columns from `col` on. */
typedef struct {
    uint64_t col;
    float dw[PST_SUM_COLS], db[PST_SUM_COLS];
} norm_sums;

VEC_INLINE void norm_w_rows(const norm_job *j, pst_part rows, norm_sums *total, int rms, int wide_x,
                            int wide_y) {
    const uint64_t col = total->col;
    VEC_EACH(i, n, pst_min_u64(PST_SUM_COLS, j->n - col), {
        vf dw = v_set(0.0f), db = dw;
        for (uint64_t r = rows.first; r < rows.first + rows.count; r++) {
            uint64_t at = r * j->n + col + i;
            vf dy = s_load_n(j->dy, at, n, wide_y);
            vf h = norm_scaled(s_load_n(j->x, at, n, wide_x), norm_mean(j, r, rms),
                               norm_rstd(j, r, rms), rms);
            dw = v_fma(dy, h, dw);
            if (!rms) db = db + dy;
        }
        v_store_n(total->dw + i, v_load_n(total->dw + i, n) + dw, n);
        if (!rms) v_store_n(total->db + i, v_load_n(total->db + i, n) + db, n);
    });
}

/* Adds the same positions of each sample, PST_SUM_ROWS at a time. */
VEC_INLINE void norm_w_part(const norm_job *j, pst_part part, norm_sums *total, int rms, int wide_x,
                            int wide_y) {
    for (uint64_t row = part.first; row < j->rows; row += j->positions)
        for (uint64_t at = 0; at < part.count; at += PST_SUM_ROWS) {
            pst_part rows = {row + at, pst_min_u64(PST_SUM_ROWS, part.count - at)};
            norm_w_rows(j, rows, total, rms, wide_x, wide_y);
        }
}

VEC_INLINE void norm_w_columns(const norm_job *j, uint64_t tile, int rms, int wide_x, int wide_y) {
    uint64_t col = tile * PST_SUM_COLS, cols = pst_min_u64(PST_SUM_COLS, j->n - col);
    uint32_t blocks = j->blocks->n ? j->blocks->own : 1;
    for (uint32_t b = 0; b < blocks; b++) {
        pst_part part = {0, j->positions};
        float *dweight = j->dweight + b * j->n + col;
        norm_sums total = {col, {0}, {0}};
        if (j->blocks->n) part = pst_block_of(j->blocks, j->positions, b);
        norm_w_part(j, part, &total, rms, wide_x, wide_y);
        for (uint64_t i = 0; i < cols; i++)
            dweight[i] = j->first ? total.dw[i] : dweight[i] + total.dw[i];
        if (rms) continue;
        float *dbias = j->dbias + b * j->n + col;
        for (uint64_t i = 0; i < cols; i++)
            dbias[i] = j->first ? total.db[i] : dbias[i] + total.db[i];
    }
}

static void norm_w_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const norm_job *j = arg;
    if (j->rms) VEC_FORMS(norm_w_columns, j->wide_x, j->wide_y, j, tile, 1);
    else VEC_FORMS(norm_w_columns, j->wide_x, j->wide_y, j, tile, 0);
}

/* IN0 SAVED0 DOUT0 DPARAM0 [DPARAM1] */
static pst_status layer_norm_w(pst_device *device, const pst_call *call) {
    norm_job j = norm_of(call);
    j.saved = call->arg[1];
    j.dy = call->arg[2];
    j.dweight = call->arg[3];
    j.dbias = j.rms ? NULL : call->arg[4];
    if (!j.blocks->n) j.positions = j.rows;
    pst_device_run(device, norm_w_tile, &j, pst_div_up(j.n, PST_SUM_COLS));
    return PST_OK;
}
