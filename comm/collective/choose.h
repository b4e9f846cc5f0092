/* Private to this component: the cost model, and the choice of an algorithm. */
#ifndef PST_COMM_COLLECTIVE_CHOOSE_H
#define PST_COMM_COLLECTIVE_CHOOSE_H
#include "comm/collective/algorithm.h"

double pst_coll_cost_us(const pst_coll_algorithm *a, const pst_coll_shape *shape);
/* The cheapest of n algorithms that can run this shape, the earlier one of two with equal cost;
 * NULL: none can. */
const pst_coll_algorithm *pst_coll_cheapest(const pst_coll_algorithm *const *list, uint32_t n,
                                            const pst_coll_shape *shape);
/* Why the algorithm cannot run this shape; NULL: it can. */
const char *pst_coll_rejects(const pst_coll_algorithm *a, const pst_coll_shape *shape);
int pst_coll_supports(const pst_coll_algorithm *a, const pst_coll_shape *shape);
/* rows.c. The cheapest algorithm, or `forced` if it can run this shape. */
const pst_coll_algorithm *pst_coll_choose(const pst_coll_shape *shape,
                                          const pst_coll_algorithm *forced);
const pst_coll_algorithm *pst_coll_find(const char *name); /* NULL: no such algorithm */
uint32_t pst_coll_rank_candidates(const pst_coll_shape *shape,
                                  pst_coll_candidate candidate[PST_COLL_CANDIDATES]);
#endif
