/* What rank 0 prints before the first step of a run and at its end. */
#ifndef PST_RUN_ANNOUNCE_H
#define PST_RUN_ANNOUNCE_H
#include "group/placement.h"
#include "run/trainer.h"

/* Prints the run's model, layout and prediction, and warnings. */
void pst_announce_run(const pst_trainer *t);
/* Warns if train.warmup was shortened to train.steps. */
void pst_announce_warmup(const pst_config *c);
/* 1: the ranks of rank 0's host have more threads than processors; *sharing: these ranks and
 * processors. */
int pst_announce_oversubscribed(const pst_trainer *t, pst_sharing *sharing);
/* summary.c: prints the results of the run to stdout; reported: 1: report.html was written. */
void pst_announce_summary(const pst_trainer *t, uint64_t weights_hash, int reported);
/* 1: this process has trained, but every step was skipped, so the weights have not changed. */
int pst_announce_changed_nothing(const pst_trainer *t);
#endif
