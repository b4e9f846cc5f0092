/* What happens after a step whose loss or gradient is not finite. */
#ifndef PST_RUN_NONFINITE_H
#define PST_RUN_NONFINITE_H
#include "run/trainer.h"

/* Checks whether the step just done was applied; the same answer on every rank. A step whose loss
 * or gradient is not finite was not (rank.c): it is repeated under the checker, and the operator
 * and tensor of origin are named. train.non_finite then decides: EINPUT, or OK with skipped_in_row
 * > 0. Collective. */
pst_status pst_nonfinite_check(pst_trainer *t);
/* Advice against steps that are not finite: change the loss scale, else the learning rate. */
enum { PST_NONFINITE_ADVICE = 96 };
void pst_nonfinite_advice(const pst_trainer *t, char out[PST_NONFINITE_ADVICE]);
#endif
