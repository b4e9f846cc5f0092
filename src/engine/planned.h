/* Runs that a plan file says the layout of (parallel.plan): its degrees, micro-batch, schedule and recomputation become
 * keys of the configuration, its cut goes to pst_prepare. */
#ifndef PST_ENGINE_PLANNED_H
#define PST_ENGINE_PLANNED_H
#include "engine/prepare.h"

/* Settles the keys that the plan decides; the path becomes absolute, so that checkpoints find it again. Nothing when
 * there is no plan. EINPUT: the run file gives a key otherwise, the plan is for another batch. On failure *config stays
 * the caller's. */
pst_status pst_planned_config(pst_config **config);
/* The same of a plan that was read from `file`. */
pst_status pst_planned_settle(pst_config *config, const pst_plan *plan, const char *file);
/* The plan of parallel.plan, the caller's; NULL: there is none. */
pst_status pst_planned_load(const pst_config *config, pst_plan **plan);
/* EINPUT when parallel.plan is given to a program that has plans of its own. */
pst_status pst_planned_refuse(const pst_config *config);
/* What p's plan does not know of the job, from what was prepared. */
pst_status pst_planned_describe(pst_prepared *p);
#endif
