/* See layout.h. */
#include "pipeline/layout/layout.h"
#include <stdlib.h>
#include <string.h>

static const char *const recompute_name[PST_RECOMPUTE_COUNT] = {"none", "selective", "full"};

const char *pst_recompute_name(pst_recompute r) {
    return (unsigned)r < PST_RECOMPUTE_COUNT ? recompute_name[r] : "?";
}

pst_status pst_recompute_find(const char *name, pst_recompute *recompute) {
    for (uint32_t i = 0; i < PST_RECOMPUTE_COUNT; i++)
        if (!strcmp(recompute_name[i], name)) {
            *recompute = (pst_recompute)i;
            return PST_OK;
        }
    return pst_fail(PST_EINPUT, "unknown recomputation '%.40s' (there are: none, selective, full)",
                    name);
}

void pst_layout_close(pst_layout *l) {
    free(l->before);
    free(l->device);
    free(l->micros);
    free(l->first_item);
    free(l->recompute);
    l->before = l->device = l->micros = l->first_item = NULL;
    l->recompute = NULL;
}

pst_status pst_layout_open(const pst_layout *like, pst_layout *layout) {
    pst_layout l = *like;
    const size_t degrees = (like->pipeline + (size_t)1) * sizeof *l.before;
    l.before = like->before ? malloc(degrees) : NULL;
    if (l.before) memcpy(l.before, like->before, degrees);
    l.device = calloc(pst_grid_size(pst_layout_grid(like)), sizeof *l.device);
    l.micros = calloc(l.data, sizeof *l.micros);
    l.first_item = calloc(l.n_chunk + (size_t)1, sizeof *l.first_item);
    l.recompute = calloc(l.n_chunk + (size_t)1, sizeof *l.recompute);
    if (l.device && l.micros && l.first_item && l.recompute && !l.before == !like->before) {
        *layout = l;
        return PST_OK;
    }
    pst_layout_close(&l);
    return pst_fail(PST_ENOMEM, "no memory for a layout of %u chunks", like->n_chunk);
}

/* to: NULL afterwards where `from` is. */
static void take(uint32_t **to, const uint32_t *from, size_t n) {
    if (from) memcpy(*to, from, n * sizeof **to);
    if (from) return;
    free(*to);
    *to = NULL;
}

pst_status pst_layout_copy(const pst_layout *from, pst_layout *layout) {
    pst_layout l;
    PST_TRY(pst_layout_open(from, &l));
    take(&l.device, from->device, pst_grid_size(pst_layout_grid(from)));
    take(&l.micros, from->micros, from->data);
    take(&l.first_item, from->first_item, from->n_chunk + (size_t)1);
    if (from->recompute) memcpy(l.recompute, from->recompute, from->n_chunk);
    *layout = l;
    return PST_OK;
}
