/* One training step and its timeline. All are collective. */
#ifndef PST_RUN_STEP_H
#define PST_RUN_STEP_H
#include "metrics/metrics.h"
#include "run/trainer.h"

/* The requests of all ranks (PST_STOP_), joined, set t->stopped and t->save_requested. */
void pst_step_take_requests(pst_trainer *t, uint64_t asked);
/* One step with the data that the ranks have, which began at began_ns (monotonic); t->step and
 * t->report follow. */
pst_status pst_step_run(pst_trainer *t, uint64_t began_ns, pst_metrics_step *measured);
/* Afterwards: whether that was a step: see nonfinite.h. */
pst_status pst_step_check(pst_trainer *t);

/* trace.c: gathers the spans of the step just done and draws them; a full disk is said and
 * survived. Collective. */
pst_status pst_trace_step(pst_trainer *t);
#endif
