/* Private to inspect.c: graphs as text. */
#ifndef PST_COMMANDS_INSPECT_GRAPH_H
#define PST_COMMANDS_INSPECT_GRAPH_H
#include "base/status.h"
#include <stdio.h>

/* what: "graph" (as it was read), "tape" (differentiated), "" (what it holds and costs). EINPUT
 * when it is no graph: the message has the line. */
pst_status pst_inspect_graph(const char *path, const char *what, FILE *out);
#endif
