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

/* The weights that differences are to, and what codecs left out of those of the same island. Of a
 * checkpoint of other islands, or without residuals, these are 0, as pst_rank_begin_outer has set
 * them. */
static pst_status read_differences(const pst_rank *r, const pst_ckpt *ckpt, uint32_t i) {
    const pst_memory_map *x = r->memory;
    const pst_param *param = r->graph->param + i;
    char name[PST_CKPT_NAME];
    if (!pst_rank_base(r, i)) return PST_OK;
    PST_TRY(pst_ckpt_read_weight(ckpt, param, x->own_from[i], x->own_to[i], pst_rank_base(r, i)));
    pst_ckpt_island_name(param->name, pst_job_island(r->p->job, r->place.replica),
                         PST_CKPT_LEFT_NAME, name);
    if (stored(r->graph, ckpt) != r->p->job->islands || !pst_ckpt_tensor_find(ckpt, name))
        return PST_OK;
    return pst_ckpt_read_held(ckpt, name, param, x->own_from[i], x->own_to[i], pst_rank_left(r, i));
}

/* Whether the checkpoint has residuals of differences. */
static int has_residuals(const pst_graph *g, const pst_ckpt *ckpt) {
    char name[PST_CKPT_NAME];
    for (uint32_t i = 0; i < g->n_param; i++)
        if (pst_ckpt_tensor_find(
                ckpt, pst_ckpt_island_name(g->param[i].name, 0, PST_CKPT_LEFT_NAME, name)))
            return 1;
    return 0;
}

pst_status pst_islands_read(const pst_rank *r, const pst_ckpt *ckpt) {
    const pst_memory_map *x = r->memory;
    char name[PST_CKPT_NAME];
    PST_TRY(pst_rank_begin_outer(r));
    for (uint32_t i = 0; i < r->graph->n_param; i++) {
        const pst_param *param = r->graph->param + i;
        float *old = pst_rank_old(r, i), *velocity = pst_rank_velocity(r, i);
        PST_TRY(read_differences(r, ckpt, i));
        if (old) PST_TRY(pst_ckpt_read_weight(ckpt, param, x->outer_from[i], x->outer_to[i], old));
        if (velocity && pst_ckpt_tensor_find(ckpt, pst_ckpt_velocity_name(param->name, name)))
            PST_TRY(
                pst_ckpt_read_held(ckpt, name, param, x->outer_from[i], x->outer_to[i], velocity));
    }
    return PST_OK;
}

/* What an island keeps of a parameter, elements [from, to): as stored, else its weights; if the
 * checkpoint is of other islands, or the outer step has been taken, the shared weights. */
static pst_status read_kept(const pst_rank *r, const pst_ckpt *ckpt, const pst_param *param,
                            uint32_t island, const uint64_t range[2], float *out) {
    const uint32_t turn = pst_prepare_local_step(r->p->config, ckpt->info.step - 1).turn;
    char name[PST_CKPT_NAME];
    if (turn >= pst_job_outer_turn(r->p->job) || stored(r->graph, ckpt) != r->p->job->islands)
        return pst_ckpt_read_weight(ckpt, param, range[0], range[1], out);
    pst_ckpt_island_name(param->name, island, PST_CKPT_KEPT_NAME, name);
    if (!pst_ckpt_tensor_find(ckpt, name)) pst_ckpt_island_name(param->name, island, "", name);
    return pst_ckpt_read_held(ckpt, name, param, range[0], range[1], out);
}

/* What other islands have sent of the pieces of parameter p, of which this rank takes the outer
 * step, or will send again. *set: of receive buffers. */
static pst_status read_buffers(const pst_rank *r, const pst_ckpt *ckpt, uint32_t p, uint32_t *set) {
    const pst_job *job = r->p->job;
    const pst_memory_view view = pst_rank_view(r);
    const uint32_t own = pst_job_outer_owner(job, r->place.replica),
                   island = pst_job_island(job, r->place.replica);
    for (pst_piece at = {.param = p}; pst_share_next(job->outer[r->place.tensor], &at);) {
        if (at.owner != own) continue;
        const uint64_t range[] = {at.from, at.from + at.n};
        uint32_t buffer = 1 + (*set)++ * (job->islands - 1);
        for (uint32_t k = 0; k < job->islands; k++)
            if (k != island)
                PST_TRY(read_kept(r, ckpt, r->graph->param + p, k, range,
                                  pst_memory_map_outer(&view, buffer++)));
    }
    return PST_OK;
}

pst_status pst_islands_read_kept(const pst_rank *r, const pst_ckpt *ckpt) {
    const pst_memory_map *x = r->memory;
    const pst_job *job = r->p->job;
    const pst_memory_view view = pst_rank_view(r);
    uint32_t set = 0;
    if (job->islands == 1 || !job->delay || !ckpt->info.step) return PST_OK;
    const pst_local_step at = pst_prepare_local_step(r->p->config, ckpt->info.step - 1);
    if (at.kind != PST_LOCAL_TURN || at.turn == job->delay) return PST_OK;
    for (uint32_t p = 0; p < r->graph->n_param; p++) {
        if (x->kept[p] == UINT64_MAX || job->fragment[p] != at.fragment) continue;
        const uint64_t range[] = {x->own_from[p], x->own_to[p]};
        PST_TRY(read_kept(r, ckpt, r->graph->param + p, pst_job_island(job, r->place.replica),
                          range, pst_memory_map_kept(&view, p, range[0])));
        PST_TRY(read_buffers(r, ckpt, p, &set));
    }
    return PST_OK;
}

void pst_islands_explain(const pst_prepared *p, const pst_ckpt *ckpt) {
    const uint32_t n = stored(p->whole, ckpt), islands = p->job->islands;
    const int packs = p->job->islands_codec.kind != PST_CODEC_NONE;
    if (has_residuals(p->whole, ckpt) && (!packs || n != islands))
        pst_log(
            PST_LOG_WARN,
            "%s has residuals of the differences of %u islands (parallel.local.compress), which "
            "this run does not go on with: they are dropped",
            ckpt->path, n);
    if (!n || n == islands) return;
    pst_log(PST_LOG_INFO,
            "%s is of %u islands (parallel.local), this run has %u: %s the weights after the last "
            "outer step, and the optimizer state of %s",
            ckpt->path, n, islands, islands > 1 ? "each begins with" : "it begins with",
            islands > n ? "an island each, the first ones again" : "an island");
}
