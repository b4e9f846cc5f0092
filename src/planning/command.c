/* `penstock plan RUN.yaml`: checks its options, then plans for the devices of the cluster, or for
 * several numbers of devices (budget.h). */
#include "base/sized.h"
#include "planning/budget.h"
#include "prepare/planned.h"

/* An output must not overwrite an input. */
static pst_status check_output(const char *path, const pst_config *c,
                               const pst_plan_run_options *o) {
    const char *const read[] = {c->source,  c->parallel.profile, c->parallel.cluster,
                                o->profile, o->cluster,          o->import_};
    for (size_t i = 0; *path && i < sizeof read / sizeof *read; i++)
        if (read[i] && pst_planned_is_file(path, read[i]))
            return pst_fail(
                PST_EINPUT,
                "%s is an input of the plan and would be overwritten; write to another file", path);
    return PST_OK;
}

static pst_status plan(pst_config *config, const pst_plan_run_options *o, FILE *out) {
    pst_planning x = {.config = config, .options = o, .open = ""};
    const char *program = "";
    if (*o->import_) PST_TRY(pst_planning_import(&x, config, &program));
    PST_TRY(pst_planning_program(&x, config, *o->program ? o->program : program));
    if (o->tokens && *o->tokens) return pst_budget_run(&x, out);
    pst_status status = pst_planning_search(&x);
    if (status == PST_OK) status = pst_planning_answer(&x, out);
    pst_planning_close(&x);
    return status;
}

pst_status pst_plan_run(const pst_config *config, const pst_plan_run_options *options, FILE *out) {
    pst_plan_run_options o;
    PST_TRY(pst_sized_take("pst_plan_run", options, &o, sizeof o));
    if (!config || !out)
        return pst_fail(PST_EINPUT, "pst_plan_run: %s is NULL", config ? "out" : "config");
    if (!o.cluster) o.cluster = "";
    if (!o.profile) o.profile = "";
    if (!o.plan) o.plan = "";
    if (!o.report) o.report = "";
    if (!o.program) o.program = "";
    if (!o.calibrate) o.calibrate = "";
    if (!o.margin) o.margin = "";
    if (!o.export_) o.export_ = "";
    if (!o.import_) o.import_ = "";
    if (*o.import_ && ((o.gpus && *o.gpus) || o.days > 0))
        return pst_fail(PST_EINPUT, "--import gives the layout for one number of devices; omit "
                                    "--gpus and --days");
    if (*o.export_) PST_TRY(pst_planning_check_export(o.export_));
    if (*o.export_ && o.json)
        return pst_fail(PST_EINPUT, "--export and --json both replace the text; omit one of them");
    if (!o.top) o.top = 12;
    pst_config *own;
    pst_budget_request request;
    PST_TRY(pst_budget_read(&o, &request));
    PST_TRY(check_output(o.plan, config, &o));
    PST_TRY(check_output(o.report, config, &o));
    PST_TRY(pst_config_copy(config, &own));
    pst_status status =
        *o.profile ? pst_config_override(own, "parallel", "profile", o.profile) : PST_OK;
    if (status == PST_OK && o.force)
        status = pst_config_override(own, "parallel", "profile_force", "true");
    if (status == PST_OK && *o.cluster && *own->parallel.cluster)
        status = pst_config_override(own, "parallel", "cluster", o.cluster);
    if (status == PST_OK) status = plan(own, &o, out);
    pst_config_close(own);
    return status;
}
