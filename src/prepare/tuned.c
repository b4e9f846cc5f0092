/* What a run trains: adapters and frozen parameters of the run file (adapt, train.freeze). Declared
 * in prepare.h. */
#include "graph/adapt.h"
#include "prepare/llmc.h"
#include "prepare/prepare.h"
#include <string.h>

enum { RANK = 8, ALPHA = 16 }; /* defaults of adapt.rank and adapt.alpha */

/* A run's own copy of its run file gives the defaults, too. */
static pst_status check_adapt(const pst_config *c) {
    const char *key = c->adapt.rank != RANK ? "rank" : "alpha";
    if (c->adapt.n_on || (c->adapt.rank == RANK && c->adapt.alpha == ALPHA)) return PST_OK;
    return pst_config_at(c, "adapt", key,
                         pst_fail(PST_EINPUT,
                                  "adapt.%s needs adapt.on, which says what is adapted, such as "
                                  "[attention]",
                                  key));
}

pst_status pst_prepare_tuned(const pst_config *c, pst_graph **graph) {
    const pst_adapt adapt = {(uint32_t)c->adapt.rank, (float)c->adapt.alpha, c->adapt.on,
                             c->adapt.n_on};
    pst_graph *adapted;
    PST_TRY(check_adapt(c));
    if ((adapt.n_on || c->train.n_freeze) && pst_llmc_is(c->model.weights))
        return pst_config_at(
            c, "model", "weights",
            pst_fail(PST_EINPUT,
                     "model.weights: %s is a file of llm.c; adapt and train.freeze "
                     "need a Hugging Face folder",
                     c->model.weights));
    if (adapt.n_on) {
        PST_TRY(pst_config_at(c, "adapt", "on", pst_graph_adapt(*graph, &adapt, &adapted)));
        pst_graph_close(*graph);
        *graph = adapted;
    }
    if (!adapt.n_on && !c->train.n_freeze) return PST_OK;
    return pst_config_at(
        c, "train", "freeze",
        pst_graph_set_frozen(*graph, c->train.freeze, c->train.n_freeze, adapt.n_on > 0));
}

static int any_names_layers(char *const *pattern, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (strpbrk(pattern[i], "0123456789?[")) return 1;
    return 0;
}

int pst_prepare_names_layers(const pst_config *c) {
    return any_names_layers(c->adapt.on, c->adapt.n_on) ||
           any_names_layers(c->train.freeze, c->train.n_freeze);
}
