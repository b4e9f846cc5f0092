/* What a run says before its first step, and at its end; from rank 0. */
#ifndef PST_RUN_ANNOUNCE_H
#define PST_RUN_ANNOUNCE_H
#include "group/placement.h"
#include "run/trainer.h"

/* What the run is, what is predicted, and warnings. */
void pst_announce_run(const pst_trainer *t);
/* A warning that train.warmup was cut to all the steps, if it was. */
void pst_announce_warmup(const pst_config *c);
/* Whether threads of ranks take turns on processors of rank 0's host, and those of how many ranks
 * on how many. */
int pst_announce_crowd(const pst_trainer *t, pst_sharing *crowd);
/* summary.c: what the run has come to, on stdout; reported: report.html is there. */
void pst_announce_summary(const pst_trainer *t, uint64_t weights_hash, int reported);
/* No step of this process has changed the weights. */
int pst_announce_changed_nothing(const pst_trainer *t);
#endif
