/* Cuts count operators of the whole model, whatever the tensor degree: a tensor exchange belongs to
 * the operator before it. Declared in planning/planning.h. */
#include "planning/planning.h"
#include <stdlib.h>
#include <string.h>

static int is_of(const char *name, const char *operator) {
    size_t n = strlen(operator);
    return !strncmp(name, operator, n) && name[n] == '.';
}

/* Splitting keeps the names and order of operators; an exchange is named after its operator. */
pst_status pst_planning_fold_nodes(const pst_graph *whole, const pst_graph *part,
                                   uint32_t **first) {
    uint32_t *at = malloc((whole->n_node + (size_t)1) * sizeof *at), j = 0;
    if (!at) return pst_fail(PST_ENOMEM, "no memory to plan");
    for (uint32_t i = 0; i < whole->n_node; i++) {
        while (i && j < part->n_node && is_of(part->node[j].name, whole->node[i - 1].name) &&
               strcmp(part->node[j].name, whole->node[i].name))
            j++;
        at[i] = i ? j : 0;
        while (j < part->n_node && strcmp(part->node[j].name, whole->node[i].name)) j++;
        if (j++ < part->n_node) continue;
        free(at);
        return pst_fail(PST_EINTERNAL, "operator %s is missing from a tensor rank's graph",
                        whole->node[i].name);
    }
    at[whole->n_node] = part->n_node;
    *first = at;
    return PST_OK;
}

uint32_t pst_planning_group_layers(const pst_planning *x, uint32_t *first, uint32_t n) {
    uint32_t groups = 0;
    if (!x->layer) return n;
    first[groups++] = first[0];
    for (uint32_t i = x->before_layers; i + x->layer <= n; i += x->layer)
        first[groups++] = first[i];
    const uint32_t rest = n - (n - x->before_layers) % x->layer;
    if (rest < n) first[groups++] = first[rest];
    first[groups] = first[n];
    return groups;
}

typedef enum { SUM, MOST, FIRST } how;

/* Combines the values of each operator, x[first[i]] to x[first[i + 1] - 1], into x[i]. */
static void fold(uint64_t *x, const uint32_t *first, uint32_t n, how way) {
    for (uint32_t i = 0; x && i < n; i++) {
        uint64_t value = x[first[i]];
        for (uint32_t j = first[i] + 1; j < first[i + 1]; j++) {
            if (way == SUM) value += x[j];
            if (way == MOST && x[j] > value) value = x[j];
        }
        x[i] = value;
    }
}

void pst_planning_fold_table(pst_cost_table *t, const uint32_t *first, uint32_t n) {
    uint64_t *sums[] = {t->f_ns,        t->b_ns, t->w_ns, t->exchange_ns, t->elements,
                        t->accumulated, t->kept, t->tied, t->frozen};
    for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) fold(sums[k], first, n, SUM);
    for (int m = 0; m < PST_RECOMPUTE_COUNT; m++) {
        fold(t->again_ns[m], first, n, SUM);
        fold(t->stash[m], first, n, SUM);
        fold(t->recomputed[m], first, n, SUM);
        fold(t->stash_to_w[m], first, n, SUM);
        fold(t->b_to_w[m], first, n, SUM);
        fold(t->recomputed_to_w[m], first, n, SUM);
        fold(t->enter[m], first, n, FIRST);
    }
    fold(t->scratch, first, n, MOST);
    fold(t->scratch_split, first, n, MOST);
    fold(t->largest, first, n, MOST);
    fold(t->cross, first, n, FIRST);
    fold(t->layer, first, n, FIRST);
    t->n = n;
}
