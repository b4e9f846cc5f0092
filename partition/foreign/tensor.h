/* Pipelines of stages with tensor and data degrees under Piper's model (Tarnawski, Narayanan,
 * Phanishayee, NeurIPS 2021). A stage has d replicas of t devices (t: tensor degree), and runs each
 * node in one of the node's variants for t. If this stage and all later stages together have S
 * replicas, ceil(S / d) micro-batches are in flight in the stage; a variant needs memory_a bytes
 * for each of them, plus memory_b bytes. Time of a stage per micro-batch: (time + transfers /
 * bandwidth) / d, plus the exchange of the parameters among replicas. The objective is the time of
 * the slowest stage. */
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
    char name[PST_TENSOR_NAME];            /* "": the node has no such variant */
    double time;                           /* seconds per micro-batch, both passes */
    double parameters, memory_a, memory_b; /* bytes */
} pst_tensor_way;

typedef struct {
    uint32_t from, to;
    double bytes;
} pst_tensor_edge;

typedef struct {
    uint32_t n_node, n_edge, n_degree, degree[PST_TENSOR_DEGREES]; /* ascending */
    /* d must divide micro_batches; the sum of d over all stages is at most micro_batches */
    uint32_t devices, micro_batches;
    double memory, bandwidth; /* bytes per device; bytes per second */
    pst_tensor_edge *edge;
    /* [n_node + 1] the edges of node v are at[i] for i in [first[v], first[v + 1]) */
    uint32_t *first, *at;
    pst_tensor_way *way; /* [node][degree][PST_TENSOR_WAYS] */
    /* bytes that a variant adds to a message over an edge between stages, see pst_tensor_extra */
    double *extra;
} pst_tensor_problem;
void pst_tensor_problem_close(pst_tensor_problem *problem);
/* Computes first and at from the edges, and allocates `extra`. ENOMEM. */
pst_status pst_tensor_link(pst_tensor_problem *problem);

/* Returns variant w of node v at degree[t]. */
static inline pst_tensor_way *pst_tensor_way_of(const pst_tensor_problem *p, uint32_t v, uint32_t t,
                                                uint32_t w) {
    return &p->way[((size_t)v * p->n_degree + t) * PST_TENSOR_WAYS + w];
}
/* Returns the extra bytes of this variant, in the order of the edges of v. */
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
/* Finds the best plan, with the arguments and results of pst_downset_solve. The search stops at a
 * relative gap of 1e-9. */
pst_status pst_tensor_solve(const pst_tensor_problem *problem, uint32_t most, double seconds,
                            pst_tensor_plan *plan);
/* Sets *memory to the smallest device memory in bytes for which a plan exists, with a relative
 * error of 1e-6; INFINITY: no memory is enough. */
pst_status pst_tensor_least_memory(const pst_tensor_problem *problem, double seconds,
                                   double *memory);
/* Computes the time of every stage, load[0..n_part), and plan->objective from the plan alone.
 * EINTERNAL: the plan is invalid. */
pst_status pst_tensor_evaluate(const pst_tensor_problem *problem, pst_tensor_plan *plan,
                               double *load);

/* A node of a stage in pst_tensor_pack, with the cost and the bytes of two variants. A missing
 * variant costs INFINITY. */
typedef struct {
    double cost[PST_TENSOR_WAYS], bytes[PST_TENSOR_WAYS];
} pst_tensor_item;
typedef struct {
    double cost, bytes; /* extra cost and saved bytes of the slower variant */
    uint32_t item;
} pst_tensor_swap;
typedef enum { PST_TENSOR_FITS, PST_TENSOR_NEVER, PST_TENSOR_UNKNOWN } pst_tensor_fit;
/* Chooses one of two variants for each of n nodes so that the sum of costs is at most `limit` and
 * the sum of bytes at most `memory`. swap: [n] scratch memory. way: [n] the choice, written only if
 * one exists; may be NULL. Returns FITS, NEVER (no choice exists), or UNKNOWN (the search stopped
 * undecided). */
pst_tensor_fit pst_tensor_pack(const pst_tensor_item *item, uint32_t n, double limit, double memory,
                               pst_tensor_swap *swap, uint8_t *way);

/* Limits of a search for a plan in which every stage takes at most `limit`. */
typedef struct {
    double limit;      /* seconds per micro-batch */
    uint64_t until_ns; /* time limit, on the monotonic clock */
} pst_tensor_range;
/* Searches for such a plan. list: downsets of the reversed graph, so that the last stages come
 * first. OK: *found is 1 and the plan is set, or *found is 0; *doubt 1: not found, but
 * pst_tensor_pack returned UNKNOWN during the search. BUSY: the time limit was reached. */
pst_status pst_tensor_search(const pst_tensor_problem *problem, const pst_downset_list *list,
                             const pst_tensor_range *range, int *found, int *doubt,
                             pst_tensor_plan *plan);
/* Returns the smallest time x devices of a node over all variants, in seconds. */
double pst_tensor_work(const pst_tensor_problem *problem, uint32_t node);
#endif
