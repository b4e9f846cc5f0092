/* A line chart of a report: lines in an SVG that is stretched to the available width, text in HTML,
 * which keeps its size, and the numbers that the script shows under the pointer. */
#ifndef PST_REPORT_CHART_H
#define PST_REPORT_CHART_H
#include "base/status.h"
#include <stddef.h>
#include <stdio.h>

typedef struct {
    const char *name;    /* name in the legend */
    const char *look;    /* CSS class: m measured, p predicted, v validation */
    const double *x, *y; /* [n] x ascending; y NaN: no value */
    size_t n;
    double scale; /* factor by which y is multiplied */
    int points;   /* 1: draw a mark at every value */
} pst_report_series;

typedef struct {
    const char *title, *unit;        /* unit: printed after numbers; "": none */
    const pst_report_series *series; /* [n_series] at most PST_REPORT_SERIES */
    size_t n_series;
    int from_zero; /* 1: the y axis starts at 0 */
    int cut;       /* 1: the y axis may cut off a few values far above all others; a note says so */
    int wide;      /* 1: as wide as the page */
} pst_report_chart;
enum { PST_REPORT_SERIES = 4, PST_REPORT_POINTS = 480 };

/* A point of a line: one or more consecutive steps. */
typedef struct {
    double from, to;          /* first and last step */
    double mean, least, most; /* NaN: no value in these steps */
} pst_report_point;

/* Reduces a series to at most PST_REPORT_POINTS points of *per values each (the last may have
 * fewer), each with mean, minimum and maximum. Returns the number of points. */
size_t pst_report_decimate(const pst_report_series *s, pst_report_point point[PST_REPORT_POINTS],
                           size_t *per);
/* The smallest tick distance of 1, 2, 2.5 or 5 times a power of ten that gives at most `most` ticks
 * in `range`; whole: 1: only integers. */
double pst_report_tick(double range, int most, int whole);
/* Prints the chart as HTML; nothing if no series has a value. ENOMEM. */
pst_status pst_report_draw_chart(const pst_report_chart *chart, FILE *out);
#endif
