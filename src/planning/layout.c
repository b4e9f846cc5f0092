/* A layout of the search as a run prepares it, and as a plan. planning/planning.h declares it. */
#include "planning/planning.h"
#include <stdlib.h>
#include <string.h>

/* The same cut, counted in operators of the graph; first: where each operator of the whole model
 * begins in it. */
static void translate(pst_layout *l, const pst_planning_part *part) {
    for (uint32_t c = 0; c <= l->n_chunk; c++) l->first_item[c] = part->first[l->first_item[c]];
    l->n_item = part->graph->n_node;
}

static pst_status place_chunks(pst_layout *l) {
    pst_schedule *s;
    l->rank_of_chunk = malloc(l->n_chunk * sizeof *l->rank_of_chunk);
    if (!l->rank_of_chunk) return pst_fail(PST_ENOMEM, "no memory for %u chunks", l->n_chunk);
    PST_TRY(pst_schedule_generate(l->schedule, l->pipeline, l->chunks, l->micros[0], &s));
    memcpy(l->rank_of_chunk, s->rank_of_chunk, l->n_chunk * sizeof *l->rank_of_chunk);
    pst_schedule_close(s);
    return PST_OK;
}

pst_status pst_planning_layout(pst_planning *x, const pst_layout *found, pst_layout *layout) {
    pst_planning_part *part;
    pst_layout l;
    PST_TRY(pst_planning_graph_of(x, found, &part));
    PST_TRY(pst_layout_copy(found, &l));
    translate(&l, part);
    pst_status status = place_chunks(&l);
    if (x->problem.reorders)
        snprintf(l.schedule, sizeof l.schedule, "%s", pst_schedule_name_of(PST_SCHEDULE_SOLVED));
    if (status == PST_OK) *layout = l;
    else pst_layout_close(&l);
    return status;
}

static void predict(const pst_candidate *c, pst_plan *plan) {
    memcpy(plan->peak_bytes, c->peak_bytes, c->layout.pipeline * sizeof *plan->peak_bytes);
    plan->step_ns = c->step_ns;
    plan->flush_ns = c->flush_ns;
    plan->bubble = c->bubble;
}

pst_status pst_planning_plan(pst_planning *x, const pst_candidate *c, pst_plan **plan) {
    pst_planning_part *part;
    pst_layout l;
    pst_plan *p = NULL;
    PST_TRY(pst_planning_graph_of(x, &c->layout, &part));
    PST_TRY(pst_planning_layout(x, &c->layout, &l));
    pst_status status = pst_plan_open(&l, pst_graph_hash(part->graph), &p);
    pst_layout_close(&l);
    PST_TRY(status);
    predict(c, p);
    if (x->result && c == x->result->best) p->bound_ns = x->result->bound_ns;
    status = pst_plan_set_text(&p->cluster, x->cluster_text);
    if (status == PST_OK) *plan = p;
    else pst_plan_close(p);
    return status;
}
