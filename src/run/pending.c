/* See pending.h. saving.c writes them. */
#include "run/pending.h"
#include "base/log.h"
#include "base/plural.h"
#include "pipeline/compile/share.h"
#include <inttypes.h>
#include <stdlib.h>

/* The number of replicas whose gradients of a parameter are stored; steps: of how many steps. */
static uint32_t stored(const pst_ckpt *ckpt, const char *param, uint32_t *steps) {
    char name[PST_CKPT_NAME];
    uint32_t n = 0;
    for (*steps = 0; pst_ckpt_tensor_find(ckpt, pst_ckpt_pending_name(param, *steps + 1, 0, name));)
        ++*steps;
    while (*steps && pst_ckpt_tensor_find(ckpt, pst_ckpt_pending_name(param, 1, n, name))) n++;
    return n;
}

/* All trained parameters have the same numbers. */
static uint32_t stored_any(const pst_graph *g, const pst_ckpt *ckpt, uint32_t *steps) {
    *steps = 0;
    for (uint32_t i = 0; i < g->n_param; i++)
        if (pst_param_gradients(g->param + i)) return stored(ckpt, g->param[i].name, steps);
    return 0;
}

typedef struct {
    const pst_ckpt *ckpt;
    const pst_param *param;
    uint32_t age;
} source;

static pst_status read_one(const source *s, uint32_t replica, float *to) {
    char name[PST_CKPT_NAME];
    return pst_ckpt_read_held(s->ckpt, pst_ckpt_pending_name(s->param->name, s->age, replica, name),
                              s->param, 0, pst_param_elements(s->param), to);
}

/* The sum over replicas [lo, hi), in the order in which they would have added it. */
static pst_status read_sum(const source *s, uint32_t lo, uint32_t hi, float *to) {
    const uint64_t n = pst_param_elements(s->param);
    if (hi - lo == 1) return read_one(s, lo, to);
    const uint32_t middle = pst_share_split(lo, hi);
    float *right = malloc((n + 1) * sizeof *right);
    pst_status status = right ? read_sum(s, lo, middle, to) : pst_no_memory("to read a checkpoint");
    if (status == PST_OK) status = read_sum(s, middle, hi, right);
    for (uint64_t i = 0; status == PST_OK && i < n; i++) to[i] += right[i];
    free(right);
    return status;
}

/* Accumulators other than this one stay empty: they are part of no later sum. */
static float *accumulator_of(const pst_rank *r, uint32_t i, uint64_t step) {
    float *at = NULL;
    for (uint32_t u = 0; u < pst_param_gradients(&r->graph->param[i]) && !at; u++)
        at = pst_rank_grad_of(r, i, u, step);
    return at;
}

static pst_status read_param(const pst_rank *r, const source *s, uint32_t replicas, float *to) {
    const uint64_t n = pst_param_elements(s->param);
    if (replicas == r->p->grid.data) return read_one(s, r->place.replica, to);
    if (r->place.replica == 0) return read_sum(s, 0, replicas, to);
    for (uint64_t i = 0; i < n; i++) to[i] = -0.0f;
    return PST_OK;
}

/* to: in the rank's memory. */
static pst_status read_to(const pst_rank *r, const source *s, uint32_t replicas, float *to) {
    const uint64_t bytes = pst_param_elements(s->param) * sizeof *to;
    void *host;
    PST_TRY(pst_rank_map(r, to, bytes, 0, &host));
    pst_status status = read_param(r, s, replicas, host);
    pst_status unmapped = pst_rank_unmap(r, to, bytes, status == PST_OK, host);
    return status == PST_OK ? unmapped : status;
}

static pst_status read_rank(const pst_rank *r, const pst_ckpt *ckpt, uint32_t replicas) {
    if (r->memory->serves) return PST_OK;
    for (uint32_t age = 1; age <= r->p->job->staleness; age++)
        for (uint32_t i = 0; i < r->graph->n_param; i++) {
            const source s = {ckpt, r->graph->param + i, age};
            float *to = accumulator_of(r, i, pst_rank_aged(r, ckpt->info.step, age));
            if (to) PST_TRY(read_to(r, &s, replicas, to));
        }
    return PST_OK;
}

pst_status pst_pending_read(pst_trainer *t, const pst_ckpt *ckpt) {
    const uint32_t delay = t->p->job->staleness;
    uint32_t steps;
    const uint32_t replicas = stored_any(t->p->whole, ckpt, &steps);
    t->pending = 0;
    if (!delay || !steps) return PST_OK;
    if (steps != delay)
        return pst_fail(
            PST_EINPUT,
            "%s has the gradients of %u step%s that are not applied yet, because it was "
            "trained with parallel.staleness %u, not %u; resume with the same value, or "
            "with parallel.update=sync, which drops them",
            ckpt->path, steps, pst_plural(steps), steps, delay);
    for (uint32_t i = 0; i < t->group->n_local; i++)
        PST_TRY(read_rank(t->group->local[i], ckpt, replicas));
    t->pending = ckpt->info.pending;
    return PST_OK;
}

void pst_pending_explain(const pst_prepared *p, const pst_ckpt *ckpt) {
    const uint64_t n = ckpt->info.pending;
    uint32_t steps;
    if (p->job->staleness && !stored_any(p->whole, ckpt, &steps))
        pst_log(PST_LOG_INFO,
                "%s has no pending gradients (parallel.update): the first %u step%s change no "
                "weights",
                ckpt->path, p->job->staleness, pst_plural(p->job->staleness));
    if (!p->job->staleness && n)
        pst_log(PST_LOG_WARN,
                "%s has the gradients of the last %" PRIu64
                " step%s, which are not applied yet (parallel.update=delayed): this run drops them",
                ckpt->path, n, pst_plural(n));
}
