/* Vector attention in blocks of 64 queries by 64 keys; the scores of one block at a time are in the
 * thread's scratch (Dao et al. 2022, FlashAttention). F keeps scores transposed [key][query], so
 * that the softmax over keys needs no sum across lanes and has one running maximum per lane. B
 * keeps them [query][key] and needs only exp(s - lse).
 *
 * F: a tile is (batch, head, block of queries). B: the blocks of keys are taken in order, and for
 * each of them a tile is (batch, head): dq is summed over blocks of keys in order, dk and dv over
 * blocks of queries in order.
 *
 * fp32 operands are read in place, and results are summed in place; 16-bit operands are converted
 * to fp32 block by block, and results are summed in scratch.
 *
 * With starts, blocks of keys before all starts of a block of queries are left out, and keys before
 * a query's own start are masked.
 *
 * Blocks end where a sample does: rows of padding are set to 0 and not read, so that the other rows
 * have the same bits as without padding. */

enum {
    ATT = 64,                     /* side of a block */
    ATT_NV = VEC_W == 16 ? 4 : 2, /* vectors and rows held in registers by a product */
    ATT_MR = 6,
    ATT_MR_REST = 2 /* rows at a time for the remaining rows; divides ATT_MR */
};

/* The part of a product that the causal mask does not set to zero. In the block on the diagonal
 * queries and keys have the same positions, so row i needs only: */
typedef enum {
    ATT_ALL,
    ATT_COLS_FROM,  /* columns >= i: out is [key][query] */
    ATT_COLS_TO,    /* columns <= i: out is [query][key] */
    ATT_DEPTH_FROM, /* terms >= i: queries are summed for a key */
    ATT_DEPTH_TO    /* terms <= i: keys are summed for a query */
} attention_part;

typedef struct {
    pst_device *device;
    uint64_t b, t, c, heads, d;
    float scale;
    int bidirectional;
    const int32_t *lengths; /* NULL: t each */
    const int32_t *starts;  /* NULL: 0 for all */
    const vx *qkv, *out, *dout;
    vx *dst;
    const float *lse_in;
    float *lse, *scratch;
    float *dq; /* B with a 16-bit type: [b,heads,t,d], after the scratch of all threads */
    uint64_t scratch_floats; /* number of floats of a thread's scratch */
    uint64_t key_block;      /* B */
} attention_job;

/* out (+)= a b: a[i,k] at a[i*ai + k*ak], row k of b at b + k*ldb. */
typedef struct {
    uint64_t depth;
    const float *a;
    uint64_t ai, ak;
    const float *b;
    uint64_t ldb;
    float *out;
    uint64_t ldo;
    int add;
    attention_part part;
} factors;

/* out[MR][NV vectors]; the last vector has n lanes. `p` is passed by value, so that it stays in
 * registers. */
VEC_INLINE void product(int rows, int vecs, unsigned n, factors p) {
    vf acc[ATT_MR][ATT_NV];
    VEC_UNROLL
    for (int i = 0; i < rows; i++) VEC_UNROLL
    for (int v = 0; v < vecs; v++) {
        const float *from = p.out + (uint64_t)i * p.ldo + (uint64_t)v * VEC_W;
        if (!p.add) acc[i][v] = v_set(0.0f);
        else acc[i][v] = v == vecs - 1 ? v_load_n(from, n) : v_load(from);
    }
    for (uint64_t k = 0; k < p.depth; k++) {
        vf row[ATT_NV];
        VEC_UNROLL
        for (int v = 0; v < vecs; v++) {
            const float *from = p.b + k * p.ldb + (uint64_t)v * VEC_W;
            row[v] = v == vecs - 1 ? v_load_n(from, n) : v_load(from);
        }
        VEC_UNROLL
        for (int i = 0; i < rows; i++) {
            vf x = v_set(p.a[(uint64_t)i * p.ai + k * p.ak]);
            VEC_UNROLL
            for (int v = 0; v < vecs; v++) acc[i][v] = v_fma(x, row[v], acc[i][v]);
        }
    }
    VEC_UNROLL
    for (int i = 0; i < rows; i++) VEC_UNROLL
    for (int v = 0; v < vecs; v++) {
        float *to = p.out + (uint64_t)i * p.ldo + (uint64_t)v * VEC_W;
        if (v == vecs - 1) v_store_n(to, acc[i][v], n);
        else v_store(to, acc[i][v]);
    }
}

VEC_INLINE factors from_column(factors p, uint64_t j) {
    p.b += j;
    p.out += j;
    return p;
}

/* Computes columns [j, cols) of `rows` rows; `rows` is a constant after inlining. */
VEC_INLINE void product_strip(int rows, uint64_t j, uint64_t cols, factors p) {
    for (; j + ATT_NV * VEC_W <= cols; j += ATT_NV * VEC_W)
        product(rows, ATT_NV, VEC_W, from_column(p, j));
    for (; j + VEC_W <= cols; j += VEC_W) product(rows, 1, VEC_W, from_column(p, j));
    if (j < cols) product(rows, 1, (unsigned)(cols - j), from_column(p, j));
}

/* Computes rows [i, i + rows) of small_product(). */
VEC_INLINE void product_rows(int rows, uint64_t i, uint64_t cols, factors p) {
    const uint64_t end = i + (uint64_t)rows;
    uint64_t from = 0;
    p.a += i * p.ai;
    p.out += i * p.ldo;
    if (p.part == ATT_COLS_FROM) from = i / VEC_W * VEC_W;
    if (p.part == ATT_COLS_TO) cols = pst_min_u64(cols, pst_div_up(end, VEC_W) * VEC_W);
    if (p.part == ATT_DEPTH_TO) p.depth = pst_min_u64(p.depth, end);
    if (p.part == ATT_DEPTH_FROM) {
        p.a += i * p.ak;
        p.b += i * p.ldb;
        p.depth -= i;
    }
    product_strip(rows, from, cols, p);
}

/* out[m,cols] (+)= a[m,depth] b[depth,cols]; with a `part`, computes at least the elements of this
 * part. */
static void small_product(uint64_t m, uint64_t cols, factors p) {
    uint64_t i = 0;
    for (; i + ATT_MR <= m; i += ATT_MR) product_rows(ATT_MR, i, cols, p);
    for (; i + ATT_MR_REST <= m; i += ATT_MR_REST) product_rows(ATT_MR_REST, i, cols, p);
    for (; i < m; i++) product_rows(1, i, cols, p);
}

/* to[d][ATT] = from[n][d]^T, columns from n on are zero. */
static void transpose(const vx *from, uint64_t ld, uint64_t n, uint64_t d, float *to) {
    for (uint64_t i = 0; i < ATT; i += VEC_W)
        for (uint64_t c = 0; c < d; c += VEC_W) {
            const unsigned cols = (unsigned)pst_min_u64(VEC_W, d - c);
            vf square[VEC_W];
            VEC_UNROLL for (unsigned r = 0; r < VEC_W; r++) square[r] =
                i + r < n ? x_load_n(from + (i + r) * ld + c, cols) : v_set(0.0f);
            v_transpose(square);
            VEC_UNROLL for (unsigned r = 0; r < VEC_W; r++) if (r < cols)
                v_store(to + (c + r) * ATT + i, square[r]);
        }
}

/* A block of at most ATT rows of d floats, to read from or to accumulate in; own: ATT * d floats of
 * scratch, which bf16 and fp16 need. */
typedef struct {
    float *at;
    uint64_t ld;
} panel;
#if defined(VEC_HALF)
enum { ATT_F_PANELS = 3, ATT_B_PANELS = 5 };
static panel read_panel(const vx *from, uint64_t ld, uint64_t rows, uint64_t d, float *own) {
    for (uint64_t r = 0; r < rows; r++)
        VEC_EACH(i, n, d, { v_store_n(own + r * d + i, x_load_n(from + r * ld + i, n), n); });
    return (panel){own, d};
}
static panel sum_panel(vx *to, uint64_t ld, uint64_t d, float *own) {
    (void)to;
    (void)ld;
    return (panel){own, d};
}
/* Rounds and stores the complete sums. */
static void put_panel(panel p, vx *to, uint64_t ld, uint64_t rows, uint64_t d) {
    for (uint64_t r = 0; r < rows; r++)
        VEC_EACH(i, n, d, { x_store_n(to + r * ld + i, v_load_n(p.at + r * p.ld + i, n), n); });
}
#else
enum { ATT_F_PANELS = 0, ATT_B_PANELS = 0 };
static panel read_panel(const vx *from, uint64_t ld, uint64_t rows, uint64_t d, float *own) {
    (void)rows;
    (void)d;
    (void)own;
    return (panel){(float *)(uintptr_t)from, ld};
}
static panel sum_panel(vx *to, uint64_t ld, uint64_t d, float *own) {
    (void)d;
    (void)own;
    return (panel){to, ld};
}
static void put_panel(panel p, vx *to, uint64_t ld, uint64_t rows, uint64_t d) {
    (void)p;
    (void)to;
    (void)ld;
    (void)rows;
    (void)d;
}
#endif

typedef struct {
    float *max, *sum, *factor; /* [ATT] each */
} running;

/* Converts a block of scores s[n_key][ATT queries] to probabilities, and updates the running
 * maximum and sum of each query; factor: the factor by which the caller has to multiply the output
 * so far. diagonal: only queries >= k attend to key k. from [ATT]: only keys >= from[q] are seen by
 * query q; NULL: all. */
VEC_INLINE void softmax_block(float *s, uint64_t n_key, float scale, int diagonal,
                              const float *from, running r) {
    float *max = r.max, *sum = r.sum, *factor = r.factor;
    static const float index[ATT] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    vf none = v_set(-__builtin_inff());
    for (uint64_t q = 0; q < ATT; q += VEC_W) {
        const vf begin = from ? v_load(from + q) : v_set(0.0f);
        vf lane = v_load(index + q), old = v_load(max + q), top = old, total = v_set(0.0f);
        /* Products read at most ATT_MR keys past the diagonal, which must be 0. */
        const uint64_t end = diagonal ? pst_min_u64(n_key, q + VEC_W) : n_key;
        for (uint64_t k = end; k < pst_min_u64(n_key, end + ATT_MR); k++)
            v_store(s + k * ATT + q, v_set(0.0f));
        for (uint64_t k = 0; k < end; k++) {
            vf x = v_load(s + k * ATT + q) * v_set(scale);
            if (diagonal) x = v_if_ge(lane, v_set((float)k), x, none);
            if (from) x = v_if_ge(v_set((float)k), begin, x, none);
            v_store(s + k * ATT + q, x);
            top = v_max(top, x);
        }
        for (uint64_t k = 0; k < end; k++) {
            vf p = v_exp(v_load(s + k * ATT + q) - top);
            if (diagonal) p = v_if_ge(lane, v_set((float)k), p, v_set(0.0f));
            if (from) p = v_if_ge(v_set((float)k), begin, p, v_set(0.0f));
            v_store(s + k * ATT + q, p);
            total = total + p;
        }
        vf shrink = v_exp(old - top);
        v_store(max + q, top);
        v_store(factor + q, shrink);
        v_store(sum + q, v_fma(v_load(sum + q), shrink, total));
    }
}

VEC_INLINE void scale_row(float *x, float by, uint64_t count) {
    VEC_EACH(i, n, count, { v_store_n(x + i, v_load_n(x + i, n) * v_set(by), n); });
}

static uint64_t behind_block(uint64_t at, uint64_t end) { return pst_min_u64(at + ATT, end); }

/* Sets rows [row, end) to 0; ld: distance between rows in elements. */
static void clear_rows(vx *to, uint64_t ld, uint64_t row, uint64_t end, uint64_t d) {
    for (; row < end; row++) memset(to + row * ld, 0, d * sizeof *to);
}

static uint64_t attention_f_floats(uint64_t d) {
    return (1 + ATT_F_PANELS) * ATT * d + ATT * ATT + 3 * ATT;
}

/* The starts of queries [q0, q0 + n). */
typedef struct {
    uint64_t least, most;
} start_range;
static start_range starts_of(const attention_job *j, uint64_t sample, uint64_t q0, uint64_t n) {
    start_range r = {j->starts ? UINT64_MAX : 0, 0};
    for (uint64_t i = 0; j->starts && i < n; i++) {
        const uint64_t start = pst_start_of(j->starts, sample, j->t, q0 + i);
        r.least = pst_min_u64(r.least, start);
        r.most = start > r.most ? start : r.most;
    }
    return r;
}

/* from[i]: the first key that query q0 + i sees, counted from key k0 on; 0 for queries that are not
 * there. */
static void first_keys(const attention_job *j, uint64_t sample, uint64_t q0, uint64_t n_q,
                       uint64_t k0, float from[ATT]) {
    for (uint64_t i = 0; i < ATT; i++)
        from[i] = i < n_q ? (float)pst_start_of(j->starts, sample, j->t, q0 + i) - (float)k0 : 0;
}

static void attention_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    const attention_job *j = arg;
    uint64_t blocks = pst_div_up(j->t, ATT), bh = tile / blocks, block = blocks - 1 - tile % blocks,
             ld = 3 * j->c;
    uint64_t q0 = block * ATT, length = pst_length_of(j->lengths, bh / j->heads, j->t),
             at = bh % j->heads * j->d;
    uint64_t n_q = q0 < length ? pst_min_u64(ATT, length - q0) : 0,
             end = j->bidirectional ? length : q0 + n_q;
    const vx *first = j->qkv + bh / j->heads * j->t * ld + at;
    vx *to = j->dst + (bh / j->heads * j->t + q0) * j->c + at;
    clear_rows(to, j->c, n_q, behind_block(q0, j->t) - q0, j->d);
    for (uint64_t i = q0 + n_q; i < behind_block(q0, j->t); i++) j->lse[bh * j->t + i] = 0.0f;
    if (!n_q) return;
    float *qt = j->scratch + thread * j->scratch_floats, *s = qt + ATT * j->d, *max = s + ATT * ATT;
    float *sum = max + ATT, *factor = sum + ATT, *own = factor + ATT;
    const start_range starts = starts_of(j, bh / j->heads, q0, n_q);
    const uint64_t k_first = starts.least / ATT * ATT;
    panel out = sum_panel(to, j->c, j->d, own);
    transpose(first + q0 * ld, ld, n_q, j->d, qt);
    for (int i = 0; i < ATT; i++) {
        /* a query may see nothing of its first blocks */
        max[i] = j->starts ? -__FLT_MAX__ : -__builtin_inff();
        sum[i] = 0.0f;
    }
    for (uint64_t k0 = k_first; k0 < end; k0 += ATT) {
        uint64_t n_key = pst_min_u64(ATT, end - k0);
        panel k = read_panel(first + k0 * ld + j->c, ld, n_key, j->d, own + ATT * j->d);
        panel v = read_panel(first + k0 * ld + 2 * j->c, ld, n_key, j->d, own + 2 * ATT * j->d);
        const int diagonal = k0 == q0 && !j->bidirectional;
        small_product(
            n_key, ATT,
            (factors){j->d, k.at, k.ld, 1, qt, ATT, s, ATT, 0, diagonal ? ATT_COLS_FROM : ATT_ALL});
        if (k0 < starts.most) {
            float from[ATT];
            first_keys(j, bh / j->heads, q0, n_q, k0, from);
            softmax_block(s, n_key, j->scale, diagonal, from, (running){max, sum, factor});
        } else {
            softmax_block(s, n_key, j->scale, diagonal, NULL, (running){max, sum, factor});
        }
        for (uint64_t i = 0; k0 > k_first && i < n_q; i++)
            scale_row(out.at + i * out.ld, factor[i], j->d);
        small_product(n_q, j->d,
                      (factors){n_key, s, 1, ATT, v.at, v.ld, out.at, out.ld, k0 != k_first,
                                diagonal ? ATT_DEPTH_TO : ATT_ALL});
        pst_device_poll(j->device, thread);
    }
    for (uint64_t i = 0; i < n_q; i++) {
        scale_row(out.at + i * out.ld, 1.0f / sum[i], j->d);
        j->lse[bh * j->t + q0 + i] = max[i] + logf(sum[i]);
    }
    put_panel(out, to, j->c, n_q, j->d);
}

static attention_job attention_of(pst_device *device, const pst_call *call) {
    const pst_tensor *in = pst_call_in(call, 0);
    attention_job j = {.device = device,
                       .b = in->dim[0],
                       .t = in->dim[1],
                       .c = in->dim[2] / 3,
                       .heads = call->node->attr.heads,
                       .qkv = call->arg[0],
                       .scratch = call->scratch,
                       .bidirectional = call->node->attr.bidirectional != 0,
                       .lengths = pst_call_lengths(call),
                       .starts = pst_call_starts(call)};
    j.d = j.c / j.heads;
    j.scale = (float)(1 / sqrt((double)j.d));
    return j;
}

static uint64_t head_dim(const pst_graph *g, const pst_node *node) {
    return g->tensor[node->in[0]].dim[2] / 3 / node->attr.heads;
}

static uint64_t attention_f_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    return threads * attention_f_floats(head_dim(g, node)) * sizeof(float);
}

/* IN0 [IN1] OUT0 SAVED0 */
static pst_status attention_f(pst_device *device, const pst_call *call) {
    attention_job j = attention_of(device, call);
    j.dst = pst_call_behind(call)[0];
    j.lse = pst_call_behind(call)[1];
    j.scratch_floats = attention_f_floats(j.d);
    memset(j.scratch, 0, device->threads * j.scratch_floats * sizeof(float));
    pst_device_run(device, attention_f_tile, &j, j.b * j.heads * pst_div_up(j.t, ATT));
    return PST_OK;
}

VEC_INLINE float row_dot(const vx *a, const vx *b, uint64_t count) {
    vf sum = v_set(0.0f);
    VEC_EACH(i, n, count, { sum = v_fma(x_load_n(a + i, n), x_load_n(b + i, n), sum); });
    return (float)v_sum(sum);
}

/* p = exp(scale s - lse), ds = p (dp - delta) scale, for row q of the block; lanes past the
 * diagonal are zero. */
VEC_INLINE void slope_row(float *s, float *dp, float scale, float lse, float delta,
                          uint64_t visible) {
    vf zero = v_set(0.0f);
    for (uint64_t k = 0; k < ATT; k += VEC_W) {
        vf p = zero, ds = zero;
        if (k < visible) {
            unsigned n = (unsigned)pst_min_u64(VEC_W, visible - k);
            p = v_keep_n(v_exp(v_fma(v_load(s + k), v_set(scale), v_set(-lse))), 0.0f, n);
            ds = p * (v_load(dp + k) - v_set(delta)) * v_set(scale);
            ds = v_keep_n(ds, 0.0f, n);
        }
        v_store(s + k, p);
        v_store(dp + k, ds);
    }
}

/* Sets the first n lanes of p and ds to 0: keys before the query's start. */
static void hide_keys(float *s, float *dp, uint64_t n) {
    memset(s, 0, n * sizeof *s);
    memset(dp, 0, n * sizeof *dp);
}

static uint64_t attention_b_floats(uint64_t d) {
    return (2 + ATT_B_PANELS) * ATT * d + 2 * ATT * ATT;
}

/* Sets the gradients of positions [row, end) to 0, and their dq in scratch. */
static void clear_padding(const attention_job *j, uint64_t bh, uint64_t row, uint64_t end) {
    vx *to = j->dst + bh / j->heads * j->t * 3 * j->c + bh % j->heads * j->d;
    for (int block = 0; block < 3; block++) clear_rows(to + block * j->c, 3 * j->c, row, end, j->d);
    if (ATT_B_PANELS && row < end)
        memset(j->dq + (bh * j->t + row) * j->d, 0, (end - row) * j->d * sizeof *j->dq);
}

static void attention_b_tile(void *arg, uint64_t bh, uint32_t thread) {
    const attention_job *j = arg;
    uint64_t ld = 3 * j->c, k0 = j->key_block * ATT,
             length = pst_length_of(j->lengths, bh / j->heads, j->t), d = j->d;
    uint64_t n_key = k0 < length ? pst_min_u64(ATT, length - k0) : 0;
    uint64_t head = bh % j->heads * d, first = bh / j->heads * j->t * ld + head;
    clear_padding(j, bh, k0 + n_key, behind_block(k0, j->t));
    if (!n_key) return;
    const vx *k_at = j->qkv + first + k0 * ld + j->c;
    vx *dk_to = j->dst + first + k0 * ld + j->c, *dv_to = dk_to + j->c;
    float *kt = j->scratch + thread * j->scratch_floats, *vt = kt + ATT * d, *s = vt + ATT * d,
          *dp = s + ATT * ATT;
    float *own = dp + ATT * ATT;
    panel k = read_panel(k_at, ld, n_key, d, own);
    panel dk = sum_panel(dk_to, ld, d, own + ATT * d),
          dv = sum_panel(dv_to, ld, d, own + 2 * ATT * d);
    transpose(k_at, ld, n_key, d, kt);
    transpose(k_at + j->c, ld, n_key, d, vt);
    const uint64_t q_first = j->bidirectional ? 0 : k0;
    for (uint64_t q0 = q_first; q0 < length; q0 += ATT) {
        const uint64_t sample = bh / j->heads;
        uint64_t n_q = pst_min_u64(ATT, length - q0),
                 row = (bh / j->heads * j->t + q0) * j->c + head;
        const start_range starts = starts_of(j, sample, q0, n_q);
        if (starts.least >= k0 + n_key) continue;
        panel q = read_panel(j->qkv + first + q0 * ld, ld, n_q, d, own + 3 * ATT * d);
        panel dout = read_panel(j->dout + row, j->c, n_q, d, own + 4 * ATT * d);
        panel dq = sum_panel(j->dst + first + q0 * ld, ld, d, j->dq + (bh * j->t + q0) * d);
        const int diagonal = q0 == k0 && !j->bidirectional;
        const attention_part scores = diagonal ? ATT_COLS_TO : ATT_ALL,
                             over_q = diagonal ? ATT_DEPTH_FROM : ATT_ALL,
                             over_k = diagonal ? ATT_DEPTH_TO : ATT_ALL;
        small_product(n_q, ATT, (factors){d, q.at, q.ld, 1, kt, ATT, s, ATT, 0, scores});
        small_product(n_q, ATT, (factors){d, dout.at, dout.ld, 1, vt, ATT, dp, ATT, 0, scores});
        for (uint64_t i = 0; i < n_q; i++)
            slope_row(s + i * ATT, dp + i * ATT, j->scale, j->lse_in[bh * j->t + q0 + i],
                      row_dot(j->dout + row + i * j->c, j->out + row + i * j->c, d),
                      diagonal ? i + 1 : n_key);
        for (uint64_t i = 0; k0 < starts.most && i < n_q; i++) {
            const uint64_t start = pst_start_of(j->starts, sample, j->t, q0 + i);
            if (start > k0) hide_keys(s + i * ATT, dp + i * ATT, pst_min_u64(start - k0, ATT));
        }
        small_product(
            n_key, d,
            (factors){n_q, s, 1, ATT, dout.at, dout.ld, dv.at, dv.ld, q0 != q_first, over_q});
        small_product(n_key, d,
                      (factors){n_q, dp, 1, ATT, q.at, q.ld, dk.at, dk.ld, q0 != q_first, over_q});
        small_product(
            n_q, d,
            (factors){n_key, dp, ATT, 1, k.at, k.ld, dq.at, dq.ld, k0 > starts.least, over_k});
        /* the causal mask hides later keys */
        const int complete = j->bidirectional ? k0 + n_key == length : q0 == k0;
        if (complete) put_panel(dq, j->dst + first + q0 * ld, ld, n_q, d);
        pst_device_poll(j->device, thread);
    }
    put_panel(dk, dk_to, ld, n_key, d);
    put_panel(dv, dv_to, ld, n_key, d);
}

static uint64_t attention_b_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    uint64_t dq = ATT_B_PANELS ? pst_tensor_count(&g->tensor[node->out[0]]) : 0;
    return (threads * attention_b_floats(head_dim(g, node)) + dq) * sizeof(float);
}

/* IN0 [IN1] OUT0 SAVED0 DOUT0 DIN0 */
static pst_status attention_b(pst_device *device, const pst_call *call) {
    attention_job j = attention_of(device, call);
    void *const *behind = pst_call_behind(call);
    j.out = behind[0];
    j.lse_in = behind[1];
    j.dout = behind[2];
    j.dst = behind[3];
    j.scratch_floats = attention_b_floats(j.d);
    memset(j.scratch, 0, device->threads * j.scratch_floats * sizeof(float));
    j.dq = ATT_B_PANELS ? j.scratch + device->threads * j.scratch_floats : j.scratch;
    for (j.key_block = 0; j.key_block * ATT < j.t; j.key_block++)
        pst_device_run(device, attention_b_tile, &j, j.b * j.heads);
    return PST_OK;
}
