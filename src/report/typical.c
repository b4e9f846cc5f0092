/* A typical step of a run: medians of measured and predicted values. */
#include "report/typical.h"
#include "report/page.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The steps from which the prediction learns, and one more to warm up. */
enum { SETTLING = 6 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

pst_status pst_report_median(const double *value, size_t n, double *median) {
    size_t there = 0;
    double *sorted = malloc((n ? n : 1) * sizeof *sorted);
    if (!sorted) return pst_fail(PST_ENOMEM, "no memory for a median");
    for (size_t i = 0; i < n; i++)
        if (!isnan(value[i])) sorted[there++] = value[i];
    qsort(sorted, there, sizeof *sorted, ascending);
    if (!there) *median = NAN;
    else if (there % 2) *median = sorted[there / 2];
    else *median = (sorted[there / 2 - 1] + sorted[there / 2]) / 2;
    free(sorted);
    return PST_OK;
}

static double tokens_of(const pst_report_metrics *m, size_t i) {
    const double *tokens = m->curve[PST_REPORT_TOKENS];
    return i ? (tokens[i] - tokens[i - 1]) / (m->step[i] - m->step[i - 1]) : NAN;
}

/* Leaves out steps before index `from`, those in which the prediction learns, and those with fewer
 * tokens than the last one (train.batch_warmup). */
static size_t settle(const pst_report_metrics *m, size_t from) {
    const size_t n = m->n - from;
    const double last = m->n ? tokens_of(m, m->n - 1) : NAN;
    size_t first = from + (n > 2 * SETTLING ? SETTLING : n > 1);
    while (first + 1 < m->n && tokens_of(m, first) < last) first++;
    return first;
}

size_t pst_report_settled(const pst_report_metrics *m) { return settle(m, 0); }

/* Leaves the steps up to `after` out of the settled ones. */
static size_t first_of(const pst_report_metrics *m, uint64_t after) {
    size_t from = 0;
    while (from < m->n && m->step[from] <= (double)after) from++;
    return settle(m, from);
}

static pst_status find(const pst_report_metrics *m, uint64_t after, pst_report_typical *t) {
    static const pst_report_curve curve[] = {PST_REPORT_STEP_MS, PST_REPORT_PREDICTED_STEP_MS,
                                             PST_REPORT_BUBBLE, PST_REPORT_PREDICTED_BUBBLE};
    double *const median[] = {&t->step_ms, &t->predicted_step_ms, &t->bubble, &t->predicted_bubble};
    size_t first = first_of(m, after);
    if (first >= m->n) return pst_fail(PST_EINPUT, "there are no steps");
    for (size_t k = 0; k < sizeof curve / sizeof *curve; k++)
        PST_TRY(pst_report_median(m->curve[curve[k]] + first, m->n - first, median[k]));
    t->first = m->step[first];
    t->last = m->step[m->n - 1];
    return PST_OK;
}

pst_status pst_report_typical_step(const char *run, uint64_t after, pst_report_typical *typical) {
    char path[1300];
    pst_report_metrics m = {0};
    if (snprintf(path, sizeof path, "%s/metrics.jsonl", run) >= (int)sizeof path)
        return pst_fail(PST_EINPUT, "the path '%.60s...' is too long", run);
    FILE *file = fopen(path, "r");
    if (!file) return pst_fail(PST_EINPUT, "%s: %s", path, strerror(errno));
    pst_status status = pst_report_read_metrics(file, &m);
    fclose(file);
    if (status == PST_OK) status = find(&m, after, typical);
    pst_report_release_metrics(&m);
    return status;
}
