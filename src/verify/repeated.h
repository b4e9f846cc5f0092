/* Operators repeated by the reference kernels (rank/repeat.h): since both start from the same
 * inputs, no kink (relu, max_pool) lies between them, and only the rounding of one operator
 * differs. */
#ifndef PST_VERIFY_REPEATED_H
#define PST_VERIFY_REPEATED_H
#include "verify/compare.h"

/* Compares what each operator of the run has written with what its repetition has, within
 * `tolerance` of the tensor's largest element; adds the results to *out. */
void pst_repeated_check(const pst_recording *run, double tolerance, pst_comparison *out);
#endif
