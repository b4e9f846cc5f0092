/* The inner part of a matrix product: operands packed into panels, and a register block that
 * multiplies panels (K. Goto, R. van de Geijn: Anatomy of High-Performance Matrix Multiplication,
 * 2008). Each element of C is a chain of fused multiply-adds over the terms in order, starting from
 * 0, whatever the size of the register block: AVX2 and AVX-512 give the same bits.
 *
 * A panel of A has PRODUCT_ROWS rows, one of B PRODUCT_COLS columns; both are stored term by term:
 * a[term][PRODUCT_ROWS], b[term][PRODUCT_COLS]. fp16 is widened when it is packed. bf16 is packed
 * in pairs of terms, which VDPBF16PS multiplies and adds to fp32; an odd last term is paired with
 * zero. Missing rows and columns are zero. */

#if defined(VEC_BF16)
typedef uint32_t packed;
typedef __m512i vp; /* VEC_W pairs */
enum { PRODUCT_TERMS = 2 };
VEC_INLINE vp p_load(const packed *from) { return _mm512_loadu_si512(from); }
VEC_INLINE vp p_set(packed x) { return _mm512_set1_epi32((int)x); }
VEC_INLINE vf p_madd(vp a, vp b, vf c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
/* Loads pairs of terms of one row: the first n terms; the others are 0. */
VEC_INLINE vf p_load_terms(const vx *from, unsigned n) {
    return (vf)_mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), from);
}
/* Loads, for n rows or columns, the term at `from` and the next term, ld elements later (0 with
 * `only`). */
VEC_INLINE vf p_load_items(const vx *from, uint64_t ld, int only, unsigned n) {
    __mmask16 first = v_first(n);
    __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first, from));
    if (only) return (vf)even;
    __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first, from + ld));
    return (vf)_mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
}
#else
typedef float packed;
typedef vf vp;
enum { PRODUCT_TERMS = 1 };
VEC_INLINE vp p_load(const packed *from) { return v_load(from); }
VEC_INLINE vp p_set(packed x) { return v_set(x); }
VEC_INLINE vf p_madd(vp a, vp b, vf c) { return v_fma(a, b, c); }
VEC_INLINE vf p_load_terms(const vx *from, unsigned n) { return x_load_n(from, n); }
VEC_INLINE vf p_load_items(const vx *from, uint64_t ld, int only, unsigned n) {
    (void)ld;
    (void)only;
    return x_load_n(from, n);
}
#endif

/* PRODUCT_ROWS * 3 accumulators, 3 vectors of B and one vector of A occupy nearly all registers. */
enum { PRODUCT_ROWS = VEC_W / 2, PRODUCT_VECTORS = 3, PRODUCT_COLS = PRODUCT_VECTORS * VEC_W };
/* Steps that a panel of B is fetched ahead of use from the L2 cache, into the next panel at its end
 * (Cascade Lake: 5 to 7 % faster; 4, 8 and 16 are equal). */
enum { PRODUCT_AHEAD = 8 };
enum { LINE = 16 }; /* packed elements in a line of a cache */
/* Number of panels of A that are multiplied by a single vector of B at a time: with fewer than 8
 * accumulators, latency would limit the speed. */
enum { PRODUCT_TALL = 2 };

/* --- packing ---------------------------------------------------------------------------------- */

/* The part of one operand that is packed: `items` rows of A or columns of B. */
typedef struct {
    const vx *from;
    uint64_t ld, items, terms;
    packed *to;
} pack_job;

/* Stores v: one step (PRODUCT_TERMS terms) of the VEC_W items from `item` on. vectors: of a step of
 * a panel; 0: a panel of A, which has half a vector. */
VEC_INLINE void pack_store(unsigned vectors, const pack_job *j, uint64_t item, uint64_t step,
                           vf v) {
    const uint64_t steps = pst_div_up(j->terms, PRODUCT_TERMS), group = item / VEC_W;
    if (!vectors) { /* VEC_W items span two panels */
        packed *to = j->to + group * VEC_W * steps + step * PRODUCT_ROWS;
        v_store_halves((float *)(void *)to, (float *)(void *)(to + PRODUCT_ROWS * steps), v);
    } else {
        packed *to = j->to + group / vectors * vectors * VEC_W * steps + group % vectors * VEC_W +
                     step * vectors * VEC_W;
        v_store((float *)(void *)to, v);
    }
}

VEC_INLINE unsigned pack_items(const pack_job *j, uint64_t item) {
    if (item >= j->items) return 0;
    return (unsigned)pst_min_u64(VEC_W, j->items - item);
}

/* One step of `group` vectors of items from `item` on. whole: there are that many items. Reads
 * ahead: processors do not predict such strides. */
VEC_INLINE void pack_row(unsigned vectors, unsigned group, int whole, const pack_job *j,
                         uint64_t item, uint64_t term) {
    enum { AHEAD = 2 * PRODUCT_TERMS };
    const vx *from = j->from + term * j->ld + item;
    VEC_UNROLL for (unsigned v = 0; v < group; v++, from += VEC_W) {
        const unsigned n = whole ? VEC_W : pack_items(j, item + v * VEC_W);
        for (unsigned i = 0; i < PRODUCT_TERMS; i++) __builtin_prefetch(from + (AHEAD + i) * j->ld);
        vf step = n ? p_load_items(from, j->ld, term + 1 == j->terms, n) : v_set(0.0f);
        pack_store(vectors, j, item + v * VEC_W, term / PRODUCT_TERMS, step);
    }
}

/* Items are contiguous, terms are ld apart. Several vectors of a term at a time, so that the
 * operand is read in longer runs. */
VEC_INLINE void pack_across(unsigned vectors, const pack_job *j, uint64_t end) {
    const unsigned group = vectors ? vectors : 4;
    uint64_t item = 0;
    for (; item + group * VEC_W <= j->items; item += group * VEC_W)
        for (uint64_t term = 0; term < j->terms; term += PRODUCT_TERMS)
            pack_row(vectors, group, 1, j, item, term);
    for (; item < end; item += VEC_W)
        for (uint64_t term = 0; term < j->terms; term += PRODUCT_TERMS)
            pack_row(vectors, 1, 0, j, item, term);
}

/* Packs n items from `item` on, `terms` terms from `term` on. Reads ahead in each item. */
VEC_INLINE void pack_square(unsigned vectors, const pack_job *j, uint64_t item, uint64_t term,
                            unsigned n, unsigned terms) {
    enum { AHEAD = 4 }; /* squares */
    const unsigned steps = (terms + PRODUCT_TERMS - 1) / PRODUCT_TERMS;
    const vx *from = j->from + item * j->ld + term;
    vf square[VEC_W];
    VEC_UNROLL for (unsigned i = 0; i < VEC_W; i++) {
        if (i < n) __builtin_prefetch(from + i * j->ld + AHEAD * VEC_W * PRODUCT_TERMS);
        square[i] = i < n ? p_load_terms(from + i * j->ld, terms) : v_set(0.0f);
    }
    v_transpose(square);
    VEC_UNROLL for (unsigned i = 0; i < VEC_W; i++) if (i < steps)
        pack_store(vectors, j, item, term / PRODUCT_TERMS + i, square[i]);
}

/* Terms are contiguous, items are ld apart: squares of VEC_W x VEC_W are transposed. */
VEC_INLINE void pack_along(unsigned vectors, const pack_job *j, uint64_t end) {
    enum { SQUARE = VEC_W * PRODUCT_TERMS };
    for (uint64_t item = 0; item < end; item += VEC_W) {
        unsigned n = pack_items(j, item);
        uint64_t term = 0;
        if (n == VEC_W) /* constant bounds: an unrolled body */
            for (; term + SQUARE <= j->terms; term += SQUARE)
                pack_square(vectors, j, item, term, VEC_W, SQUARE);
        for (; term < j->terms; term += SQUARE)
            pack_square(vectors, j, item, term, n, (unsigned)pst_min_u64(SQUARE, j->terms - term));
    }
}

/* Packs p->items items, and zeros up to a multiple of `unit` items. */
VEC_INLINE void pack_panels(unsigned vectors, uint64_t unit, const pst_pack *p) {
    const pack_job j = {p->from, p->ld, p->items, p->terms, p->to};
    const uint64_t end = pst_div_up(p->items, unit) * unit;
    if (p->across) pack_across(vectors, &j, end);
    else pack_along(vectors, &j, end);
}

static void product_pack_a(const pst_pack *p) { pack_panels(0, PST_PRODUCT_ROWS, p); }
static void product_pack_b(const pst_pack *p) { pack_panels(PRODUCT_VECTORS, PST_PRODUCT_COLS, p); }

/* --- the register block ----------------------------------------------------------------------- */

/* Stores n lanes of a sum; add: to what is in c. */
VEC_INLINE void put_sum(float *c, vf sum, unsigned n, int add) {
    if (add) sum = v_load_n(c, n) + sum;
    v_store_n(c, sum, n);
}

/* A register block: the block of C at c (+)= one panel of A, or several consecutive panels, times
 * the first vectors of panel b. Only `rows` rows of the block are stored, and `last` lanes of the
 * last vector. */
typedef struct {
    const packed *a, *b;
    uint64_t steps;
    float *c;
    uint64_t ld, rows;
    unsigned last;
    int add;
} block_job;

/* The loop over the steps has parts, one for each row of C, which is fetched meanwhile: all rows
 * at a time would occupy the buffers between the caches. */
VEC_INLINE void block_run(unsigned panels, unsigned vectors, const block_job *j) {
    enum { MOST = PRODUCT_TALL * PRODUCT_ROWS };
    const unsigned rows = panels * PRODUCT_ROWS;
    vf sum[MOST][PRODUCT_VECTORS];
    const packed *a = j->a, *b = j->b;
    VEC_UNROLL for (unsigned r = 0; r < rows; r++) VEC_UNROLL for (unsigned v = 0; v < vectors; v++)
        sum[r][v] = v_set(0.0f);
    const uint64_t part = pst_div_up(j->steps, pst_min_u64(rows, j->rows));
    const float *c = j->c;
    for (uint64_t left = j->steps; left; c += j->ld) {
        const uint64_t steps = pst_min_u64(part, left);
        left -= steps;
        for (unsigned v = 0; v < vectors; v++) __builtin_prefetch(c + v * VEC_W, 1);
        for (const packed *end = a + steps * PRODUCT_ROWS; a < end;
             a += PRODUCT_ROWS, b += PRODUCT_COLS) {
            vp cols[PRODUCT_VECTORS];
            for (unsigned i = 0; i < PRODUCT_COLS; i += LINE)
                __builtin_prefetch(b + PRODUCT_AHEAD * PRODUCT_COLS + i);
            VEC_UNROLL for (unsigned v = 0; v < vectors; v++) cols[v] = p_load(b + v * VEC_W);
            VEC_UNROLL for (unsigned r = 0; r < rows; r++) {
                vp row = p_set(a[r / PRODUCT_ROWS * PRODUCT_ROWS * j->steps + r % PRODUCT_ROWS]);
                VEC_UNROLL for (unsigned v = 0; v < vectors; v++) sum[r][v] =
                    p_madd(row, cols[v], sum[r][v]);
            }
        }
    }
    VEC_UNROLL for (unsigned r = 0; r < rows; r++) {
        if (r >= j->rows) continue;
        VEC_UNROLL for (unsigned v = 0; v < vectors; v++) {
            unsigned n = v + 1 < vectors ? VEC_W : j->last;
            put_sum(j->c + r * j->ld + v * VEC_W, sum[r][v], n, j->add);
        }
    }
}

/* Separate functions, so that the compiler allocates registers for each. */
static __attribute__((noinline)) void block_1(const block_job *j) { block_run(PRODUCT_TALL, 1, j); }
static __attribute__((noinline)) void block_2(const block_job *j) { block_run(1, 2, j); }
static __attribute__((noinline)) void block_3(const block_job *j) { block_run(1, 3, j); }

/* Computes the columns of a tile from `col` on, at most PRODUCT_COLS. */
VEC_INLINE void multiply_panel(const pst_product_tile *t, uint64_t row, uint64_t col) {
    static void (*const blocks[])(const block_job *) = {block_1, block_2, block_3};
    const uint64_t steps = pst_div_up(t->terms, PRODUCT_TERMS),
                   cols = pst_min_u64(PRODUCT_COLS, t->cols - col);
    const block_job j = {.a = (const packed *)t->a + row * steps,
                         .b = (const packed *)t->b + col * steps,
                         .steps = steps,
                         .c = t->c + row * t->ld + col,
                         .ld = t->ld,
                         .rows = t->rows - row,
                         .last = (unsigned)((cols - 1) % VEC_W + 1),
                         .add = t->add};
    blocks[(cols - 1) / VEC_W](&j);
}

static void product_multiply(const pst_product_tile *t) {
    const uint64_t rest = t->cols % PRODUCT_COLS, narrow = rest && rest <= VEC_W ? rest : 0,
                   end = t->cols - narrow;
    for (uint64_t row = 0; row < t->rows; row += PRODUCT_ROWS)
        for (uint64_t col = 0; col < end; col += PRODUCT_COLS) multiply_panel(t, row, col);
    for (uint64_t row = 0; narrow && row < t->rows; row += PRODUCT_TALL * PRODUCT_ROWS)
        multiply_panel(t, row, end);
}

static uint64_t product_term_bytes(uint64_t terms) {
    return pst_div_up(terms, PRODUCT_TERMS) * sizeof(packed);
}

static const pst_product_ops product_ops = {product_term_bytes, product_pack_a, product_pack_b,
                                            product_multiply};
