/* Search: from what operators cost on a cluster to the layout with the shortest step. Exact for the
 * surrogate objective (below); the best candidates are scored by the simulator that runs their real
 * schedules' instructions.
 *
 * Surrogate: of a layout and its cut, a bound below which no simulated step of it can come: for
 * every stage, the time in which the first micro-batch can reach it, all its work, and the way back
 * of what is last (of schedules that end with it); plus the least that the flush takes. Layouts are
 * gone through in the order of the bound of their best cut, and the search ends when no bound left
 * is below the best simulated step: what is printed as lower bound is the least of the bounds that
 * were not refuted, gap = step / bound - 1. */
#ifndef PST_PARTITION_SEARCH_SEARCH_H
#define PST_PARTITION_SEARCH_SEARCH_H
#include "partition/cost/costs.h"
#include "pipeline/layout/layout.h"

/* Values that may be tried, ascending; one: the user has fixed it. Schedules, at most. */
enum { PST_CHOICES = 32, PST_SEARCH_SCHEDULES = 16 };
typedef struct {
    uint32_t n, value[PST_CHOICES];
} pst_choices;

/* A layout, cut into operators of the whole model, and what the search predicts of it. */
typedef struct {
    pst_layout layout;                    /* its micros are 0 until it is scored, which shares
                                             them out by speed */
    uint64_t step_ns, flush_ns, bound_ns; /* bound_ns: no step of this cut is shorter. Of
                                             what does not fit and is not exact, step_ns is such
                                             a bound, too */
    uint64_t alone_ns;    /* the search's bound_ns as if there were no other replicas */
    uint64_t busy_ns;     /* passes of the stage that computes longest, all micro-batches, */
    uint64_t exchange_ns; /* of which tensor exchanges, */
    uint64_t again_ns;    /* and recomputation */
    uint64_t message_ns;  /* by how much messages between stages make the step longer */
    uint64_t reduce_ns;   /* by how much replica sums and the transfer of new weights do */
    double bubble;
    uint64_t *peak_bytes; /* [pipeline] */
    uint32_t *in_flight;  /* [pipeline] most micro-batches, of all chunks of the stage added up,
                             whose F is done and B is not */
    /* 1: `verify` found an order of its own; schedule says where the chunks lie */
    int solved;
    /* 1: `verify` has set these predictions from the real lists and memory maps */
    int exact;
} pst_candidate;

/* What a cost table is of. untied: 1: parameters that several operators use are whole on every
 * tensor rank, since stages of different numbers of them have these. */
typedef struct {
    uint32_t kind, tensor, sequence, untied, micro_batch;
} pst_search_key;

typedef struct {
    const pst_cluster *cluster;
    uint32_t n_item, batch;                         /* samples of a step */
    uint32_t weight_bytes, state_bytes, grad_bytes; /* per element of a parameter; states (masters
                                                       included) are shared out with zero 1 and 2,
                                                       gradients with 2 */
    /* bytes that a rank may use at most, besides what its device has; 0: no limit */
    uint64_t memory;
    /* chunks: 0 is "as the schedule has them" */
    pst_choices pipeline, tensor, data, micro_batch, chunks, zero, sequence;
    uint32_t n_degree;
    const uint32_t *degree; /* [n_degree] tensor ranks of each stage, where they are given and
                               differ: pipeline is n_degree then, and tensor the most. 0, NULL */
    uint32_t n_schedule;
    const char *schedule[PST_SEARCH_SCHEDULES];
    /* 1: may be used; if more than one, each chunk has its own */
    uint8_t recompute[PST_RECOMPUTE_COUNT];
    int all_devices; /* 1: pipeline x data x tensor has to be all devices of the cluster, or a
                        number in fewer; 0: any number */
    pst_choices fewer;
    int tensor_across_nodes; /* 1: tensor ranks may lie on several nodes */
    const uint32_t *micros;  /* [the one data choice] the replicas' micro-batches as the user wants
                                them; NULL: by speed */
    /* Costs for a kind of device. It stays the callee's and valid through the search. EINPUT: this
     * cannot be had (too few heads): passed over. Called once for each combination. */
    pst_status (*table)(void *arg, const pst_search_key *key, const pst_cost_table **table);
    /* Replaces predictions by those of the real lists and memory maps, and sets exact.
     * NULL: none. */
    pst_status (*verify)(void *arg, pst_candidate *candidate);
    void *arg;
    /* 1: `verify` may find a shorter order than the schedule's: several are verified */
    int reorders;
    int any;             /* 1: of each row the first layout that fits will do */
    double time_limit_s; /* then the best so far, with its gap; 0: none */
} pst_search_problem;

/* The best layout with these degrees. */
typedef struct {
    uint32_t pipeline, tensor, data;
    uint32_t *before; /* as best's; the row's own */
    int fits;         /* 0: none did; best is then the one that came nearest */
    uint64_t excess;  /* bytes over, on stage `stage` */
    uint32_t stage;
    pst_candidate *best; /* NULL where none is possible; why says so */
    char why[160]; /* why not (no layout), or why it loses against the best: "4.1 GiB over on stage
                      0: 2 more micro-batches in flight", "inter-node all-reduce 38% of the step";
                      "" for the best */
} pst_search_row;

typedef struct {
    pst_candidate *best; /* NULL: nothing fits */
    uint64_t bound_ns;   /* no layout that may be tried has a shorter step, by this cost model */
    double gap;
    int timed_out;
    uint32_t n_row;
    pst_search_row *row;                        /* by step time, those that do not fit behind */
    uint64_t n_layout, n_simulated, n_verified; /* how many were evaluated, simulated, prepared */
} pst_search_result;

/* Deterministic but for the time limit. EINPUT: contradictions between choices and cluster; ENOMEM.
 * A result in which nothing fits is OK. One thread. */
pst_status pst_search(const pst_search_problem *problem, pst_search_result **result);
void pst_search_result_close(pst_search_result *result);
/* A row that fits nothing takes a copy of a verified layout of its degrees, with why it does not
 * fit, if that is nearer than its own. ENOMEM. */
pst_status pst_search_nearer(const pst_search_problem *problem, pst_search_row *row,
                             const pst_candidate *candidate);
void pst_candidate_close(pst_candidate *candidate);
pst_status pst_candidate_copy(const pst_candidate *from, pst_candidate **candidate);
#endif
