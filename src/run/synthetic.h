/* Training steps of this process alone, only for measuring: the configured model, on synthetic
 * tokens, without a run's folder. */
#ifndef PST_RUN_SYNTHETIC_H
#define PST_RUN_SYNTHETIC_H
#include "run/trainer.h"

/* plan: fills t, with a plan for the configuration (borrowed); ranks: opens all ranks. Call
 * pst_synthetic_close even if they fail. */
pst_status pst_synthetic_plan(const pst_config *c, pst_trainer *t);
pst_status pst_synthetic_ranks(pst_trainer *t);
/* The same tokens each time. */
pst_status pst_synthetic_feed(pst_trainer *t);
void pst_synthetic_close(pst_trainer *t);
#endif
