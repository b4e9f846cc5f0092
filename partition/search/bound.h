/* Lower bounds on the step before the model is cut. */
#ifndef PST_PARTITION_SEARCH_BOUND_H
#define PST_PARTITION_SEARCH_BOUND_H
#include "partition/search/space.h"

/* --- bound.c: of one configuration */
/* Raises bound_ns to a lower bound over all cuts. ENOMEM. */
pst_status pst_search_tighten(pst_search_context *x, pst_search_config *c);
/* Least ns per byte that replicas exchange in one direction, for the best number of replicas per
 * node. */
double pst_search_exchange_bound(const pst_search_context *x, const pst_search_config *c);

/* --- space.c: of one tensor degree */
/* Lower bound of the step over all layouts with this tensor degree: all devices compute all the
 * time, with the best micro-batch. At least 1; UINT64_MAX: the degree is infeasible. */
pst_status pst_search_tensor_bound(pst_search_context *x, uint32_t tensor, uint64_t *least_ns);

/* --- unequal.c: of stages with different numbers of tensor ranks */
/* Lower bound of the step over all layouts of such stages. */
pst_status pst_search_unequal_bound(pst_search_context *x, uint64_t *least_ns);
#endif
