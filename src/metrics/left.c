/* The time that a run has left. */
#include "metrics/metrics.h"

/* Before the first evaluation was timed, a pass of it is taken for the forward third of a step. */
static double evaluation_s(const pst_metrics_progress *p, double step_s) {
    if (p->evaluations) return p->evaluated_s / (double)p->evaluations;
    return (double)p->passes * step_s / 3;
}

/* That of the step just done, which is shown before it is evaluated, those of later steps, and the
 * one at the end. */
static uint64_t to_come(const pst_metrics_progress *p) {
    if (!p->passes) return 0;
    return 1 + (p->every ? (p->steps - 1) / p->every - (p->step - 1) / p->every : 0);
}

double pst_metrics_left(const pst_metrics_progress *p) {
    double step_s = (p->elapsed_s - p->evaluated_s) / (double)(p->step - p->first);
    return (double)(p->steps - p->step) * step_s + (double)to_come(p) * evaluation_s(p, step_s);
}
