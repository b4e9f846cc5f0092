/* Every call into oneDNN. Its own threading is off: a product is cut into tiles of the output and long sums into
 * pieces, by its shape alone, and the tiles are spread over our pool. The cut is part of the result's bits, never a
 * tuning knob.
 *
 * About a millisecond a tile, so that transfers are polled between tiles. Tiles are as square as that allows: below
 * 1/rows + 1/cols = 0.0038 the library (2.6, AVX2) copies its operands before use; above, it reads them where they lie,
 * at half speed or worse when rows are a multiple of 4096 bytes apart. */
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>

extern void omp_set_num_threads(int n); /* libgomp's; its header comes with the compiler, not with the library */

enum { TILE_ROWS = 512, TILE_COLS = 512, MAX_COLS = 1536, TILE_DEPTH = 256, MIN_TILES = 4 };
static const double COPY_BELOW = 0.0037;

typedef struct {
    const pst_gemm *gemm;
    uint64_t tile_m, tile_n, tiles_n;
    uint64_t from, to; /* the piece [from, to) of the sum */
    _Atomic int failed;
} job;

static void run_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    job *j = arg;
    const pst_gemm *g = j->gemm;
    uint64_t row = tile / j->tiles_n * j->tile_m, col = tile % j->tiles_n * j->tile_n, depth = j->to - j->from;
    uint64_t rows = pst_min_u64(j->tile_m, g->m - row), cols = pst_min_u64(j->tile_n, g->n - col);
    const float *a = g->a + (g->trans_a ? j->from * g->lda + row : row * g->lda + j->from);
    const float *b = g->b + (g->trans_b ? col * g->ldb + j->from : j->from * g->ldb + col);
    dnnl_status_t status =
        dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', (dnnl_dim_t)rows, (dnnl_dim_t)cols,
                   (dnnl_dim_t)depth, 1.0f, a, (dnnl_dim_t)g->lda, b, (dnnl_dim_t)g->ldb,
                   g->add || j->from ? 1.0f : 0.0f, g->c + row * g->ldc + col, (dnnl_dim_t)g->ldc);
    if (status != dnnl_success) atomic_store_explicit(&j->failed, (int)status, memory_order_relaxed);
    if (j->to == g->k && g->finish) g->finish(g->finish_arg, row, rows, col, cols);
}

/* `whole` in `parts` pieces of equal length but for rounding up to `unit`. */
static uint64_t part_of(uint64_t whole, uint64_t parts, uint64_t unit) {
    return pst_div_up(pst_div_up(whole, parts), unit) * unit;
}

/* Units: 16 rows and 48 columns are multiples of what the library's inner loops take. */
static void choose_tile(job *j) {
    uint64_t m = j->gemm->m, n = j->gemm->n;
    j->tile_m = part_of(m, pst_div_up(m, TILE_ROWS), 16);
    double rest = COPY_BELOW - 1.0 / (double)j->tile_m;
    uint64_t least = rest > 1.0 / MAX_COLS ? (uint64_t)(1.0 / rest) : TILE_COLS;
    j->tile_n = part_of(n, n > least ? n / least : 1, 48);
    while (pst_div_up(m, j->tile_m) * pst_div_up(n, j->tile_n) < MIN_TILES && (j->tile_m > 64 || j->tile_n > 96)) {
        if (j->tile_n > j->tile_m)
            j->tile_n = part_of(j->tile_n, 2, 48);
        else
            j->tile_m = part_of(j->tile_m, 2, 16);
    }
    j->tiles_n = pst_div_up(n, j->tile_n);
}

pst_status pst_gemm_run(pst_device *device, const pst_gemm *gemm) {
    job j = {.gemm = gemm};
    choose_tile(&j);
    uint64_t tiles = pst_div_up(gemm->m, j.tile_m) * j.tiles_n;
    uint64_t piece = part_of(gemm->k, pst_div_up(gemm->k, TILE_DEPTH), 16);
    for (j.from = 0; j.from < gemm->k && !j.failed; j.from = j.to) {
        j.to = pst_min_u64(j.from + piece, gemm->k);
        pst_device_run(device, run_tile, &j, tiles);
    }
    if (j.failed) return pst_fail(PST_ENOMEM, "dnnl_sgemm failed with status %d", (int)j.failed);
    return PST_OK;
}

void pst_gemm_start_thread(void *unused) {
    (void)unused;
    omp_set_num_threads(1);
}

void pst_gemm_set_isa(uint32_t isa) {
    /* Fails when a product has already run; then the choice was made. */
    if (!(isa & PST_ISA_AVX2))
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_sse41);
    else if (!(isa & PST_ISA_AVX512))
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
}
