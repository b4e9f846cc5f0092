/* Durations of operators as a run has measured them: from its folder, the operators in trace.json. */
#ifndef PST_ENGINE_MEASURED_H
#define PST_ENGINE_MEASURED_H
#include "graph/graph.h"
#include "graph/op.h"

typedef struct pst_measured pst_measured;
/* EINPUT when the folder has no trace with operators, or its plan is for another graph than this one. */
pst_status pst_measured_load(const char *folder, const pst_graph *g, pst_measured **measured);
void pst_measured_close(pst_measured *measured); /* NULL: nothing */
/* Mean of all micro-batches, and of all ranks that have run it; 0: it was not measured, or measured is NULL. */
uint64_t pst_measured_ns(const pst_measured *measured, const char *node, pst_pass pass, int is_sum);
#endif
