/* What the device's kernels choose by measuring (parallel.products), so that all ranks choose alike
 * and a rerun with the run's plan, or one that is resumed, does, too. */
#ifndef PST_RUN_AUTOTUNE_H
#define PST_RUN_AUTOTUNE_H
#include "group/group.h"

/* What is known before any rank is open, into p->plan: of the plan that the run was given (NULL:
 * none), else of the run folder that it is resumed from ("": none). ENOMEM. */
pst_status pst_autotune_know(pst_prepared *p, const pst_plan *plan, const char *resume);
/* When all ranks are open: what was measured is the same on all of them from now on, and in
 * p->plan. Says where the plan's choices were of no use. Collective. */
pst_status pst_autotune_agree(pst_group *g, pst_prepared *p);
#endif
