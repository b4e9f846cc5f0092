/* See prepare.h: makes a layout and prepares it, in build.c or, with a schedule to solve, in
 * solved.c. */
#include "prepare/prepare.h"
#include "prepare/layout.h"

pst_status pst_prepare(const pst_config *config, const pst_prepare_options *options,
                       pst_prepared **prepared) {
    const pst_layout *given = options->layout;
    pst_layout l;
    PST_TRY(given ? pst_layout_copy(given, &l) : pst_prepare_layout(config, options, &l));
    int solves = pst_schedule_kind_of(l.schedule) == PST_SCHEDULE_SOLVED && !options->schedules;
    pst_status status;
    if (solves && options->lane)
        status =
            pst_fail(PST_EINPUT, "schedule solved needs all lanes of the job, not a single one");
    else if (solves) status = pst_prepare_solved(config, options, &l, prepared);
    else status = pst_prepare_build(config, options, &l, prepared);
    pst_layout_close(&l);
    if (status != PST_OK) return status;
    status = pst_prepare_inner(*prepared);
    if (status == PST_OK && options->smaller) status = pst_prepare_smaller(*prepared);
    if (status == PST_OK) return PST_OK;
    pst_prepared_close(*prepared);
    *prepared = NULL;
    return status;
}
