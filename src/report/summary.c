/* The head of a report: what ran, where, how it ended, and the most important numbers. */
#include "report/html.h"
#include "base/plural.h"
#include "report/page.h"
#include "report/table.h"
#include "report/typical.h"
#include <math.h>
#include <string.h>

/* --- head ------------------------------------------------------------------------------------- */

static void open_fact(const char *name, FILE *out) { fprintf(out, "<div><dt>%s</dt><dd>", name); }
static void close_fact(FILE *out) { fputs("</dd></div>\n", out); }

static void draw_model(const pst_report_data *d, FILE *out) {
    const json_t *model = json_object_get(d->metrics.start, "model");
    char text[PST_HTML_NUMBER];
    if (!model && !d->config) return;
    open_fact("Model", out);
    pst_html_text(out, model ? pst_report_text(model, "kind") : d->config->model.kind);
    if (model) {
        static const char *const sizes[][2] = {{"layers", "layers"},
                                               {"channels", "channels"},
                                               {"heads", "heads"},
                                               {"context", "tokens of context"},
                                               {"vocabulary", "tokens in the vocabulary"}};
        fprintf(out, ", %s parameters",
                pst_html_count(pst_report_number(model, "parameters"), text));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            double x = pst_report_number(model, sizes[i][0]);
            if (x > 0) fprintf(out, ", %s %s", pst_html_whole(x, text), sizes[i][1]);
        }
    }
    close_fact(out);
}

static uint32_t degree(int64_t given) { return given > 1 ? (uint32_t)given : 1; }

pst_grid pst_report_grid(const pst_report_data *d) {
    if (d->plan && d->plan->layout.tensor_before) return pst_plan_grid(d->plan);
    return (pst_grid){.pipeline = d->plan ? d->plan->layout.pipeline : 1,
                      .data = d->config ? degree(d->config->parallel.data) : 1,
                      .tensor = d->config ? degree(d->config->parallel.tensor) : 1,
                      .servers = d->plan ? d->plan->layout.servers : 0};
}

static void draw_layout(const pst_report_data *d, FILE *out) {
    const json_t *machine = json_object_get(d->metrics.start, "machine");
    double threads = pst_report_number(machine, "threads");
    uint32_t ranks = pst_grid_size(pst_report_grid(d));
    char text[PST_HTML_NUMBER], grid[PST_GRID_TEXT], rest[PST_LAYOUT_REST_TEXT];
    if (!d->plan && !d->config) return;
    open_fact("Layout", out);
    if (d->plan) {
        pst_grid_text(pst_report_grid(d), grid);
        fprintf(out, "%u rank%s", ranks, pst_plural(ranks));
        if (*grid) fprintf(out, " (%s)", grid);
        if (threads > 0)
            fprintf(out, " of %s thread%s", pst_html_whole(threads, text), threads > 1 ? "s" : "");
        fputs(", schedule ", out);
        const pst_layout *l = &d->plan->layout;
        pst_html_text(out, l->schedule);
        fprintf(out, ", %u micro-batch%s of %u sample%s%s", l->n_micro, pst_plural_es(l->n_micro),
                l->micro_batch, pst_plural(l->micro_batch), pst_layout_rest_text(l, rest));
    }
    if (d->config) {
        fputs(d->plan ? ", " : "", out);
        pst_html_text(out, d->config->train.precision);
        fputs(", transport ", out);
        pst_html_text(out, d->config->parallel.transport);
    }
    close_fact(out);
}

static void draw_machine(const pst_report_data *d, FILE *out) {
    const json_t *machine = json_object_get(d->metrics.start, "machine");
    char text[PST_HTML_NUMBER];
    if (!machine) return;
    open_fact("Machine", out);
    pst_html_text(out, pst_report_text(machine, "cpu"));
    fprintf(out, ", %s processors usable, ",
            pst_html_whole(pst_report_number(machine, "processors"), text));
    pst_html_text(out, pst_report_text(machine, "kernels"));
    fputs(" kernels", out);
    if (pst_report_number(d->metrics.start, "peak_flops") > 0) {
        const char *from = pst_report_text(d->metrics.start, "peak_from");
        fprintf(out, ", peak of all ranks %s GFLOP/s%s",
                pst_html_whole(pst_report_number(d->metrics.start, "peak_flops") * 1e-9, text),
                *from ? " (" : "");
        pst_html_text(out, from);
        if (*from) fputc(')', out);
    }
    fputs("; rank 0 on ", out);
    pst_html_text(out, pst_report_text(machine, "host"));
    close_fact(out);
}

static void draw_versions(const pst_report_data *d, FILE *out) {
    json_t *versions = json_object_get(d->metrics.start, "versions"), *value;
    const char *name;
    int k = 0;
    if (!json_object_size(versions)) return;
    open_fact("Versions", out);
    json_object_foreach(versions, name, value) {
        if (!json_is_string(value)) continue;
        fputs(k++ ? ", " : "", out);
        pst_html_text(out, name);
        fputc(' ', out);
        pst_html_text(out, json_string_value(value));
    }
    close_fact(out);
}

static void draw_times(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    const size_t resumed = m->n_start > m->n_going_on + 1 ? m->n_start - m->n_going_on - 1 : 0;
    double end = pst_report_number(m->end, "time"), in_steps = 0;
    char text[PST_HTML_NUMBER];
    for (size_t i = 0; i < m->n; i++)
        if (!isnan(m->curve[PST_REPORT_STEP_MS][i]))
            in_steps += m->curve[PST_REPORT_STEP_MS][i] * 1e-3;
    open_fact("Time", out);
    if (!isnan(m->first_time)) fprintf(out, "started %s, ", pst_html_time(m->first_time, text));
    if (!isnan(end)) fprintf(out, "ended %s, ", pst_html_time(end, text));
    fprintf(out, "%s in steps", pst_html_span(in_steps, text));
    if (resumed) fprintf(out, ", resumed %zu time%s", resumed, resumed > 1 ? "s" : "");
    close_fact(out);
}

static void draw_hash(const pst_report_data *d, FILE *out) {
    const char *hash = pst_report_text(d->metrics.end, "weights_xxh64");
    if (!*hash) return;
    open_fact("Hash of the weights", out);
    fputs("<code>", out);
    pst_html_text(out, hash);
    fputs("</code>", out);
    close_fact(out);
}

static void draw_state(const pst_report_data *d, FILE *out) {
    const char *why = pst_report_text(d->metrics.end, "why");
    if (!d->metrics.end)
        fputs(d->running ? "<span class=\"state go\">running</span>"
                         : "<span class=\"state bad\">not completed: killed or failed</span>",
              out);
    else if (!strcmp(why, "done")) fputs("<span class=\"state good\">done</span>", out);
    else {
        fputs("<span class=\"state warn\">", out);
        pst_html_text(out, *why ? why : "ended");
        fputs("</span>", out);
    }
}

void pst_report_draw_head(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    char text[PST_HTML_NUMBER];
    fputs("<header><h1>", out);
    pst_html_text(out, d->name);
    fputs("</h1>", out);
    draw_state(d, out);
    fprintf(out, "<p class=\"sub\">step %s", pst_html_whole(m->n ? m->step[m->n - 1] : 0, text));
    double steps = pst_table_steps(d);
    if (!isnan(steps)) fprintf(out, " of %s", pst_html_whole(steps, text));
    fputs("</p></header>\n<section id=\"run\"><dl>\n", out);
    draw_model(d, out);
    draw_layout(d, out);
    draw_machine(d, out);
    draw_versions(d, out);
    draw_times(d, out);
    draw_hash(d, out);
    fputs("</dl>\n", out);
    if (pst_report_is_timed(d))
        fputs("<p class=\"note\">Device timed: operators waited for the predicted time and "
              "computed nothing, so there are no losses and no weights.</p>\n",
              out);
    if (m->n_bad)
        fprintf(out, "<p class=\"note\">%zu line%s of metrics.jsonl could not be read.</p>\n",
                m->n_bad, m->n_bad > 1 ? "s" : "");
    if (d->trace.n_bad)
        fprintf(out, "<p class=\"note\">%zu events of trace.json could not be read.</p>\n",
                d->trace.n_bad);
    fputs("</section>\n", out);
}

/* --- tiles ------------------------------------------------------------------------------------ */

static void open_tile(const char *name, const char *value, FILE *out) {
    fprintf(out,
            "<div class=\"tile\"><div class=\"name\">%s</div><div class=\"big\">%s</div><div "
            "class=\"more\">",
            name, value);
}
static void close_tile(FILE *out) { fputs("</div></div>\n", out); }

/* Index of the last value that is not missing, or n. */
static size_t last_there(const double *value, size_t n) {
    for (size_t i = n; i > 0; i--)
        if (!isnan(value[i - 1])) return i - 1;
    return n;
}

static void draw_losses(const pst_report_metrics *m, FILE *out) {
    size_t at = last_there(m->curve[PST_REPORT_LOSS], m->n), best = m->n_validation;
    char value[PST_HTML_NUMBER], text[PST_HTML_NUMBER];
    if (at < m->n) {
        snprintf(value, sizeof value, "%.4f", m->curve[PST_REPORT_LOSS][at]);
        open_tile("Training loss", value, out);
        fprintf(out, "nats per token, at step %s", pst_html_whole(m->step[at], text));
        close_tile(out);
    }
    for (size_t i = 0; i < m->n_validation; i++)
        if (!isnan(m->validation_loss[i]) &&
            (best == m->n_validation || m->validation_loss[i] < m->validation_loss[best]))
            best = i;
    if (best == m->n_validation) return;
    size_t last = last_there(m->validation_loss, m->n_validation);
    snprintf(value, sizeof value, "%.4f", m->validation_loss[best]);
    open_tile("Best validation loss", value, out);
    fprintf(out, "nats per token, at step %s", pst_html_whole(m->validation_step[best], text));
    if (last != best)
        fprintf(out, "; last %.4f at step %s", m->validation_loss[last],
                pst_html_whole(m->validation_step[last], text));
    close_tile(out);
}

/* The last loss of each named set. */
static void draw_sets(const pst_report_metrics *m, FILE *out) {
    char text[PST_HTML_NUMBER];
    const char *name, *comma = "";
    json_t *set;
    if (!m->sets) return;
    snprintf(text, sizeof text, "%zu", json_object_size(m->sets));
    open_tile("Evaluation sets", text, out);
    json_object_foreach(m->sets, name, set) {
        double loss = pst_report_number(set, "loss");
        fputs(comma, out);
        pst_html_text(out, name);
        if (isnan(loss)) fputs(" –", out);
        else fprintf(out, " %.4f", loss);
        comma = ", ";
    }
    fprintf(out, " nats per token, at step %s", pst_html_whole(m->sets_step, text));
    close_tile(out);
}

/* Medians, predicted beside measured. share: both are shares, and their difference is in
 * percentage points. */
typedef struct {
    const char *name;
    pst_report_curve measured, predicted;
    int share;
} pair;

static pst_status draw_pair(const pst_report_metrics *m, size_t first, const pair *p, FILE *out) {
    const int share = p->share;
    double was, said;
    char value[PST_HTML_NUMBER], text[PST_HTML_NUMBER];
    PST_TRY(pst_report_median(m->curve[p->measured] + first, m->n - first, &was));
    PST_TRY(pst_report_median(m->curve[p->predicted] + first, m->n - first, &said));
    if (isnan(was)) return PST_OK;
    open_tile(p->name, share ? pst_html_share(was, value) : pst_html_ms(was, value), out);
    if (!isnan(said)) {
        fprintf(out, "predicted %s", share ? pst_html_share(said, text) : pst_html_ms(said, text));
        double off = was > 0 ? (said / was - 1) * 100 : NAN;
        if (share) off = (said - was) * 100;
        if (!isnan(off))
            fprintf(out, ", %.1f%s %s", fabs(off), share ? " points" : "%",
                    off < 0 ? "below" : "above");
    }
    close_tile(out);
    return PST_OK;
}

static void draw_memory(const pst_report_metrics *m, FILE *out) {
    uint32_t largest = 0;
    char value[PST_HTML_NUMBER], text[PST_HTML_NUMBER];
    for (uint32_t r = 1; r < m->n_rank; r++)
        if (isnan(m->memory[largest].peak) || m->memory[r].peak > m->memory[largest].peak)
            largest = r;
    if (!m->n_rank || isnan(m->memory[largest].peak)) return;
    const pst_report_memory *of = &m->memory[largest];
    open_tile("Arena",
              pst_html_bytes(isnan(of->predicted_peak) ? of->peak : of->predicted_peak, value),
              out);
    fprintf(out, "%swritten %s", m->n_rank > 1 ? "largest rank, " : "",
            pst_html_bytes(of->peak, text));
    if (of->resident > 0) fprintf(out, "; process %s", pst_html_bytes(of->resident, text));
    close_tile(out);
}

static pst_status draw_rate(const pst_report_data *d, size_t first, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    double rate, mfu;
    char value[PST_HTML_NUMBER], text[PST_HTML_NUMBER];
    PST_TRY(pst_report_median(m->curve[PST_REPORT_RATE] + first, m->n - first, &rate));
    PST_TRY(pst_report_median(m->curve[PST_REPORT_MFU] + first, m->n - first, &mfu));
    if (isnan(rate)) return PST_OK;
    open_tile("Throughput", pst_html_whole(rate, value), out);
    fputs("tokens/s", out);
    if (mfu > 0 && !pst_report_is_timed(d))
        fprintf(out, ", %s of peak FLOP/s", pst_html_share(mfu, text));
    close_tile(out);
    return PST_OK;
}

static void draw_tokens(const pst_report_metrics *m, FILE *out) {
    size_t at = last_there(m->curve[PST_REPORT_TOKENS], m->n);
    char value[PST_HTML_NUMBER], text[PST_HTML_NUMBER];
    if (at == m->n) return;
    open_tile("Trained on", pst_html_count(m->curve[PST_REPORT_TOKENS][at], value), out);
    fprintf(out, "tokens in %s step%s", pst_html_whole(m->step[at], text),
            m->step[at] == 1 ? "" : "s");
    close_tile(out);
}

pst_status pst_report_draw_tiles(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    size_t first = pst_report_settled(m);
    char from[PST_HTML_NUMBER], to[PST_HTML_NUMBER];
    if (!m->n) return PST_OK;
    fputs("<section id=\"numbers\"><div class=\"tiles\">\n", out);
    draw_losses(m, out);
    draw_sets(m, out);
    PST_TRY(draw_rate(d, first, out));
    PST_TRY(draw_pair(
        m, first, &(pair){"Step time", PST_REPORT_STEP_MS, PST_REPORT_PREDICTED_STEP_MS, 0}, out));
    PST_TRY(draw_pair(m, first,
                      &(pair){"Bubble", PST_REPORT_BUBBLE, PST_REPORT_PREDICTED_BUBBLE, 1}, out));
    draw_memory(m, out);
    draw_tokens(m, out);
    fputs("</div>\n", out);
    if (m->n > 1)
        fprintf(out,
                "<p class=\"note\">Throughput, step time and bubble are medians over steps %s to "
                "%s. The bubble is the share of a step in which a rank waits for other stages and "
                "has nothing to compute. Predictions come from the simulator, with the durations "
                "that were measured in the first steps.</p>",
                pst_html_whole(m->step[first], from), pst_html_whole(m->step[m->n - 1], to));
    fputs("</section>\n", out);
    return PST_OK;
}
