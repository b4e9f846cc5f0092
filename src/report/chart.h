/* One curve chart of a report: lines in a stretched SVG, everything that is text beside it in HTML
 * (so that it keeps its size at every width), and the numbers for the script that shows them under
 * the pointer. */
#ifndef PST_REPORT_CHART_H
#define PST_REPORT_CHART_H
#include "base/status.h"
#include <stddef.h>
#include <stdio.h>

typedef struct {
    const char *name;    /* in the legend */
    const char *look;    /* class: m measured, p predicted, v validation */
    const double *x, *y; /* [n] x ascending; y NaN: missing */
    size_t n;
    double scale; /* y is multiplied with it */
    int points;   /* every value is marked, however many there are beside it */
} pst_report_series;

typedef struct {
    const char *title, *unit;        /* unit: behind numbers, "" none */
    const pst_report_series *series; /* [n_series] at most PST_REPORT_SERIES */
    size_t n_series;
    int from_zero; /* the axis starts at 0 */
    int cut;       /* rare values far above all others are cut off, and said to be */
    int wide;      /* over the whole page */
} pst_report_chart;
enum { PST_REPORT_SERIES = 4, PST_REPORT_POINTS = 480 };

/* What stands for one or more steps that follow each other. */
typedef struct {
    double from, to;          /* first and last step */
    double mean, least, most; /* NaN: no value in it */
} pst_report_point;

/* At most PST_REPORT_POINTS points, each of as many values (the last: fewer): nothing between least
 * and most is lost. Returns how many; *per: values per point. */
size_t pst_report_decimate(const pst_report_series *s, pst_report_point point[PST_REPORT_POINTS],
                           size_t *per);
/* A distance of ticks, 1, 2, 2.5 or 5 times a power of ten, that puts at most `most` of them into
 * `range`. */
double pst_report_tick(double range, int most, int whole);
/* Draws nothing where no series has a value. ENOMEM. */
pst_status pst_report_draw_chart(const pst_report_chart *chart, FILE *out);
#endif
