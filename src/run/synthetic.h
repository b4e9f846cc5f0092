/* Training steps for benchmarks and profiles: the configured model on synthetic tokens, all ranks
 * in this process, without a run folder. */
#ifndef PST_RUN_SYNTHETIC_H
#define PST_RUN_SYNTHETIC_H
#include "run/trainer.h"

/* plan: fills *t and prepares the configuration c (borrowed); ranks: opens all ranks. Call
 * pst_synthetic_close also after a failure. */
pst_status pst_synthetic_plan(const pst_config *c, pst_trainer *t);
pst_status pst_synthetic_ranks(pst_trainer *t);
/* Fills the data tensors with the same tokens at every call. */
pst_status pst_synthetic_feed(pst_trainer *t);
void pst_synthetic_close(pst_trainer *t);
#endif
