/* Writes checkpoints while training goes on. If one cannot be written, the metrics say so and
 * training continues; t->checkpointed is the last good one. EINPUT from any function: weights or
 * state were not finite, and no checkpoint was written. All functions are collective unless
 * noted. */
#ifndef PST_RUN_SAVING_H
#define PST_RUN_SAVING_H
#include "run/trainer.h"

/* Threads and buffers; optional, because pst_saving_start opens them too. */
pst_status pst_saving_open(pst_trainer *t);
/* Starts the checkpoint of t->step; first waits for one that is still under way. last: training
 * does not continue meanwhile. */
pst_status pst_saving_start(pst_trainer *t, int last);
/* Call it after each step, when t->report is set: advances the checkpoint. */
pst_status pst_saving_progress(pst_trainer *t);
/* Waits until the checkpoint is complete or has failed. */
pst_status pst_saving_finish(pst_trainer *t);
/* State of this process' part; not collective. */
pst_save_state pst_saving_state(pst_trainer *t);
/* Stops a checkpoint under way; earlier ones are kept. Not collective; call it before the group is
 * closed. */
void pst_saving_close(pst_trainer *t);
#endif
