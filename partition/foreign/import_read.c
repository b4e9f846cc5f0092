/* Reads a plan as JSON, to evaluate it: stages as penstock plan --graph --json prints them, or
 * fpgas and cpus with their nodes, as in dnn-partitioning. See import.h. */
#include "partition/foreign/import_json.h"
#include "partition/foreign/import.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

typedef struct {
    const pst_import *im;
    pst_import_plan *plan;
    pst_import_id *ids; /* sorted */
} reader;

static pst_status wrong(const pst_import_at *at, const char *what) {
    return pst_fail(PST_EINPUT, "%s: %s %s", at->where, at->path, what);
}

/* Allocates the parts of a plan; nodes have no part yet. */
static pst_status allocate(const pst_import *im, size_t parts, pst_import_plan *plan) {
    size_t n = (size_t)im->n_node + 1;
    plan->part_of = malloc(n * sizeof *plan->part_of);
    plan->kind = calloc(parts + 1, sizeof *plan->kind);
    plan->devices = calloc(parts + 1, sizeof *plan->devices);
    plan->tensor = calloc(parts + 1, sizeof *plan->tensor);
    plan->load = calloc(parts + 1, sizeof *plan->load);
    plan->way = calloc(n, 1);
    plan->group = calloc(parts + 1, sizeof *plan->group);
    plan->copies = calloc(parts + 1, sizeof *plan->copies);
    if (!plan->part_of || !plan->kind || !plan->devices || !plan->tensor || !plan->load ||
        !plan->way || !plan->group || !plan->copies)
        return pst_fail(PST_ENOMEM, "no memory for a plan");
    memset(plan->part_of, 0xff, n * sizeof *plan->part_of);
    return PST_OK;
}

/* --- a stage ---------------------------------------------------------------------------------- */

static pst_status read_nodes(const reader *r, const pst_import_at *at, const json_t *nodes) {
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        const json_t *id = json_array_get(nodes, i);
        uint32_t v = json_is_integer(id)
                         ? pst_import_find(r->ids, r->im->n_node, json_integer_value(id))
                         : PST_IMPORT_NODES;
        if (v == PST_IMPORT_NODES)
            return wrong(at, "nodes: an element is not the id of a node of the graph");
        if (r->plan->part_of[v] != UINT32_MAX)
            return pst_fail(PST_EINPUT, "%s: %s nodes: node %lld is already in an earlier stage",
                            at->where, at->path, (long long)r->im->id[v]);
        r->plan->part_of[v] = r->plan->n_part;
    }
    return PST_OK;
}

static pst_status read_kind(const reader *r, const pst_import_at *at) {
    const char *name = json_string_value(json_object_get(at->json, "kind"));
    for (uint32_t k = 0; k < r->im->n_kind; k++)
        if (!name || !strcmp(r->im->kind[k].name, name)) {
            r->plan->kind[r->plan->n_part] = k;
            return PST_OK;
        }
    return wrong(at, "kind: the cluster has no devices of this kind");
}

/* Variants by name, in the order of the nodes. */
static pst_status read_ways(const reader *r, const pst_import_at *at, const json_t *nodes) {
    const pst_tensor_problem *p = r->im->tensor;
    const json_t *ways = json_object_get(at->json, "ways");
    uint32_t t = 0;
    while (t < p->n_degree && p->degree[t] != r->plan->tensor[r->plan->n_part]) t++;
    if (t == p->n_degree) return wrong(at, "tensor: no node supports this tensor degree");
    if (json_array_size(ways) != json_array_size(nodes))
        return wrong(at, "ways: expected one variant name per node");
    for (size_t i = 0; i < json_array_size(nodes); i++) {
        uint32_t v = pst_import_find(r->ids, r->im->n_node,
                                     json_integer_value(json_array_get(nodes, i))),
                 w = 0;
        const char *name = json_string_value(json_array_get(ways, i));
        while (w < PST_TENSOR_WAYS &&
               (!name || !*name || strcmp(pst_tensor_way_of(p, v, t, w)->name, name)))
            w++;
        if (w == PST_TENSOR_WAYS)
            return wrong(at, "ways: a node does not have the named variant at this tensor degree");
        r->plan->way[v] = (uint8_t)w;
    }
    return PST_OK;
}

static pst_status read_stage(const reader *r, const pst_import_at *at) {
    pst_import_plan *plan = r->plan;
    uint32_t s = plan->n_part;
    int64_t data = 1, tensor = 1, group = s, machines = 1;
    const json_t *nodes;
    PST_TRY(pst_import_array(at, "nodes", 0, PST_IMPORT_NODES, &nodes));
    if (!json_array_size(nodes)) return PST_OK; /* an unused device */
    PST_TRY(pst_import_integer(at, "data", 1, MOST, 1, &data));
    PST_TRY(pst_import_integer(at, "tensor", 1, MOST, 1, &tensor));
    PST_TRY(pst_import_integer(at, "group", 0, MOST, 1, &group));
    PST_TRY(pst_import_integer(at, "machines", 1, MOST, 1, &machines));
    if (r->im->format == PST_IMPORT_DNN && data > 1)
        return wrong(at, "data: this cost model supports no replicas; expected 1");
    if (!r->im->tensor && tensor > 1)
        return wrong(at, "tensor: this cost model supports no tensor parallelism; expected 1");
    plan->devices[s] = (uint32_t)data;
    plan->tensor[s] = (uint32_t)tensor;
    plan->group[s] = (uint32_t)group;
    plan->copies[s] = (uint32_t)machines;
    PST_TRY(read_kind(r, at));
    PST_TRY(read_nodes(r, at, nodes));
    if (r->im->tensor) PST_TRY(read_ways(r, at, nodes));
    plan->n_part++;
    return PST_OK;
}

/* kind: of all of them; UINT32_MAX: each names its own. */
static pst_status read_list(const reader *r, const pst_import_at *root, const char *key,
                            uint32_t kind) {
    const json_t *list;
    PST_TRY(pst_import_array(root, key, 0, PST_IMPORT_NODES, &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        pst_import_at at;
        uint32_t s = r->plan->n_part;
        PST_TRY(pst_import_element(root, key, list, i, &at));
        PST_TRY(read_stage(r, &at));
        if (kind != UINT32_MAX) r->plan->kind[s] = kind;
    }
    return PST_OK;
}

/* --- order ------------------------------------------------------------------------------------ */

/* A node that the plan leaves out joins its class. */
static pst_status place_the_rest(const pst_import *im, const char *where, pst_import_plan *plan) {
    uint32_t *home = malloc(((size_t)im->n_class + 1) * sizeof *home);
    if (!home) return pst_fail(PST_ENOMEM, "no memory for a plan");
    memset(home, 0xff, (size_t)im->n_class * sizeof *home);
    for (uint32_t v = 0; v < im->n_node; v++)
        if (plan->part_of[v] != UINT32_MAX) home[im->class_of[v]] = plan->part_of[v];
    pst_status status = PST_OK;
    for (uint32_t v = 0; status == PST_OK && v < im->n_node; v++) {
        if (plan->part_of[v] == UINT32_MAX) plan->part_of[v] = home[im->class_of[v]];
        if (plan->part_of[v] == UINT32_MAX)
            status =
                pst_fail(PST_EINPUT, "%s: node %lld is in no stage", where, (long long)im->id[v]);
    }
    free(home);
    return status;
}

static int runs_back(const pst_import *im, const pst_import_plan *plan) {
    for (uint32_t i = 0; i < im->n_edge; i++)
        if (!im->backward[im->edge[i].to] &&
            plan->part_of[im->edge[i].from] > plan->part_of[im->edge[i].to])
            return 1;
    return 0;
}

/* dnn-partitioning may list devices in any order: sorts them by the data flow, if possible. */
static pst_status order_parts(const pst_import *im, pst_import_plan *plan) {
    uint32_t n = plan->n_part, n_edge = 0;
    pst_downset_edge *edge = malloc(((size_t)im->n_edge + 1) * sizeof *edge);
    uint32_t *order = malloc(3 * ((size_t)n + 1) * sizeof *order);
    pst_status status = edge && order ? PST_OK : pst_fail(PST_ENOMEM, "no memory for a plan");
    for (uint32_t i = 0; status == PST_OK && i < im->n_edge; i++) {
        uint32_t from = plan->part_of[im->edge[i].from], to = plan->part_of[im->edge[i].to];
        if (from != to && !im->backward[im->edge[i].to])
            edge[n_edge++] = (pst_downset_edge){from, to};
    }
    if (status == PST_OK) {
        status = pst_downset_order(n, edge, n_edge, order);
        plan->not_contiguous = status == PST_EINPUT; /* no such order */
        if (status == PST_EINPUT) status = PST_OK;
        else if (status == PST_OK) {
            uint32_t *place = order + n, *kind = order + 2 * n;
            for (uint32_t i = 0; i < n; i++) {
                place[order[i]] = i;
                kind[i] = plan->kind[order[i]];
            }
            for (uint32_t i = 0; i < n; i++) plan->kind[i] = kind[i];
            for (uint32_t v = 0; v < im->n_node; v++) plan->part_of[v] = place[plan->part_of[v]];
        }
    }
    free(edge);
    free(order);
    return status;
}

static pst_status read_plan(const pst_import *im, const pst_import_at *root, pst_import_id *ids,
                            pst_import_plan *plan) {
    static const char *const keys[] = {"stages", "fpgas", "cpus"};
    size_t parts = 0;
    for (uint32_t v = 0; v < im->n_node; v++) ids[v] = (pst_import_id){im->id[v], v};
    PST_TRY(pst_import_sort(ids, im->n_node, root->where));
    for (size_t i = 0; i < 3; i++) parts += json_array_size(json_object_get(root->json, keys[i]));
    PST_TRY(allocate(im, parts, plan));
    reader r = {im, plan, ids};
    if (im->format == PST_IMPORT_DNN && !json_object_get(root->json, "stages")) {
        PST_TRY(read_list(&r, root, "fpgas", 0));
        PST_TRY(read_list(&r, root, "cpus", im->n_kind - 1));
    } else PST_TRY(read_list(&r, root, "stages", UINT32_MAX));
    PST_TRY(place_the_rest(im, root->where, plan));
    if (im->machines <= 1) { /* one level */
        free(plan->group);
        free(plan->copies);
        plan->group = plan->copies = NULL;
    }
    return im->format == PST_IMPORT_DNN && runs_back(im, plan) ? order_parts(im, plan) : PST_OK;
}

pst_status pst_import_read_plan(const pst_import *im, const char *text, size_t bytes,
                                const char *where, pst_import_plan *plan) {
    json_error_t error;
    pst_import_plan made = {0};
    json_t *json = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json && json_error_code(&error) == json_error_out_of_memory)
        return pst_fail(PST_ENOMEM, "%s: no memory to read the plan", where);
    if (!json)
        return pst_fail(PST_EINPUT, "%s:%d:%d: not JSON: %s", where, error.line, error.column,
                        error.text);
    pst_import_at root = {.where = where, .json = json};
    pst_import_id *ids = calloc((size_t)im->n_node + 1, sizeof *ids);
    pst_status status = ids ? read_plan(im, &root, ids, &made)
                            : pst_fail(PST_ENOMEM, "%s: no memory to read the plan", where);
    if (status == PST_OK) {
        status = pst_import_evaluate(im, &made);
        if (status == PST_EINTERNAL)
            status = pst_fail_in(PST_EINPUT, "%s", where); /* the file's plan is invalid */
    }
    free(ids);
    json_decref(json);
    if (status == PST_OK) *plan = made;
    else pst_import_plan_close(&made);
    return status;
}
