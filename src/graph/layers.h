/* The layers of a graph, by the names of its operators. */
#ifndef PST_GRAPH_LAYERS_H
#define PST_GRAPH_LAYERS_H
#include "graph/graph.h"

/* Sets layer[0..n_node) to the number of the layer of each operator, from 0 on, or to PST_NONE. A
 * layer is what shares a name up to its first number, and follows in the graph: "h.3." of
 * "h.3.mlp.c_fc", "layer1.0." of "layer1.0.conv1". Operators without a number, such as an embedding
 * and the output layer, belong to none. */
void pst_graph_layers(const pst_graph *graph, uint32_t *layer);
#endif
