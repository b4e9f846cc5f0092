/* The steps before training starts, for runs and for sessions (session.c). */
#ifndef PST_RUN_SETUP_H
#define PST_RUN_SETUP_H
#include "run/trainer.h"

/* Sets the log level by name. */
void pst_setup_log(const char *level);
/* Threads of each rank, if so many ranks share the processors. */
uint32_t pst_setup_threads(const pst_config *c, const pst_world *world, uint32_t ranks_here);
/* Puts the job's processes into the order of its ranks (parallel.devices, or the plan's; plan may
 * be NULL). */
pst_status pst_setup_placement(const pst_config *c, const pst_plan *plan, uint32_t n_rank,
                               pst_world **world);
/* The complete plan, after checking that the device exists and every rank fits in memory. options:
 * threads, isa and n_eval_micro are set here; world: NULL if all ranks will be in this process. */
pst_status pst_setup_plan(const pst_config *c, pst_prepare_options options, const pst_world *world,
                          pst_prepared **prepared);
/* Opens the ranks, which compare what they have prepared and measure the links between hosts; takes
 * over t->world. Collective. */
pst_status pst_setup_ranks(pst_trainer *t);
/* Creates all folders above the last name, like mkdir -p. */
pst_status pst_setup_parents(const char *path);
/* Allocates what steps measure: t->report, own, prediction. */
pst_status pst_setup_buffers(pst_trainer *t);

/* The steps of a run, in this order. */
typedef struct {
    pst_data *data;
    pst_evaluate_sets sets;
    pst_prepared *p;
} pst_run_inputs;
/* Every check that is possible before any rank starts; each rank calls it for itself, or the
 * launcher once before it starts them. world: as above. The others are collective. */
pst_status pst_setup_prepare(const pst_config *c, const pst_train_options *o, const pst_plan *plan,
                             uint32_t n_rank, const pst_world *world, pst_run_inputs *inputs);
/* Creates run.yaml and plan.yaml in the run's folder, which this process locks. */
pst_status pst_setup_folder(pst_trainer *t);
/* From the seed, a file, or the checkpoint to resume from. */
pst_status pst_setup_weights(pst_trainer *t);
/* Also allocates the buffers of training steps: nothing is allocated later. */
pst_status pst_setup_metrics(pst_trainer *t);
/* Closes what these functions opened in t, except metrics and p. */
void pst_setup_close(pst_trainer *t);
#endif
