/* Pipelines of stages with tensor and data degrees under Piper's model (Tarnawski, Narayanan,
 * Phanishayee, NeurIPS 2021). A stage runs each of its nodes in one of the ways that the node has
 * for the stage's tensor degree t, on d replicas of t devices. With S replicas in this stage and
 * all later ones together, ceil(S / d) micro-batches are alive in it; a way takes memory_a for each
 * and memory_b. Time per micro-batch: (time + transfers / bandwidth) / d, and the exchange of its
 * parameters among replicas. The slowest stage counts. */
#ifndef PST_PARTITION_FOREIGN_TENSOR_H
#define PST_PARTITION_FOREIGN_TENSOR_H
#include "partition/foreign/downset.h"

enum {
    PST_TENSOR_DEGREES = 16,
    PST_TENSOR_WAYS = 2,
    PST_TENSOR_NAME = 24,
    PST_TENSOR_NODES = 4096
};

typedef struct {
    char name[PST_TENSOR_NAME];            /* "": there is none */
    double time;                           /* seconds per micro-batch, both passes */
    double parameters, memory_a, memory_b; /* bytes */
} pst_tensor_way;

typedef struct {
    uint32_t from, to;
    double bytes;
} pst_tensor_edge;

typedef struct {
    uint32_t n_node, n_edge, n_degree, degree[PST_TENSOR_DEGREES]; /* ascending */
    /* d divides micro_batches; all replicas together are no more than they */
    uint32_t devices, micro_batches;
    double memory, bandwidth; /* bytes of a device; bytes per second */
    pst_tensor_edge *edge;
    /* [n_node + 1], edges at a node: at[i] for i in [first[v], first[v + 1]) */
    uint32_t *first, *at;
    pst_tensor_way *way; /* [node][degree][PST_TENSOR_WAYS] */
    /* bytes that a way adds to an edge that leaves the stage, see pst_tensor_extra */
    double *extra;
} pst_tensor_problem;
void pst_tensor_problem_close(pst_tensor_problem *problem);
/* Numbers the edges at every node and makes room for `extra`. */
pst_status pst_tensor_link(pst_tensor_problem *problem);

/* The way w of node v at degree number t; */
static inline pst_tensor_way *pst_tensor_way_of(const pst_tensor_problem *p, uint32_t v, uint32_t t,
                                                uint32_t w) {
    return &p->way[((size_t)v * p->n_degree + t) * PST_TENSOR_WAYS + w];
}
/* and its extra bytes, in the order of the edges at v. */
static inline double *pst_tensor_extra(const pst_tensor_problem *p, uint32_t v, uint32_t t,
                                       uint32_t w) {
    size_t edges = p->first[v + 1] - p->first[v];
    return p->extra + (size_t)p->first[v] * p->n_degree * PST_TENSOR_WAYS +
           (t * PST_TENSOR_WAYS + w) * edges;
}

typedef struct {
    uint32_t n_part;
    uint32_t *part_of;       /* [n_node] */
    uint8_t *way;            /* [n_node] */
    uint32_t *degree, *data; /* [n_part] tensor degree t, replicas d */
    double objective, lower_bound;
    uint32_t n_downset;
    int whole;
} pst_tensor_plan;
void pst_tensor_plan_close(pst_tensor_plan *plan);
/* As pst_downset_solve, to a relative gap of 1e-9. */
pst_status pst_tensor_solve(const pst_tensor_problem *problem, uint32_t most, double seconds,
                            pst_tensor_plan *plan);
/* The smallest memory of a device with which there is a plan, to 1 in 10^6; INFINITY where there is
 * none. */
pst_status pst_tensor_least_memory(const pst_tensor_problem *problem, double seconds,
                                   double *memory);
/* The time of every stage (load: [n_part]) and the objective, from the plan alone. EINTERNAL: it is
 * none. */
pst_status pst_tensor_judge(const pst_tensor_problem *problem, pst_tensor_plan *plan, double *load);

/* A stage's choice: one of two ways for each of n nodes, so that costs add up to at most `limit`
 * and bytes to at most `memory`. Absent ways cost INFINITY. */
typedef struct {
    double cost[PST_TENSOR_WAYS], bytes[PST_TENSOR_WAYS];
} pst_tensor_item;
typedef struct {
    double cost, bytes; /* what the swap to the slower way costs and saves */
    uint32_t item;
} pst_tensor_swap;
typedef enum { PST_TENSOR_FITS, PST_TENSOR_NEVER, PST_TENSOR_UNKNOWN } pst_tensor_fit;
/* swap: room for n; way: [n], written only when it fits, may be NULL. UNKNOWN: given up, which
 * takes very odd numbers. */
pst_tensor_fit pst_tensor_pack(const pst_tensor_item *item, uint32_t n, double limit, double memory,
                               pst_tensor_swap *swap, uint8_t *way);

/* Whether there is a plan whose stages take at most `limit`. list: downsets of the reversed graph,
 * the last stages first. */
typedef struct {
    double limit;
    uint64_t until_ns;
} pst_tensor_range;
/* OK: *found, and the plan; *doubt: not found, but some choice was given up. BUSY: the time was
 * over. */
pst_status pst_tensor_search(const pst_tensor_problem *problem, const pst_downset_list *list,
                             const pst_tensor_range *range, int *found, int *doubt,
                             pst_tensor_plan *plan);
/* Device seconds that a node takes at least. */
double pst_tensor_work(const pst_tensor_problem *problem, uint32_t node);
#endif
