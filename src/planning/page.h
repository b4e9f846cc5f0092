/* The report of a plan: a page (report/plan.h) from what was prepared, its predicted step and what
 * the search looked at. */
#ifndef PST_PLANNING_PAGE_H
#define PST_PLANNING_PAGE_H
#include "partition/search/search.h"
#include "prepare/prepare.h"

/* Writes it as one HTML file. result: NULL where nothing was searched. change: with what it would
 * fit, "" not known. prepared->timing is of prepared->job and has spans. EINPUT: cannot be written
 * there; ENOMEM. */
pst_status pst_plan_page_of(const pst_prepared *prepared, const pst_search_result *result,
                            const char *change, const char *path);
#endif
