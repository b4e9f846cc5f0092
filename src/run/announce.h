/* What a run prints before its first step and at its end; on rank 0. */
#ifndef PST_RUN_ANNOUNCE_H
#define PST_RUN_ANNOUNCE_H
#include "group/placement.h"
#include "run/trainer.h"

/* Prints what the run is and what is predicted, and warnings. */
void pst_announce_run(const pst_trainer *t);
/* Warns if train.warmup was shortened to train.steps. */
void pst_announce_warmup(const pst_config *c);
/* 1 if the processors of rank 0's host are oversubscribed; *sharing: ranks and processors. */
int pst_announce_oversubscribed(const pst_trainer *t, pst_sharing *sharing);
/* summary.c: prints the results of the run to stdout; reported: report.html was written. */
void pst_announce_summary(const pst_trainer *t, uint64_t weights_hash, int reported);
/* 1 if no step of this process has changed the weights. */
int pst_announce_changed_nothing(const pst_trainer *t);
#endif
