/* The weights of a rank when they come from outside: from the seed, or written by whoever reads them. */
#include "base/rng.h"
#include "engine/rank.h"
#include "graph/shard.h"
#include <stdlib.h>

static uint64_t stepped(const pst_rank *r, uint32_t param) {
    return r->layout->step_to[param] - r->layout->step_from[param];
}

/* Nothing to do in fp32, where kernels read the master weight itself. */
pst_status pst_rank_refresh(pst_rank *r) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        const float *master = pst_rank_weight(r, i);
        if (!master || r->graph->dtype == PST_F32) continue;
        uint16_t *weight = (uint16_t *)(void *)(r->arena.base + r->layout->weight[i]) + r->layout->step_from[i];
        PST_TRY(r->arith->narrow(r->device, r->graph->dtype, master, weight, stepped(r, i)));
    }
    return pst_rank_settle(r);
}

/* Of each run of what is held of the parameter, what is stepped here. */
static void init_param(const pst_rank *r, uint32_t p, float *w) {
    const pst_param *param = r->graph->param + p;
    uint64_t from = r->layout->step_from[p], to = r->layout->step_to[p], before = 0;
    uint64_t key = pst_rng_key((uint64_t)r->p->config->train.seed, param->name), at, count;
    for (uint64_t i = 0; pst_param_run(param, i, &at, &count); i++, before += count) {
        uint64_t low = from > before ? from : before, high = to < before + count ? to : before + count;
        if (low >= high) continue;
        if (param->init == PST_INIT_NORMAL)
            pst_rng_normal_from(key, 0, param->std, at + (low - before), w + (low - from), high - low);
        else
            for (uint64_t k = low; k < high; k++) w[k - from] = param->init == PST_INIT_ONE ? 1.0f : 0.0f;
    }
}

static pst_status init_weight(const pst_rank *r, uint32_t p) {
    float *weight = pst_rank_weight(r, p);
    void *host;
    if (!weight) return PST_OK;
    PST_TRY(pst_rank_lend(r, weight, stepped(r, p) * sizeof *weight, 0, &host));
    init_param(r, p, host);
    return pst_rank_hand_back(r, weight, stepped(r, p) * sizeof *weight, 1, host);
}

static pst_status zero_state(const pst_rank *r, uint32_t p, uint32_t s) {
    float *state = pst_rank_state(r, p, s);
    return state ? pst_rank_fill(r, state, 0, stepped(r, p) * sizeof *state) : PST_OK;
}

pst_status pst_rank_init_weights(pst_rank *r) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        PST_TRY(init_weight(r, i));
        for (uint32_t s = 0; r->p->optim && s < r->p->optim->n_state; s++) PST_TRY(zero_state(r, i, s));
    }
    return pst_rank_refresh(r);
}
