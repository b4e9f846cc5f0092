/* Checks that the system's limits suffice for a run. */
#ifndef PST_RUN_LIMITS_H
#define PST_RUN_LIMITS_H
#include "run/trainer.h"

/* For a process of a job of so many ranks, before it joins them. ENOMEM names the limit. */
pst_status pst_limits_of_process(uint32_t ranks);
/* After pst_setup_prepare: for the memory and the checkpoints of this layout. */
pst_status pst_limits_of_run(const pst_trainer *t);
#endif
