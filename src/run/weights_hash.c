/* The hash of all weights, whichever rank holds them. */
#include "checkpoint/checkpoint.h"
#include "run/resume.h"
#include <stdlib.h>

/* A parameter that no rank holds completely: all ranks gather it, and one computes its hash; they
 * take turns. hash: [n_local][n_param] */
static pst_status hash_scattered(const pst_trainer *t, uint32_t param, uint64_t *hash) {
    const pst_param *whole = t->p->whole->param + param;
    float *room = malloc(pst_param_elements(whole) * sizeof *room);
    pst_status status = room ? PST_OK : pst_fail(PST_ENOMEM, "no memory to hash the weights");
    status = pst_group_agree(t->group, status);
    if (status == PST_OK) status = pst_group_gather_param(t->group, t->p, param, room);
    for (uint32_t k = 0; status == PST_OK && k < t->group->n_local; k++)
        if (t->group->local[k]->rank == param % t->group->n_rank)
            hash[(size_t)k * t->p->whole->n_param + param] = pst_weights_hash_one(whole, room);
    free(room);
    return status;
}

static pst_status hash_own(const pst_rank *r, uint32_t param, uint64_t *hash) {
    float *weight = (float *)(uintptr_t)pst_rank_global_of(r, param).weight; /* only read */
    uint64_t bytes = pst_param_elements(r->graph->param + param) * sizeof *weight;
    void *host;
    PST_TRY(pst_rank_map(r, weight, bytes, 1, &host));
    *hash = pst_weights_hash_one(r->p->whole->param + param, host);
    return pst_rank_unmap(r, weight, bytes, 0, host);
}

pst_status pst_weights_hash_all(pst_trainer *t, uint64_t *out) {
    const pst_graph *g = t->p->whole;
    uint32_t n_local = t->group->n_local, n_rank = t->p->options.n_rank, n = g->n_param;
    uint64_t *mine = calloc((size_t)n_local * n, sizeof *mine),
             *all = calloc((size_t)n_rank * n, sizeof *all);
    pst_status status =
        mine && all ? PST_OK : pst_fail(PST_ENOMEM, "no memory to hash the weights");
    for (uint32_t k = 0; k < n_local; k++)
        for (uint32_t i = 0; status == PST_OK && i < n; i++)
            if (pst_rank_owns(t->group->local[k], i) && !pst_group_is_scattered(t->p, i))
                status = hash_own(t->group->local[k], i, &mine[(size_t)k * n + i]);
    status = pst_group_agree(t->group, status);
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        if (pst_group_is_scattered(t->p, i)) status = hash_scattered(t, i, mine);
    if (status == PST_OK) status = pst_group_all_gather(t->group, mine, n * sizeof *mine, all);
    for (uint32_t r = 1; status == PST_OK && r < n_rank; r++) /* each has one owner: the others hold
                                                                 0 */
        for (uint32_t i = 0; i < n; i++) all[i] |= all[(size_t)r * n + i];
    if (status == PST_OK) status = pst_weights_hash(g, all, out);
    free(mine);
    free(all);
    return status;
}
