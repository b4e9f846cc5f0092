/* Part of a plan's report: each rank's time by kind, as bars and as a table. */
#include "report/html.h"
#include "report/plan.h"

typedef struct {
    const char *name, *css, *help;
} kind_row;
static const kind_row kinds[PST_PLAN_TIME_COUNT] = {
#define ROW(name, text, css, help) [PST_PLAN_##name] = {text, css, help},
    PST_PLAN_TIMES(ROW)
#undef ROW
};

static int has_kind(const pst_plan_page *page, int k) {
    for (uint32_t r = 0; r < page->n_rank; r++)
        if (page->rank[r].us[k] > 0) return 1;
    return 0;
}

static void draw_legend(const pst_plan_page *page, FILE *out) {
    fputs("<p class=\"legend\">", out);
    for (int k = 0; k < PST_PLAN_TIME_COUNT; k++)
        if (has_kind(page, k))
            fprintf(out, "<span class=\"key\"><i class=\"%s\"></i>%s: %s</span>", kinds[k].css,
                    kinds[k].name, kinds[k].help);
    fputs("</p>\n", out);
}

static void draw_bar(const pst_plan_page *page, const pst_plan_rank *r, FILE *out) {
    double end = page->trace.end[1], computes = 0;
    char text[PST_HTML_NUMBER];
    fprintf(out, "<div class=\"who\">rank %u</div><div class=\"bar\">", r->rank);
    for (int k = 0; k < PST_PLAN_TIME_COUNT; k++) {
        if (k <= PST_PLAN_AGAIN) computes += r->us[k];
        if (!(r->us[k] > 0)) continue;
        fprintf(out, "<i class=\"%s\" style=\"width:%.3f%%\" title=\"%s %s", kinds[k].css,
                r->us[k] / end * 100, kinds[k].name, pst_html_ms(r->us[k] * 1e-3, text));
        fprintf(out, ", %s\"></i>", pst_html_share(r->us[k] / end, text));
    }
    fprintf(out, "</div><div class=\"value\">%s computing</div>\n",
            pst_html_share(computes / end, text));
}

static void draw_table(const pst_plan_page *page, FILE *out) {
    fputs("<details><summary>The same as a table, in ms</summary><div "
          "class=\"scroll\"><table><thead><tr><th>rank</th>",
          out);
    for (int k = 0; k < PST_PLAN_TIME_COUNT; k++)
        if (has_kind(page, k)) fprintf(out, "<th class=\"n\">%s</th>", kinds[k].name);
    fputs("</tr></thead><tbody>\n", out);
    for (uint32_t i = 0; i < page->n_rank; i++) {
        fprintf(out, "<tr><td>%u</td>", page->rank[i].rank);
        for (int k = 0; k < PST_PLAN_TIME_COUNT; k++)
            if (has_kind(page, k))
                fprintf(out, "<td class=\"n\">%.3f</td>", page->rank[i].us[k] * 1e-3);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div></details>\n", out);
}

void pst_plan_draw_times(const pst_plan_page *page, FILE *out) {
    if (!page->n_rank || !(page->trace.end[1] > 0)) return;
    fputs("<section id=\"times\"><h2>Where the time of the step goes</h2>\n", out);
    draw_legend(page, out);
    fputs("<div class=\"bars plain\">\n", out);
    for (uint32_t r = 0; r < page->n_rank; r++) draw_bar(page, &page->rank[r], out);
    fputs("</div>\n", out);
    draw_table(page, out);
    fputs("</section>\n", out);
}
