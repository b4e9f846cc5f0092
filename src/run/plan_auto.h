/* parallel.plan auto: finds the plan when the run starts, for its number of ranks. Rank 0 plans and
 * the others take its plan, because the result depends on free memory, which differs between ranks
 * and over time. A resumed run keeps its plan if that is still valid for the ranks and the run
 * file. */
#ifndef PST_RUN_PLAN_AUTO_H
#define PST_RUN_PLAN_AUTO_H
#include "base/world.h"
#include "penstock/run.h"
#include "prepare/planned.h"

/* The number of ranks that the run to be resumed was planned for; 0: no such run, or its plan is
 * missing or does not match c. */
pst_status pst_plan_auto_ranks(const pst_config *c, const pst_train_options *o, uint32_t *n_rank);
/* The plan for n_rank ranks (the caller closes it), and its keys applied to *config. Collective;
 * mine: this rank's status so far, which all ranks join first. ENOMEM: nothing fits, with advice.
 * On failure *config is unchanged. */
pst_status pst_plan_auto(pst_config **config, const pst_train_options *o, pst_world *world,
                         uint32_t n_rank, pst_status mine, pst_plan **plan);
/* The same for a new run with all ranks on this machine, in this process alone. */
pst_status pst_plan_auto_here(pst_config **config, uint32_t n_rank, pst_plan **plan);
#endif
