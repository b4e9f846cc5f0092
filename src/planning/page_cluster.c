/* See planning/page.h: the devices of the cluster, with the ranks on them. */
#include "planning/page_parts.h"
#include <stdlib.h>

pst_status pst_plan_page_cluster(const pst_prepared *p, pst_plan_page *page) {
    const pst_cluster *c = p->cluster;
    if (!c) return PST_OK;
    page->device = calloc(c->n_device, sizeof *page->device);
    if (!page->device) return pst_fail(PST_ENOMEM, "no memory for the report");
    page->n_device = c->n_device;
    for (uint32_t i = 0; i < c->n_device; i++) {
        page->device[i].node = c->device[i].node;
        snprintf(page->device[i].kind, sizeof page->device[i].kind, "%s",
                 c->kind[c->device[i].kind].name);
    }
    for (uint32_t r = 0; r < pst_grid_size(p->grid); r++) {
        pst_plan_device *d = &page->device[p->device[r]];
        d->used = 1;
        d->rank = r;
        d->place = pst_grid_at(p->grid, r);
    }
    return PST_OK;
}
