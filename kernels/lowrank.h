/* powersgd of base/codec.h: a block as a product P Q^T of low rank, after Vogels, Karimireddy and
 * Jaggi 2019 (arXiv 1905.13727), but of each replica's own gradient: no sum over replicas is needed
 * between P and Q, so that a gradient is one message. Power iterations (Halko, Martinsson and Tropp
 * 2011, algorithm 4.4) begin with the Q of the last step, the basis, or with a fixed one.
 *
 * Every instruction set compiles this file, without contraction. Sums over columns have
 * PST_CODEC_LANES parts, sums over rows are in the order of rows: the same bits everywhere. */
#ifndef PST_KERNELS_LOWRANK_H
#define PST_KERNELS_LOWRANK_H
#include "kernels/codec.h"
#include "kernels/kernel.h"

enum { PST_LOWRANK_TILE = 256 };

/* The message has q, then p. The first row of the matrix may begin, and the last one end, within a
 * row of the parameter. */
typedef struct {
    uint64_t n, columns, phase; /* phase: column of the first element */
    uint64_t rows, most_rows;
    uint32_t rank;
    float *q; /* [rank][columns] */
    float *p; /* [rank][most_rows]; after `rows` zeros */
} pst_lowrank;
/* A row: elements [at, at + n) of the block, which are columns from `column` on. */
typedef struct {
    uint64_t at, n, column;
} pst_lowrank_row;

/* Of the n elements of a message from `at` on. */
static inline pst_lowrank pst_lowrank_of(pst_codec codec, uint64_t at, uint64_t n, void *packed) {
    pst_lowrank x = {.n = n, .columns = codec.columns, .rank = codec.rank, .q = packed};
    x.phase = (codec.phase + at) % codec.columns;
    x.rows = (x.phase + n + x.columns - 1) / x.columns;
    x.most_rows = pst_codec_rows(codec, n);
    x.p = x.q + x.rank * x.columns;
    return x;
}

static inline pst_lowrank_row pst_lowrank_row_at(const pst_lowrank *x, uint64_t i) {
    const uint64_t begin = i * x->columns;
    const uint64_t end = begin + x->columns;
    const uint64_t last = x->phase + x->n;
    const uint64_t from = i ? begin : x->phase;
    const uint64_t to = end < last ? end : last;
    return (pst_lowrank_row){from - x->phase, to - from, from - begin};
}

static inline float pst_lowrank_dot(const float *a, const float *b, uint64_t n) {
    float sum[PST_CODEC_LANES] = {0};
    uint64_t i = 0;
    for (; i + PST_CODEC_LANES <= n; i += PST_CODEC_LANES)
        for (int lane = 0; lane < PST_CODEC_LANES; lane++) sum[lane] += a[i + lane] * b[i + lane];
    for (int lane = 0; i < n; i++, lane++) sum[lane] += a[i] * b[i];
    return pst_codec_tree(sum);
}

/* y += by * x */
static inline void pst_lowrank_add(float *restrict y, const float *restrict x, float by,
                                   uint64_t n) {
    for (uint64_t i = 0; i < n; i++) y[i] += by * x[i];
}

/* From -1 to 1, of the column's number and `k`. */
static inline float pst_lowrank_start(uint32_t column, uint32_t k) {
    uint32_t x = column * 0x9e3779b9u + k * 0x85ebca6bu + 0x27d4eb2fu;
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    x ^= x >> 16;
    return (float)(int32_t)(x >> 8) * 0x1p-23f - 1;
}

/* Makes `rank` vectors of n elements, `apart` elements apart, orthonormal, one after another; one
 * that depends on those before it becomes 0. */
static inline void pst_lowrank_orthonormal(float *v, uint64_t n, uint64_t apart, uint32_t rank) {
    for (uint32_t k = 0; k < rank; k++) {
        float *of = v + k * apart;
        const float before = pst_lowrank_dot(of, of, n);
        for (uint32_t j = 0; j < k; j++)
            pst_lowrank_add(of, v + j * apart, -pst_lowrank_dot(v + j * apart, of, n), n);
        const float square = pst_lowrank_dot(of, of, n);
        const int depends = square <= 1e-10f * before || square <= 1e-35f;
        const float by = depends ? 0 : 1 / sqrtf(square);
        for (uint64_t i = 0; i < n; i++) of[i] *= by;
    }
}

/* The products with the matrix, of each instruction set; all give the same bits. */
typedef struct {
    /* M becomes the sums of the n numbers from `at` on and what is left over; returns the largest
     * magnitude as bits. x: also P = M Q; NULL: not. */
    uint32_t (*sum)(const pst_lowrank *x, const pst_flat_pack *p, uint64_t at, uint64_t n,
                    float *m);
    void (*left)(const pst_lowrank *x, const float *m);  /* P = M Q */
    void (*right)(const pst_lowrank *x, const float *m); /* Q = M^T P */
    /* The same, then next: M, which becomes what is left of it; out: becomes the product, may be M.
     * NULL: not wanted. */
    void (*finish)(const pst_lowrank *x, const float *m, float *next, float *out);
    void (*unpack)(const pst_lowrank *x, float *y, int add); /* as pst_flat.unpack */
} pst_lowrank_ops;

static inline void pst_lowrank_left(const pst_lowrank *x, const float *m) {
    for (uint64_t i = 0; i < x->rows; i++) {
        const pst_lowrank_row row = pst_lowrank_row_at(x, i);
        for (uint32_t k = 0; k < x->rank; k++)
            x->p[k * x->most_rows + i] =
                pst_lowrank_dot(m + row.at, x->q + k * x->columns + row.column, row.n);
    }
}

static inline void pst_lowrank_right(const pst_lowrank *x, const float *m) {
    memset(x->q, 0, x->rank * x->columns * sizeof *x->q);
    for (uint64_t i = 0; i < x->rows; i++) {
        const pst_lowrank_row row = pst_lowrank_row_at(x, i);
        for (uint32_t k = 0; k < x->rank; k++)
            pst_lowrank_add(x->q + k * x->columns + row.column, m + row.at,
                            x->p[k * x->most_rows + i], row.n);
    }
}

/* Sets Q to the fixed start, all of it, or only the columns that are 0; returns the number of
 * columns that it sets. */
static inline uint32_t pst_lowrank_fixed(const pst_lowrank *x, int all) {
    uint32_t set = 0;
    for (uint32_t k = 0; k < x->rank; k++) {
        float *of = x->q + k * x->columns;
        uint64_t c = 0;
        while (!all && c < x->columns && of[c] == 0) c++;
        if (!all && c < x->columns) continue;
        for (c = 0; c < x->columns; c++) of[c] = pst_lowrank_start((uint32_t)c, k);
        set++;
    }
    return set;
}

/* Sets Q to what the iterations begin with. basis: that of the block, of which a column that is 0
 * or depends on others begins anew; NULL: there is none. */
static inline void pst_lowrank_begin(const pst_lowrank *x, const float *basis) {
    if (!basis) {
        pst_lowrank_fixed(x, 1);
        return;
    }
    memcpy(x->q, basis, x->rank * x->columns * sizeof *x->q);
    pst_lowrank_orthonormal(x->q, x->columns, x->columns, x->rank);
    if (pst_lowrank_fixed(x, 0)) pst_lowrank_orthonormal(x->q, x->columns, x->columns, x->rank);
}

/* Elements [at, at + n) of a row of the product, n <= PST_LOWRANK_TILE. */
static inline void pst_lowrank_product(const pst_lowrank *x, uint64_t row, uint64_t column,
                                       uint64_t n, float *out) {
    memset(out, 0, n * sizeof *out);
    for (uint32_t k = 0; k < x->rank; k++)
        pst_lowrank_add(out, x->q + k * x->columns + column, x->p[k * x->most_rows + row], n);
}

static inline void pst_lowrank_subtract(const pst_lowrank *x, float *next, float *out) {
    float part[PST_LOWRANK_TILE];
    for (uint64_t i = 0; i < x->rows; i++) {
        const pst_lowrank_row row = pst_lowrank_row_at(x, i);
        for (uint64_t from = 0; from < row.n; from += PST_LOWRANK_TILE) {
            const uint64_t left = row.n - from, at = row.at + from;
            const uint64_t n = left < PST_LOWRANK_TILE ? left : PST_LOWRANK_TILE;
            pst_lowrank_product(x, i, row.column + from, n, part);
            for (uint64_t j = 0; next && j < n; j++) next[at + j] -= part[j];
            if (out) memcpy(out + at, part, n * sizeof *part);
        }
    }
}

static inline void pst_lowrank_finish(const pst_lowrank *x, const float *m, float *next,
                                      float *out) {
    pst_lowrank_right(x, m);
    pst_lowrank_subtract(x, next, out);
}

/* A block with a number that is not finite has no factors. */
static inline void pst_lowrank_spoil(const pst_lowrank *x, float *next, float *out) {
    const uint64_t all = x->rank * (x->columns + x->most_rows);
    for (uint64_t i = 0; i < all; i++) x->q[i] = NAN;
    for (uint64_t i = 0; next && i < x->n; i++) next[i] = NAN;
    for (uint64_t i = 0; out && i < x->n; i++) out[i] = NAN;
}

/* Packs the n elements from `at` on. */
static inline void pst_lowrank_pack(const pst_lowrank_ops *ops, const pst_flat_pack *p, uint64_t at,
                                    uint64_t n) {
    uint8_t *to = p->packed + pst_codec_bytes(p->codec, at);
    float *next = p->next ? p->next + at : NULL;
    float *out = p->decode ? p->x + at : NULL;
    float *m = next ? next : p->x + at;
    if (!pst_codec_factors(p->codec, n)) {
        ops->sum(NULL, p, at, n, m);
        memcpy(to, m, n * sizeof *m);
        if (out) memmove(out, m, n * sizeof *m);
        for (uint64_t i = 0; next && i < n; i++) next[i] -= next[i];
        return;
    }
    const pst_lowrank x = pst_lowrank_of(p->codec, at, n, to);
    const float *basis = p->basis;
    if (basis) basis += at / p->codec.block * x.rank * x.columns;
    pst_lowrank_begin(&x, basis);
    memset(x.p, 0, x.rank * x.most_rows * sizeof *x.p);
    if (ops->sum(&x, p, at, n, m) >= 0x7f800000) {
        pst_lowrank_spoil(&x, next, out);
        return;
    }
    for (uint32_t i = 1; i < p->codec.iterations; i++) {
        pst_lowrank_orthonormal(x.p, x.rows, x.most_rows, x.rank);
        ops->right(&x, m);
        pst_lowrank_orthonormal(x.q, x.columns, x.columns, x.rank);
        ops->left(&x, m);
    }
    pst_lowrank_orthonormal(x.p, x.rows, x.most_rows, x.rank);
    ops->finish(&x, m, next, out);
}

static inline void pst_lowrank_unpack_product(const pst_lowrank *x, float *y, int add) {
    float part[PST_LOWRANK_TILE];
    if (!add) memset(y, 0, x->n * sizeof *y);
    for (uint64_t i = 0; i < x->rows; i++) {
        const pst_lowrank_row row = pst_lowrank_row_at(x, i);
        for (uint64_t done = 0; done < row.n; done += PST_LOWRANK_TILE) {
            const uint64_t left = row.n - done;
            const uint64_t m = left < PST_LOWRANK_TILE ? left : PST_LOWRANK_TILE;
            pst_lowrank_product(x, i, row.column + done, m, part);
            pst_lowrank_add(y + row.at + done, part, 1, m);
        }
    }
}

/* As pst_flat.unpack, of a block: the n elements of a message from `at` on, which are at `from`. */
typedef struct {
    pst_codec codec;
    uint64_t at, n;
    const uint8_t *from;
} pst_lowrank_block;
static inline void pst_lowrank_unpack(const pst_lowrank_ops *ops, const pst_lowrank_block *b,
                                      float *y, int add) {
    if (!pst_codec_factors(b->codec, b->n)) {
        if (!add) memset(y, 0, b->n * sizeof *y);
        pst_lowrank_add(y, (const float *)(const void *)b->from, 1, b->n);
        return;
    }
    const pst_lowrank x = pst_lowrank_of(b->codec, b->at, b->n, (void *)(uintptr_t)b->from);
    ops->unpack(&x, y, add);
}
#endif
