/* What happens before the first step: the parts that a run and a session (session.c) are made
 * of. */
#ifndef PST_RUN_SETUP_H
#define PST_RUN_SETUP_H
#include "run/trainer.h"

/* What log.level names is said from now on. */
void pst_setup_log(const char *level);
/* Threads of each rank, where so many share the processors. */
uint32_t pst_setup_threads(const pst_config *c, const pst_world *world, uint32_t ranks_here);
/* The job's processes in the order of its ranks (parallel.devices, or the plan's; plan may be
 * NULL). */
pst_status pst_setup_placement(const pst_config *c, const pst_plan *plan, uint32_t n_rank,
                               pst_world **world);
/* The plan in full, when the device is there and every rank fits in memory. options: threads, isa
 * and n_eval_micro are filled in; world: NULL when all ranks will be here. */
pst_status pst_setup_plan(const pst_config *c, pst_prepare_options options, const pst_world *world,
                          pst_prepared **prepared);
/* The ranks themselves, which compare what they have prepared and time the links between hosts;
 * takes t->world over. Collective. */
pst_status pst_setup_ranks(pst_trainer *t);
/* mkdir -p of everything above the last name. */
pst_status pst_setup_parents(const char *path);
/* Room for what steps measure: t->report, own, prediction. */
pst_status pst_setup_room(pst_trainer *t);

/* A whole run, in this order. */
typedef struct {
    pst_data *data;
    pst_evaluate_sets sets;
    pst_prepared *p;
} pst_run_inputs;
/* Everything that can be known to be wrong before any rank starts; each rank for itself, or once
 * before they are started. world: as above. The others are collective. */
pst_status pst_setup_prepare(const pst_config *c, const pst_train_options *o, const pst_plan *plan,
                             uint32_t n_rank, const pst_world *world, pst_run_inputs *inputs);
/* run.yaml and plan.yaml in it; this process' alone from here on. */
pst_status pst_setup_folder(pst_trainer *t);
/* From the seed, a file, or the checkpoint to go on from. */
pst_status pst_setup_weights(pst_trainer *t);
/* And the room that steps need: none is asked for later. */
pst_status pst_setup_metrics(pst_trainer *t);
/* What these have opened in t, metrics and p excepted. */
void pst_setup_close(pst_trainer *t);
#endif
