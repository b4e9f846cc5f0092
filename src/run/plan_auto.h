/* parallel.plan auto: the plan is found when the run starts, for the ranks that it has. Rank 0
 * plans, and the others take what it found: free memory, on which it depends, is another one for
 * each and at any moment. A resumed run keeps the plan that it began with where that still goes
 * with the ranks and the run file. */
#ifndef PST_RUN_PLAN_AUTO_H
#define PST_RUN_PLAN_AUTO_H
#include "base/world.h"
#include "penstock/run.h"
#include "prepare/planned.h"

/* How many ranks the run to be resumed was planned for; 0: it is none, its plan is gone, or does
 * not go with c. */
pst_status pst_plan_auto_ranks(const pst_config *c, const pst_train_options *o, uint32_t *n_rank);
/* The plan of n_rank ranks, the caller's, and its keys applied to *config. Collective; mine: this
 * rank's status so far, of which all hear first. ENOMEM: nothing fits, with what would. On failure
 * *config stays the caller's. */
pst_status pst_plan_auto(pst_config **config, const pst_train_options *o, pst_world *world,
                         uint32_t n_rank, pst_status mine, pst_plan **plan);
/* The same of a run that would be started anew, all ranks on this machine, by this process
 * alone. */
pst_status pst_plan_auto_here(pst_config **config, uint32_t n_rank, pst_plan **plan);
#endif
