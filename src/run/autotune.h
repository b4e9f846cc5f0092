/* Autotuning of the device's kernels (parallel.products): all ranks choose the same algorithms, and
 * so does a rerun with the run's plan, or a resumed run. */
#ifndef PST_RUN_AUTOTUNE_H
#define PST_RUN_AUTOTUNE_H
#include "group/group.h"

/* Before any rank is open: puts known results into p->plan, from the plan that the run was given
 * (NULL: none), else from the run folder that it resumes ("": none). ENOMEM. */
pst_status pst_autotune_load(pst_prepared *p, const pst_plan *plan, const char *resume);
/* When all ranks are open: shares the measured results among them, and puts them into p->plan.
 * Warns if the plan's results could not be used. Collective. */
pst_status pst_autotune_agree(pst_group *g, pst_prepared *p);
#endif
