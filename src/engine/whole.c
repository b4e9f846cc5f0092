/* Whole parameters out of the parts that tensor ranks hold, for hashes and for programs that read weights. */
#include "engine/group.h"
#include "graph/shard.h"
#include <stdlib.h>
#include <string.h>

/* Every replica has all weights between steps; the first one gives them. */
static uint32_t owner_of(const pst_prepared *p, uint32_t param) {
    uint32_t stage = p->plan->rank_of_chunk[p->cut->use_chunk[p->cut->use_first[param]]];
    return pst_grid_rank(p->grid, stage, 0, 0);
}

static int takes_part(const pst_rank *r, uint32_t owner) {
    return r->at.replica == 0 && r->rank - r->at.tensor == owner;
}

/* Room for all parts, this rank's own in its place. */
static pst_status bring(const pst_rank *r, uint32_t param, const uint64_t *bytes, void **mem) {
    uint64_t all = 0, before = 0;
    for (uint32_t t = 0; t < r->p->grid.tensor; t++) all += bytes[t], before += t < r->at.tensor ? bytes[t] : 0;
    if (!(*mem = malloc(all))) return pst_fail(PST_ENOMEM, "no memory for parameter %s", r->graph->param[param].name);
    memcpy((uint8_t *)*mem + before, pst_rank_weight(r, param), bytes[r->at.tensor]);
    return PST_OK;
}

static void put_together(const pst_prepared *p, uint32_t param, const float *parts, float *whole) {
    for (uint32_t t = 0; t < p->grid.tensor; t++) {
        pst_param_put(p->graphs[t]->param + param, parts, whole);
        parts += pst_param_elements(p->graphs[t]->param + param);
    }
}

pst_status pst_group_whole(pst_group *g, const pst_prepared *p, uint32_t param, float *whole, uint32_t *owner) {
    void **mem = calloc(g->n_local, sizeof *mem);
    uint64_t *bytes = calloc(p->grid.tensor, sizeof *bytes);
    pst_status status = mem && bytes ? PST_OK : pst_fail(PST_ENOMEM, "no memory to gather a parameter");
    *owner = owner_of(p, param);
    for (uint32_t t = 0; bytes && t < p->grid.tensor; t++)
        bytes[t] = pst_param_elements(p->graphs[t]->param + param) * sizeof(float);
    for (uint32_t k = 0; status == PST_OK && k < g->n_local; k++)
        if (takes_part(g->local[k], *owner)) status = bring(g->local[k], param, bytes, &mem[k]);
    status = pst_group_agree(g, status);
    if (status == PST_OK) status = pst_group_tensor_parts(g, mem, bytes);
    for (uint32_t k = 0; status == PST_OK && k < g->n_local; k++)
        if (g->local[k]->rank == *owner) put_together(p, param, mem[k], whole);
    for (uint32_t k = 0; mem && k < g->n_local; k++) free(mem[k]);
    free(mem), free(bytes);
    return status;
}

/* --- masters ---------------------------------------------------------------------------------------------------- */

/* Elements [from, to) of the master weight of a parameter on rank `root`, to all ranks of its tensor rank that hold it. */
static pst_status spread(pst_group *g, uint32_t root, uint32_t tensor, uint32_t param, uint64_t from, uint64_t to,
                         float *room) {
    size_t bytes = (to - from) * sizeof *room;
    for (uint32_t k = 0; k < g->n_local; k++)
        if (g->local[k]->rank == root) memcpy(room, pst_rank_weight(g->local[k], param) + from, bytes);
    PST_TRY(pst_group_broadcast(g, room, bytes, root));
    for (uint32_t k = 0; k < g->n_local; k++) {
        float *weight = g->local[k]->at.tensor == tensor ? pst_rank_weight(g->local[k], param) : NULL;
        if (weight && g->local[k]->rank != root) memcpy(weight + from, room, bytes);
    }
    return PST_OK;
}

static pst_status spread_param(pst_group *g, const pst_prepared *p, uint32_t param, float *room) {
    uint32_t stage = pst_grid_at(p->grid, owner_of(p, param)).stage;
    for (uint32_t t = 0; t < p->grid.tensor; t++)
        for (uint32_t k = 0; k < p->grid.data; k++) {
            uint32_t root = pst_grid_rank(p->grid, stage, k, t);
            const pst_layout *x = p->layout[root];
            for (uint64_t from = x->own_from[param]; from < x->own_to[param]; from += PST_PIECE) {
                uint64_t to = x->own_to[param] - from < PST_PIECE ? x->own_to[param] : from + PST_PIECE;
                PST_TRY(spread(g, root, t, param, from, to, room));
            }
        }
    return PST_OK;
}

pst_status pst_group_masters(pst_group *g, const pst_prepared *p) {
    if (p->graph->dtype == PST_F32 || !p->job->zero) return PST_OK;
    float *room = malloc(PST_PIECE * sizeof *room);
    pst_status status = pst_group_agree(g, room ? PST_OK : pst_fail(PST_ENOMEM, "no memory to gather master weights"));
    for (uint32_t i = 0; status == PST_OK && i < p->graph->n_param; i++) status = spread_param(g, p, i, room);
    free(room);
    return status;
}
