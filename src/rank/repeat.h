/* Repeats launches with the reference kernels (kernels/ref), from copies of the same inputs, for
 * `penstock verify`: with PENSTOCK_RECORD_REPEAT=1 the results are recorded beside those of the
 * launch (PST_RECORD_REPEATED). Only where the host can access the device's memory. */
#ifndef PST_RANK_REPEAT_H
#define PST_RANK_REPEAT_H
#include "rank/rank.h"

/* Copies of the operands of a launch. */
typedef struct {
    void *arg[PST_MAX_ARG]; /* NULL: the launch has no such operand */
    uint8_t *memory;        /* NULL: the launch is not repeated */
} pst_repeat;

/* To be called before the launch. pst_repeat_close must follow, also after an error. ENOMEM. */
pst_status pst_repeat_open(const pst_rank_call *call, pst_repeat *repeat);
/* Repeats the launch and records its results. */
pst_status pst_repeat_run(const pst_rank_call *call, const pst_repeat *repeat);
void pst_repeat_close(pst_repeat *repeat);
#endif
