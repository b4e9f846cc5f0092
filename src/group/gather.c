/* Gathers complete parameters from the parts of tensor ranks and the shards of replicas; for
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

static uint32_t rank_of(const pst_prepared *p, uint32_t param, uint32_t replica, uint32_t tensor) {
    return pst_grid_rank(p->grid, stage_of(p, param), replica, tensor);
}

int pst_group_is_scattered(const pst_prepared *p, uint32_t param) {
    uint32_t parts = 0;
    if (p->graph->param[param].frozen) return 0; /* nothing of it is gathered */
    const int islands = p->job->islands > 1;
    for (uint32_t k = 0; k < p->grid.data; k++) {
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
    for (uint32_t k = 0; k < p->grid.data && status == PST_OK; k++) {
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
