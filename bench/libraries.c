/* Measures the fp32 matrix products of GPT-2 124M (B=4 T=256) in libraries that could replace
 * kernels/cpu/product_vec.h: one thread, CPU time, beside the FMA peak. One library per build, each
 * with `cc -O2 -march=native bench/libraries.c -o libraries` and:
 *
 * - oneDNN 2.6 (Debian): -DONEDNN -ldnnl
 * - oneDNN 3.2 (Python packages onednn-cpu-gomp and onednn-devel-cpu-gomp 2023.2, unpacked into
 *   DIR): -DONEDNN -I DIR/include -L DIR/lib -ldnnl -Wl,-rpath,DIR/lib
 * - BLIS 0.9 (Debian): -DBLIS -I/usr/include/x86_64-linux-gnu/blis-serial -lblis
 * - libxsmm 1.17 (Debian): -DXSMM -lxsmm -lxsmmnoblas -ldl -lpthread -lm
 *
 * Run it with OMP_NUM_THREADS=1. libxsmm has no products of large matrices: its JIT kernels
 * multiply packed blocks of 64 x 64 x 64 here, and packing is not part of its time. */
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(ONEDNN)
#include <dnnl.h>
#elif defined(BLIS)
#include <blis.h>
#else
#include <libxsmm.h>
#endif

typedef struct {
    int m, k, n, count;
} shape;
static const shape SHAPES[] = {
    {1024, 768, 2304, 12}, {1024, 768, 768, 12},  {1024, 768, 3072, 12},
    {1024, 3072, 768, 12}, {1024, 768, 50257, 1},
};

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* FLOP/s of independent fused multiply-adds. */
static double peak(void) {
#if defined(__AVX512F__)
    enum { WIDTH = 16, CHAINS = 24 };
    __m512 sum[CHAINS], x = _mm512_set1_ps(0.5f);
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) sum[i] = x;
    double begin = seconds();
    for (long turn = 0; turn < 20000000; turn++)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_fmadd_ps(sum[i], x, x);
#else
    enum { WIDTH = 8, CHAINS = 12 };
    __m256 sum[CHAINS], x = _mm256_set1_ps(0.5f);
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) sum[i] = x;
    double begin = seconds();
    for (long turn = 0; turn < 20000000; turn++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_fmadd_ps(sum[i], x, x);
#endif
    double end = seconds();
    __asm__ volatile("" : : "m"(sum));
    return 20000000.0 * CHAINS * WIDTH * 2 / (end - begin);
}

/* Row-major C[m,n] = op(A) op(B); a or b transposed: 't', else 'n'. */
typedef struct {
    char ta, tb;
    int m, n, k;
    const float *a, *b;
    float *c;
} job;

static void product(const job *j) {
    const int lda = j->ta == 't' ? j->m : j->k, ldb = j->tb == 't' ? j->k : j->n;
#if defined(ONEDNN)
    dnnl_sgemm(j->ta, j->tb, j->m, j->n, j->k, 1, j->a, lda, j->b, ldb, 0, j->c, j->n);
#elif defined(BLIS)
    const f77_int m = j->m, n = j->n, k = j->k, a = lda, b = ldb;
    const float one = 1, zero = 0; /* column-major: C^T = op(B)^T op(A)^T */
    sgemm_(&j->tb, &j->ta, &n, &m, &k, &one, j->b, &b, j->a, &a, &zero, j->c, &n);
#else
    enum { BLOCK = 64 };
    (void)lda;
    (void)ldb;
    const float zero = 0, one = 1;
    static libxsmm_smmfunction first, next;
    if (!first) {
        first = libxsmm_smmdispatch(BLOCK, BLOCK, BLOCK, NULL, NULL, NULL, &one, &zero, NULL, NULL);
        next = libxsmm_smmdispatch(BLOCK, BLOCK, BLOCK, NULL, NULL, NULL, &one, &one, NULL, NULL);
    }
    const size_t steps = (size_t)(j->k / BLOCK), rows = (size_t)(j->m / BLOCK),
                 cols = (size_t)(j->n / BLOCK), size = (size_t)BLOCK * BLOCK;
    for (size_t col = 0; col < cols; col++)
        for (size_t row = 0; row < rows; row++)
            for (size_t s = 0; s < steps; s++)
                (s ? next : first)(j->b + (col * steps + s) * size, j->a + (row * steps + s) * size,
                                   j->c + (col * rows + row) * size);
#endif
}

static float *filled(size_t n) {
    float *x = (float *)aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    if (!x) exit(4);
    for (size_t i = 0; i < n; i++) x[i] = (float)((i * 2654435761u) % 1000) * 1e-3f;
    return x;
}

static double timed(const job *j) {
    const double until = seconds() + 0.5;
    double best = 1e9;
    product(j);
    do {
        double begin = seconds();
        product(j);
        double took = seconds() - begin;
        if (took < best) best = took;
    } while (seconds() < until);
    return best;
}

int main(void) {
    const double flops = peak();
    double total = 0, work = 0;
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        const shape *s = &SHAPES[i];
        const size_t m = (size_t)s->m, k = (size_t)s->k, n = (size_t)s->n;
        float *x = filled(m * k), *w = filled(n * k), *y = filled(m * n);
        const double f = timed(&(job){'n', 't', s->m, s->n, s->k, x, w, y}),
                     b = timed(&(job){'n', 'n', s->m, s->k, s->n, y, w, x}),
                     g = timed(&(job){'t', 'n', s->n, s->k, s->m, y, x, w}),
                     one = 2e-9 * (double)s->m * s->k * s->n;
        printf("%dx%dx%d: F %.0f, B %.0f, W %.0f GFLOP/s\n", s->m, s->k, s->n, one / f, one / b,
               one / g);
        total += s->count * (f + b + g);
        work += s->count * 3 * one;
        free(x);
        free(w);
        free(y);
    }
    printf("peak %.0f GFLOP/s; all products of a step: %.0f ms, %.0f GFLOP/s, %.3f of the peak\n",
           flops * 1e-9, total * 1e3, work / total, work / total / (flops * 1e-9));
    return 0;
}
