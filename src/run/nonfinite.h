/* What happens after a step whose loss or gradient is not finite. */
#ifndef PST_RUN_NONFINITE_H
#define PST_RUN_NONFINITE_H
#include "run/trainer.h"

/* Checks whether loss and gradients of the last step were finite; if not, STEP has not changed the
 * weights (rank.c), and the step is repeated under the checker (replay.h), which finds the operator
 * and tensor of origin. Then, as train.non_finite requests, returns EINPUT, or OK with
 * t->skipped_in_row > 0. The result is equal on all ranks. Collective. */
pst_status pst_nonfinite_check(pst_trainer *t);
/* Writes advice against non-finite steps: which key to change, with its present value. */
enum { PST_NONFINITE_ADVICE = 96 };
void pst_nonfinite_advice(const pst_trainer *t, char out[PST_NONFINITE_ADVICE]);
#endif
