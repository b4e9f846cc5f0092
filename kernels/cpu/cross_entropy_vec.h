/* Vector softmax cross-entropy: a row fits in the L2 cache, so the logits are read from memory
 * once. */

enum { LOSS_ROWS = 4, LOSS_PIECE = 2048 };

typedef struct {
    uint64_t rows, v, first; /* first: token of column 0 */
    const vx *logits;
    const float *saved;
    const int32_t *target;
    vx *dlogits;
    float *loss, *lse, *hits, scale; /* hits: NULL: not wanted */
    pst_loss_terms terms;
    const pst_blocks *blocks; /* vocabulary_part: blocks of columns, each with results of its own */
} loss_job;

VEC_INLINE float row_max(const vx *x, uint64_t count) {
    vf max[4];
    VEC_UNROLL
    for (int k = 0; k < 4; k++) max[k] = v_set(-__builtin_inff());
    uint64_t i = 0;
    for (; i + 4 * VEC_W <= count; i += 4 * VEC_W) VEC_UNROLL
    for (int k = 0; k < 4; k++) max[k] = v_max(max[k], x_load(x + i + (uint64_t)k * VEC_W));
    VEC_EACH(k, n, count - i,
             { max[0] = v_max(max[0], v_keep_n(x_load_n(x + i + k, n), -__builtin_inff(), n)); });
    return v_max_of(v_max(v_max(max[0], max[1]), v_max(max[2], max[3])));
}

/* Sums LOSS_PIECE numbers at a time in fp32, and these sums in fp64. */
VEC_INLINE double row_exp_sum(const vx *x, float max, uint64_t count) {
    double total = 0;
    for (uint64_t from = 0; from < count; from += LOSS_PIECE) {
        uint64_t piece = pst_min_u64(LOSS_PIECE, count - from);
        vf sum = v_set(0.0f);
        VEC_EACH(i, n, piece,
                 { sum = sum + v_keep_n(v_exp(x_load_n(x + from + i, n) - v_set(max)), 0.0f, n); });
        total += v_sum(sum);
    }
    return total;
}

VEC_INLINE double logits_sum(const vx *x, uint64_t count) {
    double total = 0;
    for (uint64_t from = 0; from < count; from += LOSS_PIECE) {
        uint64_t piece = pst_min_u64(LOSS_PIECE, count - from);
        vf sum = v_set(0.0f);
        VEC_EACH(i, n, piece, { sum = sum + v_keep_n(x_load_n(x + from + i, n), 0.0f, n); });
        total += v_sum(sum);
    }
    return total;
}

/* What is subtracted from lse for these columns; hit >= count: the target is elsewhere. */
VEC_INLINE double row_hit(const pst_loss_terms *terms, const vx *x, uint64_t hit, uint64_t count) {
    double at = hit < count ? terms->target * (double)x_get(x[hit]) : 0;
    return terms->each > 0 ? at + terms->each * logits_sum(x, count) : at;
}

static void loss_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const loss_job *j = arg;
    uint64_t end = pst_min_u64((tile + 1) * LOSS_ROWS, j->rows);
    for (uint64_t r = tile * LOSS_ROWS; r < end; r++) {
        const vx *x = j->logits + r * j->v;
        float max = row_max(x, j->v);
        double lse = (double)max + log(row_exp_sum(x, max, j->v));
        j->lse[r] = (float)lse;
        j->loss[r] = 0;
        if (j->hits) j->hits[r] = j->target[r] >= 0 && x_get(x[j->target[r]]) >= max;
        if (j->target[r] < 0) continue;
        double hit = row_hit(&j->terms, x, (uint64_t)j->target[r], j->v);
        j->loss[r] = (float)(lse - hit + j->terms.z * lse * lse);
    }
}

/* IN0 IN1 OUT0 SAVED0 [OUT1] */
static pst_status cross_entropy_f(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    loss_job j = {.rows = pst_tensor_rows(in),
                  .v = pst_tensor_last(in),
                  .logits = call->arg[0],
                  .target = call->arg[1],
                  .loss = call->arg[2],
                  .lse = call->arg[3],
                  .hits = call->node->attr.hits ? call->arg[4] : NULL,
                  .terms = pst_loss_terms_of(call)};
    PST_TRY(pst_call_check_index(call, j.target, j.rows, j.v, 1));
    pst_device_run(device, loss_f_tile, &j, pst_div_up(j.rows, LOSS_ROWS));
    return PST_OK;
}

/* softmax * exp(x) - (1-s) - s/V, without loss of digits where the softmax is almost 1. */
VEC_INLINE double hit_gradient(const pst_loss_terms *terms, double x, double softmax) {
    double smoothed = 1 - terms->target - terms->each, more = softmax - 1;
    return expm1(x) + (more != 0 ? more * exp(x) : 0) + smoothed;
}

static void loss_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const loss_job *j = arg;
    uint64_t end = pst_min_u64((tile + 1) * LOSS_ROWS, j->rows);
    for (uint64_t r = tile * LOSS_ROWS; r < end; r++) {
        const vx *x = j->logits + r * j->v;
        vx *dx = j->dlogits + r * j->v;
        if (j->target[r] < 0) {
            memset(dx, 0, j->v * sizeof *dx);
            continue;
        }
        uint64_t hit = (uint64_t)j->target[r] - j->first; /* >= v: on another tensor rank */
        float at = hit < j->v ? x_get(x[hit]) : 0, lse = j->saved[r];
        double softmax = pst_loss_factor(&j->terms, (double)lse);
        vf factor = v_set((float)((double)j->scale * softmax)),
           each = v_set((float)(j->terms.each * (double)j->scale));
        VEC_EACH(i, n, j->v,
                 { x_store_n(dx + i, v_exp(x_load_n(x + i, n) - v_set(lse)) * factor - each, n); });
        if (hit < j->v)
            x_put(dx + hit, (float)(hit_gradient(&j->terms, (double)at - (double)lse, softmax) *
                                    (double)j->scale));
    }
}

/* IN0 IN1 SAVED0 DIN0, in place. Also for vocabulary_loss, where the columns are a slice of
 * attr.total columns that starts at attr.first. */
static pst_status cross_entropy_b(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    const pst_attr *attr = &call->node->attr;
    loss_job j = {.rows = pst_tensor_rows(in),
                  .v = pst_tensor_last(in),
                  .first = attr->first,
                  .logits = call->arg[0],
                  .target = call->arg[1],
                  .saved = call->arg[2],
                  .dlogits = call->arg[3],
                  .scale = call->loss_scale,
                  .terms = pst_loss_terms_of(call)};
    PST_TRY(pst_call_check_index(call, j.target, j.rows, attr->total ? attr->total : j.v, 1));
    pst_device_run(device, loss_b_tile, &j, pst_div_up(j.rows, LOSS_ROWS));
    return PST_OK;
}

VEC_INLINE void part_of_row(const loss_job *j, uint64_t r, pst_part at, float out[3]) {
    const vx *x = j->logits + r * j->v + at.first;
    uint64_t hit = (uint64_t)j->target[r] - j->first - at.first;
    out[0] = row_max(x, at.count);
    out[1] = (float)row_exp_sum(x, out[0], at.count);
    out[2] = (float)row_hit(&j->terms, x, hit, at.count);
}

static void part_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const loss_job *j = arg;
    uint64_t end = pst_min_u64((tile + 1) * LOSS_ROWS, j->rows);
    for (uint64_t r = tile * LOSS_ROWS; r < end; r++) {
        if (!j->blocks->n) part_of_row(j, r, (pst_part){0, j->v}, j->loss + 3 * r);
        for (uint32_t i = 0; i < j->blocks->own; i++)
            part_of_row(j, r, pst_block_of(j->blocks, j->v, i), j->loss + 3 * (i * j->rows + r));
    }
}

/* IN0 IN1 OUT0 */
static pst_status vocabulary_part_f(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    loss_job j = {.rows = pst_tensor_rows(in),
                  .v = pst_tensor_last(in),
                  .first = call->node->attr.first,
                  .logits = call->arg[0],
                  .target = call->arg[1],
                  .loss = call->arg[2],
                  .terms = pst_loss_terms_of(call),
                  .blocks = &call->node->attr.blocks};
    PST_TRY(pst_call_check_index(call, j.target, j.rows, call->node->attr.total, 1));
    pst_device_run(device, part_tile, &j, pst_div_up(j.rows, LOSS_ROWS));
    return PST_OK;
}
