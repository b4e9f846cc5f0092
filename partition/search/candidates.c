/* The candidates of a row, and the order of rows. */
#include "partition/search/candidates.h"
#include "partition/search/score.h"
#include <stdlib.h>

void pst_search_candidates_close(pst_search_candidates *set) {
    pst_candidate_close(set->row.best);
    pst_candidate_close(set->verified);
    free(set->row.before);
    free(set->config);
    free(set->orders.device);
    *set = (pst_search_candidates){0};
}

int pst_search_by_guess(const void *a, const void *b) {
    const pst_search_candidates *x = a, *y = b;
    uint64_t p = x->n_config ? x->config[0].guess_ns : UINT64_MAX,
             q = y->n_config ? y->config[0].guess_ns : UINT64_MAX;
    if (p != q) return p < q ? -1 : 1;
    if (x->row.tensor != y->row.tensor) return x->row.tensor < y->row.tensor ? -1 : 1;
    return (x->row.pipeline > y->row.pipeline) - (x->row.pipeline < y->row.pipeline);
}

static int by_step(const void *a, const void *b) {
    const pst_search_candidates *x = a, *y = b;
    uint64_t p = pst_search_step_of(x), q = pst_search_step_of(y);
    if (p != q) return p < q ? -1 : 1;
    if (!x->row.best != !y->row.best) return x->row.best ? -1 : 1;
    if (x->row.excess != y->row.excess) return x->row.excess < y->row.excess ? -1 : 1;
    return pst_search_by_guess(a, b);
}

void pst_search_sort(pst_search_state *s) { qsort(s->set, s->n_set, sizeof *s->set, by_step); }

pst_status pst_search_attribute_row(pst_search_state *s, pst_search_candidates *set) {
    if (set->attributed || !set->row.best || !set->row.fits) return PST_OK;
    set->attributed = 1;
    return pst_search_attribute(&s->x, &set->best_config, set->row.best);
}

uint64_t pst_search_shortest(const pst_search_state *s) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_set; i++)
        if (pst_search_step_of(&s->set[i]) < least) least = pst_search_step_of(&s->set[i]);
    return least;
}
