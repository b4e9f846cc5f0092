/* From nodes to the solver's items: a colour class is one item, classes that must be together
 * become one, and an item that costs nothing joins its only neighbour. A node's output is a net, of
 * its item and those of its successors. */
#include "partition/foreign/import.h"
#include <math.h>
#include <stdlib.h>

/* Parts follow the forward edges. A class with only backward nodes is placed by its mirrored edges.
 * edge: [im->n_edge], between classes. */
static pst_status class_edges(const pst_import *im, pst_downset_edge *edge, uint32_t *n_edge) {
    uint8_t *forward = calloc((size_t)im->n_class + 1, 1);
    if (!forward) return pst_no_memory("to contract a graph");
    for (uint32_t v = 0; v < im->n_node; v++)
        if (!im->backward[v]) forward[im->class_of[v]] = 1;
    *n_edge = 0;
    for (uint32_t i = 0; i < im->n_edge; i++) {
        const pst_import_edge *e = &im->edge[i];
        uint32_t from = im->class_of[e->from], to = im->class_of[e->to];
        if (from == to) continue;
        if (!im->backward[e->to]) edge[(*n_edge)++] = (pst_downset_edge){from, to};
        else if (im->backward[e->from] && !(forward[from] && forward[to]))
            edge[(*n_edge)++] = (pst_downset_edge){to, from};
    }
    free(forward);
    return PST_OK;
}

static int by_ends(const void *a, const void *b) {
    const pst_downset_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* After items were joined: renumbers them in the order of the nodes, and keeps each edge between
 * different items once. */
static pst_status renumber(const pst_import *im, const uint32_t *group, uint32_t *item_of,
                           pst_downset_edge *edge, uint32_t *n_edge, uint32_t *n_item) {
    uint32_t *number = malloc(((size_t)im->n_node + 1) * sizeof *number), n = 0, kept = 0;
    if (!number) return pst_no_memory("to contract a graph");
    for (uint32_t i = 0; i < im->n_node; i++) number[i] = UINT32_MAX;
    for (uint32_t v = 0; v < im->n_node; v++) {
        uint32_t g = group[item_of[v]];
        if (number[g] == UINT32_MAX) number[g] = n++;
        item_of[v] = number[g];
    }
    for (uint32_t i = 0; i < *n_edge; i++) {
        pst_downset_edge e = {number[group[edge[i].from]], number[group[edge[i].to]]};
        if (e.from != e.to) edge[kept++] = e;
    }
    free(number);
    qsort(edge, kept, sizeof *edge, by_ends);
    *n_edge = 0;
    for (uint32_t i = 0; i < kept; i++)
        if (!*n_edge || by_ends(&edge[i], &edge[*n_edge - 1])) edge[(*n_edge)++] = edge[i];
    *n_item = n;
    return PST_OK;
}

/* --- the problem ------------------------------------------------------------------------------ */

static void fill_costs(const pst_import *im, const uint32_t *item_of, pst_downset_problem *p) {
    for (uint32_t v = 0; v < im->n_node; v++) {
        for (uint32_t k = 0; k < im->n_kind; k++)
            p->time[(size_t)k * p->n_item + item_of[v]] += im->time[(size_t)k * im->n_node + v];
        p->size[item_of[v]] += im->size[v];
        /* all-reduce over parameter servers, as in PipeDream: 4 (m - 1) / m of the parameters */
        if (im->bandwidth > 0) p->exchange[item_of[v]] += 4 * im->parameters[v] / im->bandwidth;
    }
    for (uint32_t k = 0; k < im->n_kind; k++)
        p->kind[k] = (pst_downset_kind){
            .count = im->kind[k].count,
            .replicas = im->format == PST_IMPORT_PIPEDREAM && !im->straight ? im->kind[k].count : 1,
            .memory = im->kind[k].memory,
            .pays = im->kind[k].pays};
}

/* mark: [n_item] 1 + the last net of the item. */
static void add_pin(pst_downset_problem *p, uint32_t *mark, uint32_t item) {
    if (mark[item] == p->n_net + 1) return;
    mark[item] = p->n_net + 1;
    p->pin[p->net_first[p->n_net + 1]++] = item;
}

/* first, to: successors of every node. Nets within one item cost nothing and are left out. */
static void fill_nets(const pst_import *im, const uint32_t *item_of, const uint32_t *first,
                      const uint32_t *to, uint32_t *mark, pst_downset_problem *p) {
    for (uint32_t v = 0; v < im->n_node; v++) {
        if (first[v] == first[v + 1] || !(im->transfer[v] > 0)) continue;
        uint32_t from = p->net_first[p->n_net];
        p->net_first[p->n_net + 1] = from;
        add_pin(p, mark, item_of[v]);
        for (uint32_t e = first[v]; e < first[v + 1]; e++) add_pin(p, mark, item_of[to[e]]);
        p->net_cost[p->n_net] = im->transfer[v];
        if (p->net_first[p->n_net + 1] - from > 1) p->n_net++;
        else mark[item_of[v]] = 0;
    }
}

static pst_status make_nets(const pst_import *im, const uint32_t *item_of, pst_downset_problem *p) {
    uint32_t *first = calloc((size_t)im->n_node + 2, sizeof *first),
             *to = calloc((size_t)im->n_edge + 1, sizeof *to);
    uint32_t *mark = calloc((size_t)p->n_item + 1, sizeof *mark);
    int ok = first && to && mark;
    for (uint32_t i = 0; ok && i < im->n_edge; i++) first[im->edge[i].from + 2]++;
    for (uint32_t v = 0; ok && v < im->n_node; v++) first[v + 2] += first[v + 1];
    for (uint32_t i = 0; ok && i < im->n_edge; i++)
        to[first[im->edge[i].from + 1]++] = im->edge[i].to;
    if (ok) fill_nets(im, item_of, first, to, mark, p);
    free(first);
    free(to);
    free(mark);
    return ok ? PST_OK : pst_no_memory("to contract a graph");
}

/* Copies the edges. */
static pst_status make_problem(const pst_import *im, const uint32_t *item_of, uint32_t n_item,
                               const pst_downset_edge *edge, uint32_t n_edge,
                               pst_downset_problem *p) {
    size_t n = (size_t)n_item + 1, nets = (size_t)im->n_node + 2;
    *p = (pst_downset_problem){.n_item = n_item, .n_edge = n_edge, .n_kind = im->n_kind};
    p->edge = calloc((size_t)n_edge + 1, sizeof *p->edge);
    p->time = calloc(n * im->n_kind, sizeof *p->time);
    p->size = calloc(n, sizeof *p->size);
    p->exchange = calloc(n, sizeof *p->exchange);
    p->net_first = calloc(nets, sizeof *p->net_first);
    p->net_cost = calloc(nets, sizeof *p->net_cost);
    p->pin = calloc(im->n_edge + nets, sizeof *p->pin);
    if (!p->edge || !p->time || !p->size || !p->exchange || !p->net_first || !p->net_cost ||
        !p->pin)
        return pst_no_memory("to contract a graph");
    for (uint32_t i = 0; i < n_edge; i++) p->edge[i] = edge[i];
    fill_costs(im, item_of, p);
    return make_nets(im, item_of, p);
}

/* --- contraction ------------------------------------------------------------------------------ */

/* Whether memory can be a constraint on some device. */
static int memory_matters(const pst_import *im) {
    double all = 0, least = INFINITY;
    for (uint32_t v = 0; v < im->n_node; v++) all += im->size[v];
    for (uint32_t k = 0; k < im->n_kind; k++)
        if (im->kind[k].count) least = fmin(least, im->kind[k].memory);
    return all > least;
}

static pst_status contract(const pst_import *im, pst_downset_edge *edge, uint32_t *group,
                           uint32_t *item_of, pst_downset_problem *p) {
    uint32_t n = im->n_class, n_edge = 0;
    for (uint32_t v = 0; v < im->n_node; v++) item_of[v] = im->class_of[v];
    PST_TRY(class_edges(im, edge, &n_edge));
    PST_TRY(pst_import_cycles(n, edge, n_edge, group));
    PST_TRY(renumber(im, group, item_of, edge, &n_edge, &n));
    PST_TRY(make_problem(im, item_of, n, edge, n_edge, p));
    if (im->compression > 0)
        return PST_OK; /* an item that costs nothing may have the smallest activation */
    PST_TRY(pst_import_join(p, memory_matters(im), group));
    PST_TRY(renumber(im, group, item_of, edge, &n_edge, &n));
    pst_downset_problem_close(p);
    return make_problem(im, item_of, n, edge, n_edge, p);
}

pst_status pst_import_contract(const pst_import *im, pst_downset_problem *problem,
                               uint32_t *item_of) {
    pst_downset_edge *edge = calloc((size_t)im->n_edge + 1, sizeof *edge);
    uint32_t *group = calloc((size_t)im->n_node + 1, sizeof *group);
    pst_downset_problem p = {0};
    pst_status status = edge && group ? contract(im, edge, group, item_of, &p)
                                      : pst_no_memory("to contract a graph");
    free(edge);
    free(group);
    if (status == PST_OK) *problem = p;
    else pst_downset_problem_close(&p);
    return status;
}
