/* The remaining time of a run. */
#include "metrics/metrics.h"

/* Until an evaluation has been timed, each of its forward passes counts as a third of a step. */
static double evaluation_s(const pst_metrics_progress *p, double step_s) {
    if (p->evaluations) return p->evaluated_s / (double)p->evaluations;
    return (double)p->passes * step_s / 3;
}

/* Evaluations to come: that of the step just done (the progress line comes before it), those of
 * later steps, and the one at the end. */
static uint64_t to_come(const pst_metrics_progress *p) {
    if (!p->passes) return 0;
    return 1 + (p->every ? (p->steps - 1) / p->every - (p->step - 1) / p->every : 0);
}

double pst_metrics_time_left(const pst_metrics_progress *p) {
    const pst_batches *b = p->batches;
    const uint64_t done = pst_batches_before(b, p->step), batch = b->row[b->n - 1].size;
    double sample_s =
        (p->elapsed_s - p->evaluated_s) / (double)(done - pst_batches_before(b, p->first));
    return (double)(pst_batches_before(b, p->steps) - done) * sample_s +
           (double)to_come(p) * evaluation_s(p, (double)batch * sample_s);
}
