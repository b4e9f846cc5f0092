/* Memory per rank: the predicted arena, region by region; how much of it was written; and the
 * process, which includes libraries. */
#include "report/html.h"
#include "report/page.h"
#include <math.h>
#include <string.h>

enum { LOOKS = 8 };            /* m0 .. m7 in the style */
static const double FAR = 1.6; /* a limit more than this many times what is used is only mentioned,
                                  not drawn */

static const json_t *regions(const pst_report_data *d) {
    const json_t *all = json_object_get(d->metrics.start, "predicted_region_bytes");
    return json_is_object(all) ? all : NULL;
}

static double region_bytes(const json_t *list, uint32_t rank) {
    const json_t *value = json_array_get(list, rank);
    double x = json_is_number(value) ? json_number_value(value) : 0;
    return x > 0 && x < 0x1p60 ? x : 0;
}

/* Ranks that share a process have no resident memory of their own. */
static int one_process(const pst_report_data *d) {
    return d->config && !strcmp(d->config->parallel.transport, "self") && d->metrics.n_rank > 1;
}

static double most_used(const pst_report_data *d) {
    const pst_report_metrics *m = &d->metrics;
    double most = 1;
    for (uint32_t r = 0; r < m->n_rank; r++) {
        if (m->memory[r].predicted_peak > most) most = m->memory[r].predicted_peak;
        if (m->memory[r].peak > most) most = m->memory[r].peak;
        if (m->memory[r].resident > most && !one_process(d)) most = m->memory[r].resident;
    }
    return most;
}

static void draw_predicted(const pst_report_data *d, uint32_t rank, double full, FILE *out) {
    const json_t *all = regions(d), *list;
    char text[PST_HTML_NUMBER];
    const char *name;
    int k = 0;
    fputs("<div class=\"which\">arena</div><div class=\"bar\">", out);
    json_object_foreach((json_t *)all, name, list) {
        double bytes = region_bytes(list, rank);
        if (bytes > 0) {
            fprintf(out, "<i class=\"m%d\" style=\"width:%.3f%%\" title=\"", k % LOOKS,
                    fmin(bytes / full * 100, 100));
            pst_html_text(out, name);
            fprintf(out, " %s\"></i>", pst_html_bytes(bytes, text));
        }
        k++;
    }
    if (!all)
        fprintf(out, "<i class=\"m0\" style=\"width:%.3f%%\"></i>",
                d->metrics.memory[rank].predicted_peak / full * 100);
    fprintf(out, "</div><div class=\"value\">%s</div>\n",
            pst_html_bytes(d->metrics.memory[rank].predicted_peak, text));
}

static void draw_plain(const char *which, const char *look, double bytes, double full, FILE *out) {
    char text[PST_HTML_NUMBER];
    if (isnan(bytes)) return;
    fprintf(out,
            "<div class=\"which\">%s</div><div class=\"bar thin\"><i class=\"%s\" "
            "style=\"width:%.3f%%\"></i></div>",
            which, look, bytes / full * 100);
    fprintf(out, "<div class=\"value\">%s</div>\n", pst_html_bytes(bytes, text));
}

static void draw_ranks(const pst_report_data *d, double limit, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    double most = most_used(d), full = limit > most && limit <= FAR * most ? limit * 1.03 : most;
    if (limit > 0 && limit <= FAR * most)
        fprintf(out, "<div class=\"bars capped\" style=\"--limit:%.5f\">\n", limit / full);
    else fputs("<div class=\"bars\">\n", out);
    for (uint32_t r = 0; r < m->n_rank && r < PST_REPORT_ROWS; r++) {
        const pst_report_memory *of = &m->memory[r];
        fprintf(out, "<div class=\"who\">rank %u</div>\n", r);
        if (!isnan(of->predicted_peak)) draw_predicted(d, r, full, out);
        draw_plain("written", "touched", of->peak, full, out);
        if (of->resident > 0 && !one_process(d))
            draw_plain("resident", "resident", of->resident, full, out);
    }
    fputs("</div>\n", out);
}

static void draw_legend(const pst_report_data *d, FILE *out) {
    const char *name;
    const json_t *list;
    int k = 0;
    fputs("<p class=\"legend\">", out);
    json_object_foreach((json_t *)regions(d), name, list) {
        double sum = 0;
        for (uint32_t r = 0; r < d->metrics.n_rank; r++) sum += region_bytes(list, r);
        if (sum > 0) {
            fprintf(out, "<span class=\"key\"><i class=\"m%d\"></i>", k % LOOKS);
            pst_html_text(out, name);
            fputs("</span>", out);
        }
        k++;
    }
    fputs("<span class=\"key\"><i class=\"touched\"></i>written: up to the highest byte of the "
          "arena that was ever written</span>",
          out);
    if (!one_process(d))
        fputs("<span class=\"key\"><i class=\"resident\"></i>resident: the whole process, "
              "including libraries, which are not predicted</span>",
              out);
    fputs("</p>\n", out);
}

static void draw_table(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    const char *name;
    const json_t *list;
    char text[PST_HTML_NUMBER];
    fputs("<details><summary>The same as a table, in bytes</summary><div "
          "class=\"scroll\"><table><thead><tr><th>rank</th>",
          out);
    json_object_foreach((json_t *)regions(d), name, list) {
        fputs("<th class=\"n\">", out);
        pst_html_text(out, name);
        fputs("</th>", out);
    }
    fputs("<th class=\"n\">arena</th><th class=\"n\">written</th><th "
          "class=\"n\">resident</th></tr></thead><tbody>\n",
          out);
    for (uint32_t r = 0; r < m->n_rank && r < PST_REPORT_ROWS; r++) {
        fprintf(out, "<tr><td>%u</td>", r);
        json_object_foreach((json_t *)regions(d), name, list)
            fprintf(out, "<td class=\"n\">%s</td>", pst_html_whole(region_bytes(list, r), text));
        fprintf(out, "<td class=\"n\">%s</td>", pst_html_whole(m->memory[r].predicted_peak, text));
        fprintf(out, "<td class=\"n\">%s</td>", pst_html_whole(m->memory[r].peak, text));
        fprintf(out, "<td class=\"n\">%s</td></tr>\n", pst_html_whole(m->memory[r].resident, text));
    }
    fputs("</tbody></table></div></details>\n", out);
}

void pst_report_draw_memory(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    double limit = pst_report_number(m->start, "memory_limit_bytes"), most = most_used(d),
           largest = 0;
    char text[PST_HTML_NUMBER], share[PST_HTML_NUMBER];
    if (!m->n_rank) return;
    fputs("<section id=\"memory\"><h2>Memory per rank</h2>\n", out);
    for (uint32_t r = 0; r < m->n_rank; r++)
        if (m->memory[r].predicted_peak > largest) largest = m->memory[r].predicted_peak;
    if (limit > 0)
        fprintf(out,
                "<p class=\"sub\">Each rank may use %s%s; the largest rank needs %s of that.</p>\n",
                pst_html_bytes(limit, text),
                limit <= FAR * most ? " (the line)" : " (not shown in the picture)",
                pst_html_share(largest / limit, share));
    draw_legend(d, out);
    draw_ranks(d, limit, out);
    if (one_process(d) && m->memory[0].resident > 0)
        fprintf(out,
                "<p class=\"note\">All ranks ran in one process, which used %s of memory, "
                "libraries included.</p>\n",
                pst_html_bytes(m->memory[0].resident, text));
    draw_table(d, out);
    if (m->n_rank > PST_REPORT_ROWS)
        fprintf(out, "<p class=\"note\">The first %d of %u ranks are shown.</p>\n", PST_REPORT_ROWS,
                m->n_rank);
    fputs("</section>\n", out);
}
