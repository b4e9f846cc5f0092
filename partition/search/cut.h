/* Where chunks begin and end. */
#ifndef PST_PARTITION_SEARCH_CUT_H
#define PST_PARTITION_SEARCH_CUT_H
#include "partition/search/score.h"

/* --- cut.c: the best cut of the surrogate */
/* Writes the cut with the shortest longest stage that fits into first_item; device is an input.
 * bound_ns: lower bound of the step over all cuts with this order of devices; UINT64_MAX: none
 * fits, and the cut is the one that exceeds its memory least (if x->want_nearest; else there is
 * none). limit_ns: when no cut is below it, bound_ns is limit_ns and there is no cut. */
pst_status pst_search_cut(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t limit_ns, uint64_t *bound_ns);

/* --- borders.c: moves */
/* Moves border k to `to` and pushes other borders ahead of it; every chunk keeps an item. 0:
 * impossible. */
int pst_search_move_border(pst_candidate *candidate, uint32_t k, int64_t to);
/* The next cut in lexicographic order; first: [n_chunk + 1]. 0: there is none. */
int pst_search_next_cut(uint32_t *first, uint32_t n_chunk, uint32_t n_item);
/* Moves each border to a near place where at most half as many bytes cross. 0: no border moved. */
int pst_search_narrow_borders(const pst_search_table *t, pst_candidate *candidate);
#endif
