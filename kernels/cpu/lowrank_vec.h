/* powersgd with vectors: the products of kernels/lowrank.h in the same order, so the same bits.
 * Four rows of the matrix and four columns of the factors at a time, so that most operands are in
 * registers. */

enum { LOWRANK_ROWS = 4, LOWRANK_RANKS = 4 };

/* Rows of the matrix that lie behind each other, and columns of the factors. */
typedef struct {
    const float *m; /* the first row, [rows][columns], of which n elements */
    uint64_t n, columns, most_rows;
    float *q, *p; /* of the first of the columns: where the row's first element, and row, are */
} lowrank_part;

VEC_INLINE void lowrank_zero(int rows, int ranks, vf sum[LOWRANK_ROWS][LOWRANK_RANKS]) {
    VEC_UNROLL
    for (int i = 0; i < rows; i++) {
        VEC_UNROLL
        for (int k = 0; k < ranks; k++) sum[i][k] = v_set(0);
    }
}

/* Adds the products of VEC_W or fewer columns, from `at` on, of `rows` rows of M and those of
 * `ranks` columns of Q. */
VEC_INLINE void lowrank_dots_at(int rows, int ranks, const lowrank_part *of, uint64_t at,
                                unsigned n, vf sum[LOWRANK_ROWS][LOWRANK_RANKS]) {
    const float *m = of->m + at, *q = of->q + at;
    const uint64_t columns = of->columns;
    vf row[LOWRANK_ROWS];
    VEC_UNROLL
    for (int i = 0; i < rows; i++) row[i] = v_load_n(m + (uint64_t)i * columns, n);
    VEC_UNROLL
    for (int k = 0; k < ranks; k++) {
        const vf column = v_load_n(q + (uint64_t)k * columns, n);
        VEC_UNROLL
        for (int i = 0; i < rows; i++) sum[i][k] = sum[i][k] + row[i] * column;
    }
}

/* The sums of all lanes, to P. */
VEC_INLINE void lowrank_put_dots(int rows, int ranks, const lowrank_part *of,
                                 vf sum[CODEC_VECTORS][LOWRANK_ROWS][LOWRANK_RANKS]) {
    VEC_UNROLL
    for (int k = 0; k < ranks; k++) {
        VEC_UNROLL
        for (int i = 0; i < rows; i++) {
            vf part[CODEC_VECTORS];
            VEC_UNROLL
            for (int v = 0; v < CODEC_VECTORS; v++) part[v] = sum[v][i][k];
            of->p[(uint64_t)k * of->most_rows + (uint64_t)i] = codec_tree(part);
        }
    }
}

/* P = M Q, of `rows` rows and `ranks` columns. */
VEC_INLINE void lowrank_dots(int rows, int ranks, const lowrank_part *of) {
    vf sum[CODEC_VECTORS][LOWRANK_ROWS][LOWRANK_RANKS];
    VEC_UNROLL
    for (int v = 0; v < CODEC_VECTORS; v++) lowrank_zero(rows, ranks, sum[v]);
    uint64_t c = 0;
    for (; c + PST_CODEC_LANES <= of->n; c += PST_CODEC_LANES) {
        VEC_UNROLL
        for (int v = 0; v < CODEC_VECTORS; v++)
            lowrank_dots_at(rows, ranks, of, c + (uint64_t)v * VEC_W, VEC_W, sum[v]);
    }
    VEC_UNROLL
    for (int v = 0; v < CODEC_VECTORS; v++) {
        const uint64_t at = c + (uint64_t)v * VEC_W;
        const unsigned n = at < of->n ? (unsigned)pst_min_u64(VEC_W, of->n - at) : 0;
        if (n) lowrank_dots_at(rows, ranks, of, at, n, sum[v]);
    }
    lowrank_put_dots(rows, ranks, of, sum);
}

/* The first LOWRANK_RANKS columns of P of some rows, while these rows of M become the sums of
 * numbers and what is left over. */
typedef struct {
    lowrank_part part;
    const float *number, *error;
    float *m, scale;
    vi top;
} lowrank_summing;

VEC_INLINE void lowrank_sum_at(int rows, int ranks, lowrank_summing *s, uint64_t at, unsigned n,
                               vf sum[LOWRANK_ROWS][LOWRANK_RANKS]) {
    const uint64_t columns = s->part.columns;
    const vf scale = v_set(s->scale);
    vf row[LOWRANK_ROWS];
    VEC_UNROLL
    for (int i = 0; i < rows; i++) {
        const uint64_t from = (uint64_t)i * columns + at, ahead = from + (uint64_t)rows * columns;
        row[i] = v_load_n(s->number + from, n) + scale * v_load_n(s->error + from, n);
        v_store_n(s->m + from, row[i], n);
        s->top = vi_max(s->top, v_magnitude(row[i]));
        __builtin_prefetch(s->number + ahead);
        __builtin_prefetch(s->error + ahead);
    }
    VEC_UNROLL
    for (int k = 0; k < ranks; k++) {
        const vf column = v_load_n(s->part.q + at + (uint64_t)k * columns, n);
        VEC_UNROLL
        for (int i = 0; i < rows; i++) sum[i][k] = sum[i][k] + row[i] * column;
    }
}

VEC_INLINE void lowrank_sum_rows(int rows, int ranks, lowrank_summing *of) {
    lowrank_summing own = *of, *s = &own;
    const uint64_t n = own.part.n;
    vf sum[CODEC_VECTORS][LOWRANK_ROWS][LOWRANK_RANKS];
    uint64_t c = 0;
    VEC_UNROLL
    for (int v = 0; v < CODEC_VECTORS; v++) lowrank_zero(rows, ranks, sum[v]);
    for (; c + PST_CODEC_LANES <= n; c += PST_CODEC_LANES) {
        VEC_UNROLL
        for (int v = 0; v < CODEC_VECTORS; v++)
            lowrank_sum_at(rows, ranks, s, c + (uint64_t)v * VEC_W, VEC_W, sum[v]);
    }
    VEC_UNROLL
    for (int v = 0; v < CODEC_VECTORS; v++) {
        const uint64_t at = c + (uint64_t)v * VEC_W;
        const unsigned left = at < n ? (unsigned)pst_min_u64(VEC_W, n - at) : 0;
        if (left) lowrank_sum_at(rows, ranks, s, at, left, sum[v]);
    }
    of->top = own.top;
    lowrank_put_dots(rows, ranks, &own.part, sum);
}

/* Q += M^T P, of `rows` rows and `ranks` columns. */
VEC_INLINE void lowrank_adds(int rows, int ranks, const lowrank_part *of) {
    const float *m = of->m;
    float *q = of->q;
    const uint64_t columns = of->columns;
    vf by[LOWRANK_RANKS][LOWRANK_ROWS];
    VEC_UNROLL
    for (int k = 0; k < ranks; k++) {
        VEC_UNROLL
        for (int i = 0; i < rows; i++)
            by[k][i] = v_set(of->p[(uint64_t)k * of->most_rows + (uint64_t)i]);
    }
    VEC_EACH(c, n, of->n, {
        vf row[LOWRANK_ROWS];
        VEC_UNROLL
        for (int i = 0; i < rows; i++) row[i] = v_load_n(m + (uint64_t)i * columns + c, n);
        VEC_UNROLL
        for (int k = 0; k < ranks; k++) {
            float *to = q + (uint64_t)k * columns + c;
            vf sum = v_load_n(to, n);
            VEC_UNROLL
            for (int i = 0; i < rows; i++) sum = sum + by[k][i] * row[i];
            v_store_n(to, sum, n);
        }
    });
}

typedef void (*lowrank_fn)(const lowrank_part *of);
#define LOWRANK_CASES(name)                                                                        \
    static void name##_4x4(const lowrank_part *of) { name(4, 4, of); }                             \
    static void name##_4x1(const lowrank_part *of) { name(4, 1, of); }                             \
    static void name##_1x4(const lowrank_part *of) { name(1, 4, of); }                             \
    static void name##_1x1(const lowrank_part *of) { name(1, 1, of); }                             \
    static const lowrank_fn name##_of[2][2] = {{name##_1x1, name##_1x4}, {name##_4x1, name##_4x4}};
LOWRANK_CASES(lowrank_dots)
LOWRANK_CASES(lowrank_adds)

/* The columns of the factors from k on, and the rows from i on. */
VEC_INLINE lowrank_part lowrank_part_of(const pst_lowrank *x, const float *m, uint64_t i,
                                        uint32_t k, const pst_lowrank_row *row) {
    return (lowrank_part){.m = m + row->at,
                          .n = row->n,
                          .columns = x->columns,
                          .most_rows = x->most_rows,
                          .q = x->q + k * x->columns + row->column,
                          .p = x->p + k * x->most_rows + i};
}

/* The number of rows, 4 or 1, that are taken together from row i on. */
VEC_INLINE uint64_t lowrank_rows(const pst_lowrank *x, uint64_t i) {
    const uint64_t last = x->phase + x->n;
    const int whole = (i > 0 || !x->phase) && (i + LOWRANK_ROWS) * x->columns <= last;
    return whole ? LOWRANK_ROWS : 1;
}

/* Calls one of the functions for all rows of the matrix, and columns of the factors from `first`
 * on. */
static void lowrank_each(const pst_lowrank *x, const float *m, const lowrank_fn of[2][2],
                         uint32_t first) {
    for (uint64_t i = 0, rows; i < x->rows; i += rows) {
        const pst_lowrank_row row = pst_lowrank_row_at(x, i);
        rows = lowrank_rows(x, i);
        for (uint32_t k = first, ranks; k < x->rank; k += ranks) {
            ranks = k + LOWRANK_RANKS <= x->rank ? LOWRANK_RANKS : 1;
            const lowrank_part part = lowrank_part_of(x, m, i, k, &row);
            of[rows > 1][ranks > 1](&part);
        }
    }
}

static void lowrank_left(const pst_lowrank *x, const float *m) {
    lowrank_each(x, m, lowrank_dots_of, 0);
}

static void lowrank_right(const pst_lowrank *x, const float *m) {
    memset(x->q, 0, x->rank * x->columns * sizeof *x->q);
    lowrank_each(x, m, lowrank_adds_of, 0);
}

/* Q += what row i adds. */
static void lowrank_add_row(const pst_lowrank *x, const float *m, uint64_t i) {
    const pst_lowrank_row row = pst_lowrank_row_at(x, i);
    for (uint32_t k = 0; k < x->rank; k++) {
        const lowrank_part part = lowrank_part_of(x, m, i, k, &row);
        lowrank_adds(1, 1, &part);
    }
}

/* At most as many rows as sums of four columns fit into registers. */
enum { LOWRANK_SUM_ROWS = VEC_W == 16 ? LOWRANK_ROWS : 1 };
static uint32_t lowrank_sum(const pst_lowrank *x, const pst_flat_pack *p, uint64_t at, uint64_t n,
                            float *m) {
    lowrank_summing s = {.scale = p->scale, .top = vi_set(0)};
    if (!x) return codec_sum(p, at, n, m, NULL);
    const uint32_t ranks = x->rank < LOWRANK_RANKS ? 1 : LOWRANK_RANKS;
    for (uint64_t i = 0, rows; i < x->rows; i += rows) {
        const pst_lowrank_row row = pst_lowrank_row_at(x, i);
        rows = LOWRANK_SUM_ROWS > 1 ? lowrank_rows(x, i) : 1;
        s.part = lowrank_part_of(x, m, i, 0, &row);
        s.number = p->x + at + row.at;
        s.error = p->error + at + row.at;
        s.m = m + row.at;
        if (rows > 1 && ranks > 1) lowrank_sum_rows(LOWRANK_SUM_ROWS, LOWRANK_RANKS, &s);
        else if (rows > 1) lowrank_sum_rows(LOWRANK_SUM_ROWS, 1, &s);
        else if (ranks > 1) lowrank_sum_rows(1, LOWRANK_RANKS, &s);
        else lowrank_sum_rows(1, 1, &s);
    }
    lowrank_each(x, m, lowrank_dots_of, ranks);
    return vi_max_of(s.top);
}

/* VEC_W or fewer elements of rows of the product. */
typedef struct {
    vf row[LOWRANK_ROWS];
} lowrank_sums;

/* q, p: of its first row and column; ranks: x->rank. */
VEC_INLINE lowrank_sums lowrank_product(int rows, uint32_t ranks, const pst_lowrank *x,
                                        const float *q, const float *p, unsigned n) {
    const uint64_t columns = x->columns, most_rows = x->most_rows;
    lowrank_sums sum;
    VEC_UNROLL
    for (int i = 0; i < rows; i++) sum.row[i] = v_set(0);
    VEC_UNROLL
    for (uint32_t k = 0; k < ranks; k++) {
        const vf column = v_load_n(q + k * columns, n);
        VEC_UNROLL
        for (int i = 0; i < rows; i++)
            sum.row[i] = sum.row[i] + v_set(p[k * most_rows + (uint64_t)i]) * column;
    }
    return sum;
}

/* What becomes of the product: see pst_lowrank_subtract; y: it is added there. Each can be NULL. */
typedef struct {
    float *next, *out, *y;
} lowrank_use;

VEC_INLINE void lowrank_use_rows(int rows, uint32_t ranks, const pst_lowrank *x, uint64_t i,
                                 const lowrank_use *use) {
    const pst_lowrank_row row = pst_lowrank_row_at(x, i);
    const float *q = x->q + row.column, *p = x->p + i;
    const uint64_t columns = x->columns;
    float *next = use->next, *out = use->out, *y = use->y;
    VEC_EACH(c, n, row.n, {
        const lowrank_sums sum = lowrank_product(rows, ranks, x, q + c, p, n);
        VEC_UNROLL
        for (int k = 0; k < rows; k++) {
            const uint64_t at = row.at + (uint64_t)k * columns + c;
            if (next) v_store_n(next + at, v_load_n(next + at, n) - sum.row[k], n);
            if (out) v_store_n(out + at, sum.row[k], n);
            if (y) v_store_n(y + at, v_load_n(y + at, n) + sum.row[k], n);
        }
    });
}

static void lowrank_use_all(const pst_lowrank *x, const lowrank_use *use) {
    for (uint64_t i = 0, rows; i < x->rows; i += rows) {
        rows = lowrank_rows(x, i);
        if (rows > 1 && x->rank == 4) lowrank_use_rows(LOWRANK_ROWS, 4, x, i, use);
        else if (rows > 1) lowrank_use_rows(LOWRANK_ROWS, x->rank, x, i, use);
        else lowrank_use_rows(1, x->rank, x, i, use);
    }
}

/* --- a part of the columns at a time --- */

/* Some vectors of columns of all whole rows, which stay in the cache: first their part of Q, whose
 * sums stay in registers, then what is left of them. */
enum { LOWRANK_VECTORS = VEC_W == 16 ? 4 : 2 };
typedef struct {
    const pst_lowrank *x;
    const float *m;
    lowrank_use use;
    uint64_t first, end; /* whole rows */
    uint64_t tail;       /* elements of a last row that is not whole */
} lowrank_panels;
typedef struct {
    vf of[LOWRANK_RANKS][LOWRANK_VECTORS];
} lowrank_columns;

VEC_INLINE void lowrank_columns_at(int ranks, int vectors, const lowrank_panels *p, uint64_t c,
                                   unsigned n, lowrank_columns *q) {
    VEC_UNROLL
    for (int k = 0; k < ranks; k++) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            q->of[k][v] =
                v_load_n(p->x->q + (uint64_t)k * p->x->columns + c + (uint64_t)(v * VEC_W), n);
    }
}

/* Adds the part of the last row, if it is not whole, to that of Q in memory. */
VEC_INLINE void lowrank_add_tail(int ranks, int vectors, const lowrank_panels *p, uint64_t c,
                                 unsigned n) {
    const pst_lowrank *x = p->x;
    const float *m = p->m + (p->end * x->columns - x->phase) + c;
    for (int v = 0; v < vectors; v++) {
        const uint64_t at = c + (uint64_t)(v * VEC_W);
        if (at >= p->tail) return;
        const unsigned of = (unsigned)pst_min_u64(n, p->tail - at);
        for (int k = 0; k < ranks; k++) {
            float *q = x->q + (uint64_t)k * x->columns + at;
            const vf by = v_set(x->p[(uint64_t)k * x->most_rows + p->end]);
            v_store_n(q, v_load_n(q, of) + by * v_load_n(m + v * VEC_W, of), of);
        }
    }
}

/* The part of Q of columns from c on: `vectors` vectors, of n elements each. */
VEC_INLINE void lowrank_panel_right(int ranks, int vectors, const lowrank_panels *p, uint64_t c,
                                    unsigned n) {
    const pst_lowrank *x = p->x;
    const float *m = p->m + (p->first * x->columns - x->phase) + c;
    lowrank_columns q;
    lowrank_columns_at(ranks, vectors, p, c, n, &q);
    for (uint64_t i = p->first; i < p->end; i++, m += x->columns) {
        vf row[LOWRANK_VECTORS];
        VEC_UNROLL
        for (int v = 0; v < vectors; v++) row[v] = v_load_n(m + v * VEC_W, n);
        VEC_UNROLL
        for (int k = 0; k < ranks; k++) {
            const vf by = v_set(x->p[(uint64_t)k * x->most_rows + i]);
            VEC_UNROLL
            for (int v = 0; v < vectors; v++) q.of[k][v] = q.of[k][v] + by * row[v];
        }
    }
    VEC_UNROLL
    for (int k = 0; k < ranks; k++) {
        VEC_UNROLL
        for (int v = 0; v < vectors; v++)
            v_store_n(x->q + (uint64_t)k * x->columns + c + (uint64_t)(v * VEC_W), q.of[k][v], n);
    }
    lowrank_add_tail(ranks, vectors, p, c, n);
}

VEC_INLINE void lowrank_panel_use(int ranks, int vectors, const lowrank_panels *p, uint64_t c,
                                  unsigned n) {
    const pst_lowrank *x = p->x;
    uint64_t at = p->first * x->columns - x->phase + c;
    float *next = p->use.next, *out = p->use.out;
    lowrank_columns q;
    lowrank_columns_at(ranks, vectors, p, c, n, &q);
    for (uint64_t i = p->first; i < p->end; i++, at += x->columns) {
        vf sum[LOWRANK_VECTORS];
        VEC_UNROLL
        for (int v = 0; v < vectors; v++) sum[v] = v_set(0);
        VEC_UNROLL
        for (int k = 0; k < ranks; k++) {
            const vf by = v_set(x->p[(uint64_t)k * x->most_rows + i]);
            VEC_UNROLL
            for (int v = 0; v < vectors; v++) sum[v] = sum[v] + by * q.of[k][v];
        }
        VEC_UNROLL
        for (int v = 0; v < vectors; v++) {
            const uint64_t to = at + (uint64_t)(v * VEC_W);
            if (next) v_store_n(next + to, v_load_n(next + to, n) - sum[v], n);
            if (out) v_store_n(out + to, sum[v], n);
            __builtin_prefetch(p->m + to + vectors * VEC_W);
        }
    }
}

VEC_INLINE void lowrank_panel(int ranks, int vectors, const lowrank_panels *p, uint64_t c,
                              unsigned n) {
    lowrank_panel_right(ranks, vectors, p, c, n);
    if (p->use.next && !p->use.out) {
        const lowrank_panels only = {p->x, p->m, {p->use.next, NULL, NULL}, p->first, p->end, 0};
        lowrank_panel_use(ranks, vectors, &only, c, n);
        return;
    }
    lowrank_panel_use(ranks, vectors, p, c, n);
}

VEC_INLINE void lowrank_all_panels(int ranks, const lowrank_panels *p) {
    const uint64_t columns = p->x->columns, wide = LOWRANK_VECTORS * VEC_W;
    uint64_t c = 0;
    for (; c + wide <= columns; c += wide) lowrank_panel(ranks, LOWRANK_VECTORS, p, c, VEC_W);
    for (; c + VEC_W <= columns; c += VEC_W) lowrank_panel(ranks, 1, p, c, VEC_W);
    if (c < columns) lowrank_panel(ranks, 1, p, c, (unsigned)(columns - c));
}

static void lowrank_panels_1(const lowrank_panels *p) { lowrank_all_panels(1, p); }
static void lowrank_panels_2(const lowrank_panels *p) { lowrank_all_panels(2, p); }
static void lowrank_panels_4(const lowrank_panels *p) { lowrank_all_panels(LOWRANK_RANKS, p); }

/* The first row and the last one, where they are not whole: before and behind the others. */
static void lowrank_finish(const pst_lowrank *x, const float *m, float *next, float *out) {
    static void (*const panels_of[])(const lowrank_panels *) = {
        NULL, lowrank_panels_1, lowrank_panels_2, NULL, lowrank_panels_4};
    const uint64_t last = x->phase + x->n;
    const uint64_t whole = last / x->columns;
    const lowrank_panels p = {x, m, {next, out, NULL}, x->phase ? 1 : 0, whole, last % x->columns};
    if (x->rank > 4 || !panels_of[x->rank] || p.first >= p.end) {
        lowrank_right(x, m);
        lowrank_use_all(x, &p.use);
        return;
    }
    memset(x->q, 0, x->rank * x->columns * sizeof *x->q);
    if (x->phase) lowrank_add_row(x, m, 0);
    panels_of[x->rank](&p);
    if (x->phase) lowrank_use_rows(1, x->rank, x, 0, &p.use);
    if (p.tail) lowrank_use_rows(1, x->rank, x, p.end, &p.use);
}

/* y += the product, of some whole rows, with four columns of the factors; those of P stay in
 * registers. */
enum { LOWRANK_ADD_ROWS = VEC_W == 16 ? 4 : 2 };
static void lowrank_add_rows(const pst_lowrank *x, uint64_t i, float *y) {
    const uint64_t columns = x->columns;
    const float *q = x->q;
    vf by[LOWRANK_RANKS][LOWRANK_ADD_ROWS];
    VEC_UNROLL
    for (int k = 0; k < LOWRANK_RANKS; k++) {
        VEC_UNROLL
        for (int r = 0; r < LOWRANK_ADD_ROWS; r++)
            by[k][r] = v_set(x->p[(uint64_t)k * x->most_rows + i + (uint64_t)r]);
    }
    VEC_EACH(c, n, columns, {
        vf sum[LOWRANK_ADD_ROWS];
        VEC_UNROLL
        for (int r = 0; r < LOWRANK_ADD_ROWS; r++) sum[r] = v_set(0);
        VEC_UNROLL
        for (int k = 0; k < LOWRANK_RANKS; k++) {
            const vf column = v_load_n(q + (uint64_t)k * columns + c, n);
            VEC_UNROLL
            for (int r = 0; r < LOWRANK_ADD_ROWS; r++) sum[r] = sum[r] + by[k][r] * column;
        }
        VEC_UNROLL
        for (int r = 0; r < LOWRANK_ADD_ROWS; r++) {
            float *to = y + (uint64_t)r * columns + c;
            __builtin_prefetch(to + LOWRANK_ADD_ROWS * columns, 1);
            v_store_n(to, v_load_n(to, n) + sum[r], n);
        }
    });
}

static void lowrank_unpack(const pst_lowrank *x, float *y, int add) {
    const lowrank_use use = add ? (lowrank_use){NULL, NULL, y} : (lowrank_use){NULL, y, NULL};
    const uint64_t end = (x->phase + x->n) / x->columns;
    uint64_t i = 0;
    if (!add || x->rank != LOWRANK_RANKS) {
        lowrank_use_all(x, &use);
        return;
    }
    if (x->phase) lowrank_use_rows(1, x->rank, x, i++, &use);
    for (; i + LOWRANK_ADD_ROWS <= end; i += LOWRANK_ADD_ROWS)
        lowrank_add_rows(x, i, y + (i * x->columns - x->phase));
    for (; i < x->rows; i++) lowrank_use_rows(1, x->rank, x, i, &use);
}

static const pst_lowrank_ops lowrank_ops = {lowrank_sum, lowrank_left, lowrank_right,
                                            lowrank_finish, lowrank_unpack};
