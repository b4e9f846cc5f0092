/* Layouts as values: opened, copied, closed. */
#include "partition/search/space.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_layout_open(const pst_search_problem *problem, const pst_search_config *c,
                           uint32_t n_chunk, pst_layout **layout) {
    pst_layout *l = calloc(1, sizeof *l);
    if (!l) goto no_memory;
    l->pipeline = c->pipeline;
    l->tensor = c->tensor;
    l->data = c->data;
    l->micro_batch = c->micro_batch;
    l->zero = c->zero;
    l->sequence = c->sequence;
    l->n_item = problem->n_item;
    l->n_chunk = n_chunk;
    l->n_micro = c->n_micro;
    l->chunks = n_chunk / c->pipeline;
    snprintf(l->schedule, sizeof l->schedule, "%s", problem->schedule[c->schedule]);
    l->first_item = calloc(n_chunk + 1, sizeof *l->first_item);
    l->recompute = calloc(n_chunk, sizeof *l->recompute);
    l->micros = calloc(c->data, sizeof *l->micros);
    l->device = calloc(pst_grid_size(pst_search_grid_of(c)), sizeof *l->device);
    l->before = c->before ? malloc((c->pipeline + (size_t)1) * sizeof *l->before) : NULL;
    l->peak_bytes = calloc(c->pipeline, sizeof *l->peak_bytes);

    l->in_flight = calloc(c->pipeline, sizeof *l->in_flight);
    if (!l->first_item || !l->recompute || !l->micros || !l->device || !l->peak_bytes ||
        !l->in_flight)
        goto no_memory;
    if (c->before && !l->before) goto no_memory;
    if (l->before) memcpy(l->before, c->before, (c->pipeline + (size_t)1) * sizeof *l->before);
    *layout = l;
    return PST_OK;
no_memory:
    pst_layout_close(l);
    return pst_fail(PST_ENOMEM, "no memory for a layout of %u chunks", n_chunk);
}

void pst_layout_close(pst_layout *l) {
    if (!l) return;
    free(l->first_item);
    free(l->recompute);
    free(l->micros);
    free(l->device);
    free(l->peak_bytes);
    free(l->in_flight);
    free(l->before);
    free(l);
}

pst_status pst_layout_copy(const pst_layout *from, pst_layout **layout) {
    const pst_search_problem like = {
        .n_item = from->n_item, .n_schedule = 1, .schedule = {from->schedule}};
    const pst_search_config c = {.pipeline = from->pipeline,
                                 .tensor = from->tensor,
                                 .data = from->data,
                                 .before = from->before};
    pst_layout *l;
    PST_TRY(pst_layout_open(&like, &c, from->n_chunk, &l));
    pst_layout own = *l;
    *l = *from;
    l->first_item = own.first_item;
    l->recompute = own.recompute;
    l->micros = own.micros;
    l->device = own.device;
    l->peak_bytes = own.peak_bytes;
    l->in_flight = own.in_flight;
    l->before = own.before;
    memcpy(l->first_item, from->first_item, (from->n_chunk + 1) * sizeof *l->first_item);
    memcpy(l->recompute, from->recompute, from->n_chunk);
    memcpy(l->micros, from->micros, from->data * sizeof *l->micros);
    memcpy(l->device, from->device, pst_grid_size(pst_search_grid(from)) * sizeof *l->device);
    memcpy(l->peak_bytes, from->peak_bytes, from->pipeline * sizeof *l->peak_bytes);
    memcpy(l->in_flight, from->in_flight, from->pipeline * sizeof *l->in_flight);
    *layout = l;
    return PST_OK;
}
