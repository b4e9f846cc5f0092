/* Report of a plan as a page (report/plan.h): from the prepared run, its predicted step and the
 * result of the search. */
#ifndef PST_PLANNING_PAGE_H
#define PST_PLANNING_PAGE_H
#include "partition/search/search.h"
#include "prepare/prepare.h"

/* Writes one HTML file. result: NULL: there was no search. change: what would make it fit, "":
 * unknown. prepared->timing belongs to prepared->job and has spans. EINPUT: the path is not
 * writable; ENOMEM. */
pst_status pst_plan_page_of(const pst_prepared *prepared, const pst_search_result *result,
                            const char *change, const char *path);
#endif
