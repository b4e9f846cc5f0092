/* Weights that come from outside: initialised from the seed, or written after reading a file. */
#include "base/pool.h"
#include "graph/initial.h"
#include "rank/rank.h"

pst_rank_part pst_rank_part_of(const pst_rank *r, uint32_t param) {
    const pst_memory_map *x = r->memory;
    const pst_param *p = r->graph->param + param;
    if (!p->frozen) return (pst_rank_part){x->step_from[param], x->step_to[param]};
    return (pst_rank_part){0, x->weight[param] == UINT64_MAX ? 0 : pst_param_elements(p)};
}

pst_rank_part pst_rank_fill_part(const pst_rank *r, uint32_t param) {
    if (!pst_rank_copied(r, param)) return pst_rank_part_of(r, param);
    return (pst_rank_part){0, pst_param_elements(r->graph->param + param)};
}

int pst_rank_is_rounded(const pst_rank *r, uint32_t param) {
    return r->graph->param[param].frozen && r->graph->dtype != PST_F32 &&
           r->memory->weight[param] != UINT64_MAX;
}

float *pst_rank_fill_at(const pst_rank *r, uint32_t param) {
    if (pst_rank_copied(r, param)) return pst_rank_copied(r, param);
    if (!pst_rank_is_rounded(r, param)) return pst_rank_weight(r, param);
    return (float *)(void *)(r->arena.base + r->memory->frozen);
}

/* Rounds fp32 numbers to the copy that operators read, which begins with the same element. */
static pst_status round_from(pst_rank *r, uint32_t param, const float *from) {
    const pst_rank_part part = pst_rank_part_of(r, param);
    uint16_t *weight = (uint16_t *)pst_rank_on_side(r, r->memory->weight[param], r->side) +
                       part.from - pst_memory_map_weight_from(r->memory, param);
    return r->arith->narrow(r->device, r->graph->dtype, from, weight, part.to - part.from);
}

pst_status pst_rank_filled(pst_rank *r, uint32_t param) {
    const pst_rank_part part = pst_rank_part_of(r, param);
    if (pst_rank_copied(r, param) && part.to > part.from)
        return pst_rank_copy(r, pst_rank_weight(r, param), pst_rank_copied(r, param) + part.from,
                             (part.to - part.from) * sizeof(float));
    if (!pst_rank_is_rounded(r, param)) return PST_OK;
    PST_TRY(round_from(r, param, pst_rank_fill_at(r, param)));
    return pst_rank_wait(r);
}

/* Nothing to do in fp32, where kernels read the master weight itself. */
pst_status pst_rank_refresh(pst_rank *r) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        const float *master = pst_rank_weight(r, i);
        if (!master || r->graph->dtype == PST_F32) continue;
        PST_TRY(round_from(r, i, master));
    }
    return pst_rank_wait(r);
}

pst_status pst_rank_take_weight(pst_rank *r, uint32_t param, const float *from) {
    const uint64_t n = pst_param_elements(r->graph->param + param);
    void *weight = pst_rank_on_side(r, r->memory->weight[param], r->side);
    if (r->graph->dtype == PST_F32) return pst_rank_write(r, weight, from, n * sizeof *from);
    return r->arith->narrow(r->device, r->graph->dtype, from, (uint16_t *)weight, n);
}

static pst_status init_weight(pst_rank *r, uint32_t p, pst_pool *pool) {
    const pst_rank_part part = pst_rank_fill_part(r, p);
    const uint64_t bytes = (part.to - part.from) * sizeof(float);
    float *weight = pst_rank_fill_at(r, p);
    void *host;
    if (!weight) return PST_OK;
    PST_TRY(pst_rank_map(r, weight, bytes, 0, &host));
    pst_param_initial(r->graph->param + p, (uint64_t)r->p->config->train.seed, part.from, part.to,
                      pool, host);
    PST_TRY(pst_rank_unmap(r, weight, bytes, 1, host));
    return pst_rank_filled(r, p);
}

static pst_status zero_state(const pst_rank *r, uint32_t p, uint32_t s) {
    const pst_rank_part part = pst_rank_part_of(r, p);
    void *state = pst_rank_state(r, p, s);
    return state ? pst_rank_fill(r, state, 0, (part.to - part.from) * r->memory->state_size)
                 : PST_OK;
}

/* all 0: not what is read from a state. */
static pst_status init_all(pst_rank *r, pst_pool *pool, int all) {
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        if (all || r->graph->param[i].frozen) PST_TRY(init_weight(r, i, pool));
        for (uint32_t s = 0; all && r->p->optim && s < r->p->optim->n_state; s++)
            PST_TRY(zero_state(r, i, s));
        float *residual = pst_rank_residual(r, i);
        const uint64_t n = pst_param_elements(r->graph->param + i);
        float *second = pst_rank_second(r, i);
        if (residual) PST_TRY(pst_rank_fill(r, residual, 0, n * sizeof *residual));
        if (second) PST_TRY(pst_rank_fill(r, second, 0, n * sizeof *second));
        if (pst_rank_basis(r, i))
            PST_TRY(pst_rank_fill(r, pst_rank_basis(r, i), 0,
                                  pst_rank_basis_elements(r, i) * sizeof(float)));
    }
    return PST_OK;
}

/* A device without CPU threads: draws with the rank's share of the processors. */
static pst_status init(pst_rank *r, int all) {
    pst_pool *own = NULL;
    if (!r->device->pool) PST_TRY(pst_pool_open(r->p->options.threads, NULL, NULL, &own));
    pst_status status = init_all(r, own ? own : r->device->pool, all);
    pst_pool_close(own);
    return status == PST_OK && all ? pst_rank_refresh(r) : status;
}

static pst_status begin_differences(const pst_rank *r, uint32_t i) {
    const pst_memory_map *x = r->memory;
    const uint64_t bytes = (x->own_to[i] - x->own_from[i]) * sizeof(float);
    if (!pst_rank_base(r, i)) return PST_OK;
    const float *weight = pst_rank_weight(r, i) + (x->own_from[i] - x->step_from[i]);
    PST_TRY(pst_rank_copy(r, pst_rank_base(r, i), weight, bytes));
    return pst_rank_fill(r, pst_rank_left(r, i), 0, bytes);
}

pst_status pst_rank_init_weights(pst_rank *r) { return init(r, 1); }

pst_status pst_rank_init_others(pst_rank *r) { return init(r, 0); }

pst_status pst_rank_begin_outer(const pst_rank *r) {
    const pst_memory_map *x = r->memory;
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        float *old = pst_rank_old(r, i), *velocity = pst_rank_velocity(r, i);
        PST_TRY(begin_differences(r, i));
        if (!old) continue;
        const uint64_t bytes = (x->outer_to[i] - x->outer_from[i]) * sizeof *old;
        const float *weight = pst_rank_weight(r, i) + (x->outer_from[i] - x->step_from[i]);
        PST_TRY(pst_rank_copy(r, old, weight, bytes));
        if (velocity) PST_TRY(pst_rank_fill(r, velocity, 0, bytes));
    }
    return pst_rank_wait(r);
}
