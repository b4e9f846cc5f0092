/* A checkpoint is written while training goes on; one that cannot be written is said in the metrics
 * and survived, and t->checkpointed follows. EINPUT from any: weights or state were not finite, and
 * no checkpoint was written. All are collective where nothing else is said. */
#ifndef PST_RUN_SAVING_H
#define PST_RUN_SAVING_H
#include "run/trainer.h"

/* Threads and buffers; optional: start does it, too. */
pst_status pst_saving_open(pst_trainer *t);
/* The checkpoint of t->step. When there is one under way still, training waits for that first.
 * last: training does not go on meanwhile. */
pst_status pst_saving_start(pst_trainer *t, int last);
/* After each step, with t->report: what has become of it. */
pst_status pst_saving_progress(pst_trainer *t);
/* Waits until it counts or has failed. */
pst_status pst_saving_finish(pst_trainer *t);
/* Of this process' part; not collective. */
pst_save_state pst_saving_state(pst_trainer *t);
/* Ends what is under way; what was there before stays. Not collective; before the group is
 * closed. */
void pst_saving_close(pst_trainer *t);
#endif
