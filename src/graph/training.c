/* Settings of a run that change a model's graph: the terms of the loss, and which parameters
 * decay. Declared in graph.h. */
#include "graph/graph.h"
#include "graph/op.h"
#include <fnmatch.h>
#include <string.h>

void pst_graph_set_loss(pst_graph *g, float smoothing, float z_loss) {
    for (uint32_t i = 0; i < g->n_node; i++) {
        if (strcmp(g->node[i].op->name, "cross_entropy") != 0) continue;
        g->node[i].attr.smoothing = smoothing;
        g->node[i].attr.z_loss = z_loss;
    }
}

static int matches(const char *pattern, const pst_param *p) {
    return !fnmatch(pattern + (*pattern == '!'), p->name, 0);
}

static pst_status check_pattern(const pst_graph *g, const char *pattern) {
    for (uint32_t i = 0; i < g->n_param; i++)
        if (matches(pattern, g->param + i)) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "no parameter of the model has a name that matches '%.60s'; the names are such "
                    "as %s and %s",
                    pattern, g->param[0].name, g->param[g->n_param - 1].name);
}

pst_status pst_graph_set_decay(pst_graph *g, char *const *pattern, uint32_t n) {
    for (uint32_t k = 0; k < n && g->n_param; k++) PST_TRY(check_pattern(g, pattern[k]));
    for (uint32_t i = 0; i < g->n_param && n; i++) {
        int wanted = 0, excluded = g->param[i].statistic;
        for (uint32_t k = 0; k < n; k++) {
            if (!matches(pattern[k], g->param + i)) continue;
            if (*pattern[k] == '!') excluded = 1;
            else wanted = 1;
        }
        g->param[i].decay = wanted && !excluded;
    }
    return PST_OK;
}
