/* Set-up before training starts, for runs and for sessions (session.c). */
#ifndef PST_RUN_SETUP_H
#define PST_RUN_SETUP_H
#include "run/trainer.h"

/* Sets the log level: "error", "warn", "info" or "debug". */
void pst_setup_log(const char *level);
/* Threads per rank if ranks_here ranks share the processors. */
uint32_t pst_setup_threads(const pst_config *c, const pst_world *world, uint32_t ranks_here);
/* Reorders the processes of the world so that each rank runs on its device (from parallel.devices
 * or the plan, which may be NULL). */
pst_status pst_setup_placement(const pst_config *c, const pst_plan *plan, uint32_t n_rank,
                               pst_world **world);
/* Prepares the run, after checking that the device exists, and checks that every rank fits in
 * memory. options: threads, isa and n_eval_micro are set by this function; world: NULL: all ranks
 * will be in this process. The caller closes *prepared. */
pst_status pst_setup_plan(const pst_config *c, pst_prepare_options options, pst_world *world,
                          pst_prepared **prepared);
/* Opens the ranks of this process; then all ranks compare what they have prepared and measure the
 * links between hosts. Takes ownership of t->world. Collective. */
pst_status pst_setup_ranks(pst_trainer *t);
/* Creates the parent folders of `path`, like mkdir -p. */
pst_status pst_setup_parents(const char *path);
/* Allocates t->report, t->own_report and t->prediction. */
pst_status pst_setup_buffers(pst_trainer *t);

/* The steps of a run's set-up, in this order. */
typedef struct {
    pst_data *data;
    pst_evaluate_sets sets;
    pst_prepared *p;
} pst_run_inputs;
/* Makes every check that is possible before ranks start, and fills *inputs. Not collective: each
 * rank calls it, or the launcher once before it starts ranks. world: as above. The following
 * functions are collective. */
pst_status pst_setup_prepare(pst_config *c, const pst_train_options *o, const pst_plan *plan,
                             uint32_t n_rank, pst_world *world, pst_run_inputs *inputs);
/* Creates and locks the run's folder and writes run.yaml and plan.yaml to it. */
pst_status pst_setup_folder(pst_trainer *t);
/* Initialises the weights from the seed, a file, or the checkpoint to resume from. */
pst_status pst_setup_weights(pst_trainer *t);
/* Opens the metrics and allocates the buffers of training steps; nothing is allocated later. */
pst_status pst_setup_metrics(pst_trainer *t);
/* Closes what these functions have opened in t, except t->metrics and t->p. */
void pst_setup_close(pst_trainer *t);
#endif
