/* Weights that come from outside: initialised from the seed, or written after reading a file. */
#include "base/pool.h"
#include "base/rng.h"
#include "graph/slice.h"
#include "rank/rank.h"
#include <stdlib.h>

static uint64_t stepped(const pst_rank *r, uint32_t param) {
    return r->memory->step_to[param] - r->memory->step_from[param];
}

/* Nothing to do in fp32, where kernels read the master weight itself. */
pst_status pst_rank_refresh(pst_rank *r) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        const float *master = pst_rank_weight(r, i);
        if (!master || r->graph->dtype == PST_F32) continue;
        uint16_t *weight =
            (uint16_t *)(void *)(r->arena.base + r->memory->weight[i]) + r->memory->step_from[i];
        PST_TRY(r->arith->narrow(r->device, r->graph->dtype, master, weight, stepped(r, i)));
    }
    return pst_rank_wait(r);
}

enum { TILE = 1 << 16 };

/* Each number depends on its index only, so any thread may draw it. */
typedef struct {
    uint64_t key, at, count;
    float std;
    float *w;
} draw;

static void draw_tile(void *arg, uint64_t tile, uint32_t thread) {
    const draw *d = arg;
    uint64_t from = tile * TILE, n = d->count - from < TILE ? d->count - from : TILE;
    (void)thread;
    pst_rng_normal_from(d->key, 0, d->std, d->at + from, d->w + from, n);
}

/* For each contiguous run of the held elements, those that are stepped here. */
static void init_param(const pst_rank *r, uint32_t p, pst_pool *pool, float *w) {
    const pst_param *param = r->graph->param + p;
    uint64_t from = r->memory->step_from[p], to = r->memory->step_to[p], before = 0;
    uint64_t key = pst_rng_key((uint64_t)r->p->config->train.seed, param->name), at, count;
    for (uint64_t i = 0; pst_slice_run(param, i, &at, &count); i++, before += count) {
        uint64_t low = from > before ? from : before,
                 high = to < before + count ? to : before + count;
        if (low >= high) continue;
        draw d = {key, at + (low - before), high - low, param->std, w + (low - from)};
        if (param->init == PST_INIT_NORMAL)
            pst_pool_run(pool, draw_tile, &d, (d.count + TILE - 1) / TILE);
        else
            for (uint64_t k = low; k < high; k++)
                w[k - from] = param->init == PST_INIT_ONE ? 1.0f : 0.0f;
    }
}

static pst_status init_weight(const pst_rank *r, uint32_t p, pst_pool *pool) {
    float *weight = pst_rank_weight(r, p);
    void *host;
    if (!weight) return PST_OK;
    PST_TRY(pst_rank_map(r, weight, stepped(r, p) * sizeof *weight, 0, &host));
    init_param(r, p, pool, host);
    return pst_rank_unmap(r, weight, stepped(r, p) * sizeof *weight, 1, host);
}

static pst_status zero_state(const pst_rank *r, uint32_t p, uint32_t s) {
    float *state = pst_rank_state(r, p, s);
    return state ? pst_rank_fill(r, state, 0, stepped(r, p) * sizeof *state) : PST_OK;
}

static pst_status init_all(const pst_rank *r, pst_pool *pool) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        PST_TRY(init_weight(r, i, pool));
        for (uint32_t s = 0; r->p->optim && s < r->p->optim->n_state; s++)
            PST_TRY(zero_state(r, i, s));
    }
    return PST_OK;
}

/* A device without CPU threads: draws with the rank's share of the processors. */
pst_status pst_rank_init_weights(pst_rank *r) {
    pst_pool *own = NULL;
    if (!r->device->pool) PST_TRY(pst_pool_open(r->p->options.threads, NULL, NULL, &own));
    pst_status status = init_all(r, own ? own : r->device->pool);
    pst_pool_close(own);
    return status == PST_OK ? pst_rank_refresh(r) : status;
}
