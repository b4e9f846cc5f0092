/* Shared by the readers of workloads: arrays for nodes and edges, ids, and checks of graphs. */
#include "partition/foreign/import.h"
#include "base/plural.h"
#include <stdlib.h>
#include <string.h>

void pst_import_close(pst_import *im) {
    if (!im) return;
    free(im->id);
    free(im->class_of);
    free(im->backward);
    free(im->time);
    free(im->size);
    free(im->transfer);
    free(im->parameters);
    free(im->edge);
    if (im->tensor) pst_tensor_problem_close(im->tensor);
    free(im->tensor);
    free(im);
}

pst_status pst_import_allocate(pst_import *im, uint32_t n_node, uint32_t n_edge, uint32_t n_kind) {
    im->n_node = n_node;
    im->n_edge = n_edge;
    im->n_kind = n_kind;
    size_t n = (size_t)n_node + 1;
    im->id = calloc(n, sizeof *im->id);
    im->class_of = calloc(n, sizeof *im->class_of);
    im->backward = calloc(n, 1);
    im->time = calloc(n * n_kind, sizeof *im->time);
    im->size = calloc(n, sizeof *im->size);
    im->transfer = calloc(n, sizeof *im->transfer);
    im->parameters = calloc(n, sizeof *im->parameters);
    im->edge = calloc((size_t)n_edge + 1, sizeof *im->edge);
    if (!im->id || !im->class_of || !im->backward || !im->time || !im->size || !im->transfer ||
        !im->parameters || !im->edge)
        return pst_fail(PST_ENOMEM, "no memory for a graph of %u nodes", n_node);
    return PST_OK;
}

/* --- ids -------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b) {
    const pst_import_id *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

pst_status pst_import_sort(pst_import_id *ids, uint32_t n, const char *where) {
    qsort(ids, n, sizeof *ids, by_id);
    for (uint32_t i = 1; i < n; i++)
        if (ids[i].id == ids[i - 1].id)
            return pst_fail(PST_EINPUT, "%s: two nodes have the id %lld", where,
                            (long long)ids[i].id);
    return PST_OK;
}

uint32_t pst_import_find(const pst_import_id *ids, uint32_t n, int64_t id) {
    uint32_t from = 0, to = n;
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (ids[mid].id < id) from = mid + 1;
        else to = mid;
    }
    return from < n && ids[from].id == id ? ids[from].node : PST_IMPORT_NODES;
}

pst_status pst_import_classes(pst_import *im, const int64_t *label) {
    pst_import_id *ids = malloc((im->n_node + 1) * sizeof *ids);
    if (!ids) return pst_fail(PST_ENOMEM, "no memory for a graph of %u nodes", im->n_node);
    for (uint32_t v = 0; v < im->n_node; v++) ids[v] = (pst_import_id){label[v], v};
    qsort(ids, im->n_node, sizeof *ids, by_id);
    for (uint32_t i = 0, first = 0; i < im->n_node; i++) { /* label classes by their first node,
                                                              then number them */
        if (ids[i].id != ids[first].id) first = i;
        im->class_of[ids[i].node] = ids[first].node;
    }
    free(ids);
    im->n_class = 0;
    /* a first node comes before all others of its class */
    for (uint32_t v = 0; v < im->n_node; v++)
        im->class_of[v] = im->class_of[v] == v ? im->n_class++ : im->class_of[im->class_of[v]];
    return PST_OK;
}

/* --- check ------------------------------------------------------------------------------------ */

/* Names the nodes of a cycle among the nodes that are `left`: follows edges backwards until a node
 * repeats. */
static pst_status name_cycle(const pst_import *im, const char *where, const uint32_t *left,
                             uint32_t *before) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < im->n_edge; i++)
        if (left[im->edge[i].from] && left[im->edge[i].to])
            before[im->edge[i].to] = im->edge[i].from;
    while (!left[at]) at++;
    for (uint32_t i = 0; i < im->n_node; i++) at = before[at]; /* on the cycle by now */
    char text[256];
    size_t used = 0;
    uint32_t start = at, n = 0;
    do { /* from the last to the first */
        if (n++ < 8)
            used += (size_t)snprintf(text + used, sizeof text - used, "%lld <- ",
                                     (long long)im->id[at]);
        at = before[at];
    } while (at != start);
    snprintf(text + used, sizeof text - used, "%s%lld", n > 8 ? "... <- " : "",
             (long long)im->id[at]);
    return pst_fail(PST_EINPUT, "%s: the edges of %u node%s form a cycle: %s", where, n,
                    pst_plural(n), text);
}

static pst_status check_cycles(const pst_import *im, const char *where, uint32_t *missing,
                               uint32_t *order) {
    /* Removes nodes without predecessors repeatedly; edges are sorted by source once. */
    uint32_t n = im->n_node, n_done = 0, n_ready = 0;
    uint32_t *first = calloc((size_t)n + 2, sizeof *first),
             *to = malloc((im->n_edge + 1) * sizeof *to);
    if (!first || !to) {
        free(first);
        free(to);
        return pst_fail(PST_ENOMEM, "no memory for a graph of %u nodes", n);
    }
    for (uint32_t i = 0; i < im->n_edge; i++) {
        first[im->edge[i].from + 2]++;
        missing[im->edge[i].to]++;
    }
    for (uint32_t v = 0; v < n; v++) first[v + 2] += first[v + 1];
    for (uint32_t i = 0; i < im->n_edge; i++) to[first[im->edge[i].from + 1]++] = im->edge[i].to;
    for (uint32_t v = 0; v < n; v++)
        if (!missing[v]) order[n_ready++] = v;
    for (; n_done < n_ready; n_done++)
        for (uint32_t e = first[order[n_done]]; e < first[order[n_done] + 1]; e++)
            if (--missing[to[e]] == 0) order[n_ready++] = to[e];
    free(first);
    free(to);
    return n_done == n ? PST_OK : name_cycle(im, where, missing, order);
}

pst_status pst_import_check(const pst_import *im, const char *where) {
    for (uint32_t i = 0; i < im->n_edge; i++)
        if (im->backward[im->edge[i].from] && !im->backward[im->edge[i].to])
            return pst_fail(
                PST_EINPUT,
                "%s: the edge from %lld to %lld leads from a backward node to a forward one", where,
                (long long)im->id[im->edge[i].from], (long long)im->id[im->edge[i].to]);
    uint32_t *missing = calloc((size_t)im->n_node + 1, sizeof *missing);
    uint32_t *order = calloc((size_t)im->n_node + 1, sizeof *order);
    pst_status status = missing && order
                            ? check_cycles(im, where, missing, order)
                            : pst_fail(PST_ENOMEM, "no memory for a graph of %u nodes", im->n_node);
    free(missing);
    free(order);
    return status;
}
