/* One training step, what becomes of one that is not finite, and its timeline. All are
 * collective. */
#ifndef PST_RUN_STEP_H
#define PST_RUN_STEP_H
#include "metrics/metrics.h"
#include "run/trainer.h"

/* The requests of all ranks (PST_STOP_), joined, set t->stopped and t->save_requested. */
void pst_step_take_requests(pst_trainer *t, uint64_t asked);
/* One step with the data that the ranks have, which began at began_ns (monotonic); t->step and
 * t->report follow. */
pst_status pst_step_run(pst_trainer *t, uint64_t began_ns, pst_metrics_step *measured);
/* Afterwards: whether that was a step: see pst_nonfinite_check. */
pst_status pst_step_check(pst_trainer *t);

/* nonfinite.c: whether the step just done was applied, the same answer on every rank. One whose
 * loss or gradient is not finite was not (rank.c): it is repeated under the checker, and the
 * operator and tensor at fault are named. Then train.non_finite says: EINPUT, or OK and
 * skipped_in_row is not 0. Collective. */
pst_status pst_nonfinite_check(pst_trainer *t);
/* What helps against steps that are not finite: a fixed loss scale, else the learning rate. */
enum { PST_NONFINITE_ADVICE = 96 };
void pst_nonfinite_advice(const pst_trainer *t, char out[PST_NONFINITE_ADVICE]);

/* trace.c: gathers the spans of the step just done and draws them; a full disk is said and
 * survived. Collective. */
pst_status pst_trace_step(pst_trainer *t);
#endif
