/* Suite `kernels`: optimizer, norm and sums over all parameters; on the host also the memory
 * bandwidth. */
#include "commands/bench_kernels.h"
#include "base/rng.h"
#include "pipeline/compile/share.h"
#include <stdlib.h>

enum { FLAT_RUNS = 5, FLAT_ELEMENTS = 8 << 20, FAR_ELEMENTS = 64 << 20 };

typedef pst_bench_kernels suite;

static const pst_optim_hyper adamw = {.lr = 1e-3f,
                                      .decay = 0.1f,
                                      .beta1 = 0.9f,
                                      .beta2 = 0.95f,
                                      .eps = 1e-8f,
                                      .grad_scale = 1,
                                      .correction1 = 0.1f,
                                      .correction2 = 0.05f,
                                      .t = 1};
enum { CODECS = 3 };
enum {
    UPDATE,
    SQUARES,
    ACCUMULATE,
    PACK, /* and UNPACK, for each codec */
    NARROW = PACK + 2 * CODECS,
    UPDATE_BF16,
    N_FLAT,
    FAR_ROWS = PACK + 4 /* with int8 and 2bit */
};
/* pack replaces a gradient by what is left of it; unpack adds to a sum. */
static const pst_codec codecs[CODECS] = {{.kind = PST_CODEC_INT8, .block = 256},
                                         {.kind = PST_CODEC_2BIT, .block = 256},
                                         {.kind = PST_CODEC_TOPK, .block = 1024, .keep = 10}};
#define INT8_BYTES (1 + 4.0 / 256)
#define TWO_BITS_BYTES (1.0 / 4 + 4.0 / 256)
#define TOPK_BYTES (60.0 / 1024) /* and a cache line of 64 bytes is read and written for each */
static const struct {
    const char *name;
    double bytes, flops; /* per element */
} flat_rows[N_FLAT] = {{"adamw", 28, 12},
                       {"norm", 4, 2},
                       {"accumulate", 12, 1},
                       {"pack", 12 + INT8_BYTES, 6},
                       {"unpack", 8 + INT8_BYTES, 2},
                       {"pack-2bit", 12 + TWO_BITS_BYTES, 6},
                       {"unpack-2bit", 8 + TWO_BITS_BYTES, 2},
                       {"pack-topk", 12 + TOPK_BYTES, 2},
                       {"unpack-topk", TOPK_BYTES + 10 * 128.0 / 1024, 0},
                       {"narrow", 6, 0},
                       {"adamw-bf16-state", 20, 12}};

/* x: weights, two states, gradients, and both states in bf16. */
static void run_flat(suite *s, const pst_flat *flat, float *x, uint64_t n, double time[N_FLAT]) {
    float *state[2] = {x + n, x + 2 * n}, *grad = x + 3 * n;
    uint16_t *half = (uint16_t *)(void *)(x + 4 * n);
    pst_optim_hyper narrow_state = adamw;
    narrow_state.state = PST_BF16;
    pst_pool *pool = s->target.device->pool;
    uint64_t at[N_FLAT + 1];
    at[0] = pst_bench_now_ns();
    flat->update(pool, PST_OPTIM_ADAMW, &adamw,
                 &(pst_flat_param){x, grad, {state[0], state[1]}, n});
    at[1] = pst_bench_now_ns();
    flat->sum_squares(pool, grad, n);
    at[2] = pst_bench_now_ns();
    flat->accumulate(pool, state[0], grad, n);
    at[PACK] = pst_bench_now_ns();
    for (int k = 0; k < CODECS; k++) {
        uint8_t *packed = (uint8_t *)(void *)state[1];
        flat->pack(pool, &(pst_flat_pack){.x = grad,
                                          .error = state[0],
                                          .scale = 1,
                                          .packed = packed,
                                          .next = grad,
                                          .n = n,
                                          .codec = codecs[k]});
        at[PACK + 2 * k + 1] = pst_bench_now_ns();
        flat->unpack(pool, codecs[k], packed, state[0], n, 1);
        at[PACK + 2 * k + 2] = pst_bench_now_ns();
    }
    flat->narrow(pool, s->dtype == PST_F32 ? PST_BF16 : s->dtype, grad, (uint16_t *)state[1], n);
    at[UPDATE_BF16] = pst_bench_now_ns();
    flat->update(pool, PST_OPTIM_ADAMW, &narrow_state,
                 &(pst_flat_param){x, grad, {half, half + n}, n});
    at[N_FLAT] = pst_bench_now_ns();
    for (int i = 0; i < N_FLAT; i++) time[i] = (double)(at[i + 1] - at[i]) * 1e-9;
}

/* Number of elements of all parameters, and of their accumulators after the first. */
static void count_elements(const pst_graph *g, uint64_t *all, uint64_t *shared) {
    *all = *shared = 0;
    for (uint32_t i = 0; i < g->n_param; i++) {
        uint64_t n = pst_param_elements(g->param + i);
        *all += n;
        *shared += n * (g->param[i].n_use > 1 ? g->param[i].n_use - 1 : 0);
    }
}

/* each: seconds per element. */
static void add_flat(suite *s, int what, const char *kernel, double each, uint64_t n) {
    double elements = (double)n, bytes = flat_rows[what].bytes, rate = bytes / each;
    if (s->target.far && what == UPDATE && s->dtype != PST_F32)
        bytes += 2; /* also writes the narrow copy */
    if (rate > s->bandwidth && !s->target.far) s->bandwidth = rate;
    const pst_bench_row row = {.op = flat_rows[what].name,
                               .kernel = kernel,
                               .shape = "all parameters",
                               .pass = '-',
                               .count = 1,
                               .seconds = each * elements,
                               .flops = flat_rows[what].flops * elements,
                               .bytes = bytes * elements};
    if (n && (what != NARROW || s->dtype != PST_F32) && !*s->b->options->op)
        pst_bench_add_row(s, &row);
}

/* A row has the time for the whole model, extrapolated from a part that is far larger than any
 * cache. */
static pst_status time_flat(suite *s) {
    const pst_flat *flat = pst_flat_choose(s->target.device->isa);
    const uint64_t n = FLAT_ELEMENTS;
    uint64_t all, shared;
    double time[FLAT_RUNS + 1][N_FLAT];
    pst_arena arena;
    count_elements(s->graph, &all, &shared);
    PST_TRY(pst_arena_open(5 * n * sizeof(float), 0, &arena));
    float *x = (float *)(void *)arena.base;
    pst_rng_normal_from(pst_rng_key(1, "kernels"), 0, 1e-3f, 0, x, 5 * n);
    for (int run = 0; run <= FLAT_RUNS; run++)
        run_flat(s, flat, x, n, time[run]); /* the first run does not count */
    pst_arena_close(&arena);
    for (int i = 0; i < N_FLAT; i++) {
        double of[FLAT_RUNS];
        for (int run = 0; run < FLAT_RUNS; run++) of[run] = time[run + 1][i];
        add_flat(s, i, flat->name, pst_bench_median(of, FLAT_RUNS) / (double)n,
                 i == ACCUMULATE ? shared : all);
    }
    return PST_OK;
}

/* --- the same on a module's device ------------------------------------------------------------ */

typedef struct {
    const suite *s;
    int what;
    uint64_t n;
    /* [n] weights, then as many gradients and both optimizer states, then the narrow copies and
     * sums */
    float *x;
    const float **piece; /* [n / PST_PIECE] sums of squares, as in runs */
    uint64_t *piece_n;
} far_flat;

/* Packs the gradient with the residual in the first state, or unpacks to that. */
static pst_status run_far_codec(pst_device *d, const far_flat *f) {
    const pst_arith *arith = f->s->target.arith;
    const pst_codec codec = codecs[(f->what - PACK) / 2];
    float *grad = f->x + f->n, *sum = grad + f->n;
    uint8_t *packed = (uint8_t *)(void *)(sum + f->n);
    if ((f->what - PACK) % 2) return arith->unpack(d, codec, packed, sum, f->n, 1);
    return arith->pack(d, &(pst_flat_pack){.x = grad,
                                           .error = sum,
                                           .scale = 1,
                                           .packed = packed,
                                           .next = grad,
                                           .n = f->n,
                                           .codec = codec});
}

static pst_status run_far_flat(pst_device *d, const void *block) {
    const far_flat *f = block;
    const pst_arith *arith = f->s->target.arith;
    float *x = f->x, *behind = f->x + 4 * f->n;
    if (f->what == SQUARES)
        return arith->sum_squares(d, f->piece, f->piece_n, (uint32_t)(f->n / PST_PIECE),
                                  (double *)(void *)behind);
    if (f->what == ACCUMULATE) return arith->accumulate(d, x, x + f->n, f->n);
    if (f->what >= PACK) return run_far_codec(d, f);
    pst_arith_param all = {.weight = x, .grad = x + f->n, .n = f->n, .decay = adamw.decay};
    all.state[0] = x + 2 * f->n;
    all.state[1] = x + 3 * f->n;
    if (f->s->dtype != PST_F32) all.narrow = (uint16_t *)(void *)behind;
    return arith->update(d, PST_OPTIM_ADAMW, &adamw, f->s->dtype, &all, 1);
}

/* As many elements as the model has, at most FAR_ELEMENTS, which is far more than caches hold. */
static uint64_t far_elements(const suite *s) {
    uint64_t all, shared;
    count_elements(s->graph, &all, &shared);
    all = (all + PST_PIECE - 1) / PST_PIECE * PST_PIECE;
    return all < FAR_ELEMENTS ? all : FAR_ELEMENTS;
}

static pst_status time_far_rows(suite *s, far_flat *f) {
    uint64_t all, shared;
    double time[FLAT_RUNS];
    count_elements(s->graph, &all, &shared);
    for (f->what = UPDATE; f->what < FAR_ROWS; f->what++) {
        for (int run = 0; run < FLAT_RUNS; run++)
            PST_TRY(pst_bench_time_once(s, run_far_flat, f, &time[run]));
        add_flat(s, f->what, s->target.device->ops->name,
                 pst_bench_median(time, FLAT_RUNS) / (double)f->n,
                 f->what == ACCUMULATE ? shared : all);
    }
    return PST_OK;
}

static pst_status time_far_flat(suite *s) {
    uint64_t n = far_elements(s), pieces = n / PST_PIECE;
    far_flat f = {.s = s,
                  .n = n,
                  .x = (float *)(void *)s->target.arena.base,
                  .piece = calloc(pieces, sizeof *f.piece),
                  .piece_n = calloc(pieces, sizeof *f.piece_n)};
    pst_device *d = s->target.device;
    pst_status status =
        f.piece && f.piece_n ? PST_OK : pst_fail(PST_ENOMEM, "no memory to measure kernels");
    for (uint64_t i = 0; status == PST_OK && i < pieces; i++) {
        f.piece[i] = f.x + n + i * PST_PIECE;
        f.piece_n[i] = PST_PIECE;
    }
    if (status == PST_OK)
        status = d->ops->fill(d, PST_Q_COMPUTE, f.x, 0x3c, 4 * n * sizeof(float)); /* 0.0115 */
    if (status == PST_OK) status = time_far_rows(s, &f);
    free(f.piece);
    free(f.piece_n);
    return status;
}

uint64_t pst_bench_flat_bytes(const suite *s) {
    uint64_t n = far_elements(s);
    return 4 * n * sizeof(float) + n * sizeof(uint16_t);
}

pst_status pst_bench_flat(suite *s) {
    if (!s->target.far) return time_flat(s);
    return *s->b->options->op ? PST_OK : time_far_flat(s); /* pst_bench_peaks has measured its
                                                              bandwidth */
}
