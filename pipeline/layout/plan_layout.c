/* A layout as a plan, and back. plan.h declares it. */
#include "pipeline/layout/plan.h"
#include <stdlib.h>
#include <string.h>

static pst_status copy_array(const uint32_t *from, size_t n, uint32_t **to) {
    if (!from) return PST_OK;
    if (!(*to = malloc(n * sizeof **to)))
        return pst_fail(PST_ENOMEM, "no memory for a plan of %zu ranks", n);
    memcpy(*to, from, n * sizeof **to);
    return PST_OK;
}

pst_status pst_plan_take_layout(pst_plan *p, const pst_layout *l) {
    const size_t ranks = pst_grid_size(pst_layout_grid(l));
    uint32_t *before = NULL, *micros = NULL, *device = NULL;
    pst_status status = copy_array(l->before, l->pipeline + (size_t)1, &before);
    if (status == PST_OK) status = copy_array(l->micros, l->data, &micros);
    if (status == PST_OK) status = copy_array(l->device, ranks, &device);
    if (status != PST_OK) {
        free(before);
        free(micros);
        free(device);
        return status;
    }
    free(p->before);
    free(p->micros);
    free(p->device);
    p->before = before;
    p->micros = micros;
    p->device = device;
    p->data = l->data;
    p->tensor = l->tensor;
    p->sequence = l->sequence;
    p->zero = l->zero;
    return PST_OK;
}

pst_status pst_plan_of_layout(const pst_layout *l, const pst_graph *graph, pst_plan **plan) {
    pst_plan *p;
    PST_TRY(pst_plan_open(l->n_item, l->pipeline, l->n_chunk, &p));
    pst_status status = pst_plan_take_layout(p, l);
    if (status != PST_OK) {
        pst_plan_close(p);
        return status;
    }
    p->graph_hash = pst_graph_hash(graph);
    snprintf(p->schedule, sizeof p->schedule, "%s", l->schedule);
    p->n_micro = l->n_micro;
    p->micro_batch = l->micro_batch;
    for (uint32_t c = 0; c < l->n_chunk; c++) {
        p->rank_of_chunk[c] = l->rank_of_chunk[c];
        p->recompute[c] = l->recompute[l->n_recompute == 1 ? 0 : c];
        for (uint32_t i = l->first_item[c]; i < l->first_item[c + 1]; i++) p->chunk_of_node[i] = c;
    }
    *plan = p;
    return PST_OK;
}

pst_status pst_plan_layout(const pst_plan *p, pst_layout *layout) {
    const pst_layout like = {.pipeline = p->n_rank,
                             .data = p->data ? p->data : 1,
                             .tensor = p->tensor ? p->tensor : 1,
                             .before = p->before,
                             .sequence = p->sequence,
                             .zero = p->zero,
                             .device = p->device,
                             .micro_batch = p->micro_batch,
                             .n_micro = p->n_micro,
                             .micros = p->micros,
                             .chunks = p->n_rank ? p->n_chunk / p->n_rank : 0,
                             .n_recompute = p->n_chunk,
                             .recompute = p->recompute,
                             .n_item = p->n_node,
                             .n_chunk = p->n_chunk,
                             .first_item = calloc(p->n_chunk + (size_t)1, sizeof(uint32_t)),
                             .rank_of_chunk = p->rank_of_chunk};
    pst_layout l;
    if (!like.first_item)
        return pst_fail(PST_ENOMEM, "no memory for a plan of %u chunks", p->n_chunk);
    for (uint32_t i = 0; i < p->n_node; i++)
        if (p->chunk_of_node[i] < p->n_chunk) like.first_item[p->chunk_of_node[i] + 1] = i + 1;
    pst_status status = pst_layout_copy(&like, &l);
    free(like.first_item);
    PST_TRY(status);
    snprintf(l.schedule, sizeof l.schedule, "%s", p->schedule);
    *layout = l;
    return PST_OK;
}
