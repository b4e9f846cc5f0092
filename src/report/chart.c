/* See chart.h. SVG coordinates are thousandths of the plot's width and height. */
#include "report/chart.h"
#include "report/html.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 1000, MAX_TICKS = 24, Y_TICKS = 6, X_TICKS = 6, LABEL = 32 };
static const double CUT_FROM = 2.5, CUT_AT = 1.25, CUT_SHARE = 0.98;

/* A series prepared for drawing. */
typedef struct {
    const pst_report_series *of;
    pst_report_point *point; /* [PST_REPORT_POINTS] */
    size_t n, per;
} curve;

typedef struct {
    double low, high, tick;
} axis;

typedef struct {
    const pst_report_chart *chart;
    curve curve[PST_REPORT_SERIES];
    axis x, y;
    double highest;       /* of all values; NaN: there are none */
    size_t above, values; /* values above the axis, and all values */
    FILE *out;
} picture;

/* --- decimation ------------------------------------------------------------------------------- */

size_t pst_report_decimate(const pst_report_series *s, pst_report_point point[PST_REPORT_POINTS],
                           size_t *per) {
    size_t n = 0;
    *per = s->n / PST_REPORT_POINTS + (s->n % PST_REPORT_POINTS != 0);
    for (size_t first = 0; first < s->n; first += *per, n++) {
        size_t end = first + *per < s->n ? first + *per : s->n, count = 0;
        pst_report_point p = {.from = s->x[first], .to = s->x[end - 1], .least = NAN, .most = NAN};
        double sum = 0;
        for (size_t i = first; i < end; i++) {
            double y = s->y[i] * s->scale;
            if (isnan(y)) continue;
            if (!(y >= p.least)) p.least = y;
            if (!(y <= p.most)) p.most = y;
            sum += y;
            count++;
        }
        p.mean = count ? sum / (double)count : NAN;
        point[n] = p;
    }
    return n;
}

/* --- axes ------------------------------------------------------------------------------------- */

double pst_report_tick(double range, int most, int whole) {
    static const double nice[] = {1, 2, 2.5, 5, 10};
    if (!(range > 0)) return 1;
    double ten = pow(10, floor(log10(range / most)));
    if (!(ten > 0)) return range;
    for (int k = 0; k < 5; k++) {
        double tick = nice[k] * ten;
        if (whole && (tick < 1 || fmod(tick, 1) != 0)) continue;
        if (range / tick <= most * (1 + 1e-9)) return tick;
    }
    return whole && range < most ? 1 : 10 * ten;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The end of the axis: the highest value, unless it is one of a few far above the rest. */
static pst_status top_of(picture *p, double *top) {
    size_t n = 0;
    for (size_t k = 0; k < p->chart->n_series; k++) n += p->chart->series[k].n;
    double *all = malloc((n ? n : 1) * sizeof *all);
    if (!all) return pst_fail(PST_ENOMEM, "no memory to draw a chart");
    n = 0;
    for (size_t k = 0; k < p->chart->n_series; k++) {
        const pst_report_series *s = &p->chart->series[k];
        for (size_t i = 0; i < s->n; i++)
            if (!isnan(s->y[i])) all[n++] = s->y[i] * s->scale;
    }
    qsort(all, n, sizeof *all, ascending);
    p->values = n;
    p->above = 0;
    p->highest = *top = n ? all[n - 1] : NAN;
    if (p->chart->cut && n >= 20) {
        double usual = all[(size_t)((double)(n - 1) * CUT_SHARE)];
        if (usual > 0 && p->highest > CUT_FROM * usual) *top = CUT_AT * usual;
    }
    free(all);
    return PST_OK;
}

static pst_status measure_y(picture *p) {
    double low = INFINITY, high = NAN;
    PST_TRY(top_of(p, &high));
    if (!p->values) return PST_OK;
    for (size_t k = 0; k < p->chart->n_series; k++)
        for (size_t i = 0; i < p->curve[k].n; i++)
            if (p->curve[k].point[i].least < low) low = p->curve[k].point[i].least;
    if (p->chart->from_zero && low > 0) low = 0;
    if (high - low <= 1e-9 * fmax(fabs(high), fabs(low))) {
        double pad = low != 0 ? fabs(low) * 0.1 : 1;
        high = low + pad;
        if (!p->chart->from_zero) low -= pad;
    }
    p->y.tick = pst_report_tick(high - low, Y_TICKS - 1, 0);
    p->y.low = floor(low / p->y.tick + 1e-9) * p->y.tick;
    p->y.high = ceil(high / p->y.tick - 1e-9) * p->y.tick;
    for (size_t k = 0; k < p->chart->n_series; k++) {
        const pst_report_series *s = &p->chart->series[k];
        for (size_t i = 0; i < s->n; i++) p->above += s->y[i] * s->scale > p->y.high;
    }
    return PST_OK;
}

static void measure_x(picture *p) {
    p->x.low = INFINITY;
    p->x.high = -INFINITY;
    for (size_t k = 0; k < p->chart->n_series; k++) {
        const pst_report_series *s = &p->chart->series[k];
        if (!s->n) continue;
        if (s->x[0] < p->x.low) p->x.low = s->x[0];
        if (s->x[s->n - 1] > p->x.high) p->x.high = s->x[s->n - 1];
    }
    if (p->x.high <= p->x.low) {
        p->x.low -= 1;
        p->x.high += 1;
    }
    p->x.tick = pst_report_tick(p->x.high - p->x.low, X_TICKS, 1);
}

static double x_of(const picture *p, double step) {
    return (step - p->x.low) / (p->x.high - p->x.low) * UNITS;
}

/* SVG coordinates grow downwards; values outside the axis are drawn at its edge. */
static double y_of(const picture *p, double value) {
    double y = (1 - (value - p->y.low) / (p->y.high - p->y.low)) * UNITS;
    if (y < 0) return 0;
    return y > UNITS ? UNITS : y;
}

static void tick_label(double value, double tick, double high, char text[LABEL]) {
    static const char suffix[] = " kMGTPE";
    double large = fmax(fabs(high), fabs(value)), unit = 1;
    int u = 0, digits = 0;
    if (fabs(value) < tick * 1e-6) value = 0;
    if (large >= 1e21 || (large < 1e-3 && value != 0)) {
        snprintf(text, LABEL, "%.3g", value);
        return;
    }
    if (value == 0) {
        strcpy(text, "0");
        return;
    }
    for (; large / unit >= 1e4 && u < 6; u++) unit *= 1000;
    while (digits < 9 &&
           fabs(tick / unit * pow(10, digits) - rint(tick / unit * pow(10, digits))) > 1e-6)
        digits++;
    snprintf(text, LABEL, "%.*f%.1s", digits, value / unit, u ? suffix + u : "");
}

/* --- drawing ---------------------------------------------------------------------------------- */

static void draw_axes(const picture *p) {
    char text[LABEL];
    fputs("<div class=\"ys\">", p->out);
    for (int k = 0; k < MAX_TICKS; k++) {
        double value = p->y.low + k * p->y.tick;
        if (value > p->y.high + p->y.tick * 1e-6) break;
        tick_label(value, p->y.tick, p->y.high, text);
        fprintf(p->out, "<span style=\"top:%.2f%%\">%s</span>", y_of(p, value) * 100 / UNITS, text);
    }
    fputs("</div><div class=\"xs\">", p->out);
    double first = ceil(p->x.low / p->x.tick - 1e-9) * p->x.tick;
    for (int k = 0; k < MAX_TICKS; k++) {
        double value = first + k * p->x.tick;
        if (value > p->x.high) break;
        tick_label(value, p->x.tick, p->x.high, text);
        fprintf(p->out, "<span style=\"left:%.2f%%\">%s</span>", x_of(p, value) * 100 / UNITS,
                text);
    }
    fputs("</div>", p->out);
}

static void draw_grid(const picture *p) {
    fputs("<path class=\"grid\" d=\"", p->out);
    for (int k = 0; k < MAX_TICKS; k++) {
        double value = p->y.low + k * p->y.tick;
        if (value > p->y.high + p->y.tick * 1e-6) break;
        fprintf(p->out, "M0 %.1fH%d", y_of(p, value), UNITS);
    }
    fputs("\"/>", p->out);
}

static double middle(const pst_report_point *point) {
    return point->from + (point->to - point->from) / 2;
}

/* The area between minimum and maximum, for each stretch without a gap. */
static void draw_band(const picture *p, const curve *c) {
    fprintf(p->out, "<path class=\"band %s\" d=\"", c->of->look);
    for (size_t first = 0, end; first < c->n; first = end + 1) {
        for (end = first; end < c->n && !isnan(c->point[end].mean); end++)
            fprintf(p->out, "%c%.1f %.1f", end == first ? 'M' : 'L',
                    x_of(p, middle(&c->point[end])), y_of(p, c->point[end].most));
        for (size_t i = end; i > first; i--)
            fprintf(p->out, "L%.1f %.1f", x_of(p, middle(&c->point[i - 1])),
                    y_of(p, c->point[i - 1].least));
        if (end > first) fputc('Z', p->out);
    }
    fputs("\"/>", p->out);
}

/* A line; a value without neighbours is a dot (a line of no length with round ends). */
static void draw_line(const picture *p, const curve *c) {
    fprintf(p->out, "<path class=\"line %s\" d=\"", c->of->look);
    for (size_t i = 0; i < c->n; i++) {
        if (isnan(c->point[i].mean)) continue;
        int joined = i && !isnan(c->point[i - 1].mean),
            alone = !joined && (i + 1 == c->n || isnan(c->point[i + 1].mean));
        fprintf(p->out, "%c%.1f %.1f%s", joined ? 'L' : 'M', x_of(p, middle(&c->point[i])),
                y_of(p, c->point[i].mean), alone ? "h0" : "");
    }
    fputs("\"/>", p->out);
}

static void draw_dots(const picture *p, const curve *c) {
    fprintf(p->out, "<path class=\"dots %s\" d=\"", c->of->look);
    for (size_t i = 0; i < c->n; i++)
        if (!isnan(c->point[i].mean))
            fprintf(p->out, "M%.1f %.1fh0", x_of(p, middle(&c->point[i])),
                    y_of(p, c->point[i].mean));
    fputs("\"/>", p->out);
}

static void draw_curves(const picture *p) {
    fprintf(p->out, "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
            UNITS, UNITS);
    draw_grid(p);
    for (size_t k = 0; k < p->chart->n_series; k++)
        if (p->curve[k].per > 1) draw_band(p, &p->curve[k]);
    for (size_t k = 0; k < p->chart->n_series; k++) {
        draw_line(p, &p->curve[k]);
        if (p->curve[k].of->points || p->curve[k].n <= 2) draw_dots(p, &p->curve[k]);
    }
    fputs("</svg>", p->out);
}

/* --- numbers for the script ------------------------------------------------------------------- */

static void print_number(FILE *out, double x, const char *before) {
    if (isnan(x)) fprintf(out, "%snull", before);
    else fprintf(out, "%s%.6g", before, x);
}

/* Each point is [from, to, mean] or [from, to, mean, minimum, maximum]. */
static void print_data(const picture *p) {
    fprintf(p->out,
            "<script "
            "type=\"application/"
            "json\">{\"x\":[%.17g,%.17g],\"y\":[%.9g,%.9g],\"unit\":\"%s\",\"series\":[",
            p->x.low, p->x.high, p->y.low, p->y.high, p->chart->unit);
    for (size_t k = 0; k < p->chart->n_series; k++) {
        const curve *c = &p->curve[k];
        fprintf(p->out, "%s{\"name\":\"%s\",\"look\":\"%s\",\"points\":[", k ? "," : "",
                c->of->name, c->of->look);
        for (size_t i = 0; i < c->n; i++) {
            const pst_report_point *point = &c->point[i];
            fprintf(p->out, "%s[%.17g,%.17g", i ? "," : "", point->from, point->to);
            print_number(p->out, point->mean, ",");
            if (c->per > 1) {
                print_number(p->out, point->least, ",");
                print_number(p->out, point->most, ",");
            }
            fputc(']', p->out);
        }
        fputs("]}", p->out);
    }
    fputs("]}</script>", p->out);
}

/* --- the chart as a whole --------------------------------------------------------------------- */

static void draw_caption(const picture *p) {
    const pst_report_chart *c = p->chart;
    char text[PST_HTML_NUMBER];
    fprintf(p->out, "<figcaption><b>%s</b>%s%s%s", c->title,
            *c->unit ? " <span class=\"unit\">" : "", c->unit, *c->unit ? "</span>" : "");
    for (size_t k = 0; k < c->n_series && c->n_series > 1; k++)
        if (p->curve[k].n)
            fprintf(p->out, "<span class=\"key\"><i class=\"%s\"></i>%s</span>", c->series[k].look,
                    c->series[k].name);
    if (p->above) {
        if (fabs(p->highest) < 1e4) snprintf(text, sizeof text, "%.4g", p->highest);
        else pst_html_whole(p->highest, text);
        fprintf(p->out,
                "<span class=\"note\">%zu value%s above the axis; the highest is %s%s%s</span>",
                p->above, p->above > 1 ? "s are" : " is", text, *c->unit ? " " : "", c->unit);
    }
    fputs("</figcaption>", p->out);
}

static pst_status draw(picture *p) {
    for (size_t k = 0; k < p->chart->n_series; k++) {
        curve *c = &p->curve[k];
        c->of = &p->chart->series[k];
        c->point = malloc(PST_REPORT_POINTS * sizeof *c->point);
        if (!c->point) return pst_fail(PST_ENOMEM, "no memory to draw a chart");
        c->n = pst_report_decimate(c->of, c->point, &c->per);
    }
    PST_TRY(measure_y(p));
    if (!p->values) return PST_OK;
    measure_x(p);
    fprintf(p->out, "<figure class=\"chart%s\">", p->chart->wide ? " wide" : "");
    draw_caption(p);
    fputs("<div class=\"frame\"><div class=\"plot\">", p->out);
    draw_curves(p);
    draw_axes(p);
    fputs("</div></div>", p->out);
    print_data(p);
    fputs("</figure>\n", p->out);
    return PST_OK;
}

pst_status pst_report_draw_chart(const pst_report_chart *chart, FILE *out) {
    picture p = {.chart = chart, .out = out};
    pst_status status = draw(&p);
    for (size_t k = 0; k < PST_REPORT_SERIES; k++) free(p.curve[k].point);
    return status;
}
