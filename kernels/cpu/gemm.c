/* Every call into oneDNN. Its own threading is off: a product is cut into fixed tiles of the output and long sums into
 * fixed pieces, and the tiles are spread over our pool. The tile is part of the result's bits, never a tuning knob. */
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"
#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>

extern void omp_set_num_threads(int n); /* libgomp's; its header comes with the compiler, not with the library */

enum { TILE_M = 128, TILE_N = 512, TILE_K = 2048 };

typedef struct {
    const pst_gemm *gemm;
    uint64_t tiles_n, from, to; /* the piece [from, to) of the sum */
    _Atomic int failed;
} job;

static void run_tile(void *arg, uint64_t tile, uint32_t thread) {
    (void)thread;
    job *j = arg;
    const pst_gemm *g = j->gemm;
    uint64_t row = tile / j->tiles_n * TILE_M, col = tile % j->tiles_n * TILE_N;
    uint64_t rows = pst_min_u64(TILE_M, g->m - row), cols = pst_min_u64(TILE_N, g->n - col), depth = j->to - j->from;
    const float *a = g->a + (g->trans_a ? j->from * g->lda + row : row * g->lda + j->from);
    const float *b = g->b + (g->trans_b ? col * g->ldb + j->from : j->from * g->ldb + col);
    dnnl_status_t status =
        dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', (dnnl_dim_t)rows, (dnnl_dim_t)cols,
                   (dnnl_dim_t)depth, 1.0f, a, (dnnl_dim_t)g->lda, b, (dnnl_dim_t)g->ldb,
                   g->add || j->from ? 1.0f : 0.0f, g->c + row * g->ldc + col, (dnnl_dim_t)g->ldc);
    if (status != dnnl_success) atomic_store_explicit(&j->failed, (int)status, memory_order_relaxed);
    if (j->to == g->k && g->finish) g->finish(g->finish_arg, row, rows, col, cols);
}

pst_status pst_gemm_run(pst_device *device, const pst_gemm *gemm) {
    uint64_t tiles_n = pst_div_up(gemm->n, TILE_N), tiles = pst_div_up(gemm->m, TILE_M) * tiles_n;
    uint64_t pieces = pst_div_up(gemm->k, TILE_K), piece = pst_div_up(pst_div_up(gemm->k, pieces), 64) * 64;
    job j = {.gemm = gemm, .tiles_n = tiles_n};
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
