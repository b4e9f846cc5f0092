/* Every call into oneDNN. Its own threading is off: a product is cut into tiles of the output and
 * long sums into pieces, by its shape alone, and the tiles are spread over our pool. The cut is
 * part of the result's bits, never a tuning knob.
 *
 * A piece of a tile takes at most 0.85 ms at 90 GFLOP/s, and transfers are polled after it. Version
 * 2.6's AVX2 code copies its operands before use when 1/rows + 1/cols is below 0.0038; above, it
 * reads them where they lie, at half speed or worse when rows are a multiple of 4096 bytes apart:
 * there tiles are as square as that allows. Its AVX-512 code does without copies, and loses a tenth
 * in pieces of less than 128 terms. bf16 products take the same cut, and half the time; where C is
 * not fp32 they are summed in a band of tiles in scratch, so that an element is rounded once. fp16,
 * for which the library has no product, is widened piece by piece: each is used by a whole tile. */
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>
#include <string.h>

/* libgomp's; its header comes with the compiler, not with the library */
extern void omp_set_num_threads(int n);

/* C = alpha op(A) op(B) + beta C with bf16 A and B, row-major like dnnl_sgemm. The library exports
 * it, but declares it in none of its installed headers. Its matmul primitive ends up here
 * (gemm:jit), at the same speed, after descriptors, a cache of primitives per shape and memory
 * objects per call have been paid for. */
extern dnnl_status_t dnnl_gemm_bf16bf16f32(char trans_a, char trans_b, dnnl_dim_t m, dnnl_dim_t n,
                                           dnnl_dim_t k, float alpha, const uint16_t *a,
                                           dnnl_dim_t lda, const uint16_t *b, dnnl_dim_t ldb,
                                           float beta, float *c, dnnl_dim_t ldc);

enum { TILE_ROWS = 512, TILE_COLS = 512, MAX_COLS = 1536, TILE_AREA = 512 * 384, MIN_TILES = 4 };
enum {
    PIECE = 36 << 20,
    LEAST_DEPTH = 64,
    MOST_DEPTH = 256
};                        /* multiply-adds of a piece of a tile; terms summed */
enum { MANY_TILES = 16 }; /* per thread: each is summed to its end while it is in cache */
enum { BAND_TILES = 4 };  /* per thread */
static const double COPY_BELOW = 0.0037;

typedef struct {
    const pst_gemm *gemm;
    pst_device *device;
    uint64_t tile_m, tile_n, tiles_n, tiles;
    uint64_t depth;       /* terms of a piece of the sum */
    uint64_t wide;        /* fp16: floats of a thread's two widened pieces */
    uint64_t first, band; /* the band's first tile; tiles of a band */
    uint64_t from, to;    /* the pieces [from, to) of the sum that a run adds to each tile */
    _Atomic int failed;
} job;

typedef struct {
    uint64_t row, rows, col, cols;
} place;

/* The terms [from, to) of a tile's sum. */
typedef struct {
    pst_gemm_tile tile;
    uint64_t from, to;
    float beta;
} piece;

static place place_of(const job *j, uint64_t tile) {
    uint64_t row = tile / j->tiles_n * j->tile_m, col = tile % j->tiles_n * j->tile_n;
    return (place){row, pst_min_u64(j->tile_m, j->gemm->m - row), col,
                   pst_min_u64(j->tile_n, j->gemm->n - col)};
}

/* Floats of the band in front of tile `tile`: tiles lie one behind the other, without gaps. */
static uint64_t band_before(const job *j, uint64_t tile) {
    uint64_t floats = 0;
    for (uint64_t t = tile - tile % j->band; t < tile; t++)
        floats += place_of(j, t).rows * place_of(j, t).cols;
    return floats;
}

/* Of the matrix `from` with ld elements between rows; returns its end. */
static float *widen_piece(const pst_gemm *g, const uint16_t *from, uint64_t rows, uint64_t cols,
                          uint64_t ld, float *to) {
    for (uint64_t r = 0; r < rows; r++) g->widen(from + r * ld, to + r * cols, cols);
    return to + rows * cols;
}

/* wide: of the thread. */
static dnnl_status_t multiply_wide(const pst_gemm *g, const piece *p, const uint16_t *a,
                                   const uint16_t *b, float *wide) {
    const pst_gemm_tile *t = &p->tile;
    const uint64_t k = p->to - p->from;
    uint64_t cols_a = g->trans_a ? t->rows : k, cols_b = g->trans_b ? k : t->cols;
    float *wide_b = widen_piece(g, a, g->trans_a ? k : t->rows, cols_a, g->lda, wide);
    widen_piece(g, b, g->trans_b ? t->cols : k, cols_b, g->ldb, wide_b);
    return dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', (dnnl_dim_t)t->rows,
                      (dnnl_dim_t)t->cols, (dnnl_dim_t)k, 1.0f, wide, (dnnl_dim_t)cols_a, wide_b,
                      (dnnl_dim_t)cols_b, p->beta, t->sum, (dnnl_dim_t)t->ld);
}

/* Adds a piece of the sum. */
static dnnl_status_t multiply(const job *j, const piece *p, uint32_t thread) {
    const pst_gemm *g = j->gemm;
    const pst_gemm_tile *t = &p->tile;
    char ta = g->trans_a ? 'T' : 'N', tb = g->trans_b ? 'T' : 'N';
    dnnl_dim_t m = (dnnl_dim_t)t->rows, n = (dnnl_dim_t)t->cols, k = (dnnl_dim_t)(p->to - p->from);
    dnnl_dim_t lda = (dnnl_dim_t)g->lda, ldb = (dnnl_dim_t)g->ldb, ldc = (dnnl_dim_t)t->ld;
    uint64_t a = g->trans_a ? p->from * g->lda + t->row : t->row * g->lda + p->from;
    uint64_t b = g->trans_b ? t->col * g->ldb + p->from : p->from * g->ldb + t->col;
    if (g->dtype == PST_F16)
        return multiply_wide(g, p, (const uint16_t *)g->a + a, (const uint16_t *)g->b + b,
                             g->wide + thread * j->wide);
    if (g->dtype == PST_BF16)
        return dnnl_gemm_bf16bf16f32(ta, tb, m, n, k, 1.0f, (const uint16_t *)g->a + a, lda,
                                     (const uint16_t *)g->b + b, ldb, p->beta, t->sum, ldc);
    return dnnl_sgemm(ta, tb, m, n, k, 1.0f, (const float *)g->a + a, lda, (const float *)g->b + b,
                      ldb, p->beta, t->sum, ldc);
}

static void run_tile(void *arg, uint64_t tile, uint32_t thread) {
    job *j = arg;
    const pst_gemm *g = j->gemm;
    tile += j->first;
    place at = place_of(j, tile);
    piece p = {.tile = {.row = at.row, .rows = at.rows, .col = at.col, .cols = at.cols}};
    p.tile.ld = g->c ? g->ldc : at.cols;
    p.tile.sum = g->c ? g->c + at.row * p.tile.ld + at.col : g->band + band_before(j, tile);
    for (p.from = j->from; p.from < j->to; p.from = p.to) {
        p.to = pst_min_u64(p.from + j->depth, j->to);
        p.beta = g->add || p.from ? 1.0f : 0.0f;
        dnnl_status_t status = multiply(j, &p, thread);
        if (status != dnnl_success)
            atomic_store_explicit(&j->failed, (int)status, memory_order_relaxed);
        pst_device_poll(j->device, thread);
    }
    if (j->to == g->k && g->finish) g->finish(g->finish_arg, &p.tile);
}

/* `whole` in `parts` pieces of equal length but for rounding up to `unit`. */
static uint64_t part_of(uint64_t whole, uint64_t parts, uint64_t unit) {
    return pst_div_up(pst_div_up(whole, parts), unit) * unit;
}

/* How many tiles share n columns. */
static uint64_t parts_of_columns(uint64_t n, uint64_t tile_m, int avx512) {
    if (avx512) return pst_div_up(n, pst_min_u64(TILE_AREA / tile_m, MAX_COLS));
    double rest = COPY_BELOW - 1.0 / (double)tile_m;
    uint64_t least = rest > 1.0 / MAX_COLS ? (uint64_t)(1.0 / rest) : TILE_COLS;
    return n > least ? n / least : 1;
}

/* Units: 16 rows and 48 columns are multiples of what the library's inner loops take. */
static void choose_tile(job *j, int avx512) {
    uint64_t m = j->gemm->m, n = j->gemm->n;
    j->tile_m = part_of(m, pst_div_up(m, TILE_ROWS), 16);
    j->tile_n = part_of(n, parts_of_columns(n, j->tile_m, avx512), 48);
    while (pst_div_up(m, j->tile_m) * pst_div_up(n, j->tile_n) < MIN_TILES &&
           (j->tile_m > 64 || j->tile_n > 96)) {
        if (j->tile_n > j->tile_m) j->tile_n = part_of(j->tile_n, 2, 48);
        else j->tile_m = part_of(j->tile_m, 2, 16);
    }
    j->tiles_n = pst_div_up(n, j->tile_n);
    j->tiles = pst_div_up(m, j->tile_m) * j->tiles_n;
    j->band = j->tiles;
}

static void choose_depth(job *j) {
    uint64_t depth = pst_min_u64(PIECE / (j->tile_m * j->tile_n), MOST_DEPTH);
    if (depth < LEAST_DEPTH) depth = LEAST_DEPTH;
    j->depth = part_of(j->gemm->k, pst_div_up(j->gemm->k, depth), 16);
}

uint64_t pst_gemm_band_bytes(uint64_t m, uint64_t n, uint32_t threads) {
    pst_gemm gemm = {.m = m, .n = n};
    job j = {.gemm = &gemm};
    uint64_t most = 0;
    choose_tile(&j, 1);
    j.band = BAND_TILES * threads;
    /* Where bands begin in a row of tiles comes again after at most as many bands as tiles share
     * the columns; those that come later are not larger. */
    uint64_t bands = pst_min_u64(pst_div_up(j.tiles, j.band), j.tiles_n);
    for (uint64_t k = 0; k < bands; k++) {
        uint64_t end = pst_min_u64((k + 1) * j.band, j.tiles) - 1;
        uint64_t floats = band_before(&j, end) + place_of(&j, end).rows * place_of(&j, end).cols;
        if (floats > most) most = floats;
    }
    return most * sizeof(float);
}

static uint64_t wide_floats(const job *j) { return j->depth * (j->tile_m + j->tile_n); }

uint64_t pst_gemm_wide_bytes(uint64_t m, uint64_t n, uint64_t k, uint32_t threads) {
    pst_gemm gemm = {.m = m, .n = n, .k = k};
    job j = {.gemm = &gemm};
    choose_tile(&j, 1);
    choose_depth(&j);
    return threads * wide_floats(&j) * sizeof(float);
}

/* The product of C's tiles [first, end). Pieces are added to each tile in order, so how many of
 * them a run adds does not matter to the bits: few where there are few tiles, so that threads stay
 * busy to the end. */
static void run_band(job *j, uint64_t end) {
    uint64_t k = j->gemm->k, many = MANY_TILES * (j->device ? j->device->threads : 1);
    uint64_t run = end - j->first >= many ? k : j->depth * pst_div_up(MOST_DEPTH, j->depth);
    for (j->from = 0; j->from < k && !j->failed; j->from = j->to) {
        j->to = pst_min_u64(j->from + run, k);
        pst_device_run(j->device, run_tile, j, end - j->first);
    }
}

/* where no device of ours has been opened, the first product sees to it */
static _Atomic int isa_is_set;

pst_status pst_gemm_run(pst_device *device, const pst_gemm *gemm) {
    job j = {.gemm = gemm, .device = device};
    uint64_t threads = device ? device->threads : 1;
    if (!atomic_load_explicit(&isa_is_set, memory_order_relaxed)) pst_gemm_set_isa(pst_cpu_isa());
    choose_tile(&j, gemm->dtype != PST_F32 ||
                        ((device ? device->isa : pst_cpu_isa()) & PST_ISA_AVX512));
    choose_depth(&j);
    j.wide = wide_floats(&j);
    if (gemm->dtype == PST_F16)
        memset(gemm->wide, 0, threads * j.wide * sizeof(float)); /* threads may find no tile */
    if (!gemm->c) j.band = BAND_TILES * threads;
    for (j.first = 0; j.first < j.tiles && !j.failed; j.first += j.band)
        run_band(&j, pst_min_u64(j.first + j.band, j.tiles));
    if (j.failed)
        return pst_fail(PST_ENOMEM, "a matrix product failed in the library, status %d",
                        (int)j.failed);
    return PST_OK;
}

void pst_gemm_start_thread(void *unused) {
    (void)unused;
    omp_set_num_threads(1);
}

void pst_gemm_set_isa(uint32_t isa) {
    dnnl_cpu_isa_t most = dnnl_cpu_isa_sse41;
    if (isa & PST_ISA_AVX2) most = dnnl_cpu_isa_avx2;
    if (isa & PST_ISA_AVX512) most = dnnl_cpu_isa_avx512_core;
    atomic_store_explicit(&isa_is_set, 1, memory_order_relaxed);
    /* Fails when a product has already run; then the choice was made. */
    if (!(isa & PST_ISA_AVX512_BF16)) dnnl_set_max_cpu_isa(most);
}
