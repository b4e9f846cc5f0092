/* Workloads of other planners (penstock plan --graph): readers make one value of their files, a DAG
 * of operators with times, sizes, colour classes and transfers; import_contract.c makes of it what
 * the solver of downset.h takes, and import_judge.c says what a plan costs under the other
 * planner's own model, without knowing how it was found. */
#ifndef PST_PARTITION_FOREIGN_IMPORT_H
#define PST_PARTITION_FOREIGN_IMPORT_H
#include "partition/foreign/tensor.h"
#include "pipeline/cluster/cluster.h"
#include <stdio.h>

typedef enum {
    /* JSON of dnn-partitioning (NeurIPS 2020): largest load of accelerators and CPUs */
    PST_IMPORT_DNN,
    PST_IMPORT_PIPEDREAM, /* graph.txt of PipeDream (SOSP 2019): stages and their replication */
    /* JSON of Piper (NeurIPS 2021): stages, replication, tensor degrees, recomputation, memory */
    PST_IMPORT_PIPER,
} pst_import_format;

enum {
    PST_IMPORT_KINDS = PST_DOWNSET_KINDS,
    PST_IMPORT_NODES = 1 << 16,
    PST_IMPORT_EDGES = 1 << 20
};

typedef struct {
    uint32_t from, to; /* nodes, not ids */
} pst_import_edge;

typedef struct {
    pst_import_format format;
    uint32_t n_node, n_edge, n_kind, n_class;
    int64_t *id;        /* [n_node] as in the file */
    uint32_t *class_of; /* [n_node] nodes of a class have to be together */
    uint8_t *backward;  /* [n_node] */
    double *time;       /* [n_kind][n_node]; INFINITY where a node cannot be */
    double *size;       /* [n_node] bytes of memory; PIPEDREAM: of activations and parameters */
    double *transfer;   /* [n_node] time to bring the node's output to or from another device */
    double *parameters; /* [n_node] bytes that replicas exchange */
    pst_import_edge *edge;
    struct {
        const char *name;
        uint32_t count;
        double memory; /* bytes of one device; INFINITY: no limit */
        int pays;      /* for what it sends and receives */
    } kind[PST_IMPORT_KINDS];
    char kind_name[PST_IMPORT_KINDS][48]; /* of the devices of a cluster */
    double bandwidth; /* bytes per unit of time, between replicas; 0: the file says nothing of it */
    /* PIPEDREAM: kind[0].count is the devices of one machine; 0 or 1: no second level. */
    uint32_t machines;
    double between;             /* as bandwidth, between machines */
    int straight;               /* no replicas */
    double compression;         /* > 0: activations travel, so many times smaller; 0: in no time */
    const char *unit;           /* of times and objectives */
    pst_tensor_problem *tensor; /* PIPER: all but ids and edges is here; else NULL */
} pst_import;

/* Of a file's text; the format is found out. `where`: its name, with which every complaint begins,
 * then line and column or the JSON path. EINPUT: no such format, wrong values, cycles. */
pst_status pst_import_parse(const char *text, size_t bytes, const char *where, pst_import **import);
void pst_import_close(pst_import *import);
/* The readers, for pst_import_parse: what they have read so far stays in `import`. */
struct json_t;
pst_status pst_import_dnn(const struct json_t *json, const char *where, pst_import *import);
pst_status pst_import_piper(const struct json_t *json, const char *where, pst_import *import);
pst_status pst_import_pipedream(const char *text, size_t bytes, const char *where,
                                pst_import *import);
/* Arrays for so many nodes and edges. */
pst_status pst_import_room(pst_import *import, uint32_t n_node, uint32_t n_edge, uint32_t n_kind);
/* Numbers the classes of n nodes from `label`, in the order of their first node. */
pst_status pst_import_classes(pst_import *import, const int64_t *label);
/* The place of an id among n that are sorted, PST_IMPORT_NODES where it is not. */
typedef struct {
    int64_t id;
    uint32_t node;
} pst_import_id;
/* Sorts; EINPUT, naming it, for an id that occurs twice. */
pst_status pst_import_sort(pst_import_id *ids, uint32_t n, const char *where);
uint32_t pst_import_find(const pst_import_id *ids, uint32_t n, int64_t id);

/* Puts the cluster's devices in the place of kind 0, which the times of the file are of; PIPEDREAM
 * knows no memory. EINPUT: too many kinds. */
pst_status pst_import_devices(pst_import *import, const pst_cluster *cluster, const char *where);
/* Bytes per second between its devices at least. */
double pst_import_slowest_link(const pst_cluster *cluster);

/* EINPUT, with the nodes: edges that run in a circle, or from a backward to a forward node. */
pst_status pst_import_check(const pst_import *import, const char *where);

/* Parts of a plan that other planners would take. */
typedef struct {
    uint32_t n_part;
    /* [n_node]; parts are numbered in the order in which data runs through them */
    uint32_t *part_of;
    uint32_t *kind, *devices; /* [n_part] which kind, how many replicas */
    uint32_t *tensor;         /* [n_part] devices of a replica */
    uint32_t *group, *copies; /* [n_part] of two levels: the group of stages that it is in,
                                 ascending, and how many machines have a copy of that; else NULL */
    uint8_t *way;             /* [n_node] PIPER: how it runs; else NULL */
    double *load;             /* [n_part] as the judge finds it */
    double objective, lower_bound;
    uint32_t n_item, n_downset;
    int scattered; /* parts that no order puts behind each other: found by nobody here, but read */
    /* all downsets were looked at: the lower bound is the solver's, not only arithmetic */
    int whole;
    double seconds;
} pst_import_plan;
void pst_import_plan_close(pst_import_plan *plan);

/* The solver's problem; item_of: [n_node] the item of every node. */
pst_status pst_import_contract(const pst_import *import, pst_downset_problem *problem,
                               uint32_t *item_of);
/* For pst_import_contract: group[i] becomes the one that stands for i, of items on a circle of
 * edges; */
pst_status pst_import_circles(uint32_t n, const pst_downset_edge *edge, uint32_t n_edge,
                              uint32_t *group);
/* of items that cost nothing beside another. memory_matters: sizes count as a cost. */
pst_status pst_import_join(const pst_downset_problem *problem, int memory_matters, uint32_t *group);

/* For pst_import_solve: problem is of one kind, with exchanges over the links within a machine. */
typedef struct {
    uint32_t devices, machines; /* devices of each */
    int straight;
    double ratio; /* how much longer bytes take between machines */
    /* time of a byte that goes from stage to stage and comes back as a gradient */
    double transfer;
    const double *bytes;      /* [n_item] bytes of an item that do so */
    uint32_t *group, *copies; /* [n_item] of the parts of the plan */
} pst_import_levels;
pst_status pst_import_levels_solve(const pst_downset_problem *problem,
                                   const pst_import_levels *levels, double seconds,
                                   pst_downset_plan *plan);

/* Finds the best plan; seconds: how long it may take. ENOMEM where that is for want of memory: how
 * much would do; EINPUT when there is none otherwise. */
pst_status pst_import_solve(const pst_import *import, double seconds, pst_import_plan *plan);
/* Fills load and objective. EINTERNAL: the plan is none (a node nowhere, too many devices, too much
 * memory, data that runs back). */
pst_status pst_import_judge(const pst_import *import, pst_import_plan *plan);
/* A plan as JSON: what penstock plan --graph --json prints, or devices with their nodes, as
 * dnn-partitioning has them; judged. EINPUT: it is none, and why. */
pst_status pst_import_read_plan(const pst_import *import, const char *text, size_t bytes,
                                const char *where, pst_import_plan *plan);
#endif
