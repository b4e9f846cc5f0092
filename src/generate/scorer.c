/* See scorer.h. */
#include "generate/scorer.h"
#include "backends/machine.h"
#include "comm/world/world.h"
#include <stdlib.h>

static void find_outputs(pst_scorer *s) {
    const pst_graph *g = s->p->graph;
    s->of_samples = s->hits = PST_NONE;
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        if (g->tensor[t].role != PST_TENSOR_OUTPUT) continue;
        if (pst_tensor_has_hits(g, t)) s->hits = t;
        else if (pst_tensor_per_sample(g, t)) s->of_samples = t;
        else s->output = t;
    }
}

static pst_status prepare(const pst_source *source, pst_scorer *s) {
    pst_prepare_options options = {.n_rank = 1,
                                   .threads = pst_machine_threads(1),
                                   .infer = 1,
                                   .losses = 1,
                                   .samples = s->samples,
                                   .positions = s->positions};
    PST_TRY(pst_prepare_kind(source->config, &options));
    PST_TRY(pst_prepare(source->config, &options, &s->p));
    if (!s->positions) s->positions = s->p->model_config.context;
    s->vocabulary = s->p->model_config.vocabulary;
    find_outputs(s);
    s->n_loss = pst_tensor_elements(s->p->graph->tensor + s->output);
    s->losses = malloc(s->n_loss * sizeof *s->losses);
    s->numbers = malloc(s->samples * sizeof *s->numbers);
    return s->losses && s->numbers ? PST_OK
                                   : pst_fail(PST_ENOMEM, "no memory for the losses of a run");
}

static pst_status open_rank(const pst_source *source, pst_scorer *s) {
    pst_world *world;
    PST_TRY(pst_world_single.open(&world));
    pst_status status = pst_group_open(world, "self", 1, &s->group);
    if (status != PST_OK) {
        world->ops->close(world);
        return status;
    }
    PST_TRY(pst_group_open_ranks(s->group, s->p, 0));
    return pst_source_read(source, s->group->local[0]);
}

pst_status pst_scorer_open(const pst_source *source, uint32_t samples, uint32_t positions,
                           pst_scorer *out) {
    *out = (pst_scorer){.samples = samples, .positions = positions};
    pst_status status = prepare(source, out);
    if (status == PST_OK) status = open_rank(source, out);
    if (status != PST_OK) pst_scorer_close(out);
    return status;
}

void pst_scorer_close(pst_scorer *s) {
    if (s->group) pst_group_close(s->group, 0);
    pst_prepared_close(s->p);
    free(s->losses);
    free(s->numbers);
    *s = (pst_scorer){0};
}

pst_status pst_scorer_put(const pst_scorer *s, const char *name, const int32_t *from) {
    const pst_rank *r = s->group->local[0];
    const uint32_t t = pst_graph_find_tensor(r->graph, name);
    if (t == PST_NONE || r->graph->tensor[t].role != PST_TENSOR_DATA)
        return pst_fail(PST_EINPUT, "model.kind %s does not read %s", s->p->model->name, name);
    return pst_rank_write(r, pst_rank_data(r, t, 0), from, pst_tensor_bytes(r->graph->tensor + t));
}

pst_status pst_scorer_run(const pst_scorer *s, const float **losses) {
    const pst_rank *r = s->group->local[0];
    PST_TRY(pst_group_run(s->group, 0));
    PST_TRY(pst_rank_read(r, s->losses, pst_rank_output(r, s->output, 0),
                          s->n_loss * sizeof *s->losses));
    *losses = s->losses;
    return PST_OK;
}

pst_status pst_scorer_read(const pst_scorer *s, uint32_t output, const float **numbers) {
    const pst_rank *r = s->group->local[0];
    *numbers = s->numbers;
    return pst_rank_read(r, s->numbers, pst_rank_output(r, output, 0),
                         s->samples * sizeof *s->numbers);
}
