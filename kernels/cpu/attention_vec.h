/* Vector attention in blocks of 64 queries by 64 keys; the scores of one block at a time are in the
 * thread's scratch (Dao et al. 2022, FlashAttention). F keeps scores transposed [key][query], so
 * that the softmax over keys needs no sum across lanes and has one running maximum per lane. B
 * keeps them [query][key] and needs only exp(s - lse).
 *
 * F: a tile is (batch, head, block of queries). B: the blocks of keys are taken in order, and for
 * each of them a tile is (batch, head of keys): dq is summed over blocks of keys in order, dk and
 * dv over the heads that share them and over blocks of queries, in order.
 *
 * fp32 operands are read in place, and results are summed in place; 16-bit operands are converted
 * to fp32 block by block, and results are summed in scratch.
 *
 * With starts or a window, blocks of keys before all starts of a block of queries are left out, and
 * keys before a query's own start are masked.
 *
 * Dropout of probabilities multiplies blocks of them by 0 or 1/(1-rate), after F has added them up.
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
    pst_attention_shape s;
    const int32_t *lengths; /* NULL: t each */
    const int32_t *starts;  /* NULL: 0 for all */
    int masked;             /* 1: starts or a window */
    int drops;              /* 1: probabilities are dropped, by the random stream `key` */
    uint64_t key, first_sample;
    const vx *q, *k, *v, *out, *dout;
    vx *dst;          /* F: the output */
    vx *dq, *dk, *dv; /* B */
    const float *lse_in;
    float *lse, *scratch;
    float *dq_sum; /* B with a 16-bit type: [b,heads,t,d], after the scratch of all threads */
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

/* The factors that dropout gives to probabilities with these uniform numbers. */
VEC_INLINE vf drop_factor(vf uniform, float rate) {
    return v_if_ge(uniform, v_set(rate), v_set(1.0f / (1.0f - rate)), v_set(0.0f));
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
    start_range r = {j->masked ? UINT64_MAX : 0, 0};
    for (uint64_t i = 0; j->masked && i < n; i++) {
        const uint64_t start = pst_attention_first(&j->s, j->starts, sample, q0 + i);
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
        from[i] =
            i < n_q ? (float)pst_attention_first(&j->s, j->starts, sample, q0 + i) - (float)k0 : 0;
}

/* A block of queries of one head. */
typedef struct {
    uint64_t sample, head, q0, n_q, end; /* keys [0, end) are not hidden from all of them */
} query_block;

/* Drops probabilities s[n_key][ATT queries] of the keys [k0, k0 + n_key). */
static void drop_block(const attention_job *j, const query_block *b, uint64_t k0, uint64_t n_key,
                       float *s) {
    const uint64_t whole = j->first_sample + b->sample;
    for (uint64_t q = 0; q < ATT; q += VEC_W) {
        uint32_t first[VEC_W];
        for (uint64_t lane = 0; lane < VEC_W; lane++)
            first[lane] = (uint32_t)pst_attention_draw(&j->s, b->head, b->q0 + q + lane, k0);
        for (uint64_t k = 0; k < n_key; k += 4) {
            const vi counter[4] = {vi_add(vi_load(first), vi_set((uint32_t)k / 4)),
                                   vi_set((uint32_t)(j->s.drop_first + b->head)),
                                   vi_set((uint32_t)whole), vi_set((uint32_t)(whole >> 32))};
            vi word[4];
            philox(counter, j->key, word);
            VEC_UNROLL
            for (uint64_t w = 0; w < 4; w++) {
                float *at = s + (k + w) * ATT + q;
                if (k + w < n_key)
                    v_store(at, v_load(at) * drop_factor(vi_uniform(word[w]), j->s.rate));
            }
        }
    }
}

/* Adds up the softmax of a block of queries over the blocks of keys; out: not yet divided by the
 * sums. */
static void attend(const attention_job *j, const query_block *b, float *qt, panel out,
                   uint32_t thread) {
    const uint64_t d = j->s.d, ld = j->s.kv_ld;
    float *s = qt + ATT * d, *max = s + ATT * ATT, *sum = max + ATT, *factor = sum + ATT,
          *own = factor + ATT;
    const uint64_t kv = b->sample * j->s.t * ld + pst_attention_kv_of(&j->s, b->head) * d;
    const start_range starts = starts_of(j, b->sample, b->q0, b->n_q);
    const uint64_t k_first = starts.least / ATT * ATT;
    for (uint64_t k0 = k_first; k0 < b->end; k0 += ATT) {
        uint64_t n_key = pst_min_u64(ATT, b->end - k0);
        panel k = read_panel(j->k + kv + k0 * ld, ld, n_key, d, own + ATT * d);
        panel v = read_panel(j->v + kv + k0 * ld, ld, n_key, d, own + 2 * ATT * d);
        const int diagonal = k0 == b->q0 && !j->s.bidirectional;
        small_product(
            n_key, ATT,
            (factors){d, k.at, k.ld, 1, qt, ATT, s, ATT, 0, diagonal ? ATT_COLS_FROM : ATT_ALL});
        if (k0 < starts.most) {
            float from[ATT];
            first_keys(j, b->sample, b->q0, b->n_q, k0, from);
            softmax_block(s, n_key, j->s.scale, diagonal, from, (running){max, sum, factor});
        } else {
            softmax_block(s, n_key, j->s.scale, diagonal, NULL, (running){max, sum, factor});
        }
        if (j->drops) drop_block(j, b, k0, n_key, s);
        for (uint64_t i = 0; k0 > k_first && i < b->n_q; i++)
            scale_row(out.at + i * out.ld, factor[i], d);
        small_product(b->n_q, d,
                      (factors){n_key, s, 1, ATT, v.at, v.ld, out.at, out.ld, k0 != k_first,
                                diagonal ? ATT_DEPTH_TO : ATT_ALL});
        pst_device_poll(j->device, thread);
    }
}

static void attention_f_tile(void *arg, uint64_t tile, uint32_t thread) {
    const attention_job *j = arg;
    const pst_attention_shape *z = &j->s;
    uint64_t blocks = pst_div_up(z->t, ATT), bh = tile / blocks, block = blocks - 1 - tile % blocks;
    query_block b = {.sample = bh / z->heads, .head = bh % z->heads, .q0 = block * ATT};
    const uint64_t q0 = b.q0, length = pst_length_of(j->lengths, b.sample, z->t);
    b.n_q = q0 < length ? pst_min_u64(ATT, length - q0) : 0;
    b.end = z->bidirectional ? length : q0 + b.n_q;
    vx *to = j->dst + (b.sample * z->t + q0) * z->c + b.head * z->d;
    clear_rows(to, z->c, b.n_q, behind_block(q0, z->t) - q0, z->d);
    for (uint64_t i = q0 + b.n_q; i < behind_block(q0, z->t); i++) j->lse[bh * z->t + i] = 0.0f;
    if (!b.n_q) return;
    float *qt = j->scratch + thread * j->scratch_floats, *max = qt + ATT * z->d + ATT * ATT,
          *sum = max + ATT;
    panel out = sum_panel(to, z->c, z->d, sum + 2 * ATT);
    transpose(j->q + (b.sample * z->t + q0) * z->q_ld + b.head * z->d, z->q_ld, b.n_q, z->d, qt);
    for (int i = 0; i < ATT; i++) {
        /* a query may see nothing of its first blocks */
        max[i] = j->masked ? -__FLT_MAX__ : -__builtin_inff();
        sum[i] = 0.0f;
    }
    attend(j, &b, qt, out, thread);
    for (uint64_t i = 0; i < b.n_q; i++) {
        scale_row(out.at + i * out.ld, 1.0f / sum[i], z->d);
        j->lse[bh * z->t + q0 + i] = max[i] + logf(sum[i]);
    }
    put_panel(out, to, z->c, b.n_q, z->d);
}

static attention_job attention_of(pst_device *device, const pst_call *call) {
    attention_job j = {.device = device,
                       .s = pst_attention_shape_of(call->graph, call->node),
                       .q = call->arg[0],
                       .scratch = call->scratch,
                       .lengths = pst_call_lengths(call),
                       .starts = pst_call_starts(call)};
    j.k = j.s.packed ? j.q + j.s.c : call->arg[1];
    j.v = j.s.packed ? j.k + j.s.c : call->arg[2];
    j.masked = j.starts || (j.s.window && j.s.window < j.s.t);
    j.drops = call->train && j.s.rate > 0;
    j.key = j.drops ? pst_rng_key(call->seed, call->node->name) : 0;
    j.first_sample = call->sample;
    return j;
}

static uint64_t head_dim(const pst_graph *g, const pst_node *node) {
    return pst_attention_shape_of(g, node).d;
}

static uint64_t attention_f_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    return threads * attention_f_floats(head_dim(g, node)) * sizeof(float);
}

/* IN0 [IN1] OUT0 SAVED0, or IN0 IN1 IN2 [IN3] OUT0 SAVED0 */
static pst_status attention_f(pst_device *device, const pst_call *call) {
    attention_job j = attention_of(device, call);
    j.dst = pst_call_behind(call)[0];
    j.lse = pst_call_behind(call)[1];
    j.scratch_floats = attention_f_floats(j.s.d);
    memset(j.scratch, 0, device->threads * j.scratch_floats * sizeof(float));
    pst_device_run(device, attention_f_tile, &j, j.s.b * j.s.heads * pst_div_up(j.s.t, ATT));
    return PST_OK;
}

VEC_INLINE float row_dot(const vx *a, const vx *b, uint64_t count) {
    vf sum = v_set(0.0f);
    VEC_EACH(i, n, count, { sum = v_fma(x_load_n(a + i, n), x_load_n(b + i, n), sum); });
    return (float)v_sum(sum);
}

typedef struct {
    float lse, delta;
    uint64_t visible; /* number of keys */
} slope_of_row;

/* p = exp(scale s - lse), ds = p (dp - delta) scale, for a row of the block; lanes past the
 * diagonal are zero. */
VEC_INLINE void slope_row(float *s, float *dp, float scale, slope_of_row r) {
    vf zero = v_set(0.0f);
    for (uint64_t k = 0; k < ATT; k += VEC_W) {
        vf p = zero, ds = zero;
        if (k < r.visible) {
            unsigned n = (unsigned)pst_min_u64(VEC_W, r.visible - k);
            p = v_keep_n(v_exp(v_fma(v_load(s + k), v_set(scale), v_set(-r.lse))), 0.0f, n);
            ds = p * (v_load(dp + k) - v_set(r.delta)) * v_set(scale);
            ds = v_keep_n(ds, 0.0f, n);
        }
        v_store(s + k, p);
        v_store(dp + k, ds);
    }
}

/* slope_row with dropout: m is the factor of a probability. ds = p (m dp - delta) scale, and s
 * becomes m p. position: of the first key of the row in the random stream. */
VEC_INLINE void slope_dropped_row(const attention_job *j, uint64_t sample, uint64_t position,
                                  float *s, float *dp, slope_of_row r) {
    float factor[ATT];
    for (uint64_t k = 0; k < ATT; k += 4 * VEC_W) {
        vf uniform[4];
        draw(j->key, j->first_sample + sample, position + k / 4, uniform);
        VEC_UNROLL
        for (uint64_t i = 0; i < 4; i++)
            if (k + i * VEC_W < ATT)
                v_store(factor + k + i * VEC_W, drop_factor(uniform[i], j->s.rate));
    }
    for (uint64_t k = 0; k < ATT; k += VEC_W) v_store(dp + k, v_load(dp + k) * v_load(factor + k));
    slope_row(s, dp, j->s.scale, r);
    for (uint64_t k = 0; k < ATT; k += VEC_W) v_store(s + k, v_load(s + k) * v_load(factor + k));
}

/* Sets the first n lanes of p and ds to 0: keys before the query's start. */
static void hide_keys(float *s, float *dp, uint64_t n) {
    memset(s, 0, n * sizeof *s);
    memset(dp, 0, n * sizeof *dp);
}

static uint64_t attention_b_floats(uint64_t d) {
    return (2 + ATT_B_PANELS) * ATT * d + 2 * ATT * ATT;
}

/* Sets the gradients of positions [row, end) of a head of keys, and of the heads that share it, to
 * 0, and their dq in scratch. */
static void clear_padding(const attention_job *j, uint64_t sample, uint64_t kv, pst_part heads,
                          uint64_t row, uint64_t end) {
    const pst_attention_shape *z = &j->s;
    const uint64_t d = z->d, at = sample * z->t * z->kv_ld + kv * d;
    clear_rows(j->dk + at, z->kv_ld, row, end, d);
    clear_rows(j->dv + at, z->kv_ld, row, end, d);
    for (uint64_t h = heads.first; h < heads.first + heads.count; h++) {
        clear_rows(j->dq + sample * z->t * z->q_ld + h * d, z->q_ld, row, end, d);
        if (ATT_B_PANELS && row < end)
            memset(j->dq_sum + ((sample * z->heads + h) * z->t + row) * d, 0,
                   (end - row) * d * sizeof *j->dq_sum);
    }
}

/* A block of keys, and what is summed for it. */
typedef struct {
    uint64_t sample, k0, n_key, length;
    float *kt, *vt, *s, *dp, *own; /* own: scratch for panels of queries */
    panel k, dk, dv;
    int add; /* 0: the first sums overwrite dk and dv */
} key_block;

/* What the queries [q0, q0 + 64) of a head contribute to the gradients. */
static void add_queries(const attention_job *j, key_block *b, uint64_t head, uint64_t q0) {
    const pst_attention_shape *z = &j->s;
    const uint64_t d = z->d, k0 = b->k0, n_key = b->n_key, n_q = pst_min_u64(ATT, b->length - q0);
    const uint64_t bh = b->sample * z->heads + head, at = b->sample * z->t + q0;
    const uint64_t row = at * z->c + head * d, query = at * z->q_ld + head * d;
    const start_range starts = starts_of(j, b->sample, q0, n_q);
    if (starts.least >= k0 + n_key) return;
    panel q = read_panel(j->q + query, z->q_ld, n_q, d, b->own);
    panel dout = read_panel(j->dout + row, z->c, n_q, d, b->own + ATT * d);
    panel dq = sum_panel(j->dq + query, z->q_ld, d, j->dq_sum + (bh * z->t + q0) * d);
    const int diagonal = q0 == k0 && !z->bidirectional;
    const attention_part scores = diagonal ? ATT_COLS_TO : ATT_ALL,
                         over_q = diagonal ? ATT_DEPTH_FROM : ATT_ALL,
                         over_k = diagonal ? ATT_DEPTH_TO : ATT_ALL;
    float *s = b->s, *dp = b->dp;
    small_product(n_q, ATT, (factors){d, q.at, q.ld, 1, b->kt, ATT, s, ATT, 0, scores});
    small_product(n_q, ATT, (factors){d, dout.at, dout.ld, 1, b->vt, ATT, dp, ATT, 0, scores});
    for (uint64_t i = 0; i < n_q; i++) {
        const slope_of_row r = {j->lse_in[bh * z->t + q0 + i],
                                row_dot(j->dout + row + i * z->c, j->out + row + i * z->c, d),
                                diagonal ? i + 1 : n_key};
        const uint64_t position = pst_attention_draw(z, head, q0 + i, k0);
        if (!j->drops) slope_row(s + i * ATT, dp + i * ATT, z->scale, r);
        else slope_dropped_row(j, b->sample, position, s + i * ATT, dp + i * ATT, r);
    }
    for (uint64_t i = 0; k0 < starts.most && i < n_q; i++) {
        const uint64_t start = pst_attention_first(z, j->starts, b->sample, q0 + i);
        if (start > k0) hide_keys(s + i * ATT, dp + i * ATT, pst_min_u64(start - k0, ATT));
    }
    small_product(n_key, d,
                  (factors){n_q, s, 1, ATT, dout.at, dout.ld, b->dv.at, b->dv.ld, b->add, over_q});
    small_product(n_key, d,
                  (factors){n_q, dp, 1, ATT, q.at, q.ld, b->dk.at, b->dk.ld, b->add, over_q});
    b->add = 1;
    small_product(
        n_q, d,
        (factors){n_key, dp, ATT, 1, b->k.at, b->k.ld, dq.at, dq.ld, k0 > starts.least, over_k});
    /* the causal mask hides later keys */
    const int complete = z->bidirectional ? k0 + n_key == b->length : q0 == k0;
    if (complete) put_panel(dq, j->dq + query, z->q_ld, n_q, d);
}

static void attention_b_tile(void *arg, uint64_t tile, uint32_t thread) {
    const attention_job *j = arg;
    const pst_attention_shape *z = &j->s;
    const uint64_t sample = tile / z->kv_heads, kv = tile % z->kv_heads, d = z->d,
                   k0 = j->key_block * ATT;
    const pst_part heads = pst_attention_heads_of(z, kv);
    key_block b = {.sample = sample, .k0 = k0, .length = pst_length_of(j->lengths, sample, z->t)};
    b.n_key = k0 < b.length ? pst_min_u64(ATT, b.length - k0) : 0;
    const uint64_t at = (sample * z->t + k0) * z->kv_ld + kv * d;
    /* a rank may have no heads that use these keys */
    clear_padding(j, sample, kv, heads, k0 + (heads.count ? b.n_key : 0), behind_block(k0, z->t));
    if (!b.n_key || !heads.count) return;
    b.kt = j->scratch + thread * j->scratch_floats;
    b.vt = b.kt + ATT * d;
    b.s = b.vt + ATT * d;
    b.dp = b.s + ATT * ATT;
    float *own = b.dp + ATT * ATT;
    b.own = own + 3 * ATT * d;
    b.k = read_panel(j->k + at, z->kv_ld, b.n_key, d, own);
    b.dk = sum_panel(j->dk + at, z->kv_ld, d, own + ATT * d);
    b.dv = sum_panel(j->dv + at, z->kv_ld, d, own + 2 * ATT * d);
    transpose(j->k + at, z->kv_ld, b.n_key, d, b.kt);
    transpose(j->v + at, z->kv_ld, b.n_key, d, b.vt);
    for (uint64_t h = heads.first; h < heads.first + heads.count; h++)
        for (uint64_t q0 = z->bidirectional ? 0 : k0; q0 < b.length; q0 += ATT) {
            add_queries(j, &b, h, q0);
            pst_device_poll(j->device, thread);
        }
    put_panel(b.dk, j->dk + at, z->kv_ld, b.n_key, d);
    put_panel(b.dv, j->dv + at, z->kv_ld, b.n_key, d);
}

static uint64_t attention_b_scratch(const pst_graph *g, const pst_node *node, uint32_t threads) {
    uint64_t dq = ATT_B_PANELS ? pst_tensor_count(&g->tensor[node->out[0]]) : 0;
    return (threads * attention_b_floats(head_dim(g, node)) + dq) * sizeof(float);
}

/* IN0 [IN1] OUT0 SAVED0 DOUT0 DIN0, or IN0 IN1 IN2 [IN3] OUT0 SAVED0 DOUT0 DIN0 DIN1 DIN2 */
static pst_status attention_b(pst_device *device, const pst_call *call) {
    attention_job j = attention_of(device, call);
    void *const *behind = pst_call_behind(call);
    j.out = behind[0];
    j.lse_in = behind[1];
    j.dout = behind[2];
    j.dq = behind[3];
    j.dk = j.s.packed ? j.dq + j.s.c : behind[4];
    j.dv = j.s.packed ? j.dk + j.s.c : behind[5];
    j.scratch_floats = attention_b_floats(j.s.d);
    memset(j.scratch, 0, device->threads * j.scratch_floats * sizeof(float));
    j.dq_sum = ATT_B_PANELS ? j.scratch + device->threads * j.scratch_floats : j.scratch;
    for (j.key_block = 0; j.key_block * ATT < j.s.t; j.key_block++)
        pst_device_run(device, attention_b_tile, &j, j.s.b * j.s.kv_heads);
    return PST_OK;
}
