/* Tables of the events other than steps; the plan's and the run file's text. */
#include "report/html.h"
#include "report/page.h"
#include <string.h>

static void draw_value(const json_t *value, FILE *out) {
    char text[PST_HTML_NUMBER];
    if (json_is_string(value)) pst_html_text(out, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value)) fprintf(out, "%.6g", json_real_value(value));
    else if (json_is_null(value)) fputs("none", out);
    else if (json_is_boolean(value)) fputs(json_is_true(value) ? "yes" : "no", out);
    else
        fprintf(out, "%s values",
                pst_html_whole((double)(json_is_array(value) ? json_array_size(value)
                                                             : json_object_size(value)),
                               text));
}

/* An event: its name, its step, and its other keys. Of the start line only keys that are not
 * shown elsewhere. */
static void draw_event(json_t *line, FILE *out) {
    const char *event = pst_report_text(line, "event"), *key;
    const json_t *step = json_object_get(line, "step");
    double time = pst_report_number(line, "time");
    char text[PST_HTML_NUMBER];
    json_t *value;
    int k = 0;
    if (!step) step = json_object_get(line, "steps");
    fputs("<tr><td class=\"n\">", out);
    if (step) draw_value(step, out);
    fputs(strstr(event, "fail") || strstr(event, "error") ? "</td><td class=\"bad\">" : "</td><td>",
          out);
    pst_html_text(out, event);
    fputs("</td><td class=\"long\">", out);
    if (time > 0) {
        k++;
        fputs(pst_html_time(time, text), out);
    }
    json_object_foreach(line, key, value) {
        if (!strcmp(key, "event") || !strcmp(key, "step") || !strcmp(key, "steps") ||
            !strcmp(key, "time"))
            continue;
        if (json_is_object(value) || !strcmp(event, "start"))
            continue; /* the page's head shows the start lines */
        fputs(k++ ? ", " : "", out);
        pst_html_text(out, key);
        fputc(' ', out);
        draw_value(value, out);
    }
    fputs("</td></tr>\n", out);
}

void pst_report_draw_events(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    size_t i, shown = json_array_size(m->head) + json_array_size(m->tail);
    json_t *line;
    if (!shown) return;
    fputs("<section id=\"events\"><h2>Checkpoints and events</h2>\n<div "
          "class=\"scroll\"><table><thead><tr><th "
          "class=\"n\">"
          "step</th><th>event</th><th>details</th></tr></thead><tbody>\n",
          out);
    json_array_foreach(m->head, i, line) draw_event(line, out);
    if (m->n_event > shown)
        fprintf(out,
                "<tr><td></td><td colspan=\"2\" class=\"note\">%zu more events are not "
                "shown</td></tr>\n",
                m->n_event - shown);
    json_array_foreach(m->tail, i, line) draw_event(line, out);
    fputs("</tbody></table></div></section>\n", out);
}

/* The ranks in a plan file are those of one pipeline. */
static void draw_chunks(const pst_report_data *d, FILE *out) {
    const pst_layout *l = &d->plan->layout;
    fprintf(out,
            "<div class=\"scroll\"><table><thead><tr><th class=\"n\">chunk</th><th "
            "class=\"n\">%s</th><th "
            "class=\"n\">operators</th></tr></thead><tbody>\n",
            pst_grid_lanes(pst_report_grid(d)) > 1 ? "stage" : "rank");
    for (uint32_t c = 0; c < l->n_chunk && c < 4 * PST_REPORT_ROWS; c++)
        fprintf(out,
                "<tr><td class=\"n\">%u</td><td class=\"n\">%u</td><td class=\"n\">%u to "
                "%u</td></tr>\n",
                c, l->rank_of_chunk[c], l->first_item[c], l->first_item[c + 1] - 1);
    fputs("</tbody></table></div>\n", out);
}

static void draw_file(const char *name, const char *text, FILE *out) {
    if (!text) return;
    fprintf(out, "<details><summary>%s</summary><pre>", name);
    pst_html_text(out, text);
    fputs("</pre></details>\n", out);
}

void pst_report_draw_files(const pst_report_data *d, FILE *out) {
    char step[PST_HTML_NUMBER], bubble[PST_HTML_NUMBER];
    if (!d->plan_text && !d->run_text) return;
    fputs("<section id=\"plan\"><h2>Plan and run file</h2>\n", out);
    if (d->plan) {
        fprintf(out,
                "<p class=\"sub\">Prediction before the first step, from the cost model: step %s, "
                "bubble %s. The curves above show later predictions, which use measured "
                "durations.</p>\n",
                pst_html_ms((double)d->plan->step_ns * 1e-6, step),
                pst_html_share(d->plan->bubble, bubble));
        draw_chunks(d, out);
    }
    draw_file("plan.yaml", d->plan_text, out);
    draw_file("run.yaml", d->run_text, out);
    fputs("</section>\n", out);
}
