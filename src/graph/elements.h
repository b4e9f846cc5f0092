/* For the files that build a graph. */
#ifndef PST_GRAPH_ELEMENTS_H
#define PST_GRAPH_ELEMENTS_H
#include "graph/graph.h"

/* EINPUT unless it is a name of 1 to `limit` characters that text forms, file names and stream keys
 * can have. */
pst_status pst_graph_check_name(const char *what, const char *name, size_t limit);
#endif
