/* Below what no layout can be, before it is cut. */
#ifndef PST_PARTITION_SEARCH_BOUND_H
#define PST_PARTITION_SEARCH_BOUND_H
#include "partition/search/space.h"

/* --- bound.c: of one configuration */
/* Raises bound_ns to what no cut can be below. ENOMEM. */
pst_status pst_search_tighten(pst_search_context *x, pst_search_config *c);
/* ns per byte that replicas exchange in one direction, wherever they are: so many of them on a node
 * as is best. */
double pst_search_least_exchange(const pst_search_context *x, const pst_search_config *c);

/* --- space.c: of one tensor degree */
/* No layout with this tensor degree has a shorter step: all devices compute, with whatever
 * micro-batch is quickest. At least 1; UINT64_MAX: it cannot be had. */
pst_status pst_search_least(pst_search_context *x, uint32_t tensor, uint64_t *least_ns);

/* --- unequal.c: of stages with different numbers of tensor ranks */
/* No layout of such stages has a shorter step. */
pst_status pst_search_least_unequal(pst_search_context *x, uint64_t *least_ns);
#endif
