/* Suite `step`: whole training steps of a model on one rank, as in a run but without its files.
 * FLOPs are the graph's, without recomputation. */
#include "commands/bench.h"
#include "run/step.h"
#include "base/plural.h"
#include "commands/bench_case.h"
#include "pipeline/schedule/schedule.h"
#include "run/synthetic.h"
#include <stdlib.h>
#include <string.h>

enum { WARM = 3, STEPS = 20, LEAST = 3 };
#define LONG_NS UINT64_C(10000000000) /* upper limit of steps */

/* The model and its batch; everything else as it suits one rank. */
static pst_status configure(const pst_bench *b, const pst_device_ops *ops, pst_dtype dtype,
                            pst_config **config) {
    static const char *const alone[][2] = {
        {"pipeline", "1"},     {"data", "1"},         {"tensor", "1"},
        {"sequence", "false"}, {"transport", "self"}, {"cluster", ""},
        {"plan", ""},          {"throttle", "[]"},    {"devices", "[]"},
        {"replicas", "[]"},    {"schedule_file", ""}, {"post_validation", "false"},
        {"chunks", "0"}};
    char threads[16];
    pst_config *c;
    PST_TRY(pst_config_copy(b->config, &c));
    snprintf(threads, sizeof threads, "%u", b->threads);
    pst_status status = PST_OK;
    for (size_t i = 0; i < sizeof alone / sizeof *alone && status == PST_OK; i++)
        status = pst_config_override(c, "parallel", alone[i][0], alone[i][1]);
    if (status == PST_OK)
        status = pst_config_override(c, "parallel", "schedule", pst_schedule_single_stage()->name);
    if (status == PST_OK) status = pst_config_override(c, "parallel", "device", ops->name);
    if (status == PST_OK) status = pst_config_override(c, "parallel", "threads", threads);
    if (status == PST_OK)
        status = pst_config_override(c, "train", "precision", pst_dtype_precision(dtype));
    if (status == PST_OK && c->parallel.n_recompute > 1)
        status = pst_config_override(c, "parallel", "recompute", "none"); /* a list for each chunk
                                                                             does not fit one chunk
                                                                           */
    if (status == PST_OK) *config = c;
    else pst_config_close(c);
    return status;
}

/* Seconds of n steps after some that do not count; fewer of both if steps are long. */
static pst_status time_steps(pst_trainer *t, double seconds[STEPS], uint32_t *n) {
    uint64_t origin = pst_monotonic_ns();
    uint32_t warm = 0;
    for (*n = 0; *n < STEPS;) {
        pst_metrics_step measured;
        uint64_t began = pst_monotonic_ns();
        PST_TRY(pst_synthetic_feed(t));
        PST_TRY(pst_step_run(t, began, &measured));
        int is_long = pst_monotonic_ns() - origin > LONG_NS;
        if (warm < WARM && !(warm && is_long)) {
            warm++;
            continue;
        }
        seconds[(*n)++] = measured.step_s;
        if (is_long && *n >= LEAST) break;
    }
    return PST_OK;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static json_t *conclude(const pst_trainer *t, double *seconds, uint32_t n, double product) {
    const pst_prepared *p = t->p;
    pst_peak peak;
    qsort(seconds, n, sizeof *seconds, by_value);
    double step = seconds[n / 2], rate = (double)p->flops / step;
    double tokens = (double)p->config->train.batch * p->model_config.context;
    pst_prepare_peak(p, &peak);
    return json_pack("{s:s,s:f,s:f,s:f,s:i,s:f,s:f,s:f,s:f,s:f,s:s,s:f,s:f,s:I,s:I}", "precision",
                     pst_dtype_precision(pst_graph_factors(p->graph)), "step_s", step, "least_s",
                     seconds[0], "most_s", seconds[n - 1], "steps", (int)n, "predicted_s",
                     (double)p->timing->step_ns * 1e-9, "tokens_per_s", tokens / step, "flops",
                     (double)p->flops, "flops_per_s", rate, "peak_flops", peak.flops, "peak_from",
                     peak.from, "of_peak", peak.flops > 0 ? rate / peak.flops : 0, "product_flops",
                     product, "peak_bytes", (json_int_t)t->report[0].peak_bytes,
                     "predicted_peak_bytes", (json_int_t)p->memory[0]->total);
}

static pst_status measure_precision(const pst_bench *b, const pst_device_ops *ops, pst_dtype dtype,
                                    json_t *list) {
    const pst_device_config device = {.threads = b->threads};
    double seconds[STEPS], product = 0, bytes_per_s;
    uint32_t n;
    pst_trainer t = {.group = NULL, .proc_status = -1, .lock = -1};
    pst_config *c;
    if (!pst_registry_is_host(ops))
        PST_TRY(pst_bench_peaks(ops, &device, dtype, &product, &bytes_per_s));
    PST_TRY(configure(b, ops, dtype, &c));
    pst_status status = pst_synthetic_plan(c, &t);
    if (status == PST_OK) status = pst_synthetic_ranks(&t);
    if (status == PST_OK) t.group->local[0]->times = 0; /* like most steps of a run */
    if (status == PST_OK) status = time_steps(&t, seconds, &n);
    if (status == PST_OK) json_array_append_new(list, conclude(&t, seconds, n, product));
    pst_synthetic_close(&t);
    pst_config_close(c);
    return status;
}

pst_status pst_bench_step_measure(const pst_bench *b, json_t **found) {
    const pst_device_ops *ops;
    const pst_device_config device = {.threads = b->threads};
    const pst_config *c = b->config;
    PST_TRY(pst_bench_device(b, &ops));
    json_t *list = json_array();
    pst_status status = pst_bench_precisions(b, ops, measure_precision, list);
    if (status != PST_OK) {
        json_decref(list);
        return status;
    }
    *found =
        json_pack("{s:s,s:s,s:s,s:i,s:I,s:I,s:o}", "model", *c->model.preset ? c->model.preset : "",
                  "device", ops->name, "device_model", ops->model ? ops->model(&device) : "",
                  "threads", (int)b->threads, "batch", (json_int_t)c->train.batch, "micro_batch",
                  (json_int_t)c->train.micro_batch, "precisions", list);
    return *found ? PST_OK : pst_fail(PST_ENOMEM, "no memory for results");
}

static double real_of(json_t *j, const char *key) {
    return json_number_value(json_object_get(j, key));
}

static const char *text_of(json_t *j, const char *key) {
    return json_string_value(json_object_get(j, key));
}

static void print_precision(json_t *p, FILE *out) {
    double rate = real_of(p, "flops_per_s"), peak = real_of(p, "peak_flops"),
           product = real_of(p, "product_flops");
    fprintf(out,
            "%s: %.2f ms per step (%.2f to %.2f in %.0f steps), predicted %.2f ms; %.0f tokens/s; "
            "%.3f TFLOP/s",
            text_of(p, "precision"), real_of(p, "step_s") * 1e3, real_of(p, "least_s") * 1e3,
            real_of(p, "most_s") * 1e3, real_of(p, "steps"), real_of(p, "predicted_s") * 1e3,
            real_of(p, "tokens_per_s"), rate * 1e-12);
    if (peak > 0)
        fprintf(out, ", %.1f %% of %.3f TFLOP/s (%s)", rate / peak * 100, peak * 1e-12,
                text_of(p, "peak_from"));
    if (product > 0)
        fprintf(out, ", %.1f %% of %.3f TFLOP/s (a large matrix product)", rate / product * 100,
                product * 1e-12);
    fprintf(out, "; memory %.1f MiB, predicted %.1f MiB\n", real_of(p, "peak_bytes") / 0x1p20,
            real_of(p, "predicted_peak_bytes") / 0x1p20);
}

void pst_bench_step_print(json_t *found, FILE *out) {
    json_t *row;
    size_t i;
    int host = !strcmp(text_of(found, "device"), "cpu");
    fprintf(out, "step: %s, %s %s", text_of(found, "model"), text_of(found, "device"),
            text_of(found, "device_model"));
    if (host)
        fprintf(out, "%.0f thread%s", real_of(found, "threads"),
                pst_plural((uint64_t)real_of(found, "threads")));
    fprintf(out, ", batch of %.0f in micro-batches of %.0f\n", real_of(found, "batch"),
            real_of(found, "micro_batch"));
    json_array_foreach(json_object_get(found, "precisions"), i, row) print_precision(row, out);
}
