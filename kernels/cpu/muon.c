/* Muon on the CPU (kernels/muon.h). Sums are those of pst_flat, in blocks of a fixed size, and
 * products those of gemm.c, so threads do not change bits. */
#include "kernels/muon.h"
#include "base/arena.h"
#include "kernels/cpu/cpu.h"
#include "kernels/shape.h"
#include <math.h>
#include <string.h>

enum { BLOCK = 4096 };

typedef struct {
    const pst_optim_hyper *h;
    const pst_arith_param *p;
    float rate, *x, *y; /* rate: of the orthogonal matrix */
    float left, right;  /* of `combine` */
    uint64_t n;
} job;

static void run(pst_device *device, pst_tile_fn fn, job *j) {
    pst_device_run(device, fn, j, pst_div_up(j->n, BLOCK));
}

static uint64_t end_of(const job *j, uint64_t tile) {
    return pst_min_u64((tile + 1) * BLOCK, j->n);
}

/* Scratch: X and Y, both [rows,cols]; A and B, both [least,least]; then that of the products. */
static uint64_t least_of(const pst_matrix_shape *of) { return pst_min_u64(of->rows, of->cols); }

static uint64_t product_scratch(const pst_matrix_shape *of, uint32_t threads) {
    const uint64_t least = least_of(of), most = of->rows + of->cols - least;
    const uint64_t size[][3] = {
        {least, least, most}, {least, least, least}, {of->rows, of->cols, least}};
    uint64_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t one = pst_gemm_scratch(PST_F32, size[i][0], size[i][1], size[i][2], 1, threads);
        if (one > bytes) bytes = one;
    }
    return bytes;
}

static uint64_t matrix_bytes(uint64_t elements) { return pst_align(elements * sizeof(float)); }

uint64_t pst_muon_scratch(const pst_matrix_shape *of, uint32_t threads) {
    const uint64_t n = of->rows * of->cols, least = least_of(of);
    return 2 * matrix_bytes(n) + 2 * matrix_bytes(least * least) + product_scratch(of, threads);
}

/* The momentum of a block, in fp32: as it is stored, or widened to `room`. */
static float *momentum_of(const job *j, uint64_t from, uint64_t n, float *room) {
    if (j->h->state != PST_BF16) return (float *)j->p->state[0] + from;
    const uint16_t *state = (const uint16_t *)j->p->state[0] + from;
    for (uint64_t i = 0; i < n; i++) room[i] = pst_f32_from_bf16(state[i]);
    return room;
}

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void store_momentum(const job *j, uint64_t from, uint64_t n, const float *m) {
    uint16_t *state = (uint16_t *)j->p->state[0] + from;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t weight = bits_of(j->p->weight[from + i]),
                       grad = bits_of(j->p->grad[from + i]);
        uint32_t random = pst_optim_random(j->h->noise, weight, grad) & 0xffff;
        state[i] = pst_optim_rounded(bits_of(m[i]), random);
    }
}

static void momentum(void *arg, uint64_t tile, uint32_t thread) {
    const job *j = arg;
    const float mu = j->h->momentum, rest = 1.0f - mu;
    const uint64_t from = tile * BLOCK, n = end_of(j, tile) - from;
    float room[BLOCK], *m = momentum_of(j, from, n, room);
    (void)thread;
    for (uint64_t i = 0; i < n; i++) {
        float g = j->p->grad[from + i] * j->h->grad_scale;
        m[i] = mu * m[i] + rest * g;
        j->x[from + i] = rest * g + mu * m[i];
    }
    if (m == room) store_momentum(j, from, n, m);
}

/* y = left x + right y */
static void combine(void *arg, uint64_t tile, uint32_t thread) {
    const job *j = arg;
    (void)thread;
    for (uint64_t i = tile * BLOCK; i < end_of(j, tile); i++)
        j->y[i] = j->left * j->x[i] + j->right * j->y[i];
}

static void muon_weights(void *arg, uint64_t tile, uint32_t thread) {
    const job *j = arg;
    const float keep = 1.0f - j->h->lr * j->p->decay;
    (void)thread;
    for (uint64_t i = tile * BLOCK; i < end_of(j, tile); i++)
        j->p->weight[i] = j->p->weight[i] * keep - j->rate * j->x[i];
}

static void mix(pst_device *device, float *y, const float *x, uint64_t n, const float factor[2]) {
    job j = {.y = y, .x = (float *)(uintptr_t)x, .n = n, .left = factor[0], .right = factor[1]};
    run(device, combine, &j);
}

static const pst_product_ops *product_of(const pst_device *device) {
    if (device->isa & PST_ISA_AVX512) return pst_cpu_avx512()->product;
    return device->isa & PST_ISA_AVX2 ? pst_cpu_avx2()->product : NULL;
}

typedef struct {
    float *x, *y, *a, *b;
    uint64_t rows, cols;
    void *scratch;
} matrices;

static pst_gemm gemm_of(const pst_device *device, const matrices *m, float *c) {
    return (pst_gemm){.dtype = PST_F32, .c = c, .scratch = m->scratch, .ops = product_of(device)};
}

/* A = X X^T, or X^T X if X has more rows than columns; least x least either way. */
static pst_status gram(pst_device *device, const matrices *m) {
    pst_gemm g = gemm_of(device, m, m->a);
    int tall = m->rows > m->cols;
    g.m = g.n = g.ldc = tall ? m->cols : m->rows;
    g.k = tall ? m->rows : m->cols;
    g.a = g.b = m->x;
    g.lda = g.ldb = m->cols;
    g.trans_a = tall;
    g.trans_b = !tall;
    return pst_gemm_run(device, &g);
}

/* B = A A */
static pst_status square(pst_device *device, const matrices *m) {
    pst_gemm g = gemm_of(device, m, m->b);
    g.m = g.n = g.k = pst_min_u64(m->rows, m->cols);
    g.lda = g.ldb = g.ldc = g.m;
    g.a = g.b = m->a;
    return pst_gemm_run(device, &g);
}

/* Y = B X, or X B */
static pst_status apply(pst_device *device, const matrices *m) {
    pst_gemm g = gemm_of(device, m, m->y);
    int tall = m->rows > m->cols;
    g.m = m->rows;
    g.n = g.ldc = m->cols;
    g.k = tall ? m->cols : m->rows;
    g.a = tall ? m->x : m->b;
    g.lda = g.k;
    g.b = tall ? m->b : m->x;
    g.ldb = m->cols;
    return pst_gemm_run(device, &g);
}

static pst_status newton_schulz(pst_device *device, matrices *m) {
    const uint64_t least = pst_min_u64(m->rows, m->cols);
    const float inner[] = {(float)PST_MUON_B, (float)PST_MUON_C}, outer[] = {(float)PST_MUON_A, 1};
    for (int step = 0; step < PST_MUON_STEPS; step++) {
        PST_TRY(gram(device, m));
        PST_TRY(square(device, m));
        mix(device, m->b, m->a, least * least, inner);
        PST_TRY(apply(device, m));
        mix(device, m->y, m->x, m->rows * m->cols, outer);
        float *x = m->x;
        m->x = m->y;
        m->y = x;
    }
    return PST_OK;
}

static matrices matrices_in(const pst_matrix_shape *of, void *scratch) {
    const uint64_t n = matrix_bytes(of->rows * of->cols),
                   square = matrix_bytes(least_of(of) * least_of(of));
    uint8_t *at = scratch;
    return (matrices){.x = (float *)(void *)at,
                      .y = (float *)(void *)(at + n),
                      .a = (float *)(void *)(at + 2 * n),
                      .b = (float *)(void *)(at + 2 * n + square),
                      .rows = of->rows,
                      .cols = of->cols,
                      .scratch = at + 2 * n + 2 * square};
}

pst_status pst_muon_direction(pst_device *device, const pst_optim_hyper *h,
                              const pst_arith_param *p, float *x) {
    job j = {.h = h, .p = p, .x = x, .n = p->n};
    run(device, momentum, &j);
    return PST_OK;
}

pst_status pst_muon_orthogonalize(pst_device *device, const pst_matrix_shape *of, void *scratch,
                                  float **x) {
    const uint64_t n = of->rows * of->cols;
    matrices m = matrices_in(of, scratch);
    double norm = sqrt(pst_flat_choose(device->isa)->sum_squares(device->pool, m.x, n));
    const float scale[] = {0, (float)(1 / (norm > PST_MUON_EPS ? norm : PST_MUON_EPS))};
    mix(device, m.x, m.x, n, scale);
    PST_TRY(newton_schulz(device, &m));
    *x = m.x;
    return PST_OK;
}

void pst_muon_apply(pst_device *device, const pst_muon_rule *rule, const pst_arith_param *p,
                    const float *x) {
    const pst_matrix_shape *of = &rule->shape;
    uint64_t most = of->rows > of->cols ? of->rows : of->cols;
    job j = {.h = rule->h, .p = p, .x = (float *)(uintptr_t)x, .n = p->n};
    j.rate = (float)((double)rule->h->lr * PST_MUON_RMS * sqrt((double)most));
    run(device, muon_weights, &j);
}
