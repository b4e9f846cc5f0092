/* All downsets if they are few enough, else those near one order of the items. See downset.h. */
#include "partition/foreign/downset.h"
#include <stdlib.h>
#include <string.h>

pst_status pst_downset_list_near(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                 pst_downset_window window, pst_downset_list *list) {
    const uint32_t width = window.width, *order = window.order;
    size_t capacity = n_edge + (size_t)n_item * width;
    pst_downset_edge *more = malloc((capacity + 1) * sizeof *more);
    *list = (pst_downset_list){0};
    if (!more) return pst_no_memory("for the order of items");
    memcpy(more, edge, n_edge * sizeof *more);
    for (uint32_t i = 0; i < n_item; i++) /* two such edges imply edges to items further away */
        for (uint32_t j = i + width; j < n_item && j < i + 2 * width; j++)
            more[n_edge++] = (pst_downset_edge){order[i], order[j]};
    pst_status status = pst_downset_list_open(n_item, more, n_edge, window.most, list);
    free(more);
    return status;
}

pst_status pst_downset_list_choose(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                   uint32_t most, pst_downset_list *list, int *complete) {
    PST_TRY(pst_downset_list_open(n_item, edge, n_edge, most, list));
    *complete = list->n > 0;
    if (list->n) return PST_OK;
    uint32_t *order = malloc(n_item * sizeof *order);
    pst_status status = order ? pst_downset_order(n_item, edge, n_edge, order)
                              : pst_no_memory("for the order of items");
    for (uint32_t width = 64; status == PST_OK && width && !list->n; width /= 2) {
        const pst_downset_window window = {order, width, width > 1 ? most : UINT32_MAX / 2};
        status = pst_downset_list_near(n_item, edge, n_edge, window, list);
    }
    free(order);
    return status;
}
