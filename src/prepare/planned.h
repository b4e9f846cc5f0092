/* Runs with a plan file (parallel.plan). pst_prepare takes the layout from the plan
 * (pst_prepare_options.plan); here the configuration is checked against the plan, and the keys of
 * the layout are set, so that the run's own run.yaml has all of them. */
#ifndef PST_PREPARE_PLANNED_H
#define PST_PREPARE_PLANNED_H
#include "prepare/prepare.h"

/* Reads the plan (the caller closes it; NULL: there is none) and sets the keys that it decides. The
 * path becomes absolute, for checkpoints. EINPUT: a key of the run file contradicts the plan, the
 * plan is for another batch, or the plan is made when a run starts (plan_auto.h). On failure
 * *config still belongs to the caller. */
pst_status pst_planned_config(pst_config **config, pst_plan **plan);
/* Checks a configuration against a plan and sets the keys that it decides. file: for messages; "":
 * a program made the plan. */
pst_status pst_planned_apply(pst_config *config, const pst_plan *plan, const char *file);
/* The number of ranks: the plan's if it has one, else that of pst_prepare_ranks. EINPUT: `given`
 * (0: not given) is another number. */
pst_status pst_planned_ranks(const pst_config *config, const pst_plan *plan, int64_t given,
                             uint32_t *n_rank);
/* The same for a loaded plan; *config is replaced by a copy. */
pst_status pst_planned_take(pst_config **config, const pst_plan *plan, const char *file);
/* Warns if the plan was made with a profile and the run has none, so that predictions differ. */
void pst_planned_warn(const pst_config *config, const pst_plan *plan);
/* EINPUT: parallel.plan is given to a program that loads its own plans. */
pst_status pst_planned_refuse(const pst_config *config);
/* Adds to the thread's message about a plan the overrides with which it was made. Returns status.
 */
pst_status pst_planned_explain(pst_status status, const pst_plan *plan);
/* Whether both paths name the same existing file. */
int pst_planned_is_file(const char *path, const char *same);
/* Adds to p's plan what prepare has decided: each replica's micro-batches; devices, unless rank r
 * has device r. */
pst_status pst_planned_describe(pst_prepared *p);
#endif
