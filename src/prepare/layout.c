/* See layout.h. Together with grid.c and devices.c it turns the run file's keys into a layout. */
#include "prepare/layout.h"
#include "base/plural.h"
#include "pipeline/schedule/schedule.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static pst_status read_recompute(const pst_config *c, pst_layout *l) {
    l->n_recompute = c->parallel.n_recompute;
    l->recompute = malloc((l->n_recompute + (size_t)1) * sizeof *l->recompute);
    if (!l->recompute)
        return pst_fail(PST_ENOMEM, "no memory for the recomputation of %u chunks", l->n_recompute);
    for (uint32_t k = 0; k < l->n_recompute; k++) {
        if (pst_config_chooses_layers(c->parallel.recompute[k]))
            return pst_fail(
                PST_EINPUT,
                "parallel.recompute: the number of {full: auto} is chosen by a plan; use "
                "penstock plan, parallel.plan: auto, or {full: N} with N layers");
        PST_TRY(pst_recompute_find(c->parallel.recompute[k], &l->recompute[k]));
    }
    return PST_OK;
}

/* parallel.replicas: micro-batches of each replica. */
static pst_status read_micros(const pst_config *c, pst_layout *l) {
    uint64_t sum = 0;
    if (c->parallel.n_replicas != l->data)
        return pst_fail(
            PST_EINPUT,
            "parallel.replicas has %u numbers; expected %u (parallel.data), one for each "
            "replica, such as [3, 5]",
            c->parallel.n_replicas, l->data);
    l->micros = malloc(l->data * sizeof *l->micros);
    if (!l->micros) return pst_fail(PST_ENOMEM, "no memory for %u replicas", l->data);
    for (uint32_t k = 0; k < l->data; k++) {
        PST_TRY(pst_prepare_whole("parallel.replicas", c->parallel.replicas[k], 1, 1048576,
                                  &l->micros[k]));
        sum += l->micros[k];
    }
    if (sum == l->n_micro) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "parallel.replicas: the sum is %llu micro-batches; expected %u "
                    "(train.batch / train.micro_batch, rounded up)",
                    (unsigned long long)sum, l->n_micro);
}

/* --- from a run file -------------------------------------------------------------------------- */

static pst_status read_order(const pst_config *c, pst_layout *l) {
    l->micro_batch = (uint32_t)c->train.micro_batch;
    pst_layout_divide(l, (uint64_t)c->train.batch);
    l->chunks = (uint32_t)c->parallel.chunks;
    snprintf(l->schedule, sizeof l->schedule, "%s", c->parallel.schedule);
    return read_recompute(c, l);
}

static pst_status read_job(const pst_config *c, const pst_prepare_options *o, pst_layout *l) {
    PST_TRY(pst_prepare_grid(c, o, l));
    /* a run with a cache may have a single position */
    l->sequence = !strcmp(c->parallel.sequence, "true") && !o->cache;
    l->zero = (uint32_t)c->parallel.zero;
    if (l->servers) l->zero = 1; /* the owners update */
    return PST_OK;
}

/* --- of a plan -------------------------------------------------------------------------------- */

/* The run file was checked against the plan (planned.h). An old plan lacks degrees: then those of
 * the run file are used. */
static pst_status take_plan(const pst_config *c, const pst_prepare_options *o, pst_layout *l) {
    uint64_t sum = 0;
    PST_TRY(pst_layout_copy(&o->plan->layout, l));
    if (!l->data) PST_TRY(read_job(c, o, l));
    for (uint32_t k = 0; l->micros && k < l->data; k++) sum += l->micros[k];
    if (sum == l->n_micro) return PST_OK;
    /* divided by speed, because a program has changed the plan's number of micro-batches */
    free(l->micros);
    l->micros = NULL;
    return PST_OK;
}

static pst_status check_plan(const pst_config *c, const pst_prepare_options *o,
                             const pst_layout *l) {
    uint32_t stages = o->plan->layout.pipeline, ranks = pst_grid_size(pst_layout_grid(l));
    if (l->micro_batch != c->train.micro_batch)
        return pst_fail(PST_EINPUT,
                        "the plan is for micro-batches of %u samples, but train.micro_batch is "
                        "%" PRId64,
                        l->micro_batch, c->train.micro_batch);
    if (l->pipeline == stages && ranks == o->n_rank) return PST_OK;
    return pst_fail(PST_EINPUT, "the plan is for %u ranks, but the job has %u ranks",
                    l->pipeline == stages ? ranks : stages,
                    l->pipeline == stages ? o->n_rank : l->pipeline);
}

/* --- from either ------------------------------------------------------------------------------ */

static pst_status read_layout(const pst_config *c, const pst_prepare_options *o, pst_layout *l) {
    uint32_t *device = NULL;
    if (o->plan) {
        PST_TRY(take_plan(c, o, l));
        PST_TRY(check_plan(c, o, l));
    } else {
        PST_TRY(read_job(c, o, l));
        PST_TRY(read_order(c, l));
    }
    if (c->parallel.n_replicas && !l->micros) PST_TRY(read_micros(c, l));
    PST_TRY(pst_prepare_layout_devices(c, o->plan, o->n_rank, &device));
    free(l->device);
    l->device = device;
    return PST_OK;
}

/* Generation uses a single pipeline, whatever the run file says. */
static pst_status lay_out_inference(const pst_prepare_options *o, pst_layout *l) {
    const uint32_t tensor = o->tensor ? o->tensor : 1;
    *l = (pst_layout){.pipeline = o->n_rank / tensor,
                      .data = 1,
                      .tensor = tensor,
                      .micro_batch = o->samples ? o->samples : 1,
                      .n_micro = 1,
                      .chunks = 1};
    snprintf(l->schedule, sizeof l->schedule, "%s", pst_schedule_name_of(PST_SCHEDULE_FORWARD));
    if (l->pipeline && o->n_rank % tensor == 0) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "the job has %u rank%s; expected a multiple of %u tensor rank%s "
                    "(parallel.tensor)",
                    o->n_rank, pst_plural(o->n_rank), tensor, pst_plural(tensor));
}

pst_status pst_prepare_layout(const pst_config *c, const pst_prepare_options *o,
                              pst_layout *layout) {
    pst_layout l = {0};
    if (o->infer) return lay_out_inference(o, layout);
    pst_status status = read_layout(c, o, &l);
    if (status == PST_OK) *layout = l;
    else pst_layout_close(&l);
    return o->plan && status == PST_EINPUT && *c->parallel.plan
               ? pst_fail_in(status, "%s", c->parallel.plan)
               : status;
}
