/* Search for chunk borders. */
#ifndef PST_PARTITION_SEARCH_CUT_H
#define PST_PARTITION_SEARCH_CUT_H
#include "partition/search/score.h"

/* --- cut.c: the best cut of the surrogate */
/* Finds the cut that fits in memory and for which the slowest stage takes the shortest time, for
 * the device order in candidate->layout.device, and writes it to first_item. Sets *bound_ns to a
 * lower bound of the step over all cuts with this device order. If no cut fits, *bound_ns is
 * UINT64_MAX, and the cut is the one that exceeds the memory least if x->want_nearest (else there
 * is no cut). If no cut has a lower bound below limit_ns, *bound_ns is limit_ns and there is no
 * cut. */
pst_status pst_search_cut(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t limit_ns, uint64_t *bound_ns);

/* --- borders.c: moves */
/* Moves border k to item `to`, and pushes other borders further if necessary so that every chunk
 * keeps an item. Returns 0 if that is impossible. */
int pst_search_move_border(pst_candidate *candidate, uint32_t k, int64_t to);
/* Replaces the cut first[0..n_chunk] by the next one in lexicographic order. Returns 0 after the
 * last one. */
int pst_search_next_cut(uint32_t *first, uint32_t n_chunk, uint32_t n_item);
/* Moves each border to a nearby item where at most half the bytes cross, if there is one. Returns 0
 * if no border moved. */
int pst_search_narrow_borders(const pst_search_table *t, pst_candidate *candidate);
#endif
