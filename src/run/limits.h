/* Checks that the limits of the system (ulimit) suffice for a run. */
#ifndef PST_RUN_LIMITS_H
#define PST_RUN_LIMITS_H
#include "run/trainer.h"

/* For a process of a job of `ranks` ranks, to be called before it joins the job. ENOMEM: the
 * message names the limit. */
pst_status pst_limits_of_process(uint32_t ranks);
/* For the memory and the checkpoints of this layout, to be called after pst_setup_prepare. ENOMEM
 * likewise. */
pst_status pst_limits_of_run(const pst_trainer *t);
#endif
