/* One training step and its timeline. All are collective. */
#ifndef PST_RUN_STEP_H
#define PST_RUN_STEP_H
#include "metrics/metrics.h"
#include "run/trainer.h"

/* Applies the requests of all ranks, combined by | (PST_STOP_ bits): sets t->stopped and
 * t->save_requested. */
void pst_step_take_requests(pst_trainer *t, uint64_t asked);
/* The next lists are those for the batch of the next step; before its samples are copied. Ranks
 * evaluate with those of t->p (pst_group_use). ENOMEM. */
pst_status pst_step_use(pst_trainer *t);
/* Runs one step with the data in the ranks' memory; updates t->step and t->report and fills
 * *measured. began_ns: when the step began, in pst_monotonic_ns() time. */
pst_status pst_step_run(pst_trainer *t, uint64_t began_ns, pst_metrics_step *measured);
/* With islands, ranks gather their reports after outer steps, and between these after some steps
 * together, so that islands do not wait for each other; with asynchronous updates at the end of
 * each period (async.h): pst_step_run fills *measured only if t->n_pending is then 0. The t->n_late
 * steps before are then also known: sets t->report and *measured for the k-th of them, whose number
 * the caller has set in t->step; k = t->n_late: the last step. Not collective. */
enum { PST_REPORTS = 64 };
void pst_step_late(pst_trainer *t, uint32_t k, pst_metrics_step *measured);
/* Checks that the step's loss and gradients were finite (nonfinite.h); to be called after
 * pst_step_run. */
pst_status pst_step_check(pst_trainer *t);

/* trace.c: gathers the spans of the last step and draws the timeline. Errors such as a full disk
 * are logged and ignored. Collective. */
pst_status pst_trace_step(pst_trainer *t);
#endif
