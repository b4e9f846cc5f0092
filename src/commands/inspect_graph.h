/* Private to inspect.c: graph files. */
#ifndef PST_COMMANDS_INSPECT_GRAPH_H
#define PST_COMMANDS_INSPECT_GRAPH_H
#include "base/status.h"
#include <stdio.h>

/* what: "graph" (as in the file), "tape" (with its backward pass), "" (contents and costs). EINPUT
 * if the file is not a graph; the message gives the line. */
pst_status pst_inspect_graph(const char *path, const char *what, FILE *out);
#endif
