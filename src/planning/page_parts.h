/* Private to planning/page*.c: the parts of a plan's report that are filled apart. */
#ifndef PST_PLANNING_PAGE_PARTS_H
#define PST_PLANNING_PAGE_PARTS_H
#include "planning/page.h"
#include "report/plan.h"

/* The whole page; zeros before, but `change`. What is there has to be released in every case.
 * ENOMEM. */
pst_status pst_plan_page_fill(const pst_prepared *p, const pst_search_result *result,
                              pst_plan_page *page);
/* planning/page_ranks.c: page->rank and page->trace, of the ranks that are shown. ENOMEM. */
pst_status pst_plan_page_ranks(const pst_prepared *p, pst_plan_page *page);
/* planning/page_memory.c: what a rank holds over the step, from the lives of its slots. ENOMEM. */
pst_status pst_plan_page_held(const pst_prepared *p, uint32_t rank, pst_plan_rank *to);
#endif
