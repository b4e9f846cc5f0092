/* parallel.local: replicas that take several steps without each other. */
#include "prepare/prepare.h"
#include <stdlib.h>
#include <string.h>

/* The mean of the weights after one step of each replica is the weight after a step with the mean
 * gradient, if the step is linear in the gradient: so it is taken, with the same bits. */
static int is_synchronous(const pst_config *c) {
    return c->parallel.local.steps == 1 && c->parallel.local.outer.lr == 1 &&
           c->parallel.local.outer.momentum == 0 && !strcmp(c->train.optimizer, "sgd") &&
           c->train.clip == 0;
}

uint32_t pst_prepare_islands(const pst_config *c, uint32_t replicas) {
    return c->parallel.local.steps && !is_synchronous(c) ? replicas : 1;
}

static pst_status refuse(const pst_config *c, const char *why) {
    return pst_config_at(c, "parallel.local", "steps", pst_fail(PST_EINPUT, "%s", why));
}

/* Keys that need numbers of all replicas in every step. */
static pst_status check(const pst_prepared *p) {
    const pst_config *c = p->config;
    const struct {
        int given;
        const char *why;
    } row[] = {
        {!strcmp(c->train.precision, "fp16") && c->train.loss_scale == 0,
         "parallel.local: a dynamic loss scale would differ between islands; give train.loss_scale "
         "a number, or use train.precision=bf16"},
        {!strcmp(c->train.non_finite, "skip"),
         "parallel.local: islands skip no steps; use train.non_finite=stop"},
        {!strcmp(c->train.spike, "skip") || !strcmp(c->train.spike, "rewind"),
         "parallel.local: islands skip no steps; use train.spike=warn or off"},
        {c->train.batch_warmup.from != 0,
         "parallel.local and train.batch_warmup are not supported together"},
        {strcmp(c->parallel.compress.up, "none") != 0,
         "parallel.local: islands send no gradients that parallel.compress.up could pack; use "
         "parallel.compress.up=none"},
        {strcmp(c->parallel.compress.down, "none") != 0,
         "parallel.local: islands exchange weights in outer steps only, in fp32; use "
         "parallel.compress.down=none"},
        {strcmp(c->parallel.gradients, "fp32") != 0,
         "parallel.local: islands send no gradients; use parallel.gradients=fp32"},
        {c->parallel.reproducible != 0,
         "parallel.local: what is learned depends on the number of islands; use "
         "parallel.reproducible.data=0"},
        {!strcmp(c->parallel.post_validation, "true"),
         "parallel.local and parallel.post_validation are not supported together"},
        {p->options.device && p->options.device->flags & PST_DEVICE_OWN_MEMORY,
         "parallel.local is supported on CPUs only"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (row[i].given) return refuse(c, row[i].why);
    return PST_OK;
}

pst_status pst_prepare_local(const pst_prepared *p, pst_job_spec *spec) {
    spec->islands = p->options.infer ? 1 : pst_prepare_islands(p->config, p->grid.data);
    if (spec->islands == 1) return PST_OK;
    PST_TRY(check(p));
    spec->syncs = !p->options.inner;
    spec->velocity = p->config->parallel.local.outer.momentum > 0;
    return PST_OK;
}

int pst_prepared_syncs(const pst_prepared *p, uint64_t step) {
    const uint64_t every = (uint64_t)p->config->parallel.local.steps;
    return p->job->islands == 1 || (step + 1) % every == 0 ||
           step + 1 >= (uint64_t)p->config->train.steps;
}

double pst_prepared_step_ns(const pst_prepared *p) {
    const double outer = (double)p->timing->step_ns;
    if (!p->inner) return outer;
    const double n = (double)p->config->parallel.local.steps;
    return (outer + (n - 1) * (double)p->inner->timing->step_ns) / n;
}
