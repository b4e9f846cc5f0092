/* The first library calls of a program (penstock/graph.h, plan.h): configuration -> graph, graph ->
 * plan, as a run derives them from its run file; sessions are in session.c. */
#include "prepare/planned.h"
#include "run/setup.h"
#include <string.h>

pst_status pst_graph_build(const pst_config *config, pst_graph **graph) {
    const pst_model_row *row;
    pst_model_config model;
    if (!config || !graph)
        return pst_fail(PST_EINPUT, "pst_graph_build: %s is NULL", config ? "graph" : "config");
    PST_TRY(pst_prepare_model(config, &row, &model));
    model.dtype = pst_dtype_of_precision(config->train.precision);
    return row->build(&model, graph);
}

pst_status pst_plan_solve(const pst_config *config, const pst_graph *graph, uint32_t ranks,
                          pst_plan **plan) {
    pst_prepared *p;
    const char *missing = plan ? NULL : "plan";
    if (!graph) missing = "graph";
    if (!config) missing = "config";
    if (missing) return pst_fail(PST_EINPUT, "pst_plan_solve: %s is NULL", missing);
    pst_prepare_options options = {.graph = graph, .isa = pst_prepare_isa_to_inspect(config)};
    PST_TRY(pst_planned_refuse(config));
    PST_TRY(pst_prepare_ranks(config, ranks, &options.n_rank));
    options.threads = pst_setup_threads(config, NULL, options.n_rank);
    options.n_eval_micro = pst_config_micros(config);
    PST_TRY(pst_prepare(config, &options, &p));
    *plan = p->plan;
    p->plan = NULL;
    pst_prepared_close(p);
    return PST_OK;
}
