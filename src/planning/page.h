/* Builds the HTML report of a plan (report/plan.h) from the prepared run, the predicted step and
 * the result of the search. */
#ifndef PST_PLANNING_PAGE_H
#define PST_PLANNING_PAGE_H
#include "partition/search/search.h"
#include "planning/budget.h"
#include "prepare/prepare.h"

/* Writes one HTML file to `path`. prepared->timing must be the timing of prepared->job, with spans.
 * result: NULL: there was no search. budget: NULL: none. change: a change with which the layout
 * would fit in memory;
 * "": none is known. EINPUT: the path is not writable; ENOMEM. */
pst_status pst_plan_page_of(const pst_prepared *prepared, const pst_search_result *result,
                            const pst_budget *budget, const char *change, const char *path);
#endif
