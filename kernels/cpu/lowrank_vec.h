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

/* The number of rows, 4 or 1, that are taken together from row i on. */
VEC_INLINE uint64_t lowrank_rows(const pst_lowrank *x, uint64_t i) {
    const uint64_t last = x->phase + x->n;
    const int whole = (i > 0 || !x->phase) && (i + LOWRANK_ROWS) * x->columns <= last;
    return whole ? LOWRANK_ROWS : 1;
}

/* Calls one of the functions for all parts of the matrix. */
static void lowrank_each(const pst_lowrank *x, const float *m, const lowrank_fn of[2][2]) {
    for (uint64_t i = 0, rows; i < x->rows; i += rows) {
        const pst_lowrank_row row = pst_lowrank_row_at(x, i);
        rows = lowrank_rows(x, i);
        for (uint32_t k = 0, ranks; k < x->rank; k += ranks) {
            ranks = k + LOWRANK_RANKS <= x->rank ? LOWRANK_RANKS : 1;
            const lowrank_part part = {.m = m + row.at,
                                       .n = row.n,
                                       .columns = x->columns,
                                       .most_rows = x->most_rows,
                                       .q = x->q + k * x->columns + row.column,
                                       .p = x->p + k * x->most_rows + i};
            of[rows > 1][ranks > 1](&part);
        }
    }
}

static void lowrank_left(const pst_lowrank *x, const float *m) {
    lowrank_each(x, m, lowrank_dots_of);
}

static void lowrank_right(const pst_lowrank *x, const float *m) {
    memset(x->q, 0, x->rank * x->columns * sizeof *x->q);
    lowrank_each(x, m, lowrank_adds_of);
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

static void lowrank_subtract(const pst_lowrank *x, float *next, float *out) {
    lowrank_use_all(x, &(lowrank_use){next, out, NULL});
}

static void lowrank_unpack(const pst_lowrank *x, float *y, int add) {
    lowrank_use_all(x, add ? &(lowrank_use){NULL, NULL, y} : &(lowrank_use){NULL, y, NULL});
}

static const pst_lowrank_ops lowrank_ops = {lowrank_left, lowrank_right, lowrank_subtract,
                                            lowrank_unpack};
