/* A complete run on the ranks of this process: set-up, training loop, end. */
#ifndef PST_RUN_TRAIN_H
#define PST_RUN_TRAIN_H
#include "base/world.h"
#include "penstock/run.h"

struct pst_elastic;

/* Runs this process's part of a run. plan and elastic (elastic.h: one epoch of a run) may be NULL;
 * takes ownership of the world. If all ranks fail with the same error, one rank prints it, and this
 * thread's message is cleared on all. */
pst_status pst_train_here(pst_config *c, const pst_train_options *o, const pst_plan *plan,
                          pst_world *world, uint32_t n_rank, struct pst_elastic *elastic);
void pst_train_report_once(pst_world *world);
#endif
