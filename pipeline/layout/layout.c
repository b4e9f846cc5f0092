/* See layout.h. */
#include "pipeline/layout/layout.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const recompute_name[] = {"none", "selective", "full"};
enum { NAMES = sizeof recompute_name / sizeof *recompute_name };

const char *pst_recompute_text(pst_recompute_way way, char text[PST_RECOMPUTE_TEXT]) {
    const pst_recompute mode = pst_recompute_mode(way);
    const char *name = (uint32_t)mode < NAMES ? recompute_name[mode] : "?";
    if (mode == PST_RECOMPUTE_LAYERS)
        snprintf(text, PST_RECOMPUTE_TEXT, "{full: %u}", pst_recompute_layers(way));
    else snprintf(text, PST_RECOMPUTE_TEXT, "%s", name);
    return text;
}

int pst_recompute_keeps_more(pst_recompute_way a, pst_recompute_way b) {
    static const uint8_t rank[PST_RECOMPUTE_COUNT] = {[PST_RECOMPUTE_NONE] = 0,
                                                      [PST_RECOMPUTE_SELECTIVE] = 1,
                                                      [PST_RECOMPUTE_LAYERS] = 2,
                                                      [PST_RECOMPUTE_FULL] = 3};
    const uint8_t of_a = rank[pst_recompute_mode(a)], of_b = rank[pst_recompute_mode(b)];
    return of_a != of_b ? of_a < of_b : a < b;
}

pst_status pst_recompute_find(const char *text, pst_recompute_way *way) {
    unsigned layers = 0;
    int end = 0;
    for (uint32_t i = 0; i < NAMES; i++)
        if (!strcmp(recompute_name[i], text)) {
            *way = i;
            return PST_OK;
        }
    if (sscanf(text, "{full: %8u}%n", &layers, &end) == 1 && end && !text[end] && layers &&
        layers <= PST_RECOMPUTE_MOST_LAYERS) {
        *way = pst_recompute_of_layers(layers);
        return PST_OK;
    }
    return pst_fail(PST_EINPUT,
                    "unknown recomputation '%.40s'; expected none, selective, full or {full: N} "
                    "with N layers per chunk",
                    text);
}

const char *pst_layout_rest_text(const pst_layout *l, char text[PST_LAYOUT_REST_TEXT]) {
    *text = 0;
    if (l->rest) snprintf(text, PST_LAYOUT_REST_TEXT, ", the first of %u", l->rest);
    return text;
}

void pst_layout_close(pst_layout *l) {
    free(l->tensor_before);
    free(l->device);
    free(l->micros);
    free(l->recompute);
    free(l->first_item);
    free(l->rank_of_chunk);
    l->tensor_before = l->device = l->micros = l->first_item = l->rank_of_chunk = NULL;
    l->recompute = NULL;
}

/* Hands out `made` if all of its arrays could be allocated, else frees it. */
static pst_status give(pst_layout *made, int whole, pst_layout *layout) {
    if (whole) {
        *layout = *made;
        return PST_OK;
    }
    pst_layout_close(made);
    return pst_no_memory("for a layout");
}

/* Sets the pointer at `to` to a copy of n items; 0 when memory is short. Without `from` there is
 * nothing to copy. */
static int copy(void *to, const void *from, size_t n, size_t bytes) {
    void *own = from ? malloc(n * bytes) : NULL;
    if (own) memcpy(own, from, n * bytes);
    memcpy(to, &own, sizeof own);
    return !own == !from;
}

pst_status pst_layout_open(const pst_layout *like, pst_layout *layout) {
    pst_layout l = *like;
    l.n_recompute = l.n_chunk;
    l.rank_of_chunk = NULL;
    l.device = calloc(pst_grid_size(pst_layout_grid(like)), sizeof *l.device);
    l.micros = calloc(l.data, sizeof *l.micros);
    l.recompute = calloc(l.n_chunk, sizeof *l.recompute);
    l.first_item = calloc(l.n_chunk + (size_t)1, sizeof *l.first_item);
    int done = copy(&l.tensor_before, like->tensor_before, l.pipeline + (size_t)1,
                    sizeof *l.tensor_before);
    return give(&l, done && l.device && l.micros && l.recompute && l.first_item, layout);
}

pst_status pst_layout_copy(const pst_layout *from, pst_layout *layout) {
    pst_layout l = *from;
    const size_t ranks = pst_grid_size(pst_layout_grid(from));
    int done = copy(&l.tensor_before, from->tensor_before, l.pipeline + (size_t)1,
                    sizeof *l.tensor_before);
    done &= copy(&l.device, from->device, ranks, sizeof *l.device);
    done &= copy(&l.micros, from->micros, l.data, sizeof *l.micros);
    done &= copy(&l.recompute, from->recompute, l.n_recompute, sizeof *l.recompute);
    done &= copy(&l.first_item, from->first_item, l.n_chunk + (size_t)1, sizeof *l.first_item);
    done &= copy(&l.rank_of_chunk, from->rank_of_chunk, l.n_chunk, sizeof *l.rank_of_chunk);
    return give(&l, done, layout);
}

pst_status pst_layout_open_cut(pst_layout *l, uint32_t n_item, uint32_t n_chunk) {
    uint32_t *first = calloc(n_chunk + (size_t)1, sizeof *first);
    uint32_t *rank = calloc(n_chunk + (size_t)1, sizeof *rank);
    pst_recompute_way *recompute = calloc(n_chunk + (size_t)1, sizeof *recompute);
    if (!first || !rank || !recompute) {
        free(first);
        free(rank);
        free(recompute);
        return pst_fail(PST_ENOMEM, "no memory for a layout of %u chunks", n_chunk);
    }
    free(l->first_item);
    free(l->rank_of_chunk);
    free(l->recompute);
    l->first_item = first;
    l->rank_of_chunk = rank;
    l->recompute = recompute;
    l->n_item = n_item;
    l->n_chunk = l->n_recompute = n_chunk;
    return PST_OK;
}

void pst_layout_chunks(const pst_layout *l, uint32_t *chunk) {
    for (uint32_t c = 0; c < l->n_chunk; c++)
        for (uint32_t i = l->first_item[c]; i < l->first_item[c + 1]; i++) chunk[i] = c;
}
