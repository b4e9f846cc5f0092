/* The members of an elastic run over time: how many ranks it had from which step on. */
#include "report/html.h"
#include "report/page.h"
#include <string.h>

enum { WIDTH = 1000, HEIGHT = 72, LABEL = 16 };

/* Ranks of a start line. */
static size_t ranks_of(const json_t *start) {
    const json_t *bytes = json_object_get(start, "predicted_region_bytes");
    return json_array_size(json_object_get(bytes, "weights"));
}

static size_t most_ranks(const pst_report_metrics *m) {
    const json_t *const part[] = {m->head, m->tail};
    size_t most = 1, i;
    json_t *line;
    for (int k = 0; k < 2; k++)
        json_array_foreach(part[k], i, line) if (ranks_of(line) > most) most = ranks_of(line);
    return most;
}

static size_t count(const pst_report_metrics *m, const char *event) {
    const json_t *const part[] = {m->head, m->tail};
    size_t n = 0, i;
    json_t *line;
    for (int k = 0; k < 2; k++)
        json_array_foreach(part[k], i, line) n += !strcmp(pst_report_text(line, "event"), event);
    return n;
}

/* One period, from step `from` to `to` of `steps`. */
static void draw_period(const double from, double to, double steps, const size_t ranks[2],
                        FILE *out) {
    const double x = from / steps * WIDTH, w = (to - from) / steps * WIDTH,
                 h = (double)ranks[0] / (double)ranks[1] * (HEIGHT - LABEL);
    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"currentColor\" "
            "fill-opacity=\".25\"/><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"1.5\" "
            "fill=\"currentColor\"/>",
            x, HEIGHT - h, w, h, x, HEIGHT - h, w);
    if (w > 2 * LABEL)
        fprintf(out,
                "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" fill=\"currentColor\">%zu</text>",
                x + 3, HEIGHT - h - 3, ranks[0]);
}

void pst_report_draw_members(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    const json_t *const part[] = {m->head, m->tail};
    const double steps = m->n ? m->step[m->n - 1] : 0;
    const size_t losses = count(m, "recovery"), changes = count(m, "resize");
    size_t ranks[2] = {0, most_ranks(m)}, i;
    double from = 0;
    json_t *line;
    if (steps <= 0 || !(losses + changes)) return;
    fprintf(out,
            "<section id=\"members\"><h2>Members</h2>\n<p class=\"sub\">Ranks over the steps of "
            "the run: %zu recover%s from losses, %zu change%s on request. Steps 0 to %.0f; the "
            "events below say more.</p>\n<svg viewBox=\"0 0 %d %d\" width=\"100%%\" role=\"img\" "
            "aria-label=\"ranks over steps\">",
            losses, losses == 1 ? "y" : "ies", changes, changes == 1 ? "" : "s", steps, WIDTH,
            HEIGHT);
    for (int k = 0; k < 2; k++) json_array_foreach(part[k], i, line) {
            if (strcmp(pst_report_text(line, "event"), "start")) continue;
            const double at = pst_report_number(line, "step");
            if (ranks[0] && at > from) draw_period(from, at, steps, ranks, out);
            from = at;
            ranks[0] = ranks_of(line);
        }
    if (ranks[0] && steps > from) draw_period(from, steps, steps, ranks, out);
    fputs("</svg></section>\n", out);
}
