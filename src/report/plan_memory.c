/* Part of a plan's report: the memory of each rank over the step, with the predicted peak and
 * the limit. */
#include "report/chart.h"
#include "report/html.h"
#include "report/plan.h"
#include <math.h>
#include <stdlib.h>

/* Units of the SVG, horizontal and vertical; if there are more changes than COLUMNS, each column
 * shows the maximum within it. */
enum { UNITS = 1000, COLUMNS = 240 };
static const double FAR = 1.6; /* a limit more than this many times what is used is only mentioned,
                                  not drawn */

/* From column `at` on, in units of the SVG's width. */
typedef struct {
    double at;
    uint64_t slots, scratch;
} step;

static uint64_t in_use(const pst_plan_held *h) { return h->slots + h->scratch; }

/* Returns the number of columns, at most COLUMNS + 1. */
static size_t decimate(const pst_plan_rank *r, double end_us, step to[COLUMNS + 1]) {
    size_t n = 0;
    if (r->n_held <= COLUMNS) {
        for (size_t i = 0; i < r->n_held; i++)
            to[n++] = (step){r->held[i].us / end_us * UNITS, r->held[i].slots, r->held[i].scratch};
        return n;
    }
    for (size_t c = 0, i = 0; c < COLUMNS; c++) {
        double until = end_us * (double)(c + 1) / COLUMNS;
        const pst_plan_held *most = &r->held[i]; /* memory in use when the column begins */
        for (; i + 1 < r->n_held && r->held[i + 1].us < until; i++)
            if (in_use(&r->held[i + 1]) > in_use(most)) most = &r->held[i + 1];
        to[n++] = (step){(double)c * UNITS / COLUMNS, most->slots, most->scratch};
    }
    return n;
}

static double y_of(double bytes, double full) { return UNITS - bytes / full * UNITS; }

/* Number of steps in the curve, and the levels at each of them. */
typedef struct {
    step at[COLUMNS + 1];
    double level[4][COLUMNS + 1];
    size_t n;
    double full;
} areas;

/* The area between level k and the next level: along one and back along the other. */
static void draw_area(const areas *a, int k, const char *look, FILE *out) {
    const step *s = a->at;
    const double *below = a->level[k], *above = a->level[k + 1], full = a->full;
    const size_t n = a->n;
    fprintf(out, "<path class=\"%s\" d=\"M0 %.1f", look, y_of(above[0], full));
    for (size_t i = 1; i < n; i++) {
        if (above[i] == above[i - 1]) continue;
        fprintf(out, "H%.1fV%.1f", s[i].at, y_of(above[i], full));
    }
    fprintf(out, "H%dV%.1f", UNITS, y_of(below[n - 1], full));
    for (size_t i = n; i-- > 1;)
        if (below[i] != below[i - 1]) fprintf(out, "H%.1fV%.1f", s[i].at, y_of(below[i - 1], full));
    fputs("H0Z\"/>", out);
}

static uint64_t most_in_use(const pst_plan_rank *r) {
    uint64_t most = 0;
    for (size_t i = 0; i < r->n_held; i++)
        if (in_use(&r->held[i]) > most) most = in_use(&r->held[i]);
    return r->fixed + most;
}

static void draw_areas(const pst_plan_rank *r, double end_us, double full, FILE *out) {
    areas a = {.full = full};
    a.n = decimate(r, end_us, a.at);
    for (size_t i = 0; i < a.n; i++) {
        a.level[0][i] = 0;
        a.level[1][i] = (double)r->fixed;
        a.level[2][i] = a.level[1][i] + (double)a.at[i].slots;
        a.level[3][i] = a.level[2][i] + (double)a.at[i].scratch;
    }
    static const char *const look[] = {"fixed", "slots", "scratch"};
    for (int k = 0; k < 3; k++) draw_area(&a, k, look[k], out);
}

static void draw_line(const char *look, double bytes, double full, FILE *out) {
    fprintf(out, "<path class=\"limit %s\" d=\"M0 %.1fH%d\"/>", look, y_of(bytes, full), UNITS);
}

static void draw_rank(const pst_plan_page *page, const pst_plan_rank *r, double full, FILE *out) {
    char text[PST_HTML_NUMBER], most[PST_HTML_NUMBER];
    double unit = 1;
    while (unit * 1024 <= full) unit *= 1024; /* ticks at round numbers of the displayed unit */
    double tick = pst_report_tick(full / unit, 3, 0) * unit;
    fprintf(out, "<figure class=\"stack\"><figcaption><b>rank %u</b><span class=\"note\">",
            r->rank);
    pst_html_text(out, r->place);
    fprintf(out, "%s", *r->place && *r->device ? ", " : "");
    pst_html_text(out, r->device);
    fprintf(out, "</span><span class=\"unit\">%s</span></figcaption>",
            pst_html_bytes((double)r->total, text));
    fputs("<div class=\"frame\"><div class=\"plot\"><div class=\"ys\">", out);
    for (int k = 0; k <= 3 && k * tick <= full; k++)
        fprintf(out, "<span style=\"top:%.2f%%\">%s</span>", y_of(k * tick, full) * 100 / UNITS,
                k ? pst_html_bytes(k * tick, text) : "0");
    fprintf(out,
            "</div><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\"><title>",
            UNITS, UNITS);
    fprintf(out, "rank %u: predicted peak %s", r->rank, pst_html_bytes((double)r->total, text));
    fprintf(out, ", at most %s in use at once</title>",
            pst_html_bytes((double)most_in_use(r), most));
    if (r->n_held && page->trace.end[1] > 0) draw_areas(r, page->trace.end[1], full, out);
    draw_line("peak", (double)r->total, full, out);
    if (r->capacity && (double)r->capacity <= full)
        draw_line("room", (double)r->capacity, full, out);
    fputs("</svg></div></div></figure>\n", out);
}

static void draw_table(const pst_plan_page *page, FILE *out) {
    char text[PST_HTML_NUMBER];
    fputs("<details><summary>The same as a table, in bytes</summary><div "
          "class=\"scroll\"><table><thead><tr><th>rank</th>",
          out);
    for (uint32_t k = 0; k < page->n_region; k++) {
        fputs("<th class=\"n\">", out);
        pst_html_text(out, page->region_name[k]);
        fputs("</th>", out);
    }
    fputs("<th class=\"n\">largest amount in use</th><th class=\"n\">predicted peak</th><th "
          "class=\"n\">limit</th></tr></thead><tbody>\n",
          out);
    for (uint32_t i = 0; i < page->n_rank; i++) {
        const pst_plan_rank *r = &page->rank[i];
        fprintf(out, "<tr><td>%u</td>", r->rank);
        for (uint32_t k = 0; k < page->n_region; k++)
            fprintf(out, "<td class=\"n\">%s</td>", pst_html_whole((double)r->region[k], text));
        fprintf(out, "<td class=\"n\">%s</td>", pst_html_whole((double)most_in_use(r), text));
        fprintf(out, "<td class=\"n\">%s</td>", pst_html_whole((double)r->total, text));
        fprintf(out, "<td class=\"n\">%s</td></tr>\n",
                r->capacity ? pst_html_whole((double)r->capacity, text) : "–");
    }
    fputs("</tbody></table></div></details>\n", out);
}

void pst_plan_draw_memory(const pst_plan_page *page, FILE *out) {
    double most = 0, capacity = 0, least = INFINITY;
    char text[PST_HTML_NUMBER];
    for (uint32_t i = 0; i < page->n_rank; i++) {
        most = fmax(most, (double)page->rank[i].total);
        capacity = fmax(capacity, (double)page->rank[i].capacity);
        if (page->rank[i].capacity) least = fmin(least, (double)page->rank[i].capacity);
    }
    if (!(most > 0)) return;
    int drawn = capacity > 0 && capacity <= FAR * most;
    double full = 1.04 * (drawn ? fmax(capacity, most) : most);
    fputs("<section id=\"memory\"><h2>Memory over the step</h2>\n<p class=\"sub\">Every tensor has "
          "a fixed offset in the arena, which is allocated before the first step, so the predicted "
          "peak is the size of the arena, even if less of it is in use at any time.",
          out);
    if (capacity > 0 && !drawn)
        fprintf(out, " A rank may use up to %s", pst_html_bytes(least, text));
    if (capacity > 0 && !drawn && capacity > least)
        fprintf(out, ", on other devices up to %s", pst_html_bytes(capacity, text));
    if (capacity > 0 && !drawn) fputs(" (not shown in the pictures).", out);
    fputs("</p>\n<p class=\"legend\"><span class=\"key\"><i class=\"fixed\"></i>during the whole "
          "step: weights, optimizer state, gradients, data</span><span class=\"key\"><i "
          "class=\"slots\"></i>activations and messages of micro-batches in flight</span><span "
          "class=\"key\"><i class=\"scratch\"></i>scratch memory of the running pass</span><span "
          "class=\"key\"><i class=\"limit peak\"></i>predicted peak</span>",
          out);
    if (drawn)
        fputs("<span class=\"key\"><i class=\"limit room\"></i>memory limit of the rank</span>",
              out);
    fputs("</p>\n<div class=\"ranks\">\n", out);
    for (uint32_t i = 0; i < page->n_rank; i++) draw_rank(page, &page->rank[i], full, out);
    fputs("</div>\n", out);
    draw_table(page, out);
    fputs("</section>\n", out);
}
