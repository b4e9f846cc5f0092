/* The members of an elastic run over time: how many ranks it had from which step on. */
#include "report/html.h"
#include "report/page.h"
#include <string.h>

enum { WIDTH = 1000, HEIGHT = 72, LABEL = 16 };

/* The least and the most ranks. */
static void range_of(const json_t *members, size_t range[2]) {
    size_t i;
    json_t *member;
    range[0] = SIZE_MAX;
    range[1] = 1;
    json_array_foreach(members, i, member) {
        const size_t ranks = (size_t)json_integer_value(json_array_get(member, 1));
        if (ranks < range[0]) range[0] = ranks;
        if (ranks > range[1]) range[1] = ranks;
    }
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

static void draw_periods(const json_t *members, double steps, size_t most, FILE *out) {
    size_t ranks[2] = {0, most}, i;
    double from = 0;
    json_t *member;
    json_array_foreach(members, i, member) {
        const double at = json_number_value(json_array_get(member, 0));
        if (ranks[0] && at > from) draw_period(from, at, steps, ranks, out);
        from = at;
        ranks[0] = (size_t)json_integer_value(json_array_get(member, 1));
    }
    if (ranks[0] && steps > from) draw_period(from, steps, steps, ranks, out);
}

void pst_report_draw_members(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    const double steps = m->n ? m->step[m->n - 1] : 0;
    const size_t losses = m->n_recovery, changes = m->n_resize;
    size_t range[2];
    if (steps <= 0 || !(losses + changes)) return;
    range_of(m->members, range);
    fprintf(out,
            "<section id=\"members\"><h2>Members</h2>\n<p class=\"sub\">%zu to %zu ranks over the "
            "steps of the run: %zu recover%s from losses, %zu change%s on request. Steps 0 to "
            "%.0f; the events below say more.</p>\n<svg viewBox=\"0 0 %d %d\" width=\"100%%\" "
            "role=\"img\" aria-label=\"ranks over steps\">",
            range[0], range[1], losses, losses == 1 ? "y" : "ies", changes, changes == 1 ? "" : "s",
            steps, WIDTH, HEIGHT);
    draw_periods(m->members, steps, range[1], out);
    fputs("</svg></section>\n", out);
}
