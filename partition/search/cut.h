/* Where chunks begin and end. */
#ifndef PST_PARTITION_SEARCH_CUT_H
#define PST_PARTITION_SEARCH_CUT_H
#include "partition/search/score.h"

/* --- cut.c: the best cut of the surrogate */
/* The cut whose longest stage is shortest, of those that fit, into layout->first_item (device is
 * set). bound_ns: with this order of devices no cut has a shorter step; UINT64_MAX: none fits, and
 * the cut is the one that is least over (where x->nearest asks for it; else there is none).
 * limit_ns: where none is below it, bound_ns is it and there is no cut. */
pst_status pst_search_cut(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t limit_ns, uint64_t *bound_ns);

/* --- borders.c: moves */
/* Border k goes to `to`, and pushes others before it; 0: there is no room. Every chunk keeps an
 * item. */
int pst_search_push(pst_candidate *candidate, uint32_t k, int64_t to);
/* The next cut of all, in order; first: [n_chunk + 1]. 0: there is no other. */
int pst_search_next_cut(uint32_t *first, uint32_t n_chunk, uint32_t n_item);
/* Each border where much crosses goes to the nearest place over which half as much does; 0: there
 * is none. */
int pst_search_narrow(const pst_search_table *t, pst_candidate *candidate);
#endif
