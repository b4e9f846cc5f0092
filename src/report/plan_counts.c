/* Part of a plan's report: how long a training takes on several numbers of devices, and what it
 * costs. */
#include "report/html.h"
#include "report/plan.h"
#include <math.h>

static void draw_cell(const char *text, FILE *out) {
    fprintf(out, "<td class=\"n\">%s</td>", text);
}

static void draw_count(const pst_plan_count *c, FILE *out) {
    char text[PST_HTML_NUMBER], days[PST_HTML_NUMBER];
    if (!c->fits) {
        fprintf(out, "<tr class=\"not\"><td class=\"n\">%u</td><td class=\"long\" colspan=\"12\">",
                c->devices);
        pst_html_text(out, c->why);
        fputs("</td></tr>\n", out);
        return;
    }
    fprintf(out, "<tr%s><td class=\"n\">%u</td><td>", c->chosen ? " class=\"best\"" : "",
            c->devices);
    pst_html_text(out, c->layout);
    fputs("</td>", out);
    draw_cell(pst_html_span(c->step_s, text), out);
    draw_cell(pst_html_whole(c->tokens_per_s, text), out);
    draw_cell(pst_html_share(c->mfu, text), out);
    snprintf(days, sizeof days, isnan(c->days) ? "–" : "%.1f", c->days);
    draw_cell(days, out);
    draw_cell(pst_html_whole(c->device_hours, text), out);
    draw_cell(pst_html_whole(c->cost, text), out);
    draw_cell(pst_html_whole(c->kwh, text), out);
    draw_cell(pst_html_bytes(c->free_bytes, text), out);
    draw_cell(pst_html_span(c->write_s, text), out);
    draw_cell(pst_html_whole(c->failures, text), out);
    draw_cell(pst_html_share(c->effective, text), out);
    fputs("</tr>\n", out);
}

void pst_plan_draw_counts(const pst_plan_page *page, FILE *out) {
    if (!page->n_count) return;
    fputs("<section id=\"counts\"><h2>Time and cost of the training</h2>\n<p class=\"sub\">", out);
    pst_html_text(out, page->training);
    fputs("</p>\n<div class=\"scroll\"><table class=\"rows\"><thead><tr><th class=\"n\">devices"
          "</th><th>stages × replicas × tensor</th><th class=\"n\">step</th><th class=\"n\">"
          "tokens/s</th><th class=\"n\">MFU</th><th class=\"n\">days</th><th class=\"n\">device "
          "hours</th><th class=\"n\">cost</th><th class=\"n\">kWh</th><th class=\"n\">memory left"
          "</th><th class=\"n\">checkpoint</th><th class=\"n\">failures</th><th class=\"n\">"
          "effective time</th></tr></thead><tbody>\n",
          out);
    for (uint32_t i = 0; i < page->n_count; i++) draw_count(&page->count[i], out);
    fputs("</tbody></table></div></section>\n", out);
}
