/* The candidates of a row as a value, and rows in order. */
#include "partition/search/drive.h"
#include "partition/search/score.h"
#include <stdlib.h>

void pst_search_lot_close(pst_search_lot *lot) {
    pst_layout_close(lot->row.layout);
    pst_layout_close(lot->sure);
    free(lot->row.before);
    free(lot->config);
    free(lot->orders.device);
    *lot = (pst_search_lot){0};
}

int pst_search_by_guess(const void *a, const void *b) {
    const pst_search_lot *x = a, *y = b;
    uint64_t p = x->n_config ? x->config[0].guess_ns : UINT64_MAX,
             q = y->n_config ? y->config[0].guess_ns : UINT64_MAX;
    if (p != q) return p < q ? -1 : 1;
    if (x->row.tensor != y->row.tensor) return x->row.tensor < y->row.tensor ? -1 : 1;
    return (x->row.pipeline > y->row.pipeline) - (x->row.pipeline < y->row.pipeline);
}

static int by_step(const void *a, const void *b) {
    const pst_search_lot *x = a, *y = b;
    uint64_t p = pst_search_step_of(x), q = pst_search_step_of(y);
    if (p != q) return p < q ? -1 : 1;
    if (!x->row.layout != !y->row.layout) return x->row.layout ? -1 : 1;
    if (x->row.excess != y->row.excess) return x->row.excess < y->row.excess ? -1 : 1;
    return pst_search_by_guess(a, b);
}

void pst_search_sort(pst_search_all *s) { qsort(s->lot, s->n_lot, sizeof *s->lot, by_step); }

pst_status pst_search_account_row(pst_search_all *s, pst_search_lot *lot) {
    if (lot->accounted || !lot->row.layout || !lot->row.fits) return PST_OK;
    lot->accounted = 1;
    return pst_search_account(&s->x, &lot->best, lot->row.layout);
}

uint64_t pst_search_shortest(const pst_search_all *s) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_lot; i++)
        if (pst_search_step_of(&s->lot[i]) < least) least = pst_search_step_of(&s->lot[i]);
    return least;
}
