/* Private to this component: the cost model, and the choice of an algorithm. */
#ifndef PST_COMM_COLLECTIVE_CHOOSE_H
#define PST_COMM_COLLECTIVE_CHOOSE_H
#include "comm/collective/algorithm.h"

double pst_coll_cost_us(const pst_coll_algorithm *a, const pst_coll_shape *shape);
/* The cheapest of n algorithms that support this shape; of several with equal cost the first. NULL:
 * none supports it. */
const pst_coll_algorithm *pst_coll_cheapest(const pst_coll_algorithm *const *list, uint32_t n,
                                            const pst_coll_shape *shape);
/* Why the algorithm does not support this shape; NULL: it does. */
const char *pst_coll_rejects(const pst_coll_algorithm *a, const pst_coll_shape *shape);
int pst_coll_supports(const pst_coll_algorithm *a, const pst_coll_shape *shape);
/* rows.c. The cheapest algorithm, or `forced` (NULL: none) if it supports this shape. */
const pst_coll_algorithm *pst_coll_choose(const pst_coll_shape *shape,
                                          const pst_coll_algorithm *forced);
const pst_coll_algorithm *pst_coll_find(const char *name); /* NULL: no such algorithm */
uint32_t pst_coll_rank_candidates(const pst_coll_shape *shape,
                                  pst_coll_candidate candidate[PST_COLL_CANDIDATES]);
#endif
