/* Gathers complete parameters from the parts of tensor ranks and the shards of owners; for
 * hashes, and for programs that read weights. */
#include "graph/slice.h"
#include "group/group.h"
#include <stdlib.h>
#include <string.h>

static int is_sliced(const pst_prepared *p, uint32_t param) {
    return p->graph->param[param].slice.held == PST_HELD_PART;
}

/* The stage of the parameter's first use. */
static uint32_t stage_of(const pst_prepared *p, uint32_t param) {
    return p->plan->layout.rank_of_chunk[p->cut->use_chunk[p->cut->use_first[param]]];
}

static uint32_t rank_of(const pst_prepared *p, uint32_t param, uint32_t owner, uint32_t tensor) {
    return pst_grid_rank(p->grid, stage_of(p, param), owner, tensor);
}

int pst_group_is_scattered(const pst_prepared *p, uint32_t param) {
    uint32_t parts = 0;
    if (p->graph->param[param].frozen) return 0; /* nothing of it is gathered */
    const int islands = p->job->islands > 1;
    for (uint32_t k = 0; k < pst_grid_owners(p->grid); k++) {
        const pst_memory_map *x = p->memory[rank_of(p, param, k, 0)];
        parts += islands ? x->outer_to[param] > x->outer_from[param]
                         : x->own_to[param] > x->own_from[param];
    }
    return is_sliced(p, param) || ((p->job->zero || islands) && parts > 1);
}

/* Broadcasts a tensor rank's part of the parameter, shard by shard, to every rank. */
static pst_status broadcast_shards(pst_group *g, const pst_prepared *p, uint32_t param,
                                   uint32_t tensor, float *held) {
    pst_status status = PST_OK;
    for (uint32_t k = 0; k < pst_grid_owners(p->grid) && status == PST_OK; k++) {
        uint32_t root = rank_of(p, param, k, tensor);
        const pst_memory_map *x = p->memory[root];
        const int islands = p->job->islands > 1;
        uint64_t from = islands ? x->outer_from[param] : x->own_from[param],
                 n = (islands ? x->outer_to[param] : x->own_to[param]) - from;
        if (!n) continue;
        for (uint32_t i = 0; i < g->n_local; i++)
            if (g->local[i]->rank == root)
                PST_TRY(pst_rank_read(g->local[i], held + from,
                                      pst_rank_global_of(g->local[i], param).weight,
                                      n * sizeof *held));
        status = pst_group_broadcast(g, held + from, n * sizeof *held, root);
    }
    return status;
}

/* Writes a tensor rank's part of a parameter to the ranks of this process that have it all. */
static pst_status write_weight(const pst_group *g, uint32_t param, uint32_t tensor,
                               const float *held) {
    for (uint32_t i = 0; i < g->n_local; i++) {
        pst_rank *r = g->local[i];
        const uint64_t offset = r->memory->weight[param];
        if (offset == UINT64_MAX || r->memory->serves || r->place.tensor != tensor) continue;
        PST_TRY(pst_rank_take_weight(r, param, held));
    }
    return PST_OK;
}

pst_status pst_group_spread_weights(pst_group *g, const pst_prepared *p) {
    uint64_t most = 0;
    for (uint32_t t = 0; t < p->grid.tensor; t++)
        for (uint32_t i = 0; i < p->graph->n_param; i++) {
            const uint64_t n = pst_param_elements(p->graphs[t]->param + i);
            most = n > most ? n : most;
        }
    float *held = malloc((most + 1) * sizeof *held);
    pst_status status =
        pst_group_agree(g, held ? PST_OK : pst_fail(PST_ENOMEM, "no memory to gather weights"));
    for (uint32_t t = 0; t < p->grid.tensor && status == PST_OK; t++)
        for (uint32_t i = 0; i < p->graph->n_param && status == PST_OK; i++) {
            if (!pst_param_gradients(p->graph->param + i)) continue;
            status = broadcast_shards(g, p, i, t, held);
            if (status == PST_OK) status = write_weight(g, i, t, held);
        }
    free(held);
    return status;
}

pst_status pst_group_gather_param(pst_group *g, const pst_prepared *p, uint32_t param,
                                  float *full) {
    if (!is_sliced(p, param)) return broadcast_shards(g, p, param, 0, full);
    uint64_t most = 0;
    uint32_t parts = pst_grid_degree(p->grid, stage_of(p, param));
    for (uint32_t t = 0; t < parts; t++) {
        uint64_t n = pst_param_elements(p->graphs[t]->param + param);
        if (n > most) most = n;
    }
    float *held = malloc(most * sizeof *held);
    pst_status status =
        pst_group_agree(g, held ? PST_OK : pst_fail(PST_ENOMEM, "no memory to gather a parameter"));
    for (uint32_t t = 0; t < parts && status == PST_OK; t++) {
        status = broadcast_shards(g, p, param, t, held);
        if (status == PST_OK) pst_slice_put(p->graphs[t]->param + param, held, full);
    }
    free(held);
    return status;
}
