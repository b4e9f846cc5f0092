/* Runs that a plan file says the layout of (parallel.plan). pst_prepare takes the layout from the
 * plan itself (pst_prepare_options.plan); here the configuration is held to it, and its keys of the
 * layout are set, so that the run's own run.yaml says all of them. */
#ifndef PST_PREPARE_PLANNED_H
#define PST_PREPARE_PLANNED_H
#include "prepare/prepare.h"

/* Reads the plan, the caller's (NULL: there is none), and sets the keys that it decides; the path
 * becomes absolute, so that checkpoints find it again. EINPUT: the run file gives a key otherwise,
 * the plan is for another batch, or it is to be found when a run starts (plan_auto.h). On failure
 * *config stays the caller's. */
pst_status pst_planned_config(pst_config **config, pst_plan **plan);
/* Holds a configuration to a plan that was read from `file`, for messages (""; a program has made
 * it): sets the keys that it decides. */
pst_status pst_planned_settle(pst_config *config, const pst_plan *plan, const char *file);
/* Ranks of the job: the plan's, where there is one that says it, else as pst_prepare_ranks has
 * them. EINPUT when `given` (0: nothing is) is another number. */
pst_status pst_planned_ranks(const pst_config *config, const pst_plan *plan, int64_t given,
                             uint32_t *n_rank);
/* The same with a plan that is there, into a configuration that takes the place of *config. */
pst_status pst_planned_take(pst_config **config, const pst_plan *plan, const char *file);
/* Says so when the plan was made with a profile and the run has none, so that it predicts other
 * durations. */
void pst_planned_warn(const pst_config *config, const pst_plan *plan);
/* EINPUT when parallel.plan is given to a program that has plans of its own. */
pst_status pst_planned_refuse(const pst_config *config);
/* The thread's message, of a plan that does not go with a run, and with which overrides the plan
 * was made. Returns status. */
pst_status pst_planned_blame(pst_status status, const pst_plan *plan);
/* Whether both paths name one file that is there. */
int pst_planned_is_file(const char *path, const char *same);
/* Completes the layout of p's plan with what preparing has decided: each replica's micro-batches,
 * and devices only where they are not in order. */
pst_status pst_planned_describe(pst_prepared *p);
#endif
