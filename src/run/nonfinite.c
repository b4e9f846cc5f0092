/* Handles a step whose loss or gradient is not finite. It was not applied; it is repeated under the
 * checker, which names operator and tensor; then the run ends, or goes on with the next batch. */
#include "base/log.h"
#include "run/nonfinite.h"
#include "run/saving.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* After so many skipped steps in a row the run ends: it would not recover. */
enum { MAX_IN_ROW = 100 };

/* Repeats the step with the batch that is still in the arenas. *first: origin of the first
 * non-finite number; NULL: all numbers were finite this time. Collective. */
static pst_status replay(pst_trainer *t, const pst_culprit **first) {
    pst_group *g = t->group;
    for (uint32_t i = 0; i < g->n_local; i++) {
        g->local[i]->replay = 1;
        pst_replay_begin(g->local[i]);
    }
    pst_status status = pst_group_run(g, 1);
    for (uint32_t i = 0; i < g->n_local; i++) {
        g->local[i]->replay = 0;
        t->own_culprit[i] = g->local[i]->culprit;
    }
    PST_TRY(status);
    PST_TRY(pst_group_all_gather(g, t->own_culprit, sizeof *t->own_culprit, t->culprit));
    *first = pst_replay_first(t->culprit, g->n_rank);
    return PST_OK;
}

void pst_nonfinite_advice(const pst_trainer *t, char out[PST_NONFINITE_ADVICE]) {
    if (t->scaler.dynamic)
        snprintf(out, PST_NONFINITE_ADVICE,
                 "lower train.loss_scale_start (the scale is %g), or train.lr (%g)",
                 t->scaler.scale, t->config->train.lr);
    else if (t->scaler.scale > 1)
        snprintf(out, PST_NONFINITE_ADVICE,
                 "lower train.loss_scale (%g), or set it to 0 for a dynamic scale",
                 t->scaler.scale);
    else snprintf(out, PST_NONFINITE_ADVICE, "lower train.lr (%g)", t->config->train.lr);
}

static pst_status diverged(const pst_trainer *t, double loss, double norm, const pst_culprit *first,
                           const char *what) {
    char last[64] = "there is no checkpoint yet", advice[PST_NONFINITE_ADVICE] = "";
    int scaled = t->scaler.scale > 1 && !t->scaler.dynamic, weights = first->bad_param != PST_NONE;
    if (t->checkpointed != UINT64_MAX)
        snprintf(last, sizeof last, "the last checkpoint is of step %" PRIu64, t->checkpointed);
    if (!weights) pst_nonfinite_advice(t, advice);
    return pst_fail(PST_EINPUT,
                    "training has diverged at step %" PRIu64
                    ": loss %g, gradient norm %g; %s; %s%s%s%s",
                    t->step, fabs(loss), fabs(norm), what, advice,
                    weights || scaled || t->config->train.clip > 0 ? "" : ", or set train.clip",
                    weights ? "" : "; ", last);
}

/* Logs the first skipped step of a process in full; each has its line in metrics.jsonl. */
static pst_status skip(pst_trainer *t, double loss, double norm, const pst_culprit *first,
                       const char *what) {
    char advice[PST_NONFINITE_ADVICE];
    t->skipped++;
    pst_nonfinite_advice(t, advice);
    if (++t->skipped_in_row >= MAX_IN_ROW)
        return pst_fail(PST_EINPUT,
                        "%d consecutive steps were skipped, the last is step %" PRIu64
                        ": loss %g, gradient norm %g; %s; %s, or check the data",
                        MAX_IN_ROW, t->step, fabs(loss), fabs(norm), what, advice);
    if (t->metrics) pst_metrics_non_finite(t->metrics, t->step, t->skipped, first);
    if (t->metrics && !t->skip_logged++)
        pst_log(PST_LOG_WARN,
                "step %" PRIu64 " is skipped: loss %g, gradient norm %g; %s; further skipped steps "
                "are listed in metrics.jsonl only",
                t->step, fabs(loss), fabs(norm), what);
    return PST_OK;
}

/* Some island or worker has skipped the step, whose weights have been replaced since. */
static pst_status islands_diverged(const pst_trainer *t, double loss, double norm) {
    char advice[PST_NONFINITE_ADVICE];
    pst_nonfinite_advice(t, advice);
    return pst_fail(PST_EINPUT,
                    "training has diverged at step %" PRIu64
                    ": loss %g, gradient norm %g of the %s together; %s",
                    t->step, fabs(loss), fabs(norm), t->async ? "workers" : "islands", advice);
}

/* The norm is that of the gradients of an earlier step, whose samples are gone. */
static pst_status delayed_diverged(const pst_trainer *t, double loss, double norm) {
    char advice[PST_NONFINITE_ADVICE];
    pst_nonfinite_advice(t, advice);
    return pst_fail(PST_EINPUT,
                    "training has diverged at step %" PRIu64
                    ": loss %g, gradient norm %g of step %" PRIu64 " (parallel.update=delayed); %s",
                    t->step, fabs(loss), fabs(norm), t->step - t->p->job->staleness, advice);
}

/* Every rank has the same numbers and decides alike. If weights are not finite, no later step can
 * be, so no step is skipped then. */
pst_status pst_nonfinite_check(pst_trainer *t) {
    const pst_rank *r = t->group->local[0];
    double loss = r->loss_sum / (double)r->targets, norm = r->grad_norm;
    const pst_culprit *first;
    char what[PST_REPLAY_TEXT];
    if (t->overflowed) return PST_OK;
    if (t->times_only || (isfinite(loss) && isfinite(norm))) {
        t->skipped_in_row = 0;
        return PST_OK;
    }
    if (t->is_late || t->async) return pst_group_agree(t->group, islands_diverged(t, loss, norm));
    PST_TRY(replay(t, &first));
    pst_status status;
    if (!first && r->p->job->syncs) { /* with other weights */
        status = islands_diverged(t, loss, norm);
    } else if (!first && r->p->job->staleness) {
        status = delayed_diverged(t, loss, norm);
    } else if (!first) {
        status = pst_fail(PST_EINTERNAL,
                          "step %" PRIu64
                          ": loss %g, gradient norm %g, but both were finite when the step was "
                          "repeated; the hardware may be faulty: check memory and processors",
                          t->step, fabs(loss), fabs(norm));
    } else {
        pst_replay_text(t->p->graph, first, what);
        int skips = !strcmp(t->config->train.non_finite, "skip") && first->bad_param == PST_NONE;
        /* the checkpoint that is being written has finite weights */
        if (!skips) PST_TRY(pst_saving_finish(t));
        status = skips ? skip(t, loss, norm, first, what) : diverged(t, loss, norm, first, what);
    }
    if (status != PST_OK && t->metrics) pst_metrics_non_finite(t->metrics, t->step, 0, first);
    return status == PST_OK ? PST_OK : pst_group_agree(t->group, status);
}
