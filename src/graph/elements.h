/* Checks for the files that build a graph. */
#ifndef PST_GRAPH_ELEMENTS_H
#define PST_GRAPH_ELEMENTS_H
#include "graph/graph.h"

/* EINPUT unless `name` has 1 to `limit` characters, all of them allowed in text forms, file names
 * and keys of random streams. */
pst_status pst_graph_check_name(const char *what, const char *name, size_t limit);
#endif
