/* Vector layer norm. Row statistics: two passes over the row, lane sums added in double. */

enum { NORM_ROWS = 16 }; /* rows of a tile in F and B */

typedef struct {
    uint64_t rows, n;
    float eps;
    int first;
    const vx *x, *weight, *bias, *dy, *sum;
    const float *saved;
    vx *out;
    float *stats, *dweight, *dbias;
} norm_job;

/* Four running sums hide the latency of an addition; the order is the same for every row of this
 * width. */
VEC_INLINE double row_sum(const vx *x, uint64_t count) {
    vf sum[4] = {v_set(0.0f), v_set(0.0f), v_set(0.0f), v_set(0.0f)};
    uint64_t i = 0;
    for (; i + 4 * VEC_W <= count; i += 4 * VEC_W) VEC_UNROLL
    for (int j = 0; j < 4; j++) sum[j] = sum[j] + x_load(x + i + (uint64_t)j * VEC_W);
    VEC_EACH(k, n, count - i, { sum[0] = sum[0] + x_load_n(x + i + k, n); });
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

VEC_INLINE double row_variance(const vx *x, float mean, uint64_t count) {
    vf sum[4] = {v_set(0.0f), v_set(0.0f), v_set(0.0f), v_set(0.0f)}, m = v_set(mean);
    uint64_t i = 0;
    for (; i + 4 * VEC_W <= count; i += 4 * VEC_W) VEC_UNROLL
    for (int j = 0; j < 4; j++) {
        vf d = x_load(x + i + (uint64_t)j * VEC_W) - m;
        sum[j] = v_fma(d, d, sum[j]);
    }
    VEC_EACH(k, n, count - i, {
        vf d = v_keep_n(x_load_n(x + i + k, n) - m, 0.0f, n);
        sum[0] = v_fma(d, d, sum[0]);
    });
    return v_sum((sum[0] + sum[1]) + (sum[2] + sum[3])) / (double)count;
}

static void norm_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const norm_job *j = arg;
    uint64_t end = pst_min_u64((tile + 1) * NORM_ROWS, j->rows);
    for (uint64_t r = tile * NORM_ROWS; r < end; r++) {
        const vx *x = j->x + r * j->n;
        vx *y = j->out + r * j->n;
        float mean = (float)(row_sum(x, j->n) / (double)j->n);
        float rstd = (float)(1 / sqrt(row_variance(x, mean, j->n) + (double)j->eps));
        VEC_EACH(i, n, j->n, {
            vf h = (x_load_n(x + i, n) - v_set(mean)) * v_set(rstd);
            x_store_n(y + i, v_fma(h, x_load_n(j->weight + i, n), x_load_n(j->bias + i, n)), n);
        });
        j->stats[2 * r] = mean;
        j->stats[2 * r + 1] = rstd;
    }
}

/* IN0 PARAM0 PARAM1 OUT0 SAVED0 */
static pst_status layer_norm_f(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    norm_job j = {.rows = pst_tensor_rows(in),
                  .n = pst_tensor_last(in),
                  .eps = call->node->attr.eps,
                  .x = call->arg[0],
                  .weight = call->arg[1],
                  .bias = call->arg[2],
                  .out = call->arg[3],
                  .stats = call->arg[4]};
    pst_device_run(device, norm_f_tile, &j, pst_div_up(j.rows, NORM_ROWS));
    return PST_OK;
}

/* g = dy * weight, h = (x - mean) * rstd: dx = rstd * (g - mean(g) - h * mean(g h)) + sum */
VEC_INLINE void norm_b_row(const norm_job *j, uint64_t r) {
    const vx *x = j->x + r * j->n, *dy = j->dy + r * j->n, *sum = j->sum ? j->sum + r * j->n : NULL;
    vx *dx = j->out + r * j->n;
    vf mean = v_set(j->saved[2 * r]), rstd = v_set(j->saved[2 * r + 1]);
    vf g_sum = v_set(0.0f), gh_sum = v_set(0.0f);
    VEC_EACH(i, n, j->n, {
        vf g = x_load_n(dy + i, n) * x_load_n(j->weight + i, n); /* 0 behind the end */
        g_sum = g_sum + g;
        gh_sum = v_fma(g, (x_load_n(x + i, n) - mean) * rstd, gh_sum);
    });
    vf g_mean = v_set((float)(v_sum(g_sum) / (double)j->n)),
       gh_mean = v_set((float)(v_sum(gh_sum) / (double)j->n));
    VEC_EACH(i, n, j->n, {
        vf g = x_load_n(dy + i, n) * x_load_n(j->weight + i, n);
        vf h = (x_load_n(x + i, n) - mean) * rstd;
        vf d = v_fnma(h, gh_mean, g - g_mean) * rstd;
        if (sum) d = d + x_load_n(sum + i, n);
        x_store_n(dx + i, d, n);
    });
}

static void norm_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const norm_job *j = arg;
    uint64_t end = pst_min_u64((tile + 1) * NORM_ROWS, j->rows);
    for (uint64_t r = tile * NORM_ROWS; r < end; r++) norm_b_row(j, r);
}

/* IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0 */
static pst_status layer_norm_b(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    norm_job j = {.rows = pst_tensor_rows(in),
                  .n = pst_tensor_last(in),
                  .x = call->arg[0],
                  .weight = call->arg[1],
                  .saved = call->arg[2],
                  .dy = call->arg[3],
                  .sum = call->arg[4],
                  .out = call->arg[5]};
    pst_device_run(device, norm_b_tile, &j, pst_div_up(j.rows, NORM_ROWS));
    return PST_OK;
}

static void norm_w_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const norm_job *j = arg;
    uint64_t col = tile * PST_SUM_COLS, cols = pst_min_u64(PST_SUM_COLS, j->n - col);
    float dw_total[PST_SUM_COLS] = {0}, db_total[PST_SUM_COLS] = {0};
    for (uint64_t from = 0; from < j->rows; from += PST_SUM_ROWS) {
        uint64_t end = pst_min_u64(from + PST_SUM_ROWS, j->rows);
        VEC_EACH(i, n, cols, {
            vf dw = v_set(0.0f), db = dw;
            for (uint64_t r = from; r < end; r++) {
                vf dy = x_load_n(j->dy + r * j->n + col + i, n);
                vf h = (x_load_n(j->x + r * j->n + col + i, n) - v_set(j->saved[2 * r])) *
                       v_set(j->saved[2 * r + 1]);
                dw = v_fma(dy, h, dw);
                db = db + dy;
            }
            v_store_n(dw_total + i, v_load_n(dw_total + i, n) + dw, n);
            v_store_n(db_total + i, v_load_n(db_total + i, n) + db, n);
        });
    }
    for (uint64_t i = 0; i < cols; i++) {
        j->dweight[col + i] = j->first ? dw_total[i] : j->dweight[col + i] + dw_total[i];
        j->dbias[col + i] = j->first ? db_total[i] : j->dbias[col + i] + db_total[i];
    }
}

/* IN0 SAVED0 DOUT0 DPARAM0 DPARAM1 */
static pst_status layer_norm_w(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    norm_job j = {.rows = pst_tensor_rows(in),
                  .n = pst_tensor_last(in),
                  .first = call->first,
                  .x = call->arg[0],
                  .saved = call->arg[1],
                  .dy = call->arg[2],
                  .dweight = call->arg[3],
                  .dbias = call->arg[4]};
    pst_device_run(device, norm_w_tile, &j, pst_div_up(j.n, PST_SUM_COLS));
    return PST_OK;
}
