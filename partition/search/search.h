/* Searches for the layout with the shortest step, given the costs of operators on a cluster. The
 * search is exact for the surrogate objective (below); the best candidates are simulated with the
 * instruction lists of their schedules.
 *
 * Surrogate: a lower bound of the simulated step of a layout and its cut. It is the maximum over
 * all stages of: the earliest time at which the first micro-batch can reach the stage, the work of
 * the stage, and the backward path of the last micro-batch (for schedules that end with it), plus
 * the shortest possible flush. Layouts are evaluated in the order of the lower bound of their best
 * cut; the search ends when no remaining lower bound is below the best simulated step. The printed
 * lower bound is the smallest lower bound of the layouts that were not excluded; gap = step / lower
 * bound - 1. */
#ifndef PST_PARTITION_SEARCH_SEARCH_H
#define PST_PARTITION_SEARCH_SEARCH_H
#include "partition/cost/costs.h"
#include "pipeline/layout/layout.h"

/* Allowed values of a parameter of the search, ascending; a single value is fixed by the user. */
enum { PST_SEARCH_VALUES = 128, PST_SEARCH_SCHEDULES = 16 };
typedef struct {
    uint32_t n, value[PST_SEARCH_VALUES];
} pst_search_values;

/* A layout, with a cut of the operators of the whole model, and the predictions for it. */
typedef struct {
    /* layout.micros are 0 until the prediction distributes micro-batches by speed */
    pst_layout layout;
    /* bound_ns: lower bound of the step for this cut. step_ns is only a lower bound, too, if the
     * layout does not fit and `exact` is 0 */
    uint64_t step_ns, flush_ns, bound_ns;
    uint64_t alone_ns;    /* bound_ns without the communication between replicas */
    uint64_t busy_ns;     /* time of all passes of the stage that computes longest */
    uint64_t exchange_ns; /* time of the collectives of the tensor ranks of that stage */
    uint64_t again_ns;    /* time of the recomputation of that stage */
    uint64_t message_ns;  /* time by which messages between stages make the step longer */
    /* time by which gradient sums and all-gathers of weights make the step longer */
    uint64_t reduce_ns;
    double bubble;        /* idle share, 0 to 1, of the rank with the longest span */
    uint64_t *peak_bytes; /* [pipeline] peak memory of the largest rank of each stage */
    /* [pipeline] peak number of micro-batches with F done and B not done, summed over the chunks of
     * the stage */
    uint32_t *in_flight;
    /* 1: `verify` replaced the order of passes by a solved one; the schedule of the layout only
     * gives the ranks of the chunks */
    int solved;
    uint32_t near; /* pst_job.near, once `exact` */
    /* 1: `verify` has computed the predictions from the compiled instruction lists and memory
     * maps */
    int exact;
} pst_candidate;

/* The key of a cost table. untied 1: parameters that several operators use are not split among
 * tensor ranks, because stages have different numbers of tensor ranks. */
typedef struct {
    uint32_t kind, tensor, sequence, untied, micro_batch;
} pst_search_key;

typedef struct {
    const pst_cluster *cluster;
    /* the program whose exchange between replicas is modelled; NULL: penstock */
    const pst_costs_program *program;
    uint32_t n_item, batch; /* operators of the model; samples per step */
    /* samples of the smallest step, in which each replica has a micro-batch as well; 0: batch */
    uint32_t least_batch;
    /* number of accumulators of each gradient over all replicas (parallel.reproducible); 0: one per
     * replica */
    uint32_t parts;
    /* bytes per element of a parameter. States (master weights included) are sharded with zero 1
     * and 2, gradients with zero 2 */
    uint32_t weight_bytes, state_bytes, grad_bytes;
    /* least bytes per element that a replica sends of a gradient to the owner: fewer than
     * grad_bytes with a codec; 0: grad_bytes. The same of a weight that its owner sends; 0:
     * weight_bytes */
    double sum_bytes, change_bytes;
    /* 1: with zero 0 and 1 the replicas of a node may add their gradients first (pst_job.near) */
    int two_level;
    /* share of the steps in which replicas exchange anything (islands); 0: all */
    double sum_share;
    /* second limit of the bytes per rank, next to the device's memory; 0: no such limit */
    uint64_t memory;
    /* chunks: per rank; 0: the number that the schedule needs */
    pst_search_values pipeline, tensor, data, micro_batch, chunks, zero, sequence;
    uint32_t n_degree;
    /* [n_degree] tensor ranks of each stage, if the user gives different numbers; the only value of
     * pipeline is then n_degree, and that of tensor the largest degree */
    const uint32_t *degree;
    uint32_t n_schedule;
    const char *schedule[PST_SEARCH_SCHEDULES];
    /* [mode] 1: allowed; if several modes are allowed, the search chooses one per chunk */
    uint8_t recompute[PST_RECOMPUTE_COUNT];
    /* with PST_RECOMPUTE_LAYERS: number of layers that every chunk recomputes; 0: as few as its
     * memory asks for */
    uint32_t layers;
    /* 1: the number of ranks must be the number of devices of the cluster, or a value of `fewer`;
     * 0: any number of ranks */
    int all_devices;
    pst_search_values fewer;
    uint32_t capable; /* the most ranks, where other devices lack the precision; 0: no limit */
    int tensor_across_nodes; /* 1: a tensor group may extend over several nodes */
    /* [data] micro-batches of each replica, if the user gives them; data then has one value. NULL:
     * distributed by speed */
    const uint32_t *micros;
    /* Returns the cost table of a key; called once per key. The callee owns the table, which must
     * stay valid during the search. EINPUT: the combination is infeasible (for example too few
     * heads) and is skipped. */
    pst_status (*table)(void *arg, const pst_search_key *key, const pst_cost_table **table);
    /* Replaces the predictions of a candidate by those of compiled instruction lists and memory
     * maps, and sets `exact`. NULL: candidates are not verified. */
    pst_status (*verify)(void *arg, pst_candidate *candidate);
    /* Returns about how many seconds `verify` takes; the search keeps them free at the end of its
     * time limit. NULL: it takes none. */
    double (*verify_s)(const void *arg, const pst_candidate *candidate);
    void *arg;
    /* 1: `verify` may find an order of passes that is shorter than the schedule's; therefore
     * several of the best candidates are verified, not only the first */
    int reorders;
    int any; /* 1: stop each row at its first layout that fits */
    /* seconds after which the result is the best layout so far, with its gap; 0: no limit */
    double time_limit_s;
} pst_search_problem;

/* A row of the result: the best layout with these degrees. */
typedef struct {
    uint32_t pipeline, tensor, data;
    uint32_t *before; /* tensor_before of pst_grid, or NULL; owned by the row */
    int fits;         /* 0: no layout fits; best is then the layout that exceeds the memory least */
    uint64_t excess;  /* bytes over the memory of stage `stage`, if nothing fits */
    uint32_t stage;
    pst_candidate *best; /* NULL: no layout is feasible; `why` has the reason */
    /* reason why there is no layout, or why it is not the best one: "4.1 GiB over the memory of
     * stage 0: 2 micro-batches in flight"; "" for the best layout */
    char why[160];
} pst_search_row;

typedef struct {
    pst_candidate *best; /* NULL: no layout fits */
    /* lower bound of the step, under the cost model, over all layouts on the orders of devices that
     * are searched; with one tensor degree, unless the best has several */
    uint64_t bound_ns;
    /* the same where stages have different tensor degrees, if that is lower: few of these are
     * evaluated; 0: it is not lower */
    uint64_t unequal_ns;
    double gap;    /* best->step_ns / bound_ns - 1 */
    int timed_out; /* 1: the time limit was reached */
    uint32_t n_row;
    pst_search_row *row; /* [n_row] sorted by step; rows without a layout that fits come last */
    /* number of candidates (without a cut) for which a lower bound was computed */
    uint64_t n_bounded;
    /* numbers of layouts that were evaluated, simulated, and compiled */
    uint64_t n_layout, n_simulated, n_verified;
} pst_search_result;

/* Runs the search. The result is deterministic unless the time limit is reached. The caller frees
 * *result with pst_search_result_close. A result without a layout that fits is OK. EINPUT: the
 * values contradict the cluster; ENOMEM. Uses one thread. */
pst_status pst_search(const pst_search_problem *problem, pst_search_result **result);
void pst_search_result_close(pst_search_result *result);
/* For a row without a layout that fits: replaces row->best by a copy of a verified layout with the
 * same degrees, and sets row->why, if that layout exceeds the memory less. ENOMEM. */
pst_status pst_search_keep_nearest(const pst_search_problem *problem, pst_search_row *row,
                                   const pst_candidate *candidate);
void pst_candidate_close(pst_candidate *candidate);
pst_status pst_candidate_copy(const pst_candidate *from, pst_candidate **candidate);
#endif
