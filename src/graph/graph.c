/* Building a graph, and simple queries. Additions are all or nothing: a failed one leaves the graph
 * as it was. check.c checks a finished graph; text.c has its text form. */
#include "graph/graph.h"
#include "base/grow.h"
#include "graph/elements.h"
#include "graph/op.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

pst_status pst_graph_open(const char *name, uint32_t micro_batch, pst_graph **graph) {
    if (!name || !graph)
        return pst_fail(PST_EINPUT, "pst_graph_open: %s is NULL", name ? "graph" : "name");
    PST_TRY(pst_graph_check_name("graph", name, PST_NAME_MAX - 1));
    if (micro_batch == 0) return pst_fail(PST_EINPUT, "graph %s needs micro_batch >= 1", name);
    pst_graph *g = calloc(1, sizeof(*g));
    if (!g) return pst_fail(PST_ENOMEM, "no memory for a graph");
    strcpy(g->name, name);
    g->micro_batch = micro_batch;
    *graph = g;
    return PST_OK;
}

void pst_graph_close(pst_graph *graph) {
    if (!graph) return;
    free(graph->tensor);
    free(graph->param);
    free(graph->node);
    free(graph->tensor_names.slot);
    free(graph->param_names.slot);
    free(graph->node_names.slot);
    free(graph);
}

/* Allocates one element at least, so that NULL always means that there is no memory. */
static void *copy_of(const void *array, uint32_t n, size_t size) {
    void *copy = calloc(n + (size_t)1, size);
    return copy && n ? memcpy(copy, array, n * size) : copy;
}

static int copy_names(pst_names *x, const pst_names *from) {
    *x = *from;
    x->slot = copy_of(from->slot, from->n_slot, sizeof *x->slot);
    return x->slot != NULL;
}

pst_status pst_graph_copy(const pst_graph *graph, pst_graph **copy) {
    pst_graph *g = malloc(sizeof *g);
    if (!g) return pst_fail(PST_ENOMEM, "no memory for a graph");
    *g = *graph;
    g->tensor = copy_of(graph->tensor, graph->n_tensor, sizeof *g->tensor);
    g->param = copy_of(graph->param, graph->n_param, sizeof *g->param);
    g->node = copy_of(graph->node, graph->n_node, sizeof *g->node);
    g->cap_tensor = g->n_tensor;
    g->cap_param = g->n_param;
    g->cap_node = g->n_node;
    int named = copy_names(&g->tensor_names, &graph->tensor_names);
    named &= copy_names(&g->param_names, &graph->param_names);
    named &= copy_names(&g->node_names, &graph->node_names);
    if (g->tensor && g->param && g->node && named) {
        *copy = g;
        return PST_OK;
    }
    pst_graph_close(g);
    return pst_fail(PST_ENOMEM, "no memory for a graph");
}

static const char *const activations[] = {"none", "gelu_tanh", "gelu_erf", "relu", "tanh"};
enum { N_ACTIVATION = sizeof activations / sizeof *activations };

const char *pst_activation_name(pst_activation activation) {
    return (uint32_t)activation < N_ACTIVATION ? activations[activation] : "unknown";
}

pst_status pst_activation_find(const char *name, pst_activation *activation) {
    for (int i = 0; i < N_ACTIVATION; i++)
        if (!strcmp(name, activations[i])) {
            *activation = (pst_activation)i;
            return PST_OK;
        }
    return pst_fail(PST_EINPUT,
                    "unknown activation '%.40s' (possible: none, gelu_tanh, gelu_erf, relu, tanh)",
                    name);
}

static pst_status check_attr(const pst_attr *a) {
    if ((uint32_t)a->activation > PST_ACT_TANH)
        return pst_fail(PST_EINPUT, "unknown activation %d", (int)a->activation);
    if (!isfinite(a->factor)) return pst_fail(PST_EINPUT, "factor must be finite");
    if (!isfinite(a->eps) || signbit(a->eps) || !isfinite(a->rate) || signbit(a->rate))
        return pst_fail(PST_EINPUT, "eps and rate must be finite and >= 0");
    return PST_OK;
}

/* The accumulator of a statistic is not a gradient, and only one operator may fill it. Nor do two
 * operators write one cache. */
static pst_status check_statistic(const pst_op_row *op, uint32_t i, const pst_param *p) {
    if (p->cache != (int)(op->caches >> i & 1))
        return pst_fail(PST_EINPUT, "parameter %u of %s must %sbe a cache, but %s is %s", i,
                        op->name, p->cache ? "not " : "", p->name, p->cache ? "one" : "none");
    if (p->cache && p->n_use)
        return pst_fail(PST_EINPUT, "two operators use the cache %s; only one may", p->name);
    int wanted = op->statistics >> i & 1;
    if (p->statistic != wanted)
        return pst_fail(PST_EINPUT, "parameter %u of %s must be %s, but %s is %s", i, op->name,
                        wanted ? "a statistic" : "trained", p->name,
                        wanted ? "trained" : "a statistic");
    return p->statistic && p->n_use
               ? pst_fail(PST_EINPUT, "two operators use the statistic %s; only one may", p->name)
               : PST_OK;
}

/* Copies operands into `node` after checking their number and range. */
static pst_status set_operands(const pst_graph *g, pst_node *node, const uint32_t *in,
                               uint32_t n_in, const uint32_t *param, uint32_t n_param) {
    const pst_op_row *op = node->op;
    if (n_in < op->min_in || n_in > op->max_in || n_param < op->min_param ||
        n_param > op->max_param)
        return pst_fail(PST_EINPUT,
                        "%s takes %u to %u inputs and %u to %u parameters, not %u and %u", op->name,
                        op->min_in, op->max_in, op->min_param, op->max_param, n_in, n_param);
    for (uint32_t i = 0; i < n_in; i++) {
        if (in[i] >= g->n_tensor)
            return pst_fail(PST_EINPUT, "input %u is not a tensor defined earlier", i);
        node->in[i] = in[i];
    }
    for (uint32_t i = 0; i < n_param; i++) {
        if (param[i] >= g->n_param) return pst_fail(PST_EINPUT, "parameter %u does not exist", i);
        node->param[i] = param[i];
        node->use[i] = g->param[param[i]].n_use;
        PST_TRY(check_statistic(op, i, &g->param[param[i]]));
        for (uint32_t j = 0; j < i; j++) node->use[i] += param[j] == param[i];
    }
    node->n_in = n_in;
    node->n_param = n_param;
    return PST_OK;
}

static pst_named nodes(const pst_graph *g) {
    return (pst_named){g->node, sizeof *g->node, g->n_node};
}

static pst_status add_node(pst_graph *g, pst_node *node) {
    if (pst_names_find(&g->node_names, nodes(g), node->name) != PST_NONE)
        return pst_fail(PST_EINPUT, "another operator has the same name");
    PST_TRY(check_attr(&node->attr));
    PST_TRY(pst_grow(&g->node, sizeof *g->node, g->n_node, &g->cap_node, "for graph elements"));
    PST_TRY(pst_names_reserve(&g->node_names, nodes(g)));
    PST_TRY(node->op->infer(g, node));
    g->node[g->n_node++] = *node;
    pst_names_add(&g->node_names, nodes(g));
    for (uint32_t i = 0; i < node->n_param; i++) g->param[node->param[i]].n_use++;
    return PST_OK;
}

pst_status pst_graph_add(pst_graph *g, const pst_new_node *n, uint32_t *out) {
    PST_TRY(pst_graph_check_name("operator", n->name, PST_NAME_MAX - 1 - strlen(".out1")));
    pst_node node = {.op = pst_op_find(n->op)};
    if (!node.op) return pst_fail(PST_EINPUT, "%s: unknown operator \"%.40s\"", n->name, n->op);
    strcpy(node.name, n->name);
    if (n->attr) node.attr = *n->attr;
    uint32_t n_tensor = g->n_tensor;
    pst_status status = set_operands(g, &node, n->in, n->n_in, n->param, n->n_param);
    if (status == PST_OK) status = add_node(g, &node);
    if (status != PST_OK) {
        g->n_tensor = n_tensor;
        return pst_fail_in(status, "%s", n->name);
    }
    *out = node.out[0];
    return PST_OK;
}

static int by_name(const void *a, const void *b, void *graph) {
    const pst_graph *g = graph;
    return strcmp(g->param[*(const uint32_t *)a].name, g->param[*(const uint32_t *)b].name);
}
void pst_graph_order_params(const pst_graph *g, uint32_t *param, uint32_t n) {
    qsort_r(param, n, sizeof *param, by_name, (void *)(uintptr_t)g);
}
void pst_graph_param_order(const pst_graph *g, uint32_t *out) {
    for (uint32_t i = 0; i < g->n_param; i++) out[i] = i;
    pst_graph_order_params(g, out, g->n_param);
}

pst_dtype pst_node_factors(const pst_graph *g, const pst_node *node) {
    const pst_tensor *x = &g->tensor[node->in[0]];
    const uint64_t *weight = g->param[node->param[0]].dim;
    uint64_t rows = pst_tensor_elements(x) / x->dim[x->n_dim - 1];
    return g->factors == PST_F8 && (rows | weight[0] | weight[1]) % 16 ? g->dtype
                                                                       : pst_graph_factors(g);
}
