/* Autotuning of the device's kernels (parallel.products). All ranks use the same algorithms, and so
 * do later runs with the run's plan and resumed runs. */
#ifndef PST_RUN_AUTOTUNE_H
#define PST_RUN_AUTOTUNE_H
#include "group/group.h"

/* Puts known results into p->plan: from the plan that was given to the run (NULL: none), else from
 * the run folder `resume` ("": none). To be called before any rank is open. ENOMEM. */
pst_status pst_autotune_load(pst_prepared *p, const pst_plan *plan, const char *resume);
/* Gathers the measured results of all ranks and puts them into p->plan; warns if results of the
 * plan could not be used. Collective; to be called when all ranks are open. */
pst_status pst_autotune_agree(pst_group *g, pst_prepared *p);
#endif
