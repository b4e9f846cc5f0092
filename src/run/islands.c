/* See islands.h. */
#include "run/islands.h"
#include "base/log.h"

/* All trained parameters have the same number. */
static uint32_t stored(const pst_graph *g, const pst_ckpt *ckpt) {
    for (uint32_t i = 0; i < g->n_param; i++)
        if (!g->param[i].frozen) return pst_ckpt_islands(ckpt, g->param[i].name);
    return 0;
}

pst_islands pst_islands_for(const pst_rank *r, const pst_ckpt *ckpt) {
    const pst_job *job = r->p->job;
    const uint32_t n = stored(r->graph, ckpt), own = pst_job_island(job, r->place.replica);
    return (pst_islands){n, n ? own % n : 0, n > 1 && n == job->islands};
}

pst_status pst_islands_read(const pst_rank *r, const pst_ckpt *ckpt) {
    const pst_memory_map *x = r->memory;
    char name[PST_CKPT_NAME];
    PST_TRY(pst_rank_begin_outer(r));
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        const pst_param *param = r->graph->param + i;
        float *old = pst_rank_old(r, i), *velocity = pst_rank_velocity(r, i);
        if (old) PST_TRY(pst_ckpt_read_weight(ckpt, param, x->outer_from[i], x->outer_to[i], old));
        if (velocity && pst_ckpt_tensor_find(ckpt, pst_ckpt_velocity_name(param->name, name)))
            PST_TRY(
                pst_ckpt_read_held(ckpt, name, param, x->outer_from[i], x->outer_to[i], velocity));
    }
    return PST_OK;
}

void pst_islands_explain(const pst_prepared *p, const pst_ckpt *ckpt) {
    const uint32_t n = stored(p->whole, ckpt), islands = p->job->islands;
    if (!n || n == islands) return;
    pst_log(PST_LOG_INFO,
            "%s is of %u islands (parallel.local), this run has %u: %s the weights after the last "
            "outer step, and the optimizer state of %s",
            ckpt->path, n, islands, islands > 1 ? "each begins with" : "it begins with",
            islands > n ? "an island each, the first ones again" : "an island");
}
