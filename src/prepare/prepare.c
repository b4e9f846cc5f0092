/* See prepare.h: makes a layout and prepares it, in build.c or, with a schedule to solve, in
 * solved.c. */
#include "prepare/prepare.h"
#include "prepare/layout.h"
#include <string.h>

/* Jobs with more ranks take too long to prepare twice. */
enum { PREPARED_TWICE = 64 };

/* Whether the exchange is two-level because links say so, and a flat one can be simulated. */
static int may_be_flat(const pst_prepared *p) {
    return p->job->near > 1 && p->cluster && !p->options.lane &&
           p->options.n_rank <= PREPARED_TWICE && !strcmp(p->config->parallel.exchange, "auto");
}

/* Links do not say which exchange makes the step shorter: it depends on what the exchange hides
 * behind. Keeps the job with the shorter simulated step; *p has the two-level one. */
static pst_status try_flat(const pst_config *config, const pst_prepare_options *options,
                           const pst_layout *l, pst_prepared **p) {
    pst_prepare_options o = *options;
    pst_prepared *flat, *longer;
    o.flat = 1;
    o.quiet = 1;
    PST_TRY(pst_prepare_build(config, &o, l, &flat));
    longer = flat->mean_ns < (*p)->mean_ns ? *p : flat;
    *p = longer == flat ? *p : flat;
    pst_prepared_close(longer);
    return PST_OK;
}

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
    const int built = status == PST_OK;
    if (built && !solves && may_be_flat(*prepared))
        status = try_flat(config, options, &l, prepared);
    pst_layout_close(&l);
    if (!built) return status;
    if (status == PST_OK) status = pst_prepare_inner(*prepared);
    if (status == PST_OK && options->smaller) status = pst_prepare_smaller(*prepared);
    if (status == PST_OK) return PST_OK;
    pst_prepared_close(*prepared);
    *prepared = NULL;
    return status;
}
