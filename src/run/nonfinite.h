/* What becomes of a step whose loss or gradient is not finite. */
#ifndef PST_RUN_NONFINITE_H
#define PST_RUN_NONFINITE_H
#include "run/trainer.h"

/* Whether the step just done was applied, the same answer on every rank. One whose
 * loss or gradient is not finite was not (rank.c): it is repeated under the checker, and the
 * operator and tensor at fault are named. Then train.non_finite says: EINPUT, or OK and
 * skipped_in_row is not 0. Collective. */
pst_status pst_nonfinite_check(pst_trainer *t);
/* What helps against steps that are not finite: a fixed loss scale, else the learning rate. */
enum { PST_NONFINITE_ADVICE = 96 };
void pst_nonfinite_advice(const pst_trainer *t, char out[PST_NONFINITE_ADVICE]);
#endif
