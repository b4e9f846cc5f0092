/* Matrix products over all threads. C is computed in blocks. The sum of a block is split into
 * slices of at most SLICE terms: for each slice all threads first pack A (product_vec.h), then
 * take tiles of C. If C has enough columns, a tile has all rows of the block, and its thread packs
 * the part of B that it needs, which then stays in its L2 cache; else all threads pack B, too, and
 * tiles have few rows. Slices affect the result's bits and depend on the number of terms alone;
 * blocks and tiles do not. Transfers are polled about every millisecond.
 *
 * If C is not fp32, a block is summed in scratch, so that each element is rounded once. Processors
 * without AVX2 use oneDNN's sgemm, fp32 only; its own threading is off. */
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>
#include <stdio.h>

/* from libgomp, whose header is not always installed */
extern void omp_set_num_threads(int n);

enum {
    SLICE = 384,       /* a panel of A takes 12 KiB of an L1 cache; 256 were 2 % slower */
    SLICE_UNIT = 16,   /* slices end at a multiple of it */
    BLOCK_ROWS = 1024, /* with more rows, operands are packed less often */
    BLOCK_COLS = 3072,
    BLOCK_COLS_SUMMED = 1536, /* of a block that is summed in scratch */
    TILE_ROWS = 128,          /* 128 x 192 x 384: 0.2 ms at 90 GFLOP/s */
    TILE_COLS = 192,          /* its part of B takes half of an L2 cache of 512 KiB */
    LEAST_ROWS = 32,          /* rows of a tile, if C has few */
    LEAST_COLS = 96,          /* columns of a tile whose thread packs B */
    TILES_PER_THREAD = 4,     /* minimum number of tiles, if the block is large enough */
    PACK_ROWS = 64,           /* packed at a time by one thread */
    PACK_COLS = 192
};

typedef struct {
    uint64_t row, rows, col, cols;
} place;

typedef struct {
    const pst_gemm *gemm;
    pst_device *device;
    place block;
    uint64_t from, to;                      /* terms of the slice */
    uint64_t tile_rows, tile_cols, tiles_m; /* tiles per column of tiles */
    uint64_t own, own_bytes;                /* own_cols(), or 0; bytes for each thread in b */
    uint8_t *a, *b;                         /* the slice's panels */
    float *sum;                             /* the block's first element, ld between rows */
    uint64_t ld;
    _Atomic int failed; /* oneDNN's status */
} job;

static uint64_t round_up(uint64_t n, uint64_t unit) { return pst_div_up(n, unit) * unit; }

/* Splits n into as few parts as possible, none longer than `most`; returns the length of all but
 * the last. */
static uint64_t part_of(uint64_t n, uint64_t most, uint64_t unit) {
    return round_up(pst_div_up(n, pst_div_up(n, most)), unit);
}

static uint64_t block_rows(uint64_t m) { return part_of(m, BLOCK_ROWS, PST_PRODUCT_ROWS); }
static uint64_t block_cols(uint64_t n, int in_place) {
    return part_of(n, in_place ? BLOCK_COLS : BLOCK_COLS_SUMMED, PST_PRODUCT_COLS);
}
static uint64_t slice_terms(uint64_t k) { return part_of(k, SLICE, SLICE_UNIT); }

/* The columns of a tile whose thread packs B; 0: C has too few, so all threads pack B. */
static uint64_t own_cols(uint64_t cols, uint32_t threads) {
    for (uint64_t most = TILE_COLS; most >= LEAST_COLS; most /= 2)
        if (pst_div_up(cols, most) >= (uint64_t)TILES_PER_THREAD * threads)
            return part_of(cols, most, PST_PRODUCT_COLS);
    return 0;
}

/* Bytes of the panels of a slice of a sum of k terms. bf16 is packed in pairs, fp16 as fp32. */
static uint64_t panel_bytes(pst_dtype dtype, uint64_t items, uint64_t unit, uint64_t k) {
    const uint64_t terms = pst_min_u64(slice_terms(k), k);
    return round_up(items, unit) * (dtype == PST_BF16 ? round_up(terms, 2) * 2 : terms * 4);
}
static uint64_t bytes_of_a(pst_dtype dtype, uint64_t m, uint64_t k) {
    return panel_bytes(dtype, pst_min_u64(block_rows(m), m), PST_PRODUCT_ROWS, k);
}
/* own: columns of a tile whose thread packs B, or 0. Bytes for each thread, or for all. */
static uint64_t bytes_of_b(pst_dtype dtype, uint64_t cols, uint64_t own, uint64_t k) {
    return panel_bytes(dtype, own ? own : cols, PST_PRODUCT_COLS, k);
}

uint64_t pst_gemm_scratch(pst_dtype dtype, uint64_t m, uint64_t n, uint64_t k, int in_place,
                          uint32_t threads) {
    const uint64_t cols = pst_min_u64(block_cols(n, in_place), n), own = own_cols(cols, threads),
                   sums = pst_min_u64(block_rows(m), m) * cols * sizeof(float);
    return bytes_of_a(dtype, m, k) + bytes_of_b(dtype, cols, own, k) * (own ? threads : 1) +
           (in_place ? 0 : sums);
}

int pst_gemm_is_chain(uint64_t k) { return k <= slice_terms(k); }

/* --- packing ---------------------------------------------------------------------------------- */

static const void *element(const pst_gemm *g, const void *matrix, uint64_t at) {
    return (const uint8_t *)matrix + at * pst_dtype_bytes(g->dtype);
}

static void pack_rows(const job *j, uint64_t from) {
    const pst_gemm *g = j->gemm;
    uint64_t row = j->block.row + from, terms = j->to - j->from;
    uint64_t at = g->trans_a ? j->from * g->lda + row : row * g->lda + j->from;
    const pst_pack pack = {.from = element(g, g->a, at),
                           .ld = g->lda,
                           .items = pst_min_u64(PACK_ROWS, j->block.rows - from),
                           .terms = terms,
                           .across = g->trans_a,
                           .to = j->a + from * g->ops->term_bytes(terms)};
    g->ops->pack_a(&pack);
}

/* Packs columns [from, from + cols) of the block. */
static void pack_cols(const job *j, uint64_t from, uint64_t cols, uint8_t *to) {
    const pst_gemm *g = j->gemm;
    uint64_t col = j->block.col + from;
    uint64_t at = g->trans_b ? col * g->ldb + j->from : j->from * g->ldb + col;
    const pst_pack pack = {.from = element(g, g->b, at),
                           .ld = g->ldb,
                           .items = cols,
                           .terms = j->to - j->from,
                           .across = !g->trans_b,
                           .to = to};
    g->ops->pack_b(&pack);
}

static uint8_t *panels_at(const job *j, uint64_t col) {
    return j->b + col * j->gemm->ops->term_bytes(j->to - j->from);
}

static void pack_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    const job *j = arg;
    uint64_t of_a = pst_div_up(j->block.rows, PACK_ROWS);
    if (tile < of_a) {
        pack_rows(j, tile * PACK_ROWS);
        return;
    }
    const uint64_t col = (tile - of_a) * PACK_COLS;
    pack_cols(j, col, pst_min_u64(PACK_COLS, j->block.cols - col), panels_at(j, col));
}

/* --- multiplying ------------------------------------------------------------------------------ */

/* rows and columns are relative to the block. */
static place place_of(const job *j, uint64_t tile) {
    uint64_t row = tile % j->tiles_m * j->tile_rows, col = tile / j->tiles_m * j->tile_cols;
    return (place){row, pst_min_u64(j->tile_rows, j->block.rows - row), col,
                   pst_min_u64(j->tile_cols, j->block.cols - col)};
}

static int adds(const job *j) { return j->gemm->add || j->from; }

/* b: the panels of the place's columns. */
static void multiply_packed(const job *j, const place *at, const uint8_t *b, float *sum) {
    const pst_product_ops *ops = j->gemm->ops;
    const uint64_t terms = j->to - j->from;
    const pst_product_tile tile = {.a = j->a + at->row * ops->term_bytes(terms),
                                   .b = b,
                                   .terms = terms,
                                   .rows = at->rows,
                                   .cols = at->cols,
                                   .c = sum,
                                   .ld = j->ld,
                                   .add = adds(j)};
    ops->multiply(&tile);
}

static void multiply_by_library(job *j, const place *at, float *sum) {
    const pst_gemm *g = j->gemm;
    uint64_t row = j->block.row + at->row, col = j->block.col + at->col;
    uint64_t a = g->trans_a ? j->from * g->lda + row : row * g->lda + j->from;
    uint64_t b = g->trans_b ? col * g->ldb + j->from : j->from * g->ldb + col;
    dnnl_status_t status = dnnl_sgemm(
        g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', (dnnl_dim_t)at->rows, (dnnl_dim_t)at->cols,
        (dnnl_dim_t)(j->to - j->from), 1.0f, (const float *)g->a + a, (dnnl_dim_t)g->lda,
        (const float *)g->b + b, (dnnl_dim_t)g->ldb, adds(j) ? 1.0f : 0.0f, sum, (dnnl_dim_t)j->ld);
    if (status != dnnl_success)
        atomic_store_explicit(&j->failed, (int)status, memory_order_relaxed);
}

static void multiply(job *j, const place *at, const uint8_t *b) {
    const pst_gemm *g = j->gemm;
    float *sum = j->sum + at->row * j->ld + at->col;
    if (g->ops) multiply_packed(j, at, b, sum);
    else multiply_by_library(j, at, sum);
    if (j->to < g->k || !g->finish) return;
    const pst_gemm_tile done = {.sum = sum,
                                .ld = j->ld,
                                .row = j->block.row + at->row,
                                .rows = at->rows,
                                .col = j->block.col + at->col,
                                .cols = at->cols};
    g->finish(g->finish_arg, &done);
}

/* A tile whose thread packs B: it has all rows of the block. */
static void run_own_tile(void *arg, uint64_t tile, uint32_t thread) {
    job *j = arg;
    uint8_t *b = j->b + thread * j->own_bytes;
    const place all = place_of(j, tile);
    pack_cols(j, all.col, all.cols, b);
    for (place at = all; at.row < all.rows; at.row += TILE_ROWS) {
        at.rows = pst_min_u64(TILE_ROWS, all.rows - at.row);
        multiply(j, &at, b);
        pst_device_poll(j->device, thread);
    }
}

static void run_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    job *j = arg;
    const place at = place_of(j, tile);
    multiply(j, &at, j->gemm->ops ? panels_at(j, at.col) : NULL);
}

/* --- blocks ----------------------------------------------------------------------------------- */

static uint64_t tiles_of(const job *j) {
    return j->tiles_m * pst_div_up(j->block.cols, j->tile_cols);
}

/* Threads take tiles dynamically; a few tiles per thread balance the load. With oneDNN the bits
 * depend on the size of a tile. */
static void choose_tile(job *j, uint32_t threads) {
    j->tiles_m = 1;
    if (j->own) {
        j->tile_rows = j->block.rows;
        j->tile_cols = j->own;
        return;
    }
    j->tile_cols = part_of(j->block.cols, TILE_COLS, PST_PRODUCT_COLS);
    for (uint64_t rows = TILE_ROWS;; rows /= 2) {
        j->tile_rows = part_of(j->block.rows, rows, PST_PRODUCT_ROWS);
        j->tiles_m = pst_div_up(j->block.rows, j->tile_rows);
        if (!j->gemm->ops || tiles_of(j) >= TILES_PER_THREAD * threads || rows <= LEAST_ROWS)
            return;
    }
}

static void run_block(job *j) {
    const pst_gemm *g = j->gemm;
    const uint64_t slice = slice_terms(g->k), of_a = pst_div_up(j->block.rows, PACK_ROWS),
                   of_b = j->own ? 0 : pst_div_up(j->block.cols, PACK_COLS);
    for (j->from = 0; j->from < g->k && !j->failed; j->from = j->to) {
        j->to = pst_min_u64(j->from + slice, g->k);
        if (g->ops) pst_device_run(j->device, pack_tile, j, of_a + of_b);
        pst_device_run(j->device, j->own ? run_own_tile : run_tile, j, tiles_of(j));
    }
}

const char *pst_cpu_products(uint32_t isa, char *text, size_t bytes) {
    if (isa & PST_ISA_AVX2)
        snprintf(text, bytes,
                 "penstock's kernels: slices of %d terms, blocks of %d x %d, tiles of %d x %d",
                 SLICE, BLOCK_ROWS, BLOCK_COLS, TILE_ROWS, TILE_COLS);
    else snprintf(text, bytes, "oneDNN's sgemm; fp32 only");
    return text;
}

/* If no CPU device has been opened, the first product makes this call. */
static _Atomic int isa_is_set;

pst_status pst_gemm_run(pst_device *device, const pst_gemm *gemm) {
    if (!atomic_load_explicit(&isa_is_set, memory_order_relaxed)) pst_gemm_set_isa(pst_cpu_isa());
    const int in_place = gemm->c != NULL;
    const uint32_t threads = device ? device->threads : 1;
    const uint64_t rows = block_rows(gemm->m), cols = block_cols(gemm->n, in_place),
                   most = pst_min_u64(cols, gemm->n);
    job j = {.gemm = gemm, .device = device};
    if (gemm->ops) {
        j.own = own_cols(most, threads);
        j.own_bytes = bytes_of_b(gemm->dtype, most, j.own, gemm->k);
        j.a = gemm->scratch;
        j.b = j.a + bytes_of_a(gemm->dtype, gemm->m, gemm->k);
    }
    float *sums = (float *)(void *)(j.b + j.own_bytes * (j.own ? threads : 1));
    for (uint64_t row = 0; row < gemm->m; row += rows)
        for (uint64_t col = 0; col < gemm->n; col += cols) {
            j.block = (place){row, pst_min_u64(rows, gemm->m - row), col,
                              pst_min_u64(cols, gemm->n - col)};
            j.ld = gemm->c ? gemm->ldc : j.block.cols;
            j.sum = gemm->c ? gemm->c + row * gemm->ldc + col : sums;
            choose_tile(&j, threads);
            run_block(&j);
            if (j.failed)
                return pst_fail(PST_ENOMEM, "oneDNN: a matrix product failed with status %d",
                                (int)j.failed);
        }
    return PST_OK;
}

void pst_gemm_start_thread(void *unused) {
    (void)unused;
    omp_set_num_threads(1);
}

void pst_gemm_set_isa(uint32_t isa) {
    atomic_store_explicit(&isa_is_set, 1, memory_order_relaxed);
    /* Fails after the first product: oneDNN has chosen then. */
    if (!(isa & PST_ISA_AVX2)) dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
}
