/* Opens, copies and closes candidates. */
#include "partition/search/space.h"
#include <stdlib.h>
#include <string.h>

static pst_status open_like(const pst_layout *like, pst_candidate **candidate) {
    pst_candidate *c = calloc(1, sizeof *c);
    if (c) c->peak_bytes = calloc(like->pipeline, sizeof *c->peak_bytes);
    if (c) c->in_flight = calloc(like->pipeline, sizeof *c->in_flight);
    pst_status status =
        c && c->peak_bytes && c->in_flight
            ? pst_layout_open(like, &c->layout)
            : pst_fail(PST_ENOMEM, "no memory for a layout of %u chunks", like->n_chunk);
    if (status == PST_OK) *candidate = c;
    else pst_candidate_close(c);
    return status;
}

pst_status pst_candidate_open(const pst_search_problem *problem, const pst_search_config *c,
                              uint32_t n_chunk, pst_candidate **candidate) {
    pst_layout like = {.pipeline = c->pipeline,
                       .data = c->data,
                       .tensor = c->tensor,
                       .tensor_before = (uint32_t *)(uintptr_t)c->before, /* only read */
                       .sequence = c->sequence,
                       .zero = c->zero,
                       .micro_batch = c->micro_batch,
                       .chunks = n_chunk / c->pipeline,
                       .n_item = problem->n_item,
                       .n_chunk = n_chunk};
    pst_layout_divide(&like, problem->batch);
    snprintf(like.schedule, sizeof like.schedule, "%s", problem->schedule[c->schedule]);
    return open_like(&like, candidate);
}

void pst_candidate_close(pst_candidate *c) {
    if (!c) return;
    pst_layout_close(&c->layout);
    free(c->peak_bytes);
    free(c->in_flight);
    free(c);
}

pst_status pst_candidate_copy(const pst_candidate *from, pst_candidate **candidate) {
    const size_t stages = from->layout.pipeline;
    pst_candidate *c = malloc(sizeof *c);
    if (!c)
        return pst_fail(PST_ENOMEM, "no memory for a layout of %u chunks", from->layout.n_chunk);
    *c = *from;
    c->peak_bytes = malloc(stages * sizeof *c->peak_bytes);
    c->in_flight = malloc(stages * sizeof *c->in_flight);
    pst_status status =
        c->peak_bytes && c->in_flight
            ? pst_layout_copy(&from->layout, &c->layout)
            : pst_fail(PST_ENOMEM, "no memory for a layout of %u chunks", from->layout.n_chunk);
    if (status != PST_OK) {
        free(c->peak_bytes);
        free(c->in_flight);
        free(c);
        return status;
    }
    memcpy(c->peak_bytes, from->peak_bytes, stages * sizeof *c->peak_bytes);
    memcpy(c->in_flight, from->in_flight, stages * sizeof *c->in_flight);
    *candidate = c;
    return PST_OK;
}
