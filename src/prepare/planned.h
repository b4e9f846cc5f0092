/* Runs with a plan file (parallel.plan). pst_prepare takes the layout from the plan
 * (pst_prepare_options.plan); these functions check the configuration against the plan and set the
 * keys of the layout, so that the run.yaml in the run's folder is complete. */
#ifndef PST_PREPARE_PLANNED_H
#define PST_PREPARE_PLANNED_H
#include "prepare/prepare.h"

/* Reads the plan of parallel.plan (the caller closes *plan; NULL: no plan is given) and sets the
 * keys that the plan determines. The path becomes absolute, for checkpoints. EINPUT: a key of the
 * run file contradicts the plan, the plan is for another batch, or parallel.plan is auto
 * (plan_auto.h). On success *config is replaced; on failure it is unchanged and still belongs to
 * the caller. */
pst_status pst_planned_config(pst_config **config, pst_plan **plan);
/* Checks a configuration against a plan and sets the keys that the plan determines. file: name for
 * messages; "": a program made the plan. EINPUT as above. */
pst_status pst_planned_apply(pst_config *config, const pst_plan *plan, const char *file);
/* The number of ranks: that of the plan if it has one, else that of pst_prepare_ranks. EINPUT:
 * `given` (0: not given) is a different number. */
pst_status pst_planned_ranks(const pst_config *config, const pst_plan *plan, int64_t given,
                             uint32_t *n_rank);
/* As pst_planned_config for a plan that is loaded already; *config is replaced by a copy. */
pst_status pst_planned_take(pst_config **config, const pst_plan *plan, const char *file);
/* Warns if the plan was made with a profile and the run has none: predictions then differ. */
void pst_planned_warn(const pst_config *config, const pst_plan *plan);
/* EINPUT: parallel.plan is set, but this program passes plans through the library. */
pst_status pst_planned_refuse(const pst_config *config);
/* Appends to this thread's error message the overrides with which the plan was made. Returns
 * status. */
pst_status pst_planned_explain(pst_status status, const pst_plan *plan);
/* 1: both paths name the same existing file. */
int pst_planned_is_file(const char *path, const char *same);
/* Adds to p's plan what prepare has determined: micro-batches of each replica; devices, unless rank
 * r has device r for all r. ENOMEM. */
pst_status pst_planned_describe(pst_prepared *p);
#endif
