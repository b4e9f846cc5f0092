/* Reads the JSON of dnn-partitioning: maxFPGAs accelerators and maxCPUs CPUs, nodes with a time on
 * each, edges with the transfer time of their source. Its README explains each key. */
#include "partition/foreign/import_json.h"
#include "partition/foreign/import.h"
#include <math.h>
#include <stdlib.h>

static const double MOST = 1e30;
enum { ACCELERATOR, CPU, MOST_DEVICES = 4096 };

static pst_status read_devices(const pst_import_at *root, pst_import *im) {
    int64_t accelerators = 0, cpus = 0;
    double memory = 0;
    PST_TRY(pst_import_integer(root, "maxFPGAs", 0, MOST_DEVICES, 0, &accelerators));
    PST_TRY(pst_import_integer(root, "maxCPUs", 0, MOST_DEVICES, 0, &cpus));
    PST_TRY(pst_import_number(root, "maxSizePerFPGA", 0, MOST, 0, &memory));
    im->kind[ACCELERATOR].name = "accelerator";
    im->kind[ACCELERATOR].count = (uint32_t)accelerators;
    im->kind[ACCELERATOR].memory = memory;
    im->kind[ACCELERATOR].pays = 1;
    im->kind[CPU].name = "cpu";
    im->kind[CPU].count = (uint32_t)cpus;
    im->kind[CPU].memory = INFINITY;
    return PST_OK;
}

/* label: label of the node's class; a node without a label is the only node of its class. */
static pst_status read_node(const pst_import_at *at, pst_import *im, uint32_t v, int64_t *label) {
    int accelerated = 0, backward = 0;
    double *cpu = &im->time[(size_t)CPU * im->n_node + v],
           *accelerator = &im->time[(size_t)ACCELERATOR * im->n_node + v];
    *label = INT64_MIN + v; /* below every color in a file */
    PST_TRY(pst_import_integer(at, "id", INT32_MIN, INT32_MAX, 0, &im->id[v]));
    PST_TRY(pst_import_flag(at, "supportedOnFpga", &accelerated));
    PST_TRY(pst_import_flag(at, "isBackwardNode", &backward));
    PST_TRY(pst_import_number(at, "cpuLatency", 0, MOST, 0, cpu));
    PST_TRY(pst_import_number(at, "fpgaLatency", 0, MOST, 0, accelerator));
    PST_TRY(pst_import_number(at, "size", 0, MOST, 1, &im->size[v]));
    PST_TRY(pst_import_integer(at, "colorClass", INT32_MIN, INT32_MAX, 1, label));
    if (!accelerated) *accelerator = INFINITY;
    im->backward[v] = (uint8_t)backward;
    return PST_OK;
}

static pst_status read_nodes(const pst_import_at *root, const json_t *nodes, pst_import *im,
                             pst_import_id *ids) {
    int64_t *label = malloc((im->n_node + 1) * sizeof *label);
    if (!label) return pst_fail(PST_ENOMEM, "%s: no memory to read the graph", root->where);
    pst_status status = PST_OK;
    for (uint32_t v = 0; status == PST_OK && v < im->n_node; v++) {
        pst_import_at at;
        status = pst_import_element(root, "nodes", nodes, v, &at);
        if (status == PST_OK) status = read_node(&at, im, v, &label[v]);
        ids[v] = (pst_import_id){im->id[v], v};
    }
    if (status == PST_OK) status = pst_import_sort(ids, im->n_node, root->where);
    if (status == PST_OK) status = pst_import_classes(im, label);
    free(label);
    return status;
}

static pst_status read_edges(const pst_import_at *root, const json_t *edges, pst_import *im,
                             const pst_import_id *ids) {
    for (uint32_t v = 0; v < im->n_node; v++) im->transfer[v] = -1;
    for (uint32_t i = 0; i < im->n_edge; i++) {
        pst_import_at at;
        pst_import_edge *e = &im->edge[i];
        double cost = 0;
        PST_TRY(pst_import_element(root, "edges", edges, i, &at));
        PST_TRY(pst_import_end(&at, "sourceId", ids, im->n_node, &e->from));
        PST_TRY(pst_import_end(&at, "destId", ids, im->n_node, &e->to));
        PST_TRY(pst_import_number(&at, "cost", 0, MOST, 0, &cost));
        double *known = &im->transfer[e->from];
        if (*known < 0) *known = cost;
        if (fabs(*known - cost) > 1e-6)
            return pst_fail(PST_EINPUT,
                            "%s: %scost is %g, but an earlier edge has cost %g; all edges from "
                            "node %lld need the same cost",
                            at.where, at.path, cost, *known, (long long)im->id[e->from]);
    }
    for (uint32_t v = 0; v < im->n_node; v++) im->transfer[v] = fmax(im->transfer[v], 0);
    return PST_OK;
}

pst_status pst_import_dnn(const json_t *json, const char *where, pst_import *im) {
    pst_import_at root = {.where = where, .json = json};
    const json_t *nodes, *edges;
    im->format = PST_IMPORT_DNN;
    im->unit = "ms";
    PST_TRY(read_devices(&root, im));
    PST_TRY(pst_import_array(&root, "nodes", 1, PST_IMPORT_NODES - 1, &nodes));
    PST_TRY(pst_import_array(&root, "edges", 0, PST_IMPORT_EDGES, &edges));
    PST_TRY(pst_import_allocate(im, (uint32_t)json_array_size(nodes),
                                (uint32_t)json_array_size(edges), 2));
    pst_import_id *ids = calloc((size_t)im->n_node + 1, sizeof *ids);
    if (!ids) return pst_fail(PST_ENOMEM, "%s: no memory to read the graph", where);
    pst_status status = read_nodes(&root, nodes, im, ids);
    if (status == PST_OK) status = read_edges(&root, edges, im, ids);
    free(ids);
    return status;
}
