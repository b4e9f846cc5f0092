/* The inner parts of a direct convolution (convolution_ops.h), for the vector length and element
 * type of the including file. Every sum is a chain of fused multiply-adds over the terms in order,
 * starting from 0, whatever the size of the register block: AVX2 and AVX-512 give the same bits. */

enum {
    DIRECT_COLS = 2 * VEC_W,
    DIRECT_OUTS = VEC_W / 2,
    DIRECT_VECTORS = 3,                 /* vectors of a register block of W */
    DIRECT_ONE = VEC_W == 16 ? 16 : 12, /* pixels of a register block of F with one vector of
                                           columns */
    DIRECT_TWO = VEC_W == 16 ? 14 : 6   /* with two vectors of columns */
};

/* --- copies ----------------------------------------------------------------------------------- */

static void direct_copy(const pst_conv_copy *t) {
    enum { TERMS = VEC_W * PRODUCT_TERMS };
    const uint64_t steps = pst_div_up(t->channels, PRODUCT_TERMS);
    const uint64_t left = t->from ? t->left : t->left + t->n + t->right;
    packed *to = t->to;
    memset(to, 0, left * steps * sizeof *to);
    if (!t->from) return;
    to += left * steps;
    uint64_t n = t->n;
    const uint64_t channels = t->channels;
#if !defined(VEC_F16)
    if (t->pixel == channels && channels % PRODUCT_TERMS == 0) { /* contiguous: no conversion */
        memcpy(to, t->from, n * steps * sizeof *to);
        to += n * steps;
        n = 0;
    }
#endif
    for (uint64_t p = 0; p < n; p++) {
        const vx *from = (const vx *)t->from + p * t->pixel;
        for (uint64_t i = 0; i < channels; i += TERMS) {
            const unsigned terms = (unsigned)pst_min_u64(TERMS, channels - i);
            const unsigned count = (terms + PRODUCT_TERMS - 1) / PRODUCT_TERMS;
            v_store_n((float *)(void *)to, p_load_terms(from + i, terms), count);
            to += count;
        }
    }
    memset(to, 0, t->right * steps * sizeof *to);
}

static void direct_widen(const pst_conv_copy *t) {
    const uint64_t left = t->from ? t->left : t->left + t->n + t->right;
    float *to = t->to;
    memset(to, 0, left * t->channels * sizeof *to);
    if (!t->from) return;
    to += left * t->channels;
    const int whole = t->pixel == t->channels; /* 1: the pixels are contiguous */
    const uint64_t runs = whole ? 1 : t->n, length = t->n / runs * t->channels;
    for (uint64_t p = 0; p < runs; p++, to += length) {
        const vx *from = (const vx *)t->from + p * t->pixel;
        VEC_EACH(i, n, length, { v_store_n(to + i, x_load_n(from + i, n), n); });
    }
    memset(to, 0, t->right * t->channels * sizeof *to);
}

static void direct_spread(const pst_conv_copy *t, uint64_t panel) {
    float *to = t->to;
    for (uint64_t p = 0; p < t->n; p++, to += DIRECT_OUTS) {
        const vx *from = (const vx *)t->from + p * t->pixel;
        for (uint64_t i = 0; i < t->channels; i += VEC_W) {
            float *low = to + i / DIRECT_OUTS * panel;
            const unsigned n = (unsigned)pst_min_u64(VEC_W, t->channels - i);
            v_store_halves(low, low + panel, x_load_n(from + i, n));
        }
    }
}

/* One panel; without items it is all zeros. */
static void direct_pack(const pst_pack *p) {
    const pack_job j = {p->from, p->ld, p->items, p->terms, p->to};
    if (p->across) pack_across(DIRECT_COLS / VEC_W, &j, DIRECT_COLS);
    else pack_along(DIRECT_COLS / VEC_W, &j, DIRECT_COLS);
}

static void direct_put(float *y, const float *x, uint64_t n, int add) {
    VEC_EACH(i, lanes, n, { put_sum(y + i, v_load_n(x + i, lanes), lanes, add); });
}

/* --- F ---------------------------------------------------------------------------------------- */

typedef struct {
    const packed *a, *b;
    uint64_t pixel, row, runs, steps;
    float *c;
    uint64_t ld;
    unsigned last; /* lanes of the last vector that are used */
    int add;
} direct_job;

/* Multiplies the windows of `rows` neighbouring pixels by a panel. Every third pixel has an address
 * register; an instruction can encode the distance of the two pixels after it, so few registers are
 * needed. */
VEC_INLINE void direct_block(unsigned rows, unsigned vectors, const direct_job *j) {
    vf sum[16][2];
    const packed *b = j->b;
    const uint64_t pixel = j->pixel;
    VEC_UNROLL for (unsigned r = 0; r < rows; r++) {
        VEC_UNROLL for (unsigned v = 0; v < vectors; v++) sum[r][v] = v_set(0.0f);
        for (unsigned v = 0; v < vectors; v++) __builtin_prefetch(j->c + r * j->ld + v * VEC_W, 1);
    }
    for (uint64_t run = 0; run < j->runs; run++) {
        const packed *at[6];
        VEC_UNROLL for (unsigned i = 0; 3 * i < rows; i++) at[i] =
            j->a + run * j->row + 3 * i * pixel;
        for (uint64_t s = 0; s < j->steps; s++, b += DIRECT_COLS) {
            vp cols[2];
            VEC_UNROLL for (unsigned v = 0; v < vectors; v++) cols[v] = p_load(b + v * VEC_W);
            VEC_UNROLL for (unsigned r = 0; r < rows; r++) {
                vp term = p_set(at[r / 3][r % 3 * pixel]);
                VEC_UNROLL for (unsigned v = 0; v < vectors; v++) sum[r][v] =
                    p_madd(term, cols[v], sum[r][v]);
            }
            VEC_UNROLL for (unsigned i = 0; 3 * i < rows; i++) at[i]++;
        }
    }
    VEC_UNROLL for (unsigned r = 0; r < rows; r++) {
        VEC_UNROLL for (unsigned v = 0; v < vectors; v++) {
            unsigned n = v + 1 < vectors ? VEC_W : j->last;
            put_sum(j->c + r * j->ld + v * VEC_W, sum[r][v], n, j->add);
        }
    }
}

/* Separate functions, so that the compiler allocates registers for each. */
#define DIRECT_BLOCK(vectors, rows)                                                                \
    static __attribute__((noinline)) void direct_##vectors##_##rows(const direct_job *j) {         \
        direct_block(rows, vectors, j);                                                            \
    }
#define DIRECT_THREE(vectors, a, b, c)                                                             \
    DIRECT_BLOCK(vectors, a)                                                                       \
    DIRECT_BLOCK(vectors, b)                                                                       \
    DIRECT_BLOCK(vectors, c)
DIRECT_THREE(1, 1, 2, 3)
DIRECT_THREE(1, 4, 5, 6)
DIRECT_THREE(1, 7, 8, 9)
DIRECT_THREE(1, 10, 11, 12)
DIRECT_THREE(2, 1, 2, 3)
DIRECT_THREE(2, 4, 5, 6)
#if defined(VEC_AVX512)
DIRECT_BLOCK(1, 13)
DIRECT_BLOCK(1, 14)
DIRECT_BLOCK(1, 15)
DIRECT_BLOCK(1, 16)
DIRECT_THREE(2, 7, 8, 9)
DIRECT_THREE(2, 10, 11, 12)
DIRECT_BLOCK(2, 13)
DIRECT_BLOCK(2, 14)
#endif
#undef DIRECT_THREE
#undef DIRECT_BLOCK

static void (*const direct_one[])(const direct_job *) = {
    direct_1_1,  direct_1_2,  direct_1_3,  direct_1_4,  direct_1_5,  direct_1_6,
    direct_1_7,  direct_1_8,  direct_1_9,  direct_1_10, direct_1_11, direct_1_12,
#if defined(VEC_AVX512)
    direct_1_13, direct_1_14, direct_1_15, direct_1_16
#endif
};
static void (*const direct_two[])(const direct_job *) = {
    direct_2_1,  direct_2_2, direct_2_3, direct_2_4,  direct_2_5,  direct_2_6,
#if defined(VEC_AVX512)
    direct_2_7,  direct_2_8, direct_2_9, direct_2_10, direct_2_11, direct_2_12,
    direct_2_13, direct_2_14
#endif
};

/* The sizes of the blocks of a row differ by at most one pixel: no block has so few sums that their
 * latency limits the speed. */
static void direct_multiply(const pst_conv_row *t) {
    const int wide = t->cols > VEC_W;
    const uint64_t blocks = pst_div_up(t->n, wide ? DIRECT_TWO : DIRECT_ONE);
    direct_job j = {.b = t->b,
                    .pixel = t->pixel,
                    .row = t->row,
                    .runs = t->runs,
                    .steps = t->steps,
                    .ld = t->ld,
                    .last = (unsigned)((t->cols - 1) % VEC_W + 1),
                    .add = t->add};
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t from = t->n * i / blocks, rows = t->n * (i + 1) / blocks - from;
        j.a = (const packed *)t->a + from * t->pixel;
        j.c = t->c + from * t->ld;
        if (wide) direct_two[rows - 1](&j);
        else direct_one[rows - 1](&j);
    }
}

/* --- W ---------------------------------------------------------------------------------------- */

typedef struct {
    const float *dy, *x;
    uint64_t dy_row, dy_pixel, x_row, x_pixel, rows, n, outs;
    float *c;
    uint64_t ld;
    unsigned last;
    int add;
} direct_sum_job;

/* Operands are fp32 for every element type. */
VEC_INLINE void direct_sum_block(unsigned vectors, const direct_sum_job *j) {
    vf sum[DIRECT_OUTS][DIRECT_VECTORS];
    VEC_UNROLL for (unsigned r = 0; r < DIRECT_OUTS; r++) {
        VEC_UNROLL for (unsigned v = 0; v < vectors; v++) sum[r][v] = v_set(0.0f);
    }
    for (uint64_t row = 0; row < j->rows; row++) {
        const float *dy = j->dy + row * j->dy_row, *x = j->x + row * j->x_row;
        for (uint64_t p = 0; p < j->n; p++, dy += j->dy_pixel, x += j->x_pixel) {
            vf cols[DIRECT_VECTORS];
            VEC_UNROLL for (unsigned v = 0; v + 1 < vectors; v++) cols[v] = v_load(x + v * VEC_W);
            cols[vectors - 1] = v_load_n(x + (vectors - 1) * VEC_W, j->last);
            VEC_UNROLL for (unsigned r = 0; r < DIRECT_OUTS; r++) {
                vf term = v_set(dy[r]);
                VEC_UNROLL for (unsigned v = 0; v < vectors; v++) sum[r][v] =
                    v_fma(term, cols[v], sum[r][v]);
            }
        }
    }
    VEC_UNROLL for (unsigned r = 0; r < DIRECT_OUTS; r++) {
        if (r >= j->outs) continue;
        VEC_UNROLL for (unsigned v = 0; v < vectors; v++) {
            unsigned n = v + 1 < vectors ? VEC_W : j->last;
            put_sum(j->c + r * j->ld + v * VEC_W, sum[r][v], n, j->add);
        }
    }
}

static __attribute__((noinline)) void direct_sum_1(const direct_sum_job *j) {
    direct_sum_block(1, j);
}
static __attribute__((noinline)) void direct_sum_2(const direct_sum_job *j) {
    direct_sum_block(2, j);
}
static __attribute__((noinline)) void direct_sum_3(const direct_sum_job *j) {
    direct_sum_block(3, j);
}

static void direct_sum(const pst_conv_sum *t) {
    static void (*const blocks[])(const direct_sum_job *) = {direct_sum_1, direct_sum_2,
                                                             direct_sum_3};
    const direct_sum_job j = {.dy = t->dy,
                              .x = t->x,
                              .dy_row = t->dy_row,
                              .dy_pixel = t->dy_pixel,
                              .x_row = t->x_row,
                              .x_pixel = t->x_pixel,
                              .rows = t->rows,
                              .n = t->n,
                              .outs = t->outs,
                              .c = t->c,
                              .ld = t->ld,
                              .last = (unsigned)((t->cols - 1) % VEC_W + 1),
                              .add = t->add};
    blocks[(t->cols - 1) / VEC_W](&j);
}

#include "kernels/cpu/convolution_fast_vec.h"

static const pst_conv_ops direct_ops = {.terms = PRODUCT_TERMS,
                                        .cols = DIRECT_COLS,
                                        .outs = DIRECT_OUTS,
                                        .run_cols = DIRECT_VECTORS * VEC_W,
                                        .copy = direct_copy,
                                        .widen = direct_widen,
                                        .spread = direct_spread,
                                        .pack = direct_pack,
                                        .multiply = direct_multiply,
                                        .tiles_in = direct_tiles_in,
                                        .tiles_out = direct_tiles_out,
                                        .tiles_of_weight = direct_tiles_of_weight,
                                        .sum = direct_sum,
                                        .put = direct_put};
