/* The curves of a run over its steps. */
#include "report/chart.h"
#include "report/page.h"
#include <math.h>

static pst_report_series of(const pst_report_metrics *m, pst_report_curve curve, const char *name,
                            const char *look, double scale) {
    return (pst_report_series){
        .name = name, .look = look, .x = m->step, .y = m->curve[curve], .n = m->n, .scale = scale};
}

/* Runs of earlier versions lack some curves. */
static int has(const pst_report_metrics *m, pst_report_curve curve) {
    for (size_t i = 0; i < m->n; i++)
        if (!isnan(m->curve[curve][i])) return 1;
    return 0;
}

typedef struct {
    pst_report_curve curve, predicted;
    const char *title, *unit;
    double scale;
    int cut;
} panel;

static pst_status draw_loss(const pst_report_metrics *m, FILE *out) {
    const pst_report_series series[] = {of(m, PST_REPORT_LOSS, "training", "m", 1),
                                        {.name = "validation",
                                         .look = "v",
                                         .x = m->validation_step,
                                         .y = m->validation_loss,
                                         .n = m->n_validation,
                                         .scale = 1,
                                         .points = 1}};
    return pst_report_draw_chart(
        &(pst_report_chart){
            .title = "Loss", .unit = "nats per token", .series = series, .n_series = 2, .wide = 1},
        out);
}

static pst_status draw_one(const pst_report_metrics *m, panel p, FILE *out) {
    const pst_report_series series = of(m, p.curve, p.title, "m", p.scale);
    return pst_report_draw_chart(&(pst_report_chart){.title = p.title,
                                                     .unit = p.unit,
                                                     .series = &series,
                                                     .n_series = 1,
                                                     .from_zero = 1,
                                                     .cut = p.cut},
                                 out);
}

/* Draws predicted beside measured. */
static pst_status draw_two(const pst_report_metrics *m, panel p, FILE *out) {
    const pst_report_series series[] = {of(m, p.curve, "measured", "m", p.scale),
                                        of(m, p.predicted, "predicted", "p", p.scale)};
    return pst_report_draw_chart(&(pst_report_chart){.title = p.title,
                                                     .unit = p.unit,
                                                     .series = series,
                                                     .n_series = 2,
                                                     .from_zero = 1,
                                                     .cut = 1},
                                 out);
}

pst_status pst_report_draw_curves(const pst_report_data *d, FILE *out) {
    const pst_report_metrics *m = &d->metrics;
    if (!m->n) {
        fputs("<section><p class=\"note\">No step is complete yet.</p></section>\n", out);
        return PST_OK;
    }
    size_t per = (m->n + PST_REPORT_POINTS - 1) / PST_REPORT_POINTS;
    fputs("<section id=\"curves\"><h2>Curves over the steps</h2>\n", out);
    if (per > 1)
        fprintf(out,
                "<p class=\"sub\">Lines: means of %zu steps. Bands: from minimum to maximum of "
                "these steps.</p>\n",
                per);
    fputs("<div class=\"charts\">\n", out);
    PST_TRY(draw_loss(m, out));
    PST_TRY(draw_two(
        m, (panel){PST_REPORT_STEP_MS, PST_REPORT_PREDICTED_STEP_MS, "Step time", "ms", 1, 1},
        out));
    PST_TRY(draw_two(
        m, (panel){PST_REPORT_BUBBLE, PST_REPORT_PREDICTED_BUBBLE, "Bubble", "%", 100, 1}, out));
    if (has(m, PST_REPORT_DATA_WAIT_MS))
        PST_TRY(draw_one(m,
                         (panel){.curve = PST_REPORT_DATA_WAIT_MS,
                                 .title = "Wait for data",
                                 .unit = "ms",
                                 .scale = 1,
                                 .cut = 1},
                         out));
    PST_TRY(draw_one(m,
                     (panel){.curve = PST_REPORT_RATE,
                             .title = "Throughput",
                             .unit = "tokens/s",
                             .scale = 1,
                             .cut = 0},
                     out));
    if (!pst_report_is_timed(d))
        PST_TRY(draw_one(m,
                         (panel){.curve = PST_REPORT_MFU,
                                 .title = "Share of peak FLOP/s",
                                 .unit = "%",
                                 .scale = 100,
                                 .cut = 0},
                         out));
    PST_TRY(draw_one(
        m,
        (panel){.curve = PST_REPORT_LR, .title = "Learning rate", .unit = "", .scale = 1, .cut = 0},
        out));
    if (!pst_report_is_timed(d))
        PST_TRY(draw_one(m,
                         (panel){.curve = PST_REPORT_GRAD_NORM,
                                 .title = "Gradient norm before clipping",
                                 .unit = "",
                                 .scale = 1,
                                 .cut = 1},
                         out));
    fputs("</div>\n</section>\n", out);
    return PST_OK;
}
