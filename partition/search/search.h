/* Search: from the costs of operators on a cluster to the layout with the shortest step. Exact for
 * the surrogate objective (below); the best candidates are simulated with the instructions of their
 * real schedules.
 *
 * Surrogate: a lower bound of the simulated step of a layout and its cut. For every stage: the
 * earliest time at which the first micro-batch can reach it, all its work, and the backward path of
 * the last micro-batch (for schedules that end with it); plus the least flush. Layouts are
 * evaluated in the order of the bound of their best cut, and the search ends when no remaining
 * bound is below the best simulated step. The lower bound that is printed is the least bound of a
 * layout that was not refuted; gap = step / bound - 1. */
#ifndef PST_PARTITION_SEARCH_SEARCH_H
#define PST_PARTITION_SEARCH_SEARCH_H
#include "partition/cost/costs.h"
#include "pipeline/layout/layout.h"

/* Values to try, ascending; one value: the user has fixed it. */
enum { PST_SEARCH_VALUES = 32, PST_SEARCH_SCHEDULES = 16 };
typedef struct {
    uint32_t n, value[PST_SEARCH_VALUES];
} pst_search_values;

/* A layout, cut into operators of the whole model, and what the search predicts for it. */
typedef struct {
    pst_layout layout; /* its micros are 0 until the prediction distributes them by speed */
    uint64_t step_ns, flush_ns, bound_ns; /* bound_ns: lower bound for this cut. step_ns is one too
                                             if the layout does not fit and is not exact */
    uint64_t alone_ns;                    /* bound_ns as if there were no other replicas */
    uint64_t busy_ns;     /* passes of the stage that computes longest, all micro-batches; */
    uint64_t exchange_ns; /* tensor exchanges of that stage, */
    uint64_t again_ns;    /* and its recomputation */
    uint64_t message_ns;  /* how much longer messages between stages make the step */
    uint64_t reduce_ns;   /* how much longer gradient sums and all-gathers of weights make it */
    double bubble;
    uint64_t *peak_bytes; /* [pipeline] */
    uint32_t *in_flight;  /* [pipeline] most micro-batches whose F is done and B is not, summed over
                             the chunks of the stage */
    /* 1: `verify` found its own order; schedule says where the chunks lie */
    int solved;
    /* 1: `verify` has set these predictions from the real instruction lists and memory maps */
    int exact;
} pst_candidate;

/* The key of a cost table. untied: 1: parameters that several operators use are not split, because
 * their stages have different numbers of tensor ranks. */
typedef struct {
    uint32_t kind, tensor, sequence, untied, micro_batch;
} pst_search_key;

typedef struct {
    const pst_cluster *cluster;
    uint32_t n_item, batch; /* samples of a step */
    uint32_t parts; /* accumulators of a gradient over all replicas (parallel.reproducible); 0: one
                       per replica */
    uint32_t weight_bytes, state_bytes, grad_bytes; /* per element of a parameter; states (master
                                                       weights included) are sharded with zero 1 and
                                                       2, gradients with 2 */
    /* most bytes that a rank may use, besides the limit of its device; 0: no limit */
    uint64_t memory;
    /* chunks: 0: the schedule's own number */
    pst_search_values pipeline, tensor, data, micro_batch, chunks, zero, sequence;
    uint32_t n_degree;
    const uint32_t *degree; /* [n_degree] tensor ranks of each stage, if the user gives different
                               ones: pipeline is then n_degree and tensor the largest */
    uint32_t n_schedule;
    const char *schedule[PST_SEARCH_SCHEDULES];
    /* 1: allowed; if several are, each chunk has its own */
    uint8_t recompute[PST_RECOMPUTE_COUNT];
    int all_devices; /* 1: pipeline x data x tensor must be all devices of the cluster, or a number
                        in fewer; 0: any number */
    pst_search_values fewer;
    int tensor_across_nodes; /* 1: tensor ranks may lie on several nodes */
    const uint32_t *micros;  /* [the only value of data] micro-batches of each replica, if the user
                                gives them; NULL: by speed */
    /* The costs on a kind of device. The table belongs to the callee and stays valid during the
     * search. EINPUT: infeasible (for example too few heads), and skipped. Called once per
     * combination. */
    pst_status (*table)(void *arg, const pst_search_key *key, const pst_cost_table **table);
    /* Replaces predictions by those of the real instruction lists and memory maps, and sets exact.
     * NULL: none. */
    pst_status (*verify)(void *arg, pst_candidate *candidate);
    void *arg;
    /* 1: `verify` may find a shorter order than the schedule's: several rows are verified */
    int reorders;
    int any;             /* 1: the first layout of each row that fits is enough */
    double time_limit_s; /* at the limit the result is the best so far, with its gap; 0: no limit */
} pst_search_problem;

/* The best layout with these degrees. */
typedef struct {
    uint32_t pipeline, tensor, data;
    uint32_t *before; /* as in best; owned by the row */
    int fits;         /* 0: none fits; best is then the one that exceeds its memory least */
    uint64_t excess;  /* bytes over, on stage `stage` */
    uint32_t stage;
    pst_candidate *best; /* NULL: none is possible; why says so */
    char why[160]; /* why there is no layout, or why it is not the best: "4.1 GiB over on stage 0: 2
                      micro-batches in flight", "inter-node all-reduce 38% of the step"; "" for the
                      best */
} pst_search_row;

typedef struct {
    pst_candidate *best; /* NULL: nothing fits */
    uint64_t bound_ns;   /* lower bound of the step of all layouts, by this cost model */
    double gap;
    int timed_out;
    uint32_t n_row;
    pst_search_row *row; /* sorted by step time; rows where nothing fits come last */
    uint64_t n_bounded;  /* candidates (without a cut) that were listed, each with a lower bound */
    uint64_t n_layout, n_simulated, n_verified; /* how many layouts were evaluated, simulated,
                                                   prepared */
} pst_search_result;

/* Deterministic except for the time limit. EINPUT: the values contradict the cluster; ENOMEM. A
 * result in which nothing fits is OK. One thread. */
pst_status pst_search(const pst_search_problem *problem, pst_search_result **result);
void pst_search_result_close(pst_search_result *result);
/* For a row where nothing fits: takes a copy of a verified layout with the row's degrees, and why
 * it does not fit, if it exceeds its memory less than the row's own. ENOMEM. */
pst_status pst_search_keep_nearest(const pst_search_problem *problem, pst_search_row *row,
                                   const pst_candidate *candidate);
void pst_candidate_close(pst_candidate *candidate);
pst_status pst_candidate_copy(const pst_candidate *from, pst_candidate **candidate);
#endif
