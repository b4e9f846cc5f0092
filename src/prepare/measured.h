/* Durations measured by an earlier run, from trace.json in its folder: of operators, and of
 * messages between hosts, which that run measured at its start (link.h). */
#ifndef PST_PREPARE_MEASURED_H
#define PST_PREPARE_MEASURED_H
#include "graph/graph.h"
#include "graph/op.h"
#include "pipeline/compile/job.h"

typedef struct pst_measured pst_measured;
/* EINPUT: the folder has no trace with operators, or its plan is for another graph. */
pst_status pst_measured_load(const char *folder, const pst_graph *g, pst_measured **measured);
void pst_measured_close(pst_measured *measured); /* measured may be NULL */
/* Mean duration (ns) of a pass of operator `node` over all micro-batches and ranks; is_sum: of the
 * extra addition of gradients instead. 0: not measured, or measured is NULL. */
uint64_t pst_measured_ns(const pst_measured *measured, const char *node, pst_pass pass, int is_sum);
/* Sets the durations of a job's messages to those measured between the same two ranks, by size
 * (link_times.h). Other messages keep their durations; measured may be NULL. ENOMEM. */
pst_status pst_measured_time_messages(const pst_measured *measured, pst_job *job);
#endif
