/* Piper's JSON: nodes with variants for every tensor degree (TMPCs), edges with bytes, devices with
 * memory and bandwidth. Its README explains each key. */
#include "partition/foreign/import_json.h"
#include "partition/foreign/import.h"
#include <stdlib.h>
#include <string.h>

static const double MOST = 1e30;
enum { MOST_DEVICES = 4096, MOST_MICRO_BATCHES = 1 << 20 };

static pst_status bad(const pst_import_at *at, const char *what) {
    return pst_fail(PST_EINPUT, "%s: %s %s", at->where, at->path, what);
}

/* A member of an object, as an object with `key` in its path. */
static pst_status member(const pst_import_at *at, const char *key, pst_import_at *to) {
    *to = (pst_import_at){.where = at->where, .json = json_object_get(at->json, key)};
    snprintf(to->path, sizeof to->path, "%.70s%.20s.", at->path, key);
    return json_is_object(to->json) ? PST_OK : bad(to, "expected an object");
}

/* Keys are integers. */
static pst_status number_of_key(const pst_import_at *at, const char *key, int64_t *to) {
    char *end;
    long x = strtol(key, &end, 10);
    if (end == key || *end || x < INT32_MIN || x > INT32_MAX) {
        pst_import_at here = *at;
        snprintf(here.path, sizeof here.path, "%.60s%.20s:", at->path, key);
        return bad(&here, "expected an integer as the key");
    }
    *to = x;
    return PST_OK;
}

/* --- degrees ---------------------------------------------------------------------------------- */

static pst_status add_degree(const pst_import_at *at, const char *key, pst_tensor_problem *p) {
    int64_t degree = 0;
    uint32_t i = 0;
    PST_TRY(number_of_key(at, key, &degree));
    if (degree < 1 || degree > MOST_DEVICES)
        return bad(at, "has a tensor degree outside 1 to 4096");
    while (i < p->n_degree && p->degree[i] < degree) i++;
    if (i < p->n_degree && p->degree[i] == degree) return PST_OK;
    if (p->n_degree == PST_TENSOR_DEGREES) return bad(at, "has more than 16 tensor degrees");
    memmove(&p->degree[i + 1], &p->degree[i], (p->n_degree - i) * sizeof *p->degree);
    p->degree[i] = (uint32_t)degree;
    p->n_degree++;
    return PST_OK;
}

static pst_status read_degrees(const pst_import_at *root, const json_t *nodes,
                               pst_tensor_problem *p) {
    for (uint32_t v = 0; v < p->n_node; v++) {
        pst_import_at at, ways;
        const char *key;
        json_t *value;
        PST_TRY(pst_import_element(root, "nodes", nodes, v, &at));
        PST_TRY(member(&at, "TMPCs", &ways));
        json_object_foreach((json_t *)ways.json, key, value) PST_TRY(add_degree(&ways, key, p));
    }
    return p->n_degree
               ? PST_OK
               : pst_fail(PST_EINPUT,
                          "%s: TMPCs is empty for every node; expected tensor degrees with costs",
                          root->where);
}

/* --- ways ------------------------------------------------------------------------------------- */

typedef struct {
    const pst_tensor_problem *p;
    const pst_import_id *ids;
    uint32_t node;
    double *extra;
} edges_of_way;

/* syncTimeFw must list the sources of all incoming edges, syncTimeBw the targets of all outgoing
 * ones. */
static pst_status read_sync(const pst_import_at *way, const char *key, int incoming,
                            const edges_of_way *to) {
    const pst_tensor_problem *p = to->p;
    uint32_t v = to->node, n = 0;
    pst_import_at at;
    PST_TRY(member(way, key, &at));
    for (uint32_t i = p->first[v]; i < p->first[v + 1]; i++) {
        const pst_tensor_edge *e = &p->edge[p->at[i]];
        if ((e->to == v) != incoming) continue;
        uint32_t other = incoming ? e->from : e->to, k = 0;
        char name[24];
        while (to->ids[k].node != other) k++;
        snprintf(name, sizeof name, "%lld", (long long)to->ids[k].id);
        PST_TRY(pst_import_number(&at, name, 0, MOST, 0, &to->extra[i - p->first[v]]));
        n++;
    }
    if (json_object_size(at.json) != n) return bad(&at, "names a node to which there is no edge");
    return PST_OK;
}

static pst_status read_way(const pst_import_at *at, const edges_of_way *to, pst_tensor_way *way) {
    const char *name = json_string_value(json_object_get(at->json, "id"));
    if (!name || !*name || strlen(name) >= PST_TENSOR_NAME)
        return bad(at, "id: expected a name of 1 to 23 bytes");
    memcpy(way->name, name, strlen(name) + 1);
    PST_TRY(pst_import_number(at, "timePerSample", 0, MOST, 0, &way->time));
    PST_TRY(pst_import_number(at, "parameterSize", 0, MOST, 0, &way->parameters));
    PST_TRY(pst_import_number(at, "memoryUsageA", 0, MOST, 0, &way->memory_a));
    PST_TRY(pst_import_number(at, "memoryUsageB", 0, MOST, 0, &way->memory_b));
    PST_TRY(read_sync(at, "syncTimeFw", 1, to));
    return read_sync(at, "syncTimeBw", 0, to);
}

static pst_status read_ways(const pst_import_at *root, const json_t *nodes,
                            const pst_import_id *ids, pst_tensor_problem *p) {
    for (uint32_t v = 0; v < p->n_node; v++) {
        pst_import_at at, ways;
        PST_TRY(pst_import_element(root, "nodes", nodes, v, &at));
        PST_TRY(member(&at, "TMPCs", &ways));
        for (uint32_t t = 0; t < p->n_degree; t++) {
            char key[16];
            const json_t *list;
            snprintf(key, sizeof key, "%u", p->degree[t]);
            if (!json_object_get(ways.json, key)) continue;
            PST_TRY(pst_import_array(&ways, key, 0, PST_TENSOR_WAYS, &list));
            for (uint32_t w = 0; w < json_array_size(list); w++) {
                pst_import_at way;
                PST_TRY(pst_import_element(&ways, key, list, w, &way));
                edges_of_way to = {p, ids, v, pst_tensor_extra(p, v, t, w)};
                PST_TRY(read_way(&way, &to, pst_tensor_way_of(p, v, t, w)));
            }
        }
    }
    return PST_OK;
}

/* --- the graph -------------------------------------------------------------------------------- */

static pst_status read_ids(const pst_import_at *root, const json_t *nodes, pst_import *im,
                           pst_import_id *ids) {
    for (uint32_t v = 0; v < im->n_node; v++) {
        pst_import_at at;
        PST_TRY(pst_import_element(root, "nodes", nodes, v, &at));
        PST_TRY(pst_import_integer(&at, "id", INT32_MIN, INT32_MAX, 0, &im->id[v]));
        ids[v] = (pst_import_id){im->id[v], v};
        im->class_of[v] = v;
    }
    im->n_class = im->n_node;
    return pst_import_sort(ids, im->n_node, root->where);
}

static int by_ends(const void *a, const void *b) {
    const pst_import_edge *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* An edge has one number of bytes, so it may occur only once. */
static pst_status check_once(const char *where, const pst_import *im) {
    pst_import_edge *edge = malloc(((size_t)im->n_edge + 1) * sizeof *edge);
    if (!edge) return pst_fail(PST_ENOMEM, "%s: no memory to read the graph", where);
    memcpy(edge, im->edge, im->n_edge * sizeof *edge);
    qsort(edge, im->n_edge, sizeof *edge, by_ends);
    pst_status status = PST_OK;
    for (uint32_t i = 1; i < im->n_edge; i++)
        if (!by_ends(&edge[i], &edge[i - 1]))
            status = pst_fail(PST_EINPUT, "%s: there are two edges from %lld to %lld", where,
                              (long long)im->id[edge[i].from], (long long)im->id[edge[i].to]);
    free(edge);
    return status;
}

static pst_status read_edges(const pst_import_at *root, const json_t *edges, pst_import *im,
                             const pst_import_id *ids) {
    for (uint32_t i = 0; i < im->n_edge; i++) {
        pst_import_at at;
        pst_tensor_edge *e = &im->tensor->edge[i];
        PST_TRY(pst_import_element(root, "edges", edges, i, &at));
        PST_TRY(pst_import_end(&at, "sourceId", ids, im->n_node, &e->from));
        PST_TRY(pst_import_end(&at, "destId", ids, im->n_node, &e->to));
        PST_TRY(pst_import_number(&at, "communicationCost", 0, MOST, 0, &e->bytes));
        im->edge[i] = (pst_import_edge){e->from, e->to};
    }
    PST_TRY(check_once(root->where, im));
    return pst_import_check(im, root->where); /* before anything follows the edges */
}

static pst_status read_graph(const pst_import_at *root, const json_t *nodes, const json_t *edges,
                             pst_import *im, pst_import_id *ids) {
    pst_tensor_problem *p = im->tensor;
    PST_TRY(read_ids(root, nodes, im, ids));
    PST_TRY(read_degrees(root, nodes, p));
    p->way = calloc((size_t)p->n_node * p->n_degree * PST_TENSOR_WAYS + 1, sizeof *p->way);
    p->edge = calloc((size_t)p->n_edge + 1, sizeof *p->edge);
    if (!p->way || !p->edge)
        return pst_fail(PST_ENOMEM, "%s: no memory to read the graph", root->where);
    PST_TRY(read_edges(root, edges, im, ids));
    PST_TRY(pst_tensor_link(p));
    return read_ways(root, nodes, ids, p);
}

pst_status pst_import_piper(const json_t *json, const char *where, pst_import *im) {
    pst_import_at root = {.where = where, .json = json};
    const json_t *nodes, *edges;
    int64_t devices = 0, micro_batches = 0;
    im->format = PST_IMPORT_PIPER;
    im->unit = "s";
    im->kind[0].name = "device";
    pst_tensor_problem *p = im->tensor = calloc(1, sizeof *im->tensor);
    if (!p) return pst_fail(PST_ENOMEM, "%s: no memory to read the graph", where);
    PST_TRY(pst_import_integer(&root, "maxDevices", 1, MOST_DEVICES, 0, &devices));
    PST_TRY(pst_import_integer(&root, "mbsInBatch", 1, MOST_MICRO_BATCHES, 0, &micro_batches));
    PST_TRY(pst_import_number(&root, "maxMemoryPerDevice", 1, MOST, 0, &p->memory));
    PST_TRY(pst_import_number(&root, "bandwidth", 1e-9, MOST, 0, &p->bandwidth));
    PST_TRY(pst_import_array(&root, "nodes", 1, PST_TENSOR_NODES, &nodes));
    PST_TRY(pst_import_array(&root, "edges", 0, 16 * PST_TENSOR_NODES, &edges));
    PST_TRY(pst_import_allocate(im, (uint32_t)json_array_size(nodes),
                                (uint32_t)json_array_size(edges), 1));
    p->n_node = im->n_node;
    p->n_edge = im->n_edge;
    p->devices = (uint32_t)devices;
    p->micro_batches = (uint32_t)micro_batches;
    pst_import_id *ids = calloc((size_t)im->n_node + 1, sizeof *ids);
    if (!ids) return pst_fail(PST_ENOMEM, "%s: no memory to read the graph", where);
    pst_status status = read_graph(&root, nodes, edges, im, ids);
    free(ids);
    return status;
}
