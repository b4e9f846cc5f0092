/* Writes a layout as a plan file. planning/planning.h declares it. */
#include "base/file.h"
#include "planning/planning.h"
#include <stdlib.h>

/* An absolute path, which is valid in every folder. */
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

pst_status pst_planning_write(pst_planning *x, const pst_candidate *c, const char *path) {
    pst_planning_part *part;
    pst_plan *plan;
    PST_TRY(pst_planning_plan(x, c, &plan));
    pst_status status = name_file(x->config->source, &plan->run);
    if (status == PST_OK)
        status = pst_config_overrides(x->config, &plan->override, &plan->n_override);
    if (status == PST_OK) status = name_file(x->cluster_text, &plan->cluster);
    if (status == PST_OK) status = pst_planning_graph_of(x, &c->layout, &part);
    if (status == PST_OK)
        status = pst_file_replace(path, print, &(plan_of_graph){plan, part->graph});
    pst_plan_close(plan);
    return status;
}
