/* Training steps of this process alone that are only measured: the model as configured, on
 * synthetic tokens, without a run's folder. */
#ifndef PST_RUN_SYNTHETIC_H
#define PST_RUN_SYNTHETIC_H
#include "run/trainer.h"

/* plan: t is filled in, with what the configuration (borrowed) comes to; ranks: opens all of it.
 * Whatever they say, pst_synthetic_close. */
pst_status pst_synthetic_plan(const pst_config *c, pst_trainer *t);
pst_status pst_synthetic_ranks(pst_trainer *t);
/* The same tokens each time. */
pst_status pst_synthetic_feed(pst_trainer *t);
void pst_synthetic_close(pst_trainer *t);
#endif
