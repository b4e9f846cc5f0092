/* `penstock plan --calibrate RUN`: how much longer the steps of a run were than predicted with the
 * same costs. planning/planning.h declares it. */
#include "planning/planning.h"
#include "report/data.h"
#include <stdlib.h>
#include <string.h>

/* fewer measured steps than this say little; the first ones warm up */
enum { LEAST_STEPS = 3, WARM_UP = 1 };

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of the measured steps without the first, in s. */
static pst_status measure(const pst_report_metrics *m, const char *run, double *s) {
    double *ms = malloc((m->n + 1) * sizeof *ms);
    size_t n = 0;
    if (!ms) return pst_no_memory("for the steps of a run");
    for (size_t i = WARM_UP; i < m->n; i++) {
        const double one = m->curve[PST_REPORT_STEP_MS][i];
        if (one > 0) ms[n++] = one;
    }
    qsort(ms, n, sizeof *ms, ascending);
    *s = n ? ms[n / 2] * 1e-3 : 0;
    free(ms);
    if (n >= LEAST_STEPS) return PST_OK;
    return pst_fail(
        PST_EINPUT,
        "--calibrate %s: metrics.jsonl has %zu measured steps after the first; expected "
        "at least %d",
        run, n, LEAST_STEPS);
}

/* The run as it would be planned here: on the devices of the cluster, with its costs. */
static pst_status predict(const pst_planning *x, pst_report_data *run, const char *path,
                          double *s) {
    if (!run->config || !run->plan)
        return pst_fail(PST_EINPUT, "--calibrate %s: there is no readable %s in it", path,
                        run->config ? "plan.yaml" : "run.yaml");
    PST_TRY(pst_config_override(run->config, "parallel", "cluster", x->cluster_text));
    PST_TRY(pst_config_override(run->config, "parallel", "profile", x->config->parallel.profile));
    PST_TRY(pst_config_override(run->config, "parallel", "measured", ""));
    const uint32_t n = pst_plan_job_ranks(run->plan);
    const pst_prepare_options o = {.n_rank = n,
                                   .threads = pst_planning_threads(x, n),
                                   .isa = pst_planning_isa(x),
                                   .device = x->device,
                                   .processors = x->processors,
                                   .n_eval_micro = run->plan->layout.n_micro,
                                   .plan = run->plan,
                                   .score = 1,
                                   .program = &x->program,
                                   .quiet = 1};
    pst_prepared *p;
    PST_TRY(pst_prepare(run->config, &o, &p));
    *s = (double)p->timing->step_ns * 1e-9;
    pst_prepared_close(p);
    return PST_OK;
}

pst_status pst_planning_calibrate(pst_planning *x) {
    const char *path = x->options->calibrate;
    pst_report_data run = {0};
    double measured = 0, predicted = 0;
    if (!path || !*path) return PST_OK;
    pst_status status = pst_report_read(path, &run);
    if (status == PST_OK) status = measure(&run.metrics, path, &measured);
    if (status == PST_OK) {
        status = predict(x, &run, path, &predicted);
        if (status != PST_OK) status = pst_fail_in(status, "--calibrate %s", path);
    }
    pst_report_release(&run);
    PST_TRY(status);
    x->measured_s = measured;
    x->predicted_s = predicted;
    x->factor = measured / predicted;
    return PST_OK;
}
