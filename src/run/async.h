/* Asynchronous updates (parallel.update: async, bounded) in the training loop. Steps are grouped
 * into periods: within one, workers and servers run their lists without the others; at its end all
 * have done the same steps and have equal weights, reports are gathered, and evaluations and
 * checkpoints are possible. */
#ifndef PST_RUN_ASYNC_H
#define PST_RUN_ASYNC_H
#include "run/trainer.h"

/* Opens t->async, if updates are asynchronous: reads the order to replay (t->options->replay) and
 * opens order.txt. EINPUT; ENOMEM. Collective. */
pst_status pst_async_open(pst_trainer *t);
void pst_async_close(struct pst_async *a);
/* Checks o->replay before ranks start. EINPUT: updates are not asynchronous, or the file is not for
 * this run. */
pst_status pst_async_check(const pst_prepared *p, const pst_train_options *o);
/* Before a step: begins a period if the last one has ended. ENOMEM. */
pst_status pst_async_begin(pst_trainer *t);
/* Returns the first step of the period. */
uint64_t pst_async_from(const pst_trainer *t);
/* Returns 1 if the step that is done was the last of its period. */
int pst_async_ends(const pst_trainer *t);
/* Returns 1 if the step that is done is the last one of an order that is repeated, but not of the
 * run: that which wrote it was ended early. */
int pst_async_order_ends(const pst_trainer *t);
/* At the end of a period: gathers the orders of all servers, and writes them. Collective. */
pst_status pst_async_gather(pst_trainer *t);
/* How old the weights of a step's gradients were, in updates by other workers: mean and maximum
 * over workers and servers. step: one of the last period, counted from 1. */
typedef struct {
    double mean;
    uint64_t most;
} pst_async_age;
pst_async_age pst_async_age_of(const pst_trainer *t, uint64_t step);
#endif
