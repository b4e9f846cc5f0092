/* Vector RMS norm. The sum of squares of a row is that of layer norm with a mean of 0. */

typedef struct {
    uint64_t rows, n;
    float eps;
    int first, wide_x, wide_y; /* as in norm_job */
    const vx *weight;
    const void *x, *dy, *sum;
    const float *saved;
    void *out;
    float *stats, *dweight;
    const pst_blocks *blocks; /* W: with blocks of positions, each has sums of its own */
    uint64_t positions;       /* of a sample */
} rms_job;

VEC_INLINE void rms_f_rows(const rms_job *j, uint64_t tile, int wide_x, int wide_y) {
    uint64_t end = pst_min_u64((tile + 1) * NORM_ROWS, j->rows);
    for (uint64_t r = tile * NORM_ROWS; r < end; r++) {
        uint64_t at = r * j->n;
        double square = row_variance(j->x, at, j->n, 0.0f, wide_x);
        float rstd = (float)(1 / sqrt(square + (double)j->eps));
        VEC_EACH(i, n, j->n, {
            vf h = s_load_n(j->x, at + i, n, wide_x) * v_set(rstd);
            s_store_n(j->out, at + i, h * x_load_n(j->weight + i, n), n, wide_y);
        });
        j->stats[r] = rstd;
    }
}

static void rms_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const rms_job *j = arg;
    VEC_FORMS(rms_f_rows, j->wide_x, j->wide_y, j, tile);
}

static rms_job rms_of(const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    return (rms_job){.rows = pst_tensor_rows(in),
                     .n = pst_tensor_last(in),
                     .eps = call->node->attr.eps,
                     .first = call->first,
                     .blocks = &call->node->attr.blocks,
                     .positions = in->n_dim > 1 ? in->dim[1] : 1,
                     .wide_x = is_wide(call, call->node->in[0]),
                     .wide_y = is_wide(call, call->node->out[0]),
                     .x = call->arg[0]};
}

/* IN0 PARAM0 OUT0 SAVED0 */
static pst_status rms_norm_f(pst_device *device, const pst_call *call) {
    rms_job j = rms_of(call);
    j.weight = call->arg[1];
    j.out = call->arg[2];
    j.stats = call->arg[3];
    pst_device_run(device, rms_f_tile, &j, pst_div_up(j.rows, NORM_ROWS));
    return PST_OK;
}

/* g = dy * weight, h = x * rstd: dx = rstd * (g - h * mean(g h)) + sum */
VEC_INLINE void rms_b_row(const rms_job *j, uint64_t r, int wide_x, int wide_y) {
    uint64_t at = r * j->n;
    vf rstd = v_set(j->saved[r]), gh_sum = v_set(0.0f);
    VEC_EACH(i, n, j->n, {
        /* lanes past the end are 0 */
        vf g = s_load_n(j->dy, at + i, n, wide_y) * x_load_n(j->weight + i, n);
        gh_sum = v_fma(g, s_load_n(j->x, at + i, n, wide_x) * rstd, gh_sum);
    });
    vf gh_mean = v_set((float)(v_sum(gh_sum) / (double)j->n));
    VEC_EACH(i, n, j->n, {
        vf g = s_load_n(j->dy, at + i, n, wide_y) * x_load_n(j->weight + i, n);
        vf h = s_load_n(j->x, at + i, n, wide_x) * rstd;
        vf d = v_fnma(h, gh_mean, g) * rstd;
        if (j->sum) d = d + s_load_n(j->sum, at + i, n, wide_x);
        s_store_n(j->out, at + i, d, n, wide_x);
    });
}

VEC_INLINE void rms_b_rows(const rms_job *j, uint64_t tile, int wide_x, int wide_y) {
    uint64_t end = pst_min_u64((tile + 1) * NORM_ROWS, j->rows);
    for (uint64_t r = tile * NORM_ROWS; r < end; r++) rms_b_row(j, r, wide_x, wide_y);
}

static void rms_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const rms_job *j = arg;
    VEC_FORMS(rms_b_rows, j->wide_x, j->wide_y, j, tile);
}

/* IN0 PARAM0 SAVED0 DOUT0 SUM0 DIN0 */
static pst_status rms_norm_b(pst_device *device, const pst_call *call) {
    rms_job j = rms_of(call);
    j.weight = call->arg[1];
    j.saved = call->arg[2];
    j.dy = call->arg[3];
    j.sum = call->arg[4];
    j.out = call->arg[5];
    pst_device_run(device, rms_b_tile, &j, pst_div_up(j.rows, NORM_ROWS));
    return PST_OK;
}

VEC_INLINE void rms_w_rows(const rms_job *j, uint64_t col, pst_part rows, float *total, int wide_x,
                           int wide_y) {
    VEC_EACH(i, n, pst_min_u64(PST_SUM_COLS, j->n - col), {
        vf dw = v_set(0.0f);
        for (uint64_t r = rows.first; r < rows.first + rows.count; r++) {
            uint64_t at = r * j->n + col + i;
            vf h = s_load_n(j->x, at, n, wide_x) * v_set(j->saved[r]);
            dw = v_fma(s_load_n(j->dy, at, n, wide_y), h, dw);
        }
        v_store_n(total + i, v_load_n(total + i, n) + dw, n);
    });
}

/* Adds the same positions of each sample, PST_SUM_ROWS at a time. */
VEC_INLINE void rms_w_part(const rms_job *j, uint64_t col, pst_part part, float *total, int wide_x,
                           int wide_y) {
    for (uint64_t row = part.first; row < j->rows; row += j->positions)
        for (uint64_t at = 0; at < part.count; at += PST_SUM_ROWS) {
            pst_part rows = {row + at, pst_min_u64(PST_SUM_ROWS, part.count - at)};
            rms_w_rows(j, col, rows, total, wide_x, wide_y);
        }
}

VEC_INLINE void rms_w_columns(const rms_job *j, uint64_t tile, int wide_x, int wide_y) {
    uint64_t col = tile * PST_SUM_COLS, cols = pst_min_u64(PST_SUM_COLS, j->n - col);
    uint32_t blocks = j->blocks->n ? j->blocks->own : 1;
    for (uint32_t b = 0; b < blocks; b++) {
        pst_part part = {0, j->positions};
        float *dweight = j->dweight + b * j->n + col, total[PST_SUM_COLS] = {0};
        if (j->blocks->n) part = pst_block_of(j->blocks, j->positions, b);
        rms_w_part(j, col, part, total, wide_x, wide_y);
        for (uint64_t i = 0; i < cols; i++)
            dweight[i] = j->first ? total[i] : dweight[i] + total[i];
    }
}

static void rms_w_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const rms_job *j = arg;
    VEC_FORMS(rms_w_columns, j->wide_x, j->wide_y, j, tile);
}

/* IN0 SAVED0 DOUT0 DPARAM0 */
static pst_status rms_norm_w(pst_device *device, const pst_call *call) {
    rms_job j = rms_of(call);
    j.saved = call->arg[1];
    j.dy = call->arg[2];
    j.dweight = call->arg[3];
    if (!j.blocks->n) j.positions = j.rows;
    pst_device_run(device, rms_w_tile, &j, pst_div_up(j.n, PST_SUM_COLS));
    return PST_OK;
}
