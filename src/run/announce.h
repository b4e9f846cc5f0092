/* What a run says before its first step, and of its steps at the end; from rank 0. */
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
/* times.c: the end of a run says what its steps took, measured and predicted, on stdout; nothing
 * where its metrics.jsonl has no steps. */
void pst_times_say(const pst_trainer *t);
#endif
