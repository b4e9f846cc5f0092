/* Workloads of other planners (penstock plan --graph). Readers turn their files into one structure,
 * a DAG of operators with times, sizes, colour classes and transfers; import_contract.c turns it
 * into a problem for the solver of downset.h; import_evaluate.c computes the cost of a plan under
 * the other planner's own model, independently of how the plan was found. */
#ifndef PST_PARTITION_FOREIGN_IMPORT_H
#define PST_PARTITION_FOREIGN_IMPORT_H
#include "partition/foreign/tensor.h"
#include "pipeline/cluster/cluster.h"
#include <stdio.h>

typedef enum {
    /* JSON of dnn-partitioning (NeurIPS 2020): the largest load counts */
    PST_IMPORT_DNN,
    PST_IMPORT_PIPEDREAM, /* graph.txt of PipeDream (SOSP 2019): stages and their replicas */
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
    int64_t *id;        /* [n_node] as in the file */
    uint32_t *class_of; /* [n_node] nodes of a class must be in the same part */
    uint8_t *backward;  /* [n_node] */
    double *time;       /* [n_kind][n_node]; INFINITY: the node is not allowed there */
    double *size;       /* [n_node] bytes of memory; PIPEDREAM: of activations and parameters */
    double *transfer;   /* [n_node] time to move the node's output from or to another device */
    double *parameters; /* [n_node] bytes that replicas exchange */
    pst_import_edge *edge;
    struct {
        const char *name;
        uint32_t count;
        double memory; /* bytes of one device; INFINITY: no limit */
        int pays;      /* 1: it pays for transfers */
    } kind[PST_IMPORT_KINDS];
    char kind_name[PST_IMPORT_KINDS][48]; /* for the devices of a cluster */
    double bandwidth; /* bytes per unit of time, between replicas; 0: not in the file */
    /* PIPEDREAM: kind[0].count is the devices per machine; 0 or 1: no second level. */
    uint32_t machines;
    double between;     /* bandwidth between machines, in the same unit */
    int straight;       /* 1: no replicas */
    double compression; /* > 0: messages carry activations, smaller by this factor; 0: messages take
                           no time */
    const char *unit;   /* unit of times and objectives */
    pst_tensor_problem *tensor; /* PIPER: everything except ids and edges; else NULL */
} pst_import;

/* Parses a file of any format. `where`: its name, with which every message begins, followed by line
 * and column or the JSON path. EINPUT: unknown format, invalid values, cycles. */
pst_status pst_import_parse(const char *text, size_t bytes, const char *where, pst_import **import);
void pst_import_close(pst_import *import);
/* The readers, for pst_import_parse: on failure `import` keeps what was read. */
struct json_t;
pst_status pst_import_dnn(const struct json_t *json, const char *where, pst_import *import);
pst_status pst_import_piper(const struct json_t *json, const char *where, pst_import *import);
pst_status pst_import_pipedream(const char *text, size_t bytes, const char *where,
                                pst_import *import);
/* Allocates arrays for so many nodes and edges. */
pst_status pst_import_allocate(pst_import *import, uint32_t n_node, uint32_t n_edge,
                               uint32_t n_kind);
/* Numbers the classes of n nodes from `label`, in the order of their first node. */
pst_status pst_import_classes(pst_import *import, const int64_t *label);
/* An id with its node; the index of an id among n sorted ones, PST_IMPORT_NODES: missing. */
typedef struct {
    int64_t id;
    uint32_t node;
} pst_import_id;
/* Sorts; EINPUT names an id that occurs twice. */
pst_status pst_import_sort(pst_import_id *ids, uint32_t n, const char *where);
uint32_t pst_import_find(const pst_import_id *ids, uint32_t n, int64_t id);

/* Replaces kind 0, whose times the file has, by the cluster's devices. PIPEDREAM has no memory
 * limit. EINPUT: too many kinds. */
pst_status pst_import_devices(pst_import *import, const pst_cluster *cluster, const char *where);
/* The lowest bandwidth between its devices, bytes per second. */
double pst_import_slowest_link(const pst_cluster *cluster);

/* EINPUT, naming the nodes: a cycle, or an edge from a backward to a forward node. */
pst_status pst_import_check(const pst_import *import, const char *where);

/* A plan in the terms of other planners. */
typedef struct {
    uint32_t n_part;
    /* [n_node]; parts are numbered in the order of the data flow */
    uint32_t *part_of;
    uint32_t *kind, *devices; /* [n_part] kind of device, number of replicas */
    uint32_t *tensor;         /* [n_part] devices of a replica */
    uint32_t *group, *copies; /* [n_part] with two levels: its group of stages, ascending, and on
                                 how many machines the group is copied; else NULL */
    uint8_t *way;             /* [n_node] PIPER: which variant runs; else NULL */
    double *load;             /* [n_part] from pst_import_evaluate */
    double objective, lower_bound;
    uint32_t n_item, n_downset;
    int not_contiguous; /* 1: no order of parts follows the data flow: only in plans from files */
    /* 1: all downsets were searched: the lower bound is the solver's, not only the analytic one */
    int complete;
    double seconds;
} pst_import_plan;
void pst_import_plan_close(pst_import_plan *plan);

/* Makes the solver's problem; item_of: [n_node] the item of every node. */
pst_status pst_import_contract(const pst_import *import, pst_downset_problem *problem,
                               uint32_t *item_of);
/* For pst_import_contract: group[i] becomes the representative of i, for items on a cycle; */
pst_status pst_import_cycles(uint32_t n, const pst_downset_edge *edge, uint32_t n_edge,
                             uint32_t *group);
/* for items that cost nothing beside another one. memory_matters: sizes count as a cost. */
pst_status pst_import_join(const pst_downset_problem *problem, int memory_matters, uint32_t *group);

/* For pst_import_solve: problem has one kind, and its exchanges use the links within a machine. */
typedef struct {
    uint32_t devices, machines; /* devices per machine */
    int straight;
    double ratio; /* bandwidth within a machine over bandwidth between machines */
    /* time per byte that goes from stage to stage and comes back as a gradient */
    double transfer;
    const double *bytes;      /* [n_item] such bytes of an item */
    uint32_t *group, *copies; /* [n_item] of the plan's parts, output */
} pst_import_levels;
pst_status pst_import_levels_solve(const pst_downset_problem *problem,
                                   const pst_import_levels *levels, double seconds,
                                   pst_downset_plan *plan);

/* Finds the best plan within so many seconds. ENOMEM: no plan fits the memory, and how much would
 * be enough; EINPUT: no plan for another reason. */
pst_status pst_import_solve(const pst_import *import, double seconds, pst_import_plan *plan);
/* Computes load and objective. EINTERNAL: the plan is invalid (a node without a part, too many
 * devices, too much memory, an edge to an earlier part). */
pst_status pst_import_evaluate(const pst_import *import, pst_import_plan *plan);
/* Reads a plan and evaluates it: JSON as penstock plan --graph --json prints it, or devices with
 * their nodes, as in dnn-partitioning. EINPUT: invalid, and why. */
pst_status pst_import_read_plan(const pst_import *import, const char *text, size_t bytes,
                                const char *where, pst_import_plan *plan);
#endif
