/* Logits with gaps between their rows (pst_graph_pad), on a processor whose kernels know none: they
 * compute on copies without. What a GPU relies on is checked: zeros behind the weight, and in the
 * gaps of the gradient; where nothing is promised, there is NaN. FAR_GAPS=1 has the device want
 * them. */
#ifndef TESTS_FAR_FAR_GAPS_H
#define TESTS_FAR_FAR_GAPS_H
#include "kernels/kernel.h"

/* 1: an operand of the node has gaps. */
int far_gaps_has(const pst_kernel_row *row, const pst_call *call);
pst_status far_gaps_launch(const pst_kernel_row *row, pst_device *cpu, const pst_call *call);
#endif
