/* Part of a plan's report: the best layout for each combination of degrees, and why it loses. */
#include "report/html.h"
#include "report/plan.h"
#include <string.h>

/* Number of rows that are shown at once, and in all. */
enum { SEEN = 16, MOST_ROWS = 200 };

static void draw_layout(const pst_plan_row *r, FILE *out) {
    fprintf(out, "<td class=\"n\">%u</td><td class=\"n\">%s</td><td class=\"n\">%u</td>",
            r->pipeline, r->tensor, r->data);
    if (!r->possible) {
        fputs("<td>–</td><td class=\"n\">–</td><td>–</td>", out);
        return;
    }
    fputs("<td>", out);
    pst_html_text(out, r->schedule);
    if (r->chunks > 1) fprintf(out, ", %u chunks", r->chunks);
    if (r->data > 1 && r->zero) fprintf(out, ", zero %u", r->zero);
    fprintf(out, "</td><td class=\"n\">%u × %u</td><td>", r->micro_batches, r->micro_batch);
    pst_html_text(out, r->recompute);
    fputs("</td>", out);
}

static void draw_row(const pst_plan_row *r, int best, uint64_t shortest, FILE *out) {
    char text[PST_HTML_NUMBER];
    const char *look = r->fits ? "" : " class=\"not\"";
    fprintf(out, "<tr%s>", best ? " class=\"best\"" : look);
    draw_layout(r, out);
    if (!r->possible)
        fputs("<td class=\"n\">–</td><td class=\"n\">–</td><td class=\"n\">–</td><td "
              "class=\"n\">–</td>",
              out);
    else {
        fprintf(out, "<td class=\"n\">%s%s</td>", r->fits || r->exact ? "" : "≥ ",
                pst_html_ms((double)r->step_ns * 1e-6, text));
        if (best || !shortest || !r->fits) fputs("<td class=\"n\"></td>", out);
        else
            fprintf(out, "<td class=\"n\">+%s</td>",
                    pst_html_share((double)r->step_ns / (double)shortest - 1, text));
        fprintf(out, "<td class=\"n\">%s%s</td>", r->exact ? "" : "≈ ",
                pst_html_bytes((double)r->peak_bytes, text));
        fprintf(out, "<td class=\"n\">%s</td>", pst_html_share(r->bubble, text));
    }
    fputs("<td class=\"long\">", out);
    if (best && !*r->why) fputs("the best", out);
    pst_html_text(out, r->why);
    fputs("</td></tr>\n", out);
}

static void draw_table(const pst_plan_page *page, uint32_t first, uint32_t end, FILE *out) {
    uint64_t shortest = page->row[0].fits ? page->row[0].step_ns : 0;
    fputs("<div class=\"scroll\"><table class=\"rows\"><thead><tr><th class=\"n\">stages</th><th "
          "class=\"n\">tensor</th>"
          "<th class=\"n\">replicas</th><th>schedule</th><th "
          "class=\"n\">micro-batches</th><th>recomputation</th>"
          "<th class=\"n\">step</th><th class=\"n\">longer by</th><th class=\"n\">peak "
          "memory</th><th "
          "class=\"n\">bubble</th>"
          "<th>reason</th></tr></thead><tbody>\n",
          out);
    for (uint32_t i = first; i < end; i++)
        draw_row(&page->row[i], !i && page->row[i].fits, shortest, out);
    fputs("</tbody></table></div>\n", out);
}

void pst_plan_draw_rows(const pst_plan_page *page, FILE *out) {
    uint32_t n = page->n_row < MOST_ROWS ? page->n_row : MOST_ROWS, seen = n < SEEN + 4 ? n : SEEN;
    if (!n) return;
    fputs("<section id=\"rows\"><h2>Why this layout</h2>\n<p class=\"sub\">The best layout for "
          "each combination of pipeline stages, tensor ranks and replicas, sorted by predicted "
          "step. Micro-batches: number per step × samples in each. ≈: estimated; other memory "
          "figures are exact, from the memory map.</p>\n",
          out);
    draw_table(page, 0, seen, out);
    if (seen < n) {
        fprintf(out, "<details><summary>%u more</summary>", n - seen);
        draw_table(page, seen, n, out);
        fputs("</details>\n", out);
    }
    if (page->n_row > n)
        fprintf(out, "<p class=\"note\">The first %u of %u combinations are shown.</p>\n", n,
                page->n_row);
    fputs("</section>\n", out);
}
