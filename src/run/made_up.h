/* Training steps of this process alone that are only measured: the model as configured, on tokens
 * that are made up, without a run's folder. */
#ifndef PST_RUN_MADE_UP_H
#define PST_RUN_MADE_UP_H
#include "run/trainer.h"

/* plan: t is filled in, with what the configuration (borrowed) comes to; ranks: opens all of it.
 * Whatever they say, pst_made_up_close. */
pst_status pst_made_up_plan(const pst_config *c, pst_trainer *t);
pst_status pst_made_up_ranks(pst_trainer *t);
/* The same tokens each time. */
pst_status pst_made_up_feed(pst_trainer *t);
void pst_made_up_close(pst_trainer *t);
#endif
