/* Optimizers that update whole parameters on a GPU: LAMB's norms, with the bits of the CPU, and
 * Muon around its matrix products (muon.c). */
#include "kernels/cuda/own.h"
#include "base/arena.h"
#include "kernels/muon.h"
#include <math.h>

_Static_assert(sizeof(pst_cuda_squares) == sizeof(pst_squares) &&
                   offsetof(pst_cuda_squares, sum) == offsetof(pst_squares, sum),
               "both must have the same members");

/* --- LAMB ------------------------------------------------------------------------------------- */

/* A part of at most PST_LAMB_TERM elements, in as many launches as there is memory for its
 * blocks. */
static pst_status part_squares(pst_device *device, pst_cuda_lamb lamb, uint64_t size,
                               pst_squares *out) {
    enum { NUMBERS = 2 * sizeof(pst_cuda_squares) / sizeof(double) /* of a block */ };
    uint32_t room;
    const uint64_t left = lamb.n;
    lamb.block = (pst_cuda_squares *)(void *)pst_cuda_sums_of(device, &room);
    lamb.out = (pst_cuda_squares *)(void *)out;
    const uint64_t most = (uint64_t)(room / NUMBERS) * PST_SQUARES_BLOCK;
    for (uint64_t done = 0; done < left; done += lamb.n) {
        lamb.begun = done > 0;
        lamb.n = left - done < most ? left - done : most;
        pst_cuda_lamb_squares(pst_cuda_queue_of(device), &lamb);
        PST_TRY(pst_cuda_launched("norms of LAMB"));
        lamb.weight += lamb.n;
        lamb.grad += lamb.n;
        for (int s = 0; s < 2; s++) lamb.state[s] = (const uint8_t *)lamb.state[s] + lamb.n * size;
    }
    return PST_OK;
}

pst_status pst_cuda_whole_squares(pst_device *device, const pst_optim_hyper *h,
                                  const pst_arith_param *p, pst_squares *out) {
    const uint64_t size = pst_dtype_bytes(h->state);
    for (uint64_t from = 0; from < p->n; from += PST_LAMB_TERM, out += 2) {
        const pst_cuda_lamb lamb = {.rule = pst_cuda_rule_of(PST_OPTIM_LAMB, h),
                                    .weight = p->weight + from,
                                    .grad = p->grad + from,
                                    .state = {(const uint8_t *)p->state[0] + from * size,
                                              (const uint8_t *)p->state[1] + from * size},
                                    .n = p->n - from < PST_LAMB_TERM ? p->n - from : PST_LAMB_TERM,
                                    .decay = p->decay};
        PST_TRY(part_squares(device, lamb, size, out));
    }
    return PST_OK;
}

/* --- Muon ------------------------------------------------------------------------------------- */

/* In scratch memory: X and Y [rows,columns], A and B [least,least], the sum of squares, and the
 * workspace of the products. */
typedef struct {
    float *x, *y, *a, *b;
    double *squares;
    uint64_t n, n_least; /* elements of X, and of A */
    uint8_t *workspace;
} matrices;

static uint64_t bytes_of(uint64_t elements) { return pst_align(elements * sizeof(float)); }

static matrices matrices_in(const pst_matrix_shape *of, void *scratch) {
    const uint64_t least = of->rows < of->cols ? of->rows : of->cols;
    matrices m = {.n = of->rows * of->cols, .n_least = least * least, .x = scratch};
    uint8_t *at = (uint8_t *)scratch + bytes_of(m.n);
    m.y = (float *)(void *)at;
    m.a = (float *)(void *)(at += bytes_of(m.n));
    m.b = (float *)(void *)(at += bytes_of(m.n_least));
    m.squares = (double *)(void *)(at += bytes_of(m.n_least));
    m.workspace = at + pst_align(sizeof *m.squares);
    return m;
}

uint64_t pst_cuda_whole_scratch(const pst_muon_rule *rule, uint32_t threads) {
    const uint64_t least =
        rule->shape.rows < rule->shape.cols ? rule->shape.rows : rule->shape.cols;
    (void)threads;
    return 2 * bytes_of(rule->shape.rows * rule->shape.cols) + 2 * bytes_of(least * least) +
           pst_align(sizeof(double)) + pst_cuda_muon_workspace();
}

pst_status pst_cuda_whole_direction(pst_device *device, const pst_optim_hyper *h,
                                    const pst_arith_param *p, float *x) {
    const pst_cuda_momentum momentum = {.rule = pst_cuda_rule_of(PST_OPTIM_MUON, h),
                                        .weight = p->weight,
                                        .grad = p->grad,
                                        .momentum = p->state[0],
                                        .x = x,
                                        .n = p->n};
    if (!p->n) return PST_OK;
    pst_cuda_muon_direction(pst_cuda_queue_of(device), &momentum);
    return pst_cuda_launched("momentum of Muon");
}

static pst_status mix(pst_device *device, float *y, const float *x, const double factor[2],
                      uint64_t n) {
    pst_cuda_muon_mix(pst_cuda_queue_of(device), y, x, (float)factor[0], (float)factor[1], n);
    return pst_cuda_launched("sum of Muon");
}

static pst_status newton_schulz(pst_device *device, const pst_muon_rule *rule, matrices *m) {
    const double inner[] = {PST_MUON_B, PST_MUON_C}, outer[] = {PST_MUON_A, 1};
    for (int step = 0; step < PST_MUON_STEPS; step++) {
        const pst_cuda_muon_operands gram = {m->x, m->x, m->a, m->workspace},
                                     square = {m->a, m->a, m->b, m->workspace},
                                     applied = {m->x, m->b, m->y, m->workspace};
        PST_TRY(pst_cuda_muon_product(device, rule, PST_CUDA_MUON_GRAM, &gram));
        PST_TRY(pst_cuda_muon_product(device, rule, PST_CUDA_MUON_SQUARE, &square));
        PST_TRY(mix(device, m->b, m->a, inner, m->n_least));
        PST_TRY(pst_cuda_muon_product(device, rule, PST_CUDA_MUON_APPLIED, &applied));
        PST_TRY(mix(device, m->y, m->x, outer, m->n));
        float *x = m->x;
        m->x = m->y;
        m->y = x;
    }
    return PST_OK;
}

pst_status pst_cuda_whole_orthogonalize(pst_device *device, const pst_muon_rule *rule,
                                        void *scratch, float **x) {
    matrices m = matrices_in(&rule->shape, scratch);
    const float *list[] = {m.x};
    PST_TRY(pst_cuda_sums_of_squares(device, list, &m.n, 1, m.squares));
    pst_cuda_muon_scale(pst_cuda_queue_of(device), m.x, m.squares, PST_MUON_EPS, m.n);
    PST_TRY(pst_cuda_launched("scale of Muon"));
    PST_TRY(newton_schulz(device, rule, &m));
    *x = m.x;
    return PST_OK;
}

pst_status pst_cuda_whole_apply(pst_device *device, const pst_muon_rule *rule,
                                const pst_arith_param *p, const float *x) {
    const uint64_t rows = rule->shape.rows, cols = rule->shape.cols;
    const double most = (double)(rows > cols ? rows : cols);
    const pst_cuda_step step = {.weight = p->weight,
                                .x = x,
                                .narrow = p->narrow,
                                .n = p->n,
                                .keep = 1.0f - rule->h->lr * p->decay,
                                .rate = (float)((double)rule->h->lr * PST_MUON_RMS * sqrt(most))};
    if (!p->n) return PST_OK;
    pst_cuda_muon_apply(pst_cuda_queue_of(device), rule->type, &step);
    return pst_cuda_launched("step of Muon");
}
