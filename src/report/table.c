/* See table.h. */
#include "report/table.h"
#include "report/page.h"
#include <math.h>
#include <stdio.h>

const char *pst_table_loss(double loss, char text[PST_TABLE_CELL]) {
    snprintf(text, PST_TABLE_CELL, isnan(loss) ? "-" : "%.4f", loss);
    return text;
}

const char *pst_table_whole(double value, char text[PST_TABLE_CELL]) {
    snprintf(text, PST_TABLE_CELL, isnan(value) ? "-" : "%.0f", value);
    return text;
}

const char *pst_table_clock(double seconds, char text[PST_TABLE_CELL]) {
    if (!(seconds >= 0 && seconds < 1e12)) return pst_table_whole(NAN, text);
    long long s = (long long)seconds;
    if (s < 3600) snprintf(text, PST_TABLE_CELL, "%lld:%02lld", s / 60, s % 60);
    else snprintf(text, PST_TABLE_CELL, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return text;
}

double pst_table_steps(const pst_report_data *d) {
    double steps = pst_report_number(d->metrics.start, "steps");
    if (!isnan(steps)) return steps;
    return d->config ? (double)d->config->train.steps : NAN;
}

pst_status pst_table_recent(const pst_report_data *d, pst_report_curve curve, double *median) {
    enum { RECENT = 20 };
    const pst_report_metrics *m = &d->metrics;
    size_t n = m->n < RECENT ? m->n : RECENT;
    *median = NAN;
    return n ? pst_report_median(m->curve[curve] + m->n - n, n, median) : PST_OK;
}

double pst_table_best(const pst_report_data *d, double *step) {
    const pst_report_metrics *m = &d->metrics;
    double best = NAN;
    *step = NAN;
    for (size_t i = 0; i < m->n_validation; i++) {
        if (isnan(m->validation_loss[i]) || m->validation_loss[i] >= best) continue;
        best = m->validation_loss[i];
        *step = m->validation_step[i];
    }
    return best;
}
