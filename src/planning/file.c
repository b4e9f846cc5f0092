/* A layout that the search has found, as a plan and as a file. planning/planning.h declares it. */
#include "base/file.h"
#include "planning/planning.h"
#include <stdlib.h>
#include <string.h>

/* first: where in the graph each operator of the whole model begins. */
static pst_status fill(const pst_candidate *l, const pst_schedule *s, const uint32_t *first,
                       pst_plan *plan) {
    const uint32_t n = pst_grid_size(pst_layout_grid(&l->layout));
    plan->n_micro = l->layout.n_micro;
    plan->micro_batch = l->layout.micro_batch;
    plan->data = l->layout.data;
    plan->tensor = l->layout.tensor;
    plan->sequence = l->layout.sequence;
    plan->zero = l->layout.zero;
    for (uint32_t c = 0; c < l->layout.n_chunk; c++) {
        plan->rank_of_chunk[c] = s->rank_of_chunk[c];
        plan->recompute[c] = l->layout.recompute[c];
        for (uint32_t i = first[l->layout.first_item[c]]; i < first[l->layout.first_item[c + 1]];
             i++)
            plan->chunk_of_node[i] = c;
    }
    memcpy(plan->peak_bytes, l->peak_bytes, l->layout.pipeline * sizeof *plan->peak_bytes);
    plan->step_ns = l->step_ns;
    plan->flush_ns = l->flush_ns;
    plan->bubble = l->bubble;
    plan->micros = malloc(l->layout.data * sizeof *plan->micros);
    plan->device = malloc(n * sizeof *plan->device);
    if (l->layout.before)
        plan->before = malloc((l->layout.pipeline + (size_t)1) * sizeof *plan->before);
    if (!plan->micros || !plan->device || (l->layout.before && !plan->before))
        return pst_fail(PST_ENOMEM, "no memory for a plan of %u ranks", n);
    if (l->layout.before)
        memcpy(plan->before, l->layout.before,
               (l->layout.pipeline + (size_t)1) * sizeof *plan->before);
    memcpy(plan->micros, l->layout.micros, l->layout.data * sizeof *plan->micros);
    memcpy(plan->device, l->layout.device, n * sizeof *plan->device);
    return PST_OK;
}

pst_status pst_planning_plan(pst_planning *x, const pst_candidate *l, pst_plan **plan) {
    pst_planning_part *part;
    pst_schedule *s;
    pst_plan *p = NULL;
    PST_TRY(pst_planning_graph_of(x, l, &part));
    PST_TRY(pst_schedule_generate(l->layout.schedule, l->layout.pipeline,
                                  l->layout.n_chunk / l->layout.pipeline, l->layout.micros[0], &s));
    pst_status status =
        pst_plan_open(part->graph->n_node, l->layout.pipeline, l->layout.n_chunk, &p);
    if (status == PST_OK) status = fill(l, s, part->first, p);
    if (status == PST_OK)
        snprintf(p->schedule, sizeof p->schedule, "%s",
                 x->problem.reorders ? "solved" : l->layout.schedule);
    if (status == PST_OK) status = pst_plan_set_text(&p->cluster, x->cluster_text);
    if (status == PST_OK) p->graph_hash = pst_graph_hash(part->graph);
    if (status == PST_OK && x->result && l == x->result->best) p->bound_ns = x->result->bound_ns;
    pst_schedule_close(s);
    if (status == PST_OK) *plan = p;
    else pst_plan_close(p);
    return status;
}

/* With the path by which a file is found again from elsewhere. */
static pst_status name_file(const char *path, char **text) {
    char *real = realpath(path, NULL);
    pst_status status = pst_plan_set_text(text, real ? real : path);
    free(real);
    return status;
}

typedef struct {
    const pst_plan *plan;
    const pst_graph *graph;
} plan_of_graph;

static pst_status print(const void *what, FILE *f) {
    const plan_of_graph *p = what;
    return pst_plan_print(p->plan, p->graph, f);
}

pst_status pst_planning_write(pst_planning *x, const pst_candidate *l, const char *path) {
    pst_planning_part *part;
    pst_plan *plan;
    PST_TRY(pst_planning_plan(x, l, &plan));
    pst_status status = name_file(x->config->source, &plan->run);
    if (status == PST_OK)
        status = pst_config_overrides(x->config, &plan->override, &plan->n_override);
    if (status == PST_OK) status = name_file(x->cluster_text, &plan->cluster);
    if (status == PST_OK) status = pst_planning_graph_of(x, l, &part);
    if (status == PST_OK)
        status = pst_file_replace(path, print, &(plan_of_graph){plan, part->graph});
    pst_plan_close(plan);
    return status;
}
