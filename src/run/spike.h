/* Loss spikes (train.spike): a step whose loss or gradient norm is far above those of the last 64
 * steps: more than train.spike_factor standard deviations above their mean, for norms of their
 * logarithms. All ranks have the same numbers, in every layout, so they decide alike. */
#ifndef PST_RUN_SPIKE_H
#define PST_RUN_SPIKE_H
#include "run/trainer.h"

/* To be called before a step: sets the limits above which the ranks do not apply it. */
void pst_spike_limit(pst_trainer *t);
/* To be called after a step with finite loss and norm: notes it or, if it is a spike,
 * warns, and with train.spike rewind goes back to the last checkpoint: t->step falls, and
 * t->skipped_samples grows, so that the data goes on behind the spike. Collective. */
pst_status pst_spike_check(pst_trainer *t);
#endif
