/* The runs of a verification. */
#include "checkpoint/durable.h"
#include "verify/verify.h"
#include <inttypes.h>
#include <string.h>

pst_status pst_verify_prepare(const pst_verifying *v, const pst_shape_keys *keys, uint32_t n_rank,
                              pst_config **config, pst_prepared **p) {
    pst_prepare_options options = {
        .n_rank = n_rank, .threads = 1, .plan = keys ? NULL : v->plan, .smaller = 1};
    PST_TRY(pst_config_copy(v->config, config));
    pst_config *c = *config;
    pst_status status = pst_shape_apply(c, &v->shape.small);
    if (status == PST_OK && keys) status = pst_shape_apply(c, keys);
    options.isa = pst_prepare_isa_to_inspect(c);
    options.n_eval_micro = v->shape.n_micro;
    return status == PST_OK ? pst_prepare(c, &options, p) : status;
}

void pst_verify_checkpoint(const pst_verifying *v, const char *name, uint64_t step,
                           char path[PST_VERIFY_PATH]) {
    snprintf(path, PST_VERIFY_PATH, "%.500s/%s/verify/checkpoints/step-%08" PRIu64, v->folder, name,
             step);
}

pst_status pst_verify_make(const pst_verifying *v, const pst_verify_way *way, pst_verify_end *end) {
    const pst_verify_options *o = v->options;
    const pst_verify_run run = {.folder = v->folder,
                                .name = way->name,
                                .file = o->file,
                                .override = o->override,
                                .n_override = o->n_override,
                                .keys = {&v->shape.small, way->keys},
                                .n_rank = way->n_rank,
                                .resume = way->resume,
                                .fault = way->fault,
                                .reference = way->reference,
                                .repeat = way->repeat,
                                .whole = way->whole,
                                .takes_fault = way->takes_fault};
    return pst_verify_launch(&run, end);
}

pst_status pst_verify_record(pst_verifying *v, const pst_verify_way *way, pst_check *check,
                             pst_recording **recording) {
    pst_verify_end end;
    char folder[PST_VERIFY_PATH];
    *recording = NULL;
    PST_TRY(pst_verify_make(v, way, &end));
    if (end.exit_status == pst_status_exit(PST_ENOMEM))
        return pst_fail(PST_ENOMEM, "the run (%s) ended with status %d: %s", way->title,
                        end.exit_status, end.said);
    if (end.exit_status) {
        pst_check_fail(check, "the run (%s) ended with status %d: %s", way->title, end.exit_status,
                       end.said);
        return PST_OK;
    }
    snprintf(folder, sizeof folder, "%.600s/%s/record", v->folder, way->name);
    pst_status status = pst_recording_open(folder, way->title, way->n_rank, recording);
    if (status != PST_EINPUT) return status;
    pst_check_fail(check, "the run (%s) was not recorded: %s", way->title, pst_error());
    return PST_OK;
}

void pst_verify_forget(const pst_verifying *v, const char *name) {
    char folder[PST_VERIFY_PATH];
    if (v->options->keep) return;
    snprintf(folder, sizeof folder, "%.600s/%s", v->folder, name);
    pst_durable_remove(folder);
}
