/* parallel.update: when the gradients of a step change the weights. */
#include "prepare/prepare.h"
#include <string.h>

uint32_t pst_prepare_staleness(const pst_config *c) {
    return strcmp(c->parallel.update, "delayed") ? 0 : (uint32_t)c->parallel.staleness;
}

static int is(const char *value, const char *name) { return !strcmp(value, name); }

int pst_prepare_is_async(const pst_config *c) {
    return is(c->parallel.update, "async") || is(c->parallel.update, "bounded");
}

uint64_t pst_prepare_ahead(const pst_config *c) {
    return is(c->parallel.update, "bounded") ? (uint64_t)c->parallel.staleness : UINT64_MAX;
}

static pst_status refuse(const pst_config *c, const char *why) {
    return pst_config_at(c, "parallel", "update",
                         pst_fail(PST_EINPUT, "parallel.update=%s %s", c->parallel.update, why));
}

/* Keys that need all replicas in each step, and what is not supported. */
static pst_status check_async(const pst_prepared *p) {
    const pst_config *c = p->config;
    const struct {
        int given;
        const char *why;
    } row[] = {
        {!p->grid.servers, "needs servers, which apply the gradients of each replica by itself; "
                           "set parallel.servers, or use parallel.update=sync or delayed"},
        {p->grid.tensor > 1, "and parallel.tensor are not supported together; use "
                             "parallel.pipeline for workers of several ranks"},
        {c->parallel.reproducible != 0, "does not give the same bits for other numbers of "
                                        "replicas; use parallel.reproducible.data=0"},
        {!is(c->parallel.gradients, "fp32"),
         "needs exact gradients for the norm of each worker; use parallel.gradients=fp32"},
        {is(c->parallel.post_validation, "true"),
         "and parallel.post_validation are not supported together"},
        {c->train.batch_warmup.from != 0, "and train.batch_warmup are not supported together"},
        {is(c->train.precision, "fp16") && c->train.loss_scale == 0,
         "has no step of all workers after which a loss scale could change; give "
         "train.loss_scale a number, or use train.precision=bf16"},
        {is(c->train.non_finite, "skip"), "skips no steps; use train.non_finite=stop"},
        {is(c->train.spike, "skip") || is(c->train.spike, "rewind"),
         "skips no steps; use train.spike=warn or off"},
        {p->options.device && p->options.device->flags & (PST_DEVICE_OWN_MEMORY | PST_DEVICE_ASYNC),
         "is supported on CPUs only"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].given) return refuse(c, row[i].why);
    return PST_OK;
}

/* Keys that need the update at the end of the step, and what is not supported. */
static pst_status check(const pst_prepared *p) {
    const pst_config *c = p->config;
    const struct {
        int given;
        const char *why;
    } row[] = {
        {c->parallel.local.steps != 0,
         "parallel.update=delayed: with parallel.local replicas exchange no gradients; use one of "
         "the two"},
        {p->grid.data > 1 && p->plan->layout.zero == 2,
         "parallel.update=delayed needs the whole gradients of a step until its update; use "
         "parallel.zero=0 or 1"},
        {!is(c->parallel.compress.up, "none") || !is(c->parallel.compress.down, "none"),
         "parallel.update=delayed exchanges fp32 gradients beside the passes; use "
         "parallel.compress.up=none and parallel.compress.down=none"},
        {!is(c->parallel.gradients, "fp32"),
         "parallel.update=delayed exchanges fp32 gradients; use parallel.gradients=fp32"},
        {is(c->parallel.post_validation, "true"),
         "parallel.update=delayed and parallel.post_validation are not supported together"},
        {c->train.batch_warmup.from != 0,
         "parallel.update=delayed and train.batch_warmup are not supported together"},
        {is(c->train.precision, "fp16") && c->train.loss_scale == 0,
         "parallel.update=delayed: gradients would have the loss scale of another step; give "
         "train.loss_scale a number, or use train.precision=bf16"},
        {is(c->train.non_finite, "skip"),
         "parallel.update=delayed skips no steps; use train.non_finite=stop"},
        {is(c->train.spike, "skip") || is(c->train.spike, "rewind"),
         "parallel.update=delayed skips no steps; use train.spike=warn or off"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].given)
            return pst_config_at(c, "parallel", "update", pst_fail(PST_EINPUT, "%s", row[i].why));
    return PST_OK;
}

pst_status pst_prepare_update(const pst_prepared *p, pst_job_spec *spec) {
    spec->staleness = p->options.infer ? 0 : pst_prepare_staleness(p->config);
    spec->async = !p->options.infer && pst_prepare_is_async(p->config);
    if (spec->async) return check_async(p);
    return spec->staleness ? check(p) : PST_OK;
}
