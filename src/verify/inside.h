/* Checks of a single recording, without comparing it with another run. */
#ifndef PST_VERIFY_INSIDE_H
#define PST_VERIFY_INSIDE_H
#include "verify/compare.h"

/* Checks that operators have read what other operators have written, on the same rank or, through a
 * message, on another rank; that recomputation gave the same bits as the first computation; and
 * that copies of the same values on several ranks are equal: the scalars of a step, weights of
 * replicas, sums over tensor ranks. Adds the results to *out. */
void pst_inside_check(const pst_recording *run, pst_comparison *out);
#endif
