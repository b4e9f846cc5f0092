/* Settings of a run that change a model's graph: the terms of the loss, and which parameters
 * decay and which are frozen. Declared in graph.h. */
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

pst_loss_kinds pst_loss_kinds_of(const pst_graph *g) {
    pst_loss_kinds kinds = {0};
    for (uint32_t i = 0; i < g->n_node; i++) {
        kinds.samples |= g->node[i].attr.per_sample != 0;
        kinds.hits |= g->node[i].attr.hits != 0;
    }
    return kinds;
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

/* Whether the last word of the patterns is that they match: one does, and none that begins with
 * '!'. all: before any pattern, everything matches. */
static int is_chosen(const pst_param *p, char *const *pattern, uint32_t n, int all) {
    int wanted = all;
    for (uint32_t k = 0; k < n; k++) {
        if (!matches(pattern[k], p)) continue;
        if (*pattern[k] == '!') return 0;
        wanted = 1;
    }
    return wanted;
}

pst_status pst_graph_set_decay(pst_graph *g, char *const *pattern, uint32_t n) {
    for (uint32_t k = 0; k < n && g->n_param; k++) PST_TRY(check_pattern(g, pattern[k]));
    for (uint32_t i = 0; i < g->n_param && n; i++) {
        pst_param *p = &g->param[i];
        p->decay = !p->statistic && !p->frozen && is_chosen(p, pattern, n, 0);
    }
    return PST_OK;
}

pst_status pst_graph_set_frozen(pst_graph *g, char *const *pattern, uint32_t n, int all) {
    int trained = 0;
    for (uint32_t k = 0; k < n && g->n_param; k++) PST_TRY(check_pattern(g, pattern[k]));
    for (uint32_t k = 0; k < n && all; k++)
        if (*pattern[k] != '!')
            return pst_fail(PST_EINPUT,
                            "'%.60s' would change nothing: with adapters, all parameters of the "
                            "model are frozen; '!%.60s' trains those that match",
                            pattern[k], pattern[k]);
    for (uint32_t i = 0; i < g->n_param; i++) {
        pst_param *p = &g->param[i];
        p->frozen = !p->statistic && !p->adapter && is_chosen(p, pattern, n, all);
        if (p->frozen) p->decay = 0;
        trained |= !p->frozen && !p->statistic;
    }
    if (trained || !g->n_param) return PST_OK;
    return pst_fail(PST_EINPUT, "every parameter of the model is frozen; leave some to train, for "
                                "example with a pattern that begins with '!'");
}
