/* Parts of parameters on tensor ranks (pst_slice of graph.h): the position of their elements in the
 * whole parameter. */
#ifndef PST_GRAPH_SLICE_H
#define PST_GRAPH_SLICE_H
#include "graph/graph.h"

/* Writes the shape of the whole parameter, of which `param` may be a part, to dim; returns the
 * number of elements. */
uint64_t pst_slice_whole(const pst_param *param, uint64_t dim[PST_MAX_DIM]);
/* The part consists of contiguous runs of the whole, in the same order: run i begins at element *at
 * of the whole and has *count elements. Returns 0 when there is no run i. */
int pst_slice_run(const pst_param *param, uint64_t i, uint64_t *at, uint64_t *count);
/* Copies between a whole parameter and this part of it. */
void pst_slice_take(const pst_param *param, const float *whole, float *part);
void pst_slice_put(const pst_param *param, const float *part, float *whole);
#endif
