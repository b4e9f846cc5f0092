/* One training step and its timeline. All are collective. */
#ifndef PST_RUN_STEP_H
#define PST_RUN_STEP_H
#include "metrics/metrics.h"
#include "run/trainer.h"

/* Applies the joined requests of all ranks (PST_STOP_): sets t->stopped and t->save_requested. */
void pst_step_take_requests(pst_trainer *t, uint64_t asked);
/* Runs one step with the data in the ranks' memory, which began at began_ns (monotonic); updates
 * t->step and t->report. */
pst_status pst_step_run(pst_trainer *t, uint64_t began_ns, pst_metrics_step *measured);
/* Call it afterwards: checks that the step was finite, see nonfinite.h. */
pst_status pst_step_check(pst_trainer *t);

/* trace.c: gathers the spans of the step just done and draws them; logs an error such as a full
 * disk and goes on. Collective. */
pst_status pst_trace_step(pst_trainer *t);
#endif
