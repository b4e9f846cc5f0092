/* Durations as a run has measured them, from trace.json in its folder: of operators, and of
 * messages between hosts, which it timed at its start (link.h) and predicted its transfers with. */
#ifndef PST_PREPARE_MEASURED_H
#define PST_PREPARE_MEASURED_H
#include "graph/graph.h"
#include "graph/op.h"
#include "pipeline/compile/job.h"

typedef struct pst_measured pst_measured;
/* EINPUT when the folder has no trace with operators, or its plan is for another graph than this
 * one. */
pst_status pst_measured_load(const char *folder, const pst_graph *g, pst_measured **measured);
void pst_measured_close(pst_measured *measured); /* NULL: nothing */
/* Mean of all micro-batches, and of all ranks that have run it; 0: it was not measured, or measured
 * is NULL. */
uint64_t pst_measured_ns(const pst_measured *measured, const char *node, pst_pass pass, int is_sum);
/* Gives the messages of a job the durations that those of the same two ranks had, by their sizes
 * (link_times.h); ranks that exchanged nothing then, and NULL, leave it as it is. ENOMEM. */
pst_status pst_measured_time_messages(const pst_measured *measured, pst_job *job);
#endif
