/* Time of all steps and ranks by kind of work, from work_s in metrics.jsonl: operators, the
 * flush, waiting. */
#include "report/html.h"
#include "report/page.h"
#include <math.h>
#include <stdlib.h>

typedef struct {
    const char *name, *css;
    double seconds;
} part;

static int longest_first(const void *a, const void *b) {
    const part *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

void pst_report_draw_work(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    size_t n = 0, capacity = json_object_size(m->work) + 1;
    part *parts = capacity > 1 ? calloc(capacity, sizeof *parts) : NULL;
    double left = m->work_wall;
    char seconds[PST_HTML_NUMBER], share[PST_HTML_NUMBER];
    const char *kind;
    json_t *value;
    if (!parts || pst_report_is_timed(d)) {
        free(parts);
        return;
    }
    json_object_foreach(m->work, kind, value) {
        parts[n] = (part){kind, "kwork", json_real_value(value)};
        left -= parts[n++].seconds;
    }
    if (left > 0) parts[n++] = (part){"waiting", "kwait", left};
    qsort(parts, n, sizeof *parts, longest_first);
    fputs("<section id=\"work\"><h2>Where the time of all steps went</h2>\n<p class=\"sub\">Time "
          "in the kernels of each operator and in the flush, summed over all ranks; waiting is the "
          "rest: bubbles, transfers, loading data.</p>\n<div class=\"bars\">\n",
          out);
    for (size_t i = 0; i < n; i++) {
        fputs("<div class=\"kind\">", out);
        pst_html_text(out, parts[i].name);
        fprintf(out,
                "</div><div class=\"bar thin\"><i class=\"%s\" style=\"width:%.3f%%\"></i></div>",
                parts[i].css,
                fmin(100 * parts[i].seconds / (parts[0].seconds > 0 ? parts[0].seconds : 1), 100));
        fprintf(out, "<div class=\"value\">%s, %s</div>\n",
                pst_html_share(m->work_wall > 0 ? parts[i].seconds / m->work_wall : NAN, share),
                pst_html_span(parts[i].seconds, seconds));
    }
    fputs("</div></section>\n", out);
    free(parts);
}
