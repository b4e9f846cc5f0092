/* See layout.h. What the run file says of the layout is read here and nowhere below. */
#include "prepare/layout.h"
#include <stdlib.h>
#include <string.h>

static pst_status read_recompute(const pst_config *c, pst_layout *l) {
    l->n_recompute = c->parallel.n_recompute;
    l->recompute = malloc(l->n_recompute + (size_t)1);
    if (!l->recompute)
        return pst_fail(PST_ENOMEM, "no memory for the recomputation of %u chunks", l->n_recompute);
    for (uint32_t k = 0; k < l->n_recompute; k++) {
        pst_recompute way;
        PST_TRY(pst_recompute_find(c->parallel.recompute[k], &way));
        l->recompute[k] = (uint8_t)way;
    }
    return PST_OK;
}

/* parallel.replicas: micro-batches of each. */
static pst_status read_micros(const pst_config *c, pst_layout *l) {
    uint64_t sum = 0;
    if (c->parallel.n_replicas != l->data)
        return pst_fail(PST_EINPUT,
                        "parallel.replicas has %u of the %u numbers that parallel.data asks for; "
                        "as in [3, 5], one each",
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
                    "parallel.replicas: %llu micro-batches together, but a step has %u "
                    "(train.batch / micro_batch)",
                    (unsigned long long)sum, l->n_micro);
}

/* What the plan says stays, as far as it goes with the run's degrees. */
static int keeps_micros(const pst_layout *l, const pst_plan *plan) {
    uint64_t sum = 0;
    for (uint32_t k = 0; l->micros && plan->data == l->data && k < l->data; k++)
        sum += l->micros[k];
    return sum && sum == l->n_micro;
}

static pst_status read_training(const pst_config *c, const pst_prepare_options *o, pst_layout *l) {
    l->micro_batch = (uint32_t)c->train.micro_batch;
    l->sequence = !strcmp(c->parallel.sequence, "true");
    l->zero = (uint32_t)c->parallel.zero;
    if (!o->plan) {
        l->n_micro = (uint32_t)(c->train.batch / c->train.micro_batch);
        l->chunks = (uint32_t)c->parallel.chunks;
        snprintf(l->schedule, sizeof l->schedule, "%s", c->parallel.schedule);
        PST_TRY(read_recompute(c, l));
    }
    if (o->plan && !keeps_micros(l, o->plan)) {
        free(l->micros);
        l->micros = NULL;
    }
    if (c->parallel.n_replicas && !l->micros) PST_TRY(read_micros(c, l));
    free(l->device);
    l->device = NULL;
    return pst_prepare_layout_devices(c, o->plan, o->n_rank, &l->device);
}

/* Generation computes with one pipeline, whatever the run file says. */
static pst_status lay_out_inference(const pst_prepare_options *o, pst_layout *l) {
    *l = (pst_layout){.pipeline = o->n_rank,
                      .data = 1,
                      .tensor = 1,
                      .micro_batch = 1,
                      .n_micro = 1,
                      .schedule = "forward",
                      .chunks = 1};
    return o->n_rank ? PST_OK : pst_fail(PST_EINPUT, "a job of no ranks");
}

pst_status pst_prepare_layout(const pst_config *c, const pst_prepare_options *o,
                              pst_layout *layout) {
    pst_layout l = {0};
    if (o->infer) return lay_out_inference(o, layout);
    if (o->plan) PST_TRY(pst_plan_layout(o->plan, &l));
    free(l.before);
    l.before = NULL;
    pst_status status = pst_prepare_grid(c, o, &l);
    if (status == PST_OK) status = read_training(c, o, &l);
    if (status == PST_OK) *layout = l;
    else pst_layout_close(&l);
    return status;
}
