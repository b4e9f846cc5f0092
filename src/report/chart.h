/* One curve chart of a report: lines in a stretched SVG, text beside it in HTML (so that it
 * keeps its size at every width), and the numbers that the script shows under the pointer. */
#ifndef PST_REPORT_CHART_H
#define PST_REPORT_CHART_H
#include "base/status.h"
#include <stddef.h>
#include <stdio.h>

typedef struct {
    const char *name;    /* name in the legend */
    const char *look;    /* class: m measured, p predicted, v validation */
    const double *x, *y; /* [n] x ascending; y NaN: missing */
    size_t n;
    double scale; /* factor of y */
    int points;   /* marks every value, however many there are */
} pst_report_series;

typedef struct {
    const char *title, *unit;        /* unit: printed behind numbers, "" none */
    const pst_report_series *series; /* [n_series] at most PST_REPORT_SERIES */
    size_t n_series;
    int from_zero; /* the axis starts at 0 */
    int cut;       /* the axis may cut off rare values far above all others; a note says so */
    int wide;      /* as wide as the page */
} pst_report_chart;
enum { PST_REPORT_SERIES = 4, PST_REPORT_POINTS = 480 };

/* A point: one or more consecutive steps. */
typedef struct {
    double from, to;          /* first and last step */
    double mean, least, most; /* NaN: no value in it */
} pst_report_point;

/* At most PST_REPORT_POINTS points with the same number of values each (the last may have
 * fewer); minimum and maximum keep extreme values visible. Returns the number of points; *per:
 * values per point. */
size_t pst_report_decimate(const pst_report_series *s, pst_report_point point[PST_REPORT_POINTS],
                           size_t *per);
/* A tick distance of 1, 2, 2.5 or 5 times a power of ten that gives at most `most` ticks in
 * `range`. */
double pst_report_tick(double range, int most, int whole);
/* Draws nothing if no series has a value. ENOMEM. */
pst_status pst_report_draw_chart(const pst_report_chart *chart, FILE *out);
#endif
