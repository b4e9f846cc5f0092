/* Whether the system's limits leave a run what it needs. */
#ifndef PST_RUN_LIMITS_H
#define PST_RUN_LIMITS_H
#include "run/trainer.h"

/* Of a process of a job of so many ranks, before it joins them. ENOMEM names the limit. */
pst_status pst_limits_of_process(uint32_t ranks);
/* After pst_setup_prepare, whose layout says what memory, and what checkpoints, there will be. */
pst_status pst_limits_of_run(const pst_trainer *t);
#endif
