/* Pipelines of stages with tensor and data degrees under Piper's model (Tarnawski, Narayanan,
 * Phanishayee, NeurIPS 2021). A stage runs each node in one of its variants for the stage's tensor
 * degree t, on d replicas of t devices. With S replicas in this stage and all later ones together,
 * ceil(S / d) micro-batches are in flight in it; a variant takes memory_a for each of them, and
 * memory_b. Time per micro-batch: (time + transfers / bandwidth) / d, plus the exchange of its
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
    char name[PST_TENSOR_NAME];            /* "": no such variant */
    double time;                           /* seconds per micro-batch, both passes */
    double parameters, memory_a, memory_b; /* bytes */
} pst_tensor_way;

typedef struct {
    uint32_t from, to;
    double bytes;
} pst_tensor_edge;

typedef struct {
    uint32_t n_node, n_edge, n_degree, degree[PST_TENSOR_DEGREES]; /* ascending */
    /* d must divide micro_batches; all replicas together are at most micro_batches */
    uint32_t devices, micro_batches;
    double memory, bandwidth; /* bytes of a device; bytes per second */
    pst_tensor_edge *edge;
    /* [n_node + 1], edges at a node: at[i] for i in [first[v], first[v + 1]) */
    uint32_t *first, *at;
    pst_tensor_way *way; /* [node][degree][PST_TENSOR_WAYS] */
    /* bytes that a variant adds to an edge that leaves the stage, see pst_tensor_extra */
    double *extra;
} pst_tensor_problem;
void pst_tensor_problem_close(pst_tensor_problem *problem);
/* Numbers the edges of every node and allocates `extra`. */
pst_status pst_tensor_link(pst_tensor_problem *problem);

/* Variant w of node v at degree index t; */
static inline pst_tensor_way *pst_tensor_way_of(const pst_tensor_problem *p, uint32_t v, uint32_t t,
                                                uint32_t w) {
    return &p->way[((size_t)v * p->n_degree + t) * PST_TENSOR_WAYS + w];
}
/* and its extra bytes, in the order of the edges of v. */
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
    int complete;
} pst_tensor_plan;
void pst_tensor_plan_close(pst_tensor_plan *plan);
/* As pst_downset_solve, to a relative gap of 1e-9. */
pst_status pst_tensor_solve(const pst_tensor_problem *problem, uint32_t most, double seconds,
                            pst_tensor_plan *plan);
/* The smallest device memory for which there is a plan, to 1 in 10^6; INFINITY: none. */
pst_status pst_tensor_least_memory(const pst_tensor_problem *problem, double seconds,
                                   double *memory);
/* Computes the time of every stage (load: [n_part]) and the objective, from the plan alone.
 * EINTERNAL: the plan is invalid. */
pst_status pst_tensor_evaluate(const pst_tensor_problem *problem, pst_tensor_plan *plan,
                               double *load);

/* One choice per stage: one of two variants for each of n nodes, so that costs add up to at most
 * `limit` and bytes to at most `memory`. Missing variants cost INFINITY. */
typedef struct {
    double cost[PST_TENSOR_WAYS], bytes[PST_TENSOR_WAYS];
} pst_tensor_item;
typedef struct {
    double cost, bytes; /* extra cost and saved bytes of the slower variant */
    uint32_t item;
} pst_tensor_swap;
typedef enum { PST_TENSOR_FITS, PST_TENSOR_NEVER, PST_TENSOR_UNKNOWN } pst_tensor_fit;
/* swap: [n] scratch; way: [n], written only if it fits, may be NULL. UNKNOWN: given up, on unusual
 * numbers. */
pst_tensor_fit pst_tensor_pack(const pst_tensor_item *item, uint32_t n, double limit, double memory,
                               pst_tensor_swap *swap, uint8_t *way);

/* Searches a plan whose stages take at most `limit`. list: downsets of the reversed graph, the last
 * stages first. */
typedef struct {
    double limit;
    uint64_t until_ns;
} pst_tensor_range;
/* OK: *found, and the plan; *doubt: not found, but a choice was given up. BUSY: time was over. */
pst_status pst_tensor_search(const pst_tensor_problem *problem, const pst_downset_list *list,
                             const pst_tensor_range *range, int *found, int *doubt,
                             pst_tensor_plan *plan);
/* Least device seconds of a node. */
double pst_tensor_work(const pst_tensor_problem *problem, uint32_t node);
#endif
