/* Parts of parameters that tensor ranks have (pst_slice of graph.h): where their elements lie in
 * the whole. */
#ifndef PST_GRAPH_SLICE_H
#define PST_GRAPH_SLICE_H
#include "graph/graph.h"

/* Shape of the whole parameter, of which `param` may be a part; returns its elements. */
uint64_t pst_slice_whole(const pst_param *param, uint64_t dim[PST_MAX_DIM]);
/* The part consists of runs that lie together in the whole, in the same order: run number i begins
 * at element *at and has *count elements; 0: there are no more. */
int pst_slice_run(const pst_param *param, uint64_t i, uint64_t *at, uint64_t *count);
/* Copies between a whole parameter and this part of it. */
void pst_slice_take(const pst_param *param, const float *whole, float *part);
void pst_slice_put(const pst_param *param, const float *part, float *whole);
#endif
