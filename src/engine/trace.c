/* The timeline of one training step as it was measured: every rank's spans on one time axis, drawn by rank 0. */
#include "base/log.h"
#include "engine/trainer.h"
#include "pipeline/timeline.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* predicted: of the same lists, NULL where there is none. */
static pst_status write_timeline(const pst_trainer *t, pst_span *const *span, pst_span *const *predicted) {
    char path[1024], title[160];
    snprintf(title, sizeof title, "%s, step %" PRIu64 ", measured: %s", t->config->name, t->step, t->p->plan->schedule);
    for (int svg = 0; svg < 2; svg++) {
        snprintf(path, sizeof path, "%s/%s", t->folder, svg ? "timeline.svg" : "trace.json");
        FILE *f = fopen(path, "w");
        if (!f) return pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
        pst_status status = svg ? pst_timeline_svg(t->p->job, span, title, f)
                                : pst_timeline_trace(t->p->job, span, title, predicted, f);
        if (fclose(f) != 0 && status == PST_OK) status = pst_fail(PST_ENOMEM, "%s: %s", path, strerror(errno));
        PST_TRY(status);
    }
    return PST_OK;
}

/* Measured beside predicted; the durations in the lists are those that the prediction has learned. */
static void draw(const pst_trainer *t, pst_span *const *span) {
    pst_timing *timing = NULL;
    if (pst_simulate(t->p->job, &timing) != PST_OK) pst_log(PST_LOG_WARN, "no predicted timeline: %s", pst_error());
    if (write_timeline(t, span, timing ? timing->span : NULL) != PST_OK)
        pst_log(PST_LOG_WARN, "no timeline: %s", pst_error());
    pst_timing_close(timing);
}

/* Gathers every rank's spans of the step just done on one time axis and draws them. */
pst_status pst_trace_step(pst_trainer *t) {
    uint32_t n = t->p->options.n_rank, most = 0;
    uint64_t first = PST_NEVER;
    for (uint32_t r = 0; r < n; r++) {
        if (t->p->job->list[r].n_instr > most) most = t->p->job->list[r].n_instr;
        if (t->report[r].origin_ns < first) first = t->report[r].origin_ns;
    }
    pst_span *mine = calloc((size_t)t->group->n_local * most, sizeof *mine),
             *all = calloc((size_t)n * most, sizeof *all);
    pst_span **span = calloc(n, sizeof *span);
    pst_status status = mine && all && span ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a timeline");
    for (uint32_t i = 0; status == PST_OK && i < t->group->n_local; i++) {
        const pst_rank *r = t->group->local[i];
        uint64_t origin;
        memcpy(mine + (size_t)i * most, pst_executor_spans(r->executor, &origin),
               t->p->job->list[r->rank].n_instr * sizeof *mine);
    }
    status = pst_group_agree(t->group, status);
    if (status == PST_OK) status = pst_group_all_gather(t->group, mine, most * sizeof *mine, all);
    for (uint32_t r = 0; status == PST_OK && r < n; r++) {
        span[r] = all + (size_t)r * most;
        for (uint32_t i = 0; i < t->p->job->list[r].n_instr; i++)
            span[r][i].start += t->report[r].origin_ns - first, span[r][i].end += t->report[r].origin_ns - first;
    }
    if (status == PST_OK && t->group->leader) draw(t, span);
    free(mine), free(all), free(span);
    return status;
}
