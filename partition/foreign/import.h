/* Workloads of other planners (penstock plan --graph). Readers convert the files into one
 * structure, a DAG of operators with times, sizes, colour classes and transfers. import_contract.c
 * converts this structure into a problem for the solver of downset.h. import_evaluate.c computes
 * the cost of a plan under the other planner's cost model, independently of the solver. */
#ifndef PST_PARTITION_FOREIGN_IMPORT_H
#define PST_PARTITION_FOREIGN_IMPORT_H
#include "partition/foreign/tensor.h"
#include "pipeline/cluster/cluster.h"
#include <stdio.h>

typedef enum {
    /* JSON of dnn-partitioning (NeurIPS 2020); objective: the largest load of a device */
    PST_IMPORT_DNN,
    PST_IMPORT_PIPEDREAM, /* graph.txt of PipeDream (SOSP 2019): stages with replicas */
    /* JSON of Piper (NeurIPS 2021): stages, replicas, tensor degrees, recomputation, memory */
    PST_IMPORT_PIPER,
} pst_import_format;

enum {
    PST_IMPORT_KINDS = PST_DOWNSET_KINDS,
    PST_IMPORT_NODES = 1 << 16,
    PST_IMPORT_EDGES = 1 << 20
};

typedef struct {
    uint32_t from, to; /* node indices, not ids */
} pst_import_edge;

typedef struct {
    pst_import_format format;
    uint32_t n_node, n_edge, n_kind, n_class;
    int64_t *id; /* [n_node] id of each node in the file */
    /* [n_node] colour class; nodes of the same class must be in the same part */
    uint32_t *class_of;
    uint8_t *backward; /* [n_node] 1: the node belongs to the backward pass */
    /* [n_kind][n_node] computing time; INFINITY: the node is not allowed on this kind of device */
    double *time;
    double *size; /* [n_node] bytes of memory; for PIPEDREAM, of activations and parameters */
    /* [n_node] time to send the node's output to, or receive it on, another device */
    double *transfer;
    double *parameters; /* [n_node] bytes of parameters, which replicas exchange */
    pst_import_edge *edge;
    struct {
        const char *name;
        uint32_t count;
        double memory; /* bytes of one device; INFINITY: no limit */
        int pays;      /* 1: transfers count in the load of devices of this kind */
    } kind[PST_IMPORT_KINDS];
    /* storage of kind[].name for kinds that come from a cluster file */
    char kind_name[PST_IMPORT_KINDS][48];
    double bandwidth; /* bytes per unit of time between replicas; 0: the file does not give it */
    /* PIPEDREAM: number of machines, with kind[0].count devices each; 0 or 1: all devices are on
     * one machine */
    uint32_t machines;
    double between; /* bandwidth between machines, bytes per unit of time */
    int straight;   /* 1: no replicas */
    /* > 0: activations are sent compressed by this factor; 0: messages take no time */
    double compression;
    const char *unit;           /* unit of times and objectives */
    pst_tensor_problem *tensor; /* PIPER: all data except ids and edges; other formats: NULL */
} pst_import;

/* Parses the text of a workload file of any format. where: name of the file; messages begin with
 * it, followed by line and column or the JSON path. The caller frees *import with pst_import_close.
 * EINPUT: unknown format, invalid values, cycles. */
pst_status pst_import_parse(const char *text, size_t bytes, const char *where, pst_import **import);
void pst_import_close(pst_import *import);
/* The readers of the formats, called by pst_import_parse. After a failure `import` may be partly
 * filled; the caller closes it. */
struct json_t;
pst_status pst_import_dnn(const struct json_t *json, const char *where, pst_import *import);
pst_status pst_import_piper(const struct json_t *json, const char *where, pst_import *import);
pst_status pst_import_pipedream(const char *text, size_t bytes, const char *where,
                                pst_import *import);
/* Allocates the arrays for these numbers of nodes, edges and kinds of devices. ENOMEM. */
pst_status pst_import_allocate(pst_import *import, uint32_t n_node, uint32_t n_edge,
                               uint32_t n_kind);
/* Sets class_of and n_class: nodes with equal label[node] get the same class; classes are numbered
 * in the order of their first node. label: [n_node]. */
pst_status pst_import_classes(pst_import *import, const int64_t *label);
/* An id in the file, and the index of the node. */
typedef struct {
    int64_t id;
    uint32_t node;
} pst_import_id;
/* Sorts n ids for pst_import_find. EINPUT names an id that occurs twice. */
pst_status pst_import_sort(pst_import_id *ids, uint32_t n, const char *where);
/* Returns the node with an id, by binary search among n sorted ids; PST_IMPORT_NODES: no such node.
 */
uint32_t pst_import_find(const pst_import_id *ids, uint32_t n, int64_t id);

/* Replaces kind 0, to which the times in the file apply, by the kinds of devices of a cluster.
 * PIPEDREAM has no memory limit. EINPUT: too many kinds. */
pst_status pst_import_devices(pst_import *import, const pst_cluster *cluster, const char *where);
/* Returns the lowest bandwidth between any two devices of the cluster, in bytes per second. */
double pst_import_slowest_link(const pst_cluster *cluster);

/* Checks the graph. EINPUT: a cycle, or an edge from a backward to a forward node; pst_error()
 * names the nodes. */
pst_status pst_import_check(const pst_import *import, const char *where);

/* A plan for an imported workload. */
typedef struct {
    uint32_t n_part;
    /* [n_node] part of each node; parts are numbered in the order of the data flow */
    uint32_t *part_of;
    uint32_t *kind, *devices; /* [n_part] kind of device; number of replicas */
    uint32_t *tensor;         /* [n_part] tensor degree: number of devices of a replica */
    /* [n_part] with several machines: group of stages (ascending) to which the part belongs, and
     * number of machines that run a copy of the group; else NULL */
    uint32_t *group, *copies;
    uint8_t *way; /* [n_node] PIPER: index of the variant of each node; else NULL */
    double *load; /* [n_part] set by pst_import_evaluate */
    double objective, lower_bound;
    uint32_t n_item, n_downset;
    /* 1: the data flow between parts has a cycle; possible only for plans from files */
    int not_contiguous;
    /* 1: all downsets were searched, so that the lower bound comes from the search; 0: analytic
     * bound only */
    int complete;
    double seconds; /* duration of the search */
} pst_import_plan;
void pst_import_plan_close(pst_import_plan *plan);

/* Converts the graph to a problem of downset.h: nodes that must be in the same part become one
 * item. Sets item_of[0..n_node). The caller closes *problem. */
pst_status pst_import_contract(const pst_import *import, pst_downset_problem *problem,
                               uint32_t *item_of);
/* For pst_import_contract: sets group[i] to the representative of all items on a cycle with item
 * i. */
pst_status pst_import_cycles(uint32_t n, const pst_downset_edge *edge, uint32_t n_edge,
                             uint32_t *group);
/* For pst_import_contract: sets group[i] to the representative of items that cost nothing if they
 * are in the same part. memory_matters: 1: sizes count as costs. */
pst_status pst_import_join(const pst_downset_problem *problem, int memory_matters, uint32_t *group);

/* Machines of a two-level search by pst_import_levels_solve. The problem has one kind of device;
 * its exchange costs assume the links within a machine. */
typedef struct {
    uint32_t devices, machines; /* devices per machine; machines */
    int straight;               /* 1: no replicas */
    double ratio;               /* bandwidth within a machine over bandwidth between machines */
    /* time to send one byte of activations to the next stage and one byte of gradients back */
    double transfer;
    const double *bytes; /* [n_item] bytes of activations that each item sends */
    /* [n_item] output: group and number of copies of each part, as in pst_import_plan */
    uint32_t *group, *copies;
} pst_import_levels;
/* Finds the best plan on several machines within `seconds`, with replicas within and across
 * machines. */
pst_status pst_import_levels_solve(const pst_downset_problem *problem,
                                   const pst_import_levels *levels, double seconds,
                                   pst_downset_plan *plan);

/* Finds the best plan within `seconds`. The caller frees it with pst_import_plan_close. ENOMEM: no
 * plan fits in memory; pst_error() gives the memory that would be enough. EINPUT: there is no plan
 * for another reason. */
pst_status pst_import_solve(const pst_import *import, double seconds, pst_import_plan *plan);
/* Computes plan->load and plan->objective. EINTERNAL: the plan is invalid (a node without a part,
 * too many devices, too little memory, an edge to an earlier part). */
pst_status pst_import_evaluate(const pst_import *import, pst_import_plan *plan);
/* Reads a plan from JSON and evaluates it. The format is that of penstock plan --graph --json, or
 * that of dnn-partitioning (devices with lists of nodes). The caller frees the plan. EINPUT:
 * pst_error() says why the plan is invalid. */
pst_status pst_import_read_plan(const pst_import *import, const char *text, size_t bytes,
                                const char *where, pst_import_plan *plan);
#endif
