/* Lower bounds of the step time that hold for every cut of the model. */
#ifndef PST_PARTITION_SEARCH_BOUND_H
#define PST_PARTITION_SEARCH_BOUND_H
#include "partition/search/space.h"

/* --- bound.c: of one configuration */
/* Raises c->bound_ns to a lower bound over all cuts of the configuration. ENOMEM. */
pst_status pst_search_tighten(pst_search_context *x, pst_search_config *c);
/* The same over all cuts that fit in memory, with the recomputation that they need. Takes as long
 * as pst_search_price_effort says. */
pst_status pst_search_tighten_more(pst_search_context *x, pst_search_config *c);
/* Returns a lower bound of the time, in ns, per byte that replicas send in one direction, with
 * `near` replicas of a stage on a node; over all such numbers. */
double pst_search_exchange_of(const pst_search_context *x, const pst_search_config *c,
                              uint32_t near);
double pst_search_exchange_bound(const pst_search_context *x, const pst_search_config *c);

/* --- orders.c: of one configuration on the orders of devices that are searched */
/* Raises c->bound_ns to the least of the bounds (partition/search/fluid.h) of these orders. ENOMEM.
 */
pst_status pst_search_tighten_orders(pst_search_context *x, pst_search_config *c);

/* --- space.c: of one tensor degree */
/* Sets *least_ns to a lower bound of the step over all layouts with this tensor degree: the step if
 * all devices compute without idle time, at the best micro-batch size. At least 1; UINT64_MAX: the
 * degree is infeasible. */
pst_status pst_search_tensor_bound(pst_search_context *x, uint32_t tensor, uint64_t *least_ns);

/* --- unequal.c: of stages with different numbers of tensor ranks */
/* Sets *least_ns to a lower bound of the step over all layouts with different numbers of tensor
 * ranks per stage. */
pst_status pst_search_unequal_bound(pst_search_context *x, uint64_t *least_ns);
#endif
