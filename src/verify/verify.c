/* `penstock verify`: the order of the checks, and what they share. */
#include "verify/verify.h"
#include "backends/registry.h"
#include "base/clock.h"
#include "base/plural.h"
#include "base/sized.h"
#include "checkpoint/durable.h"
#include "prepare/planned.h"
#include "run/setup.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- set-up ----------------------------------------------------------------------------------- */

/* A new folder that the user has named. */
static pst_status keep_folder(pst_verifying *v, const char *keep) {
    if (snprintf(v->folder, sizeof v->folder, "%s", keep) >= PST_VERIFY_PATH - 256)
        return pst_fail(PST_EINPUT, "--keep '%.60s...': the path is too long", keep);
    if (mkdir(keep, 0777) == 0) return PST_OK;
    *v->folder = 0;
    if (errno == EEXIST)
        return pst_fail(PST_EINPUT, "--keep %s: exists already; expected a new folder", keep);
    return pst_fail(pst_status_of_errno(errno), "--keep %s: %s", keep, strerror(errno));
}

static pst_status make_folder(pst_verifying *v) {
    const char *keep = v->options->keep, *parent = getenv("TMPDIR");
    if (keep && *keep) return keep_folder(v, keep);
    if (!parent || !*parent) parent = "/tmp";
    snprintf(v->folder, sizeof v->folder, "%.400s/penstock-verify-XXXXXX", parent);
    if (mkdtemp(v->folder)) return PST_OK;
    *v->folder = 0;
    return pst_fail(PST_ENOMEM, "cannot create a folder in %s: %s", parent, strerror(errno));
}

static pst_status refuse(const pst_config *c) {
    if (strcmp(pst_registry_world()->name, "single"))
        return pst_fail(PST_EINPUT, "verify starts ranks itself: run it without a launcher");
    if (pst_config_is_auto(c))
        return pst_fail(PST_EINPUT,
                        "parallel.plan auto does not fix the layout; write a plan (penstock plan "
                        "RUN.yaml -o plan.yaml) and set parallel.plan=plan.yaml");
    if (pst_prepare_islands(c, 2) > 1)
        return pst_config_at(
            c, "parallel.local", "steps",
            pst_fail(PST_EINPUT, "verify compares with one rank, which islands learn differently "
                                 "from; use parallel.local.steps=0"));
    if (pst_prepare_staleness(c))
        return pst_config_at(
            c, "parallel", "update",
            pst_fail(PST_EINPUT, "verify compares the gradients of a step with its update, which "
                                 "is that of another step; use parallel.update=sync"));
    if (strcmp(c->parallel.compress.stages, "none") != 0)
        return pst_config_at(
            c, "parallel.compress", "stages",
            pst_fail(PST_EINPUT,
                     "verify compares with one rank, which has no stages that send each other "
                     "packed activations; use parallel.compress.stages=none"));
    if (pst_prepare_is_async(c))
        return pst_config_at(
            c, "parallel", "update",
            pst_fail(PST_EINPUT,
                     "verify compares steps of all replicas together, which asynchronous "
                     "updates do not have; use parallel.update=sync"));
    if (!strcmp(c->parallel.device, "timed"))
        return pst_fail(
            PST_EINPUT,
            "parallel.device timed computes nothing that could be compared; choose another device");
    return PST_OK;
}

/* What the run on one rank would check before its first step: data, precision, device, memory. */
static pst_status check_start(pst_verifying *v) {
    const pst_train_options options = {.size = sizeof options, .runs = v->folder, .resume = ""};
    pst_run_inputs inputs;
    PST_TRY(pst_setup_prepare(v->config_one, &options, NULL, 1, NULL, &inputs));
    v->data = inputs.data->row->hash(inputs.data);
    pst_prepared_close(inputs.p);
    pst_evaluate_close(&inputs.sets);
    inputs.data->row->close(inputs.data);
    return PST_OK;
}

static pst_status set_up(pst_verifying *v) {
    uint32_t n_rank;
    const pst_verify_options *o = v->options;
    PST_TRY(pst_config_load(o->file, o->override, o->n_override, &v->config));
    PST_TRY(refuse(v->config));
    PST_TRY(pst_planned_config(&v->config, &v->plan));
    PST_TRY(pst_planned_ranks(v->config, v->plan, o->ranks, &n_rank));
    PST_TRY(pst_shape_choose(v->config, n_rank, &v->shape));
    PST_TRY(pst_verify_prepare(v, NULL, n_rank, &v->config_small, &v->prepared));
    pst_promise_of(v->prepared, &v->shape, &v->promise);
    pst_shape_alone(&v->one, 1, v->promise.parts);
    pst_shape_alone(&v->alone, v->shape.tensor, v->promise.parts);
    PST_TRY(pst_verify_prepare(v, &v->one, 1, &v->config_one, &v->prepared_one));
    PST_TRY(make_folder(v));
    if (v->options->torch) PST_TRY(pst_verify_torch_check(v));
    PST_TRY(check_start(v));
    return pst_verify_files(v);
}

static void clean_up(pst_verifying *v) {
    pst_recording_close(v->of_one);
    pst_recording_close(v->of_alone);
    pst_recording_close(v->of_configured);
    pst_recording_close(v->reference.recording);
    pst_prepared_close(v->prepared);
    pst_prepared_close(v->prepared_one);
    pst_plan_close(v->plan);
    pst_config_close(v->config_one);
    pst_config_close(v->config_small);
    pst_config_close(v->config);
    if (!*v->folder) return;
    if (v->options->keep && *v->options->keep) rmdir(v->folder); /* only if it is empty */
    else pst_durable_remove(v->folder);
}

/* --- checks ----------------------------------------------------------------------------------- */

static void announce(const pst_verifying *v) {
    const pst_shape *s = &v->shape;
    if (v->options->json) return;
    fprintf(v->out, "%u rank%s; %llu steps of %u micro-batch%s; seed of verify %llu\n", s->n_rank,
            pst_plural(s->n_rank), (unsigned long long)s->steps, s->n_micro,
            pst_plural_es(s->n_micro), (unsigned long long)v->seed);
    if (*s->changed) fprintf(v->out, "changed: %s\n", s->changed);
    if (*s->note) fprintf(v->out, "%s\n", s->note);
    fflush(v->out);
}

static pst_status run_checks(pst_verifying *v) {
    static pst_status (*const checks[])(pst_verifying *) = {
        pst_verify_lists,      pst_verify_one,     pst_verify_against, pst_verify_tensor_ranks,
        pst_verify_configured, pst_verify_resumed, pst_verify_killed,  pst_verify_operators,
        pst_verify_reference,  pst_verify_torch};
    for (size_t i = 0, printed = 0; i < sizeof checks / sizeof *checks; i++) {
        PST_TRY(checks[i](v));
        for (; printed < v->table.n; printed++)
            if (!v->options->json) pst_check_print(v->table.check + printed, v->out);
    }
    return PST_OK;
}

/* The result: OK if all have passed. */
static pst_status conclude(const pst_verifying *v, double seconds) {
    uint32_t failed = pst_check_count(&v->table, PST_CHECK_FAILED),
             skipped = pst_check_count(&v->table, PST_CHECK_SKIPPED);
    if (v->options->json) PST_TRY(pst_check_json(&v->table, seconds, v->out));
    else if (!failed)
        fprintf(v->out, "verified: %u checks passed, %u skipped, in %.1f s\n", v->table.n - skipped,
                skipped, seconds);
    if (!failed) return PST_OK;
    return pst_fail(PST_EINTERNAL, "%u of %u checks failed", failed, v->table.n);
}

pst_status pst_verify(const pst_verify_options *options, FILE *out) {
    pst_verify_options o;
    PST_TRY(pst_sized_take("pst_verify", options, &o, sizeof o));
    if (!o.file || !out) return pst_fail(PST_EINPUT, "pst_verify: file or out is NULL");
    pst_verifying *v = calloc(1, sizeof *v);
    if (!v) return pst_fail(PST_ENOMEM, "no memory for a verification");
    v->options = &o;
    v->out = out;
    v->seed = o.seed;
    uint64_t began = pst_monotonic_ns();
    pst_setup_log("error");
    pst_verify_signals_open();
    pst_status status = set_up(v);
    if (status == PST_OK) announce(v);
    if (status == PST_OK) status = run_checks(v);
    if (status == PST_OK) status = conclude(v, (double)(pst_monotonic_ns() - began) * 1e-9);
    clean_up(v);
    free(v);
    pst_verify_signals_close();
    return status;
}
