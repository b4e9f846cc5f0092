/* Private to planning/page*.c: the parts of a plan's report. */
#ifndef PST_PLANNING_PAGE_PARTS_H
#define PST_PLANNING_PAGE_PARTS_H
#include "planning/page.h"
#include "report/plan.h"

/* Fills the page, of which only `change` is set before. The caller releases the page, also after a
 * failure. ENOMEM. */
pst_status pst_plan_page_fill(const pst_prepared *p, const pst_search_result *result,
                              pst_plan_page *page);
/* planning/page_ranks.c: fills page->rank and page->trace for the ranks that are shown. ENOMEM. */
pst_status pst_plan_page_ranks(const pst_prepared *p, pst_plan_page *page);
/* planning/page_memory.c: fills to->held, the memory in use during the step, from the lifetimes of
 * the rank's memory slots (pipeline/compile/slots.h). ENOMEM. */
pst_status pst_plan_page_held(const pst_prepared *p, uint32_t rank, pst_plan_rank *to);
/* page_cluster.c: the devices of the cluster, if one is given. ENOMEM. */
pst_status pst_plan_page_cluster(const pst_prepared *p, pst_plan_page *page);
#endif
