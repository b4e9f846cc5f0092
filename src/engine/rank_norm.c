/* The norm of a step: each rank's sums of squares, of what it answers for, and its losses; rank 0 adds those of all in
 * an order that no layout changes. */
#include "engine/rank.h"
#include <math.h>
#include <stdlib.h>

static void *at(const pst_rank *r, uint64_t offset) { return r->arena.base + offset; }

/* --- who answers for what --------------------------------------------------------------------------------------- */

/* What all tensor ranks have alike, the first one answers for. */
static int counts(const pst_prepared *p, uint32_t rank, uint32_t param) {
    uint32_t t = pst_grid_at(p->grid, rank).tensor;
    return t == 0 || p->graphs[t]->param[param].slice.held == PST_HELD_PART;
}

int pst_rank_stores(const pst_rank *r, uint32_t param) {
    return r->layout->own_to[param] > r->layout->own_from[param] && counts(r->p, r->rank, param);
}

int pst_rank_owns(const pst_rank *r, uint32_t param) {
    return pst_rank_stores(r, param) && r->layout->own_from[param] == 0;
}

/* --- a rank's own ----------------------------------------------------------------------------------------------- */

double pst_rank_losses(const pst_rank *r, uint32_t micro) {
    const pst_graph *g = r->graph;
    double all = 0;
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        const float *loss = g->tensor[t].role == PST_TENSOR_OUTPUT ? pst_rank_output(r, t, micro) : NULL;
        uint64_t n = loss ? pst_tensor_elements(g->tensor + t) : 0;
        for (uint64_t i = 0; i < n; i++) all += loss[i];
    }
    return all;
}

pst_status pst_rank_norm(pst_device *device, const void *block) {
    pst_rank *r = ((const pst_rank_flush *)block)->rank;
    const pst_layout *x = r->layout;
    double *out = at(r, x->norm_own);
    for (uint32_t m = 0; m < r->n_micro; m++) *out++ = pst_rank_losses(r, m);
    for (uint32_t i = 0; i < x->n_owned; i++) {
        uint32_t param = x->owned[i];
        for (uint64_t from = x->own_from[param]; from < x->own_to[param]; from += PST_PIECE) {
            uint64_t left = x->own_to[param] - from;
            *out++ = r->flat->sum_squares(device->pool, pst_rank_sum(r, param, from),
                                          left < PST_PIECE ? left : PST_PIECE);
        }
    }
    return PST_OK;
}

/* --- of all ----------------------------------------------------------------------------------------------------- */

/* Micro-batch after micro-batch of the step, whoever computed it; of a pipeline's stages one has losses. */
static double add_losses(const pst_rank *r) {
    const pst_prepared *p = r->p;
    double sum = 0;
    for (uint32_t k = 0; k < p->grid.data; k++)
        for (uint32_t m = 0; m < p->micro[k + 1] - p->micro[k]; m++)
            for (uint32_t s = 0; s < p->grid.pipeline; s++) {
                uint32_t rank = pst_grid_rank(p->grid, s, k, 0);
                sum += ((const double *)at(r, r->layout->norm_of_rank[rank]))[m];
            }
    return sum;
}

pst_status pst_rank_gather(pst_device *device, const void *block) {
    (void)device;
    pst_rank *r = ((const pst_rank_flush *)block)->rank;
    double *answer = at(r, r->layout->norm_answer), squares = 0;
    for (uint32_t i = 0; i < r->n_term; i++) squares += *(const double *)at(r, r->term[i]);
    answer[0] = add_losses(r);
    answer[1] = sqrt(squares) / r->loss_scale;
    double clip = r->p->config->train.clip;
    answer[2] = clip > 0 && answer[1] > clip ? clip / (answer[1] + 1e-6) : 1.0;
    return PST_OK;
}

/* Rank i in the order of tensor ranks, of each one's replicas, and of their stages. */
static uint32_t by_part(pst_grid grid, uint32_t i) {
    uint32_t stage = i % grid.pipeline, lane = i / grid.pipeline;
    return pst_grid_rank(grid, stage, lane % grid.data, lane / grid.data);
}

/* Where rank 0 finds every piece's sum of squares, by parameter in name order: in the message of the rank that answers
 * for it. Of one parameter, tensor ranks have parts in their own order, and replicas have pieces of each in theirs: the
 * same order whichever replica answers for which piece. */
pst_status pst_rank_find_terms(pst_rank *r) {
    const pst_prepared *p = r->p;
    uint32_t n = p->graph->n_param, n_rank = p->options.n_rank, *order = malloc((n + (size_t)1) * sizeof *order);
    uint32_t *next = calloc(n_rank, sizeof *next), most = 0;
    for (uint32_t k = 0; k < n_rank; k++) most += r->layout->piece_of_rank[k];
    r->term = calloc(most + (size_t)1, sizeof *r->term);
    pst_status status = order && next && r->term ? PST_OK : pst_fail(PST_ENOMEM, "no memory to add norms");
    if (status == PST_OK) pst_graph_param_order(p->graph, order);
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        for (uint32_t j = 0; j < n_rank; j++) {
            uint32_t k = by_part(p->grid, j);
            const pst_layout *of = p->layout[k];
            uint64_t first = r->layout->norm_of_rank[k] + of->loss_of_rank[k] * sizeof(double);
            for (uint32_t m = pst_pieces(of->own_to[order[i]] - of->own_from[order[i]]); m > 0; m--, next[k]++)
                if (counts(p, k, order[i])) r->term[r->n_term++] = first + next[k] * sizeof(double);
        }
    free(order), free(next);
    return status;
}
