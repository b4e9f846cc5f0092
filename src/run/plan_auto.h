/* parallel.plan auto: finds the plan when the run starts, for the number of ranks. Rank 0 plans,
 * and all ranks use that plan, because the result depends on free memory, which differs between
 * ranks and over time. A resumed run keeps its plan if the plan is still valid for the number of
 * ranks and the run file. */
#ifndef PST_RUN_PLAN_AUTO_H
#define PST_RUN_PLAN_AUTO_H
#include "base/world.h"
#include "penstock/run.h"
#include "prepare/planned.h"

/* *n_rank: number of ranks for which the run to be resumed was planned; 0: there is no such run, or
 * its plan is missing or does not match c. */
pst_status pst_plan_auto_ranks(const pst_config *c, const pst_train_options *o, uint32_t *n_rank);
/* *plan: the plan for n_rank ranks (the caller closes it); *config is replaced by a copy with the
 * plan's keys. Collective; mine: status of this rank so far: if it is a failure, all ranks fail.
 * ENOMEM: no layout fits; the message has advice. On failure *config is unchanged. */
pst_status pst_plan_auto(pst_config **config, const pst_train_options *o, pst_world *world,
                         uint32_t n_rank, pst_status mine, pst_plan **plan);
/* The same for a new run with all ranks on this machine; not collective. */
pst_status pst_plan_auto_here(pst_config **config, uint32_t n_rank, pst_plan **plan);
#endif
