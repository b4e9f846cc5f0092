/* Checks that one recording passes or fails alone, whatever other runs have computed. */
#ifndef PST_VERIFY_INSIDE_H
#define PST_VERIFY_INSIDE_H
#include "verify/compare.h"

/* Every operator has read what another one has written, on its own rank or, by a message, on
 * another one; what was recomputed has the first time's bits; what ranks hold alike is the same on
 * all of them: the numbers of a step, weights of replicas, sums over tensor ranks. *out is added
 * to. */
void pst_inside_check(const pst_recording *run, pst_comparison *out);
#endif
