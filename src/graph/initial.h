/* The initial values of a parameter, which depend only on the seed and the parameter's name. */
#ifndef PST_GRAPH_INITIAL_H
#define PST_GRAPH_INITIAL_H
#include "base/pool.h"
#include "graph/graph.h"

/* Writes elements [from, to) of the part of the parameter that this rank has. pool NULL: one
 * thread. */
void pst_param_initial(const pst_param *param, uint64_t seed, uint64_t from, uint64_t to,
                       pst_pool *pool, float *out);
#endif
