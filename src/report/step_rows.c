/* One step as rows, one per rank, measured above predicted on one time axis; and each rank's
 * time by kind. */
#include "report/chart.h"
#include "report/html.h"
#include "report/step_rows.h"
#include "report/page.h"
#include <math.h>

/* With more than LISTED boxes in a panel its rows are folded, and the script gets no boxes. */
enum {
    WIDTH = PST_STEP_ROWS_WIDTH,
    ROW = PST_STEP_ROWS_ROW,
    BOX = PST_STEP_ROWS_BOX,
    LISTED = 20000,
    APART = 300
};

typedef struct {
    const char *name, *css, *help;
} kind_row;
static const kind_row kinds[PST_REPORT_KIND_COUNT] = {
    [PST_REPORT_F] = {"F", "kF", "forward"},
    [PST_REPORT_B] = {"B", "kB", "input gradient"},
    [PST_REPORT_W] = {"W", "kW", "weight gradient"},
    [PST_REPORT_BW] = {"BW", "kBW", "backward, both gradients at once"},
    [PST_REPORT_FLUSH] = {"flush", "kflush",
                          "reductions of gradients, norm and optimizer at the end of the step"},
    [PST_REPORT_TRANSFER] = {"transfer", "ktransfer",
                             "idle while a message to the rank is in transit"},
    [PST_REPORT_IDLE] = {"idle", "kidle", "other idle time"},
};

static uint32_t rows(const pst_report_trace *t) {
    return t->n_rank < PST_REPORT_ROWS ? t->n_rank : PST_REPORT_ROWS;
}

static double longest(const pst_report_trace *t) {
    return t->end[0] > t->end[1] ? t->end[0] : t->end[1];
}

static int has_kind(const pst_report_trace *t, int kind) {
    for (size_t i = 0; i < t->n; i++)
        if (t->slice[i].kind == kind) return 1;
    return 0;
}

static void draw_legend(const pst_report_trace *t, int last, FILE *out) {
    fputs("<p class=\"legend\">", out);
    for (int k = 0; k <= last; k++)
        if (k == PST_REPORT_IDLE || has_kind(t, k))
            fprintf(out, "<span class=\"key\"><i class=\"%s\"></i>%s: %s</span>", kinds[k].css,
                    kinds[k].name, kinds[k].help);
    fputs("</p>\n", out);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Boxes of odd chunks are lighter if a rank has more than one chunk. */
static int has_chunks(const pst_report_slice *s, size_t n) {
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        if (s[i].kind > PST_REPORT_BW) continue;
        if (first == UINT32_MAX) first = s[i].chunk;
        if (s[i].chunk != first) return 1;
    }
    return 0;
}

static int is_folded(const pst_report_trace *t, int predicted) {
    size_t all = 0, n;
    for (uint32_t r = 0; r < rows(t); r++) {
        const pst_report_slice *s = pst_report_slices(t, predicted, r, &n);
        for (size_t i = 0; i < n; i++) all += s[i].kind < PST_REPORT_TRANSFER;
    }
    return all > LISTED;
}

/* The boxes of one row. */
typedef struct {
    const pst_report_slice *slice;
    size_t n;
    uint32_t row;
    double scale; /* SVG units per microsecond */
} boxes;

/* All boxes of one kind, of odd or of even chunks. Boxes that touch at this resolution are
 * joined. */
static void draw_boxes(const boxes *of, int kind, uint32_t odd, FILE *out) {
    const pst_report_slice *s = of->slice;
    const size_t n = of->n;
    const uint32_t row = of->row;
    long from = -1, to = -1;
    int any = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i].kind != kind || (s[i].chunk & 1) != odd) continue;
        long a = lround(s[i].start * of->scale), b = lround(s[i].end * of->scale);
        if (b <= a) b = a + 1;
        if (!any++) fprintf(out, "<path class=\"%s%s\" d=\"", kinds[kind].css, odd ? " odd" : "");
        if (n > APART && a <= to) {
            to = b > to ? b : to;
            continue;
        }
        if (to > from)
            fprintf(out, "M%ld %uh%ldv%dh-%ldz", from, row * ROW + 1, to - from, BOX, to - from);
        from = a;
        to = b;
    }
    if (to > from)
        fprintf(out, "M%ld %uh%ldv%dh-%ldz", from, row * ROW + 1, to - from, BOX, to - from);
    if (any) fputs("\"/>", out);
}

/* Per rank a flat list: kind, chunk, micro-batch, start, duration (us). */
static void print_slices(const pst_report_trace *t, int predicted, FILE *out) {
    size_t n;
    fputs("<script type=\"application/json\">[", out);
    for (uint32_t r = 0; !is_folded(t, predicted) && r < rows(t); r++) {
        const pst_report_slice *s = pst_report_slices(t, predicted, r, &n);
        fprintf(out, "%s[", r ? "," : "");
        for (size_t i = 0, k = 0; i < n; i++)
            if (s[i].kind < PST_REPORT_TRANSFER)
                fprintf(out, "%s%u,%u,%u,%.1f,%.1f", k++ ? "," : "", s[i].kind, s[i].chunk,
                        s[i].micro, s[i].start, s[i].end - s[i].start);
        fputc(']', out);
    }
    fputs("]</script>", out);
}

static void draw_row(const pst_report_trace *t, int predicted, uint32_t row, int folded,
                     FILE *out) {
    static const char *const css[] = {"kF", "kB", "kW", "kBW", "kflush"};
    size_t n;
    const pst_report_slice *s = pst_report_slices(t, predicted, row, &n);
    const boxes all = {s, n, row, WIDTH / longest(t)};
    fprintf(out, "<g%s><path class=\"row\" d=\"M0 %uh%dv%dh-%dz\"/>",
            has_chunks(s, n) ? " class=\"chunks\"" : "", row * ROW + 1, WIDTH, BOX, WIDTH);
    if (folded) pst_step_rows_draw_folded(s, n, row, longest(t), css, out);
    else
        for (int k = 0; k < PST_REPORT_TRANSFER; k++)
            for (uint32_t odd = 0; odd < 2; odd++) draw_boxes(&all, k, odd, out);
    fputs("</g>", out);
}

static void draw_busy(const pst_report_trace *t, int predicted, uint32_t every, FILE *out) {
    fputs("<div class=\"busy\">", out);
    for (uint32_t r = 0; r < rows(t); r += every) {
        double us[PST_REPORT_KIND_COUNT], busy = 0;
        pst_report_times(t, predicted, r, us);
        for (int k = 0; k <= PST_REPORT_BW; k++) busy += us[k];
        fprintf(out, "<span style=\"top:%.3f%%\">%.0f%%</span>", (r + 0.5) * 100 / rows(t),
                100 * busy / t->end[predicted]);
    }
    fputs("</div>", out);
}

void pst_report_draw_panel(const pst_report_trace *t, pst_grid grid, int predicted,
                           const uint32_t *rank, FILE *out) {
    uint32_t n_row = rows(t), every = n_row > 64 ? 8 : 1;
    int folded = is_folded(t, predicted);
    char text[PST_HTML_NUMBER], place[PST_GRID_TEXT];
    fprintf(out, "<h3>%s <span class=\"unit\">%s%s</span></h3>\n",
            predicted ? "Predicted" : "Measured", pst_html_ms(t->end[predicted] * 1e-3, text),
            folded ? "; too many passes to draw: each column shows the shares of the rank's time"
                   : "");
    const char *size = n_row > 16 ? "small" : "large";
    if (n_row > 64) size = "tiny";
    fprintf(out, "<div class=\"panel %s\" style=\"--rows:%u\"><div class=\"names\">", size, n_row);
    for (uint32_t r = 0; r < n_row; r += every) {
        uint32_t which = rank ? rank[r] : r;
        fprintf(out, "<span style=\"top:%.3f%%\" title=\"%s\">rank %u</span>",
                (r + 0.5) * 100 / n_row,
                which < pst_grid_size(grid) ? pst_grid_place_text(grid, which, place) : "", which);
    }
    fprintf(out,
            "</div><div class=\"canvas\"><svg viewBox=\"0 0 %d %u\" preserveAspectRatio=\"none\" "
            "role=\"img\" "
            "aria-label=\"timeline\">",
            WIDTH, n_row * ROW);
    for (uint32_t r = 0; r < n_row; r++) draw_row(t, predicted, r, folded, out);
    fputs("</svg><div class=\"numbers\"></div></div>", out);
    draw_busy(t, predicted, every, out);
    print_slices(t, predicted, out);
    fputs("</div>\n", out);
}

/* The same ticks as the script draws when the view changes. */
static void draw_time_axis(double end_us, FILE *out) {
    double ms = end_us * 1e-3, tick = pst_report_tick(ms, 8, 0);
    fputs("<div class=\"times\"><div class=\"ticks\">", out);
    for (int k = 0; k <= 16 && k * tick <= ms * (1 + 1e-9); k++)
        fprintf(out, "<span style=\"left:%.3f%%\">%.6g</span>", k * tick / ms * 100, k * tick);
    fputs("</div><span class=\"unit\">ms</span></div>\n", out);
}

void pst_report_open_timeline(const pst_report_trace *t, FILE *out) {
    draw_legend(t, PST_REPORT_FLUSH, out);
    fprintf(out,
            "<div class=\"panels\" data-end=\"%.3f\"><div class=\"tools script\"><button "
            "type=\"button\" "
            "data-zoom=\"0.5\">zoom "
            "in</button><button type=\"button\" data-zoom=\"2\">zoom out</button><button "
            "type=\"button\" "
            "data-zoom=\"0\">whole step</button></div>\n",
            longest(t));
}

void pst_report_close_timeline(const pst_report_trace *t, FILE *out) {
    draw_time_axis(longest(t), out);
    fputs("</div>\n", out);
}

static void note_rows(const pst_report_trace *t, FILE *out) {
    if (t->n_rank > PST_REPORT_ROWS)
        fprintf(out, "<p class=\"note\">The first %d of %u ranks are shown.</p>\n", PST_REPORT_ROWS,
                t->n_rank);
}

void pst_report_draw_timeline(const pst_report_data *d, FILE *out) {
    const pst_report_trace *t = &d->trace;
    fputs("<section id=\"timeline\"><h2>Timeline of one step</h2>\n", out);
    if (!t->n || !(longest(t) > 0)) {
        fputs("<p class=\"note\">No step was traced: a run traces the second to last step, or the "
              "step that log.trace names.</p></section>\n",
              out);
        return;
    }
    fputs("<p class=\"sub\">", out);
    pst_html_text(out, t->title);
    fputs(". On the right: share of the step in which the rank computed F, B and W. <span "
          "class=\"script\">Zoom with the wheel or the buttons, drag to move.</span></p>\n",
          out);
    pst_report_open_timeline(t, out);
    for (int predicted = 0; predicted < 2; predicted++)
        if (t->end[predicted] > 0)
            pst_report_draw_panel(t, pst_report_grid(d), predicted, NULL, out);
    pst_report_close_timeline(t, out);
    note_rows(t, out);
    fputs("</section>\n", out);
}

/* --- time by kind ----------------------------------------------------------------------------- */

static void draw_time_bar(const pst_report_trace *t, int predicted, uint32_t rank, FILE *out) {
    double us[PST_REPORT_KIND_COUNT];
    char text[PST_HTML_NUMBER];
    pst_report_times(t, predicted, rank, us);
    fprintf(out, "<div class=\"which\">%s</div><div class=\"bar\">",
            predicted ? "predicted" : "measured");
    for (int k = 0; k < PST_REPORT_KIND_COUNT; k++)
        if (us[k] > 0)
            fprintf(out, "<i class=\"%s\" style=\"width:%.3f%%\" title=\"%s %s\"></i>",
                    kinds[k].css, us[k] / longest(t) * 100, kinds[k].name,
                    pst_html_ms(us[k] * 1e-3, text));
    fprintf(out, "</div><div class=\"value\">%s</div>\n",
            pst_html_ms(t->end[predicted] * 1e-3, text));
}

static void draw_time_table(const pst_report_trace *t, FILE *out) {
    fputs("<details><summary>The same as a table, in ms</summary><div "
          "class=\"scroll\"><table><thead><tr><th>rank</th><th></th>",
          out);
    for (int k = 0; k < PST_REPORT_KIND_COUNT; k++)
        if (k == PST_REPORT_IDLE || has_kind(t, k))
            fprintf(out, "<th class=\"n\">%s</th>", kinds[k].name);
    fputs("<th class=\"n\">step</th></tr></thead><tbody>\n", out);
    for (uint32_t r = 0; r < rows(t); r++) {
        for (int predicted = 0; predicted < 2; predicted++) {
            double us[PST_REPORT_KIND_COUNT];
            if (!(t->end[predicted] > 0)) continue;
            pst_report_times(t, predicted, r, us);
            fprintf(out, "<tr><td>%u</td><td>%s</td>", r, predicted ? "predicted" : "measured");
            for (int k = 0; k < PST_REPORT_KIND_COUNT; k++)
                if (k == PST_REPORT_IDLE || has_kind(t, k))
                    fprintf(out, "<td class=\"n\">%.3f</td>", us[k] * 1e-3);
            fprintf(out, "<td class=\"n\">%.3f</td></tr>\n", t->end[predicted] * 1e-3);
        }
    }
    fputs("</tbody></table></div></details>\n", out);
}

void pst_report_draw_times(const pst_report_data *d, FILE *out) {
    const pst_report_trace *t = &d->trace;
    if (!t->n || !(longest(t) > 0)) return;
    fputs("<section id=\"times\"><h2>Where the time of this step went</h2>\n", out);
    draw_legend(t, PST_REPORT_IDLE, out);
    fputs("<div class=\"bars\">\n", out);
    for (uint32_t r = 0; r < rows(t); r++) {
        fprintf(out, "<div class=\"who\">rank %u</div>\n", r);
        for (int predicted = 0; predicted < 2; predicted++)
            if (t->end[predicted] > 0) draw_time_bar(t, predicted, r, out);
    }
    fputs("</div>\n", out);
    draw_time_table(t, out);
    note_rows(t, out);
    fputs("</section>\n", out);
}
