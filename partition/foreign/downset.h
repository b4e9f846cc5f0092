/* Contiguous splits of a DAG of items over devices, so that the largest load is smallest. A downset
 * is a set of items that contains all predecessors of its items. A split is a chain of downsets; a
 * part is the difference of two consecutive downsets. Method: Tarnawski et al., Efficient
 * Algorithms for Device Placement of DNN Graph Operators (NeurIPS 2020). The search only visits
 * states with loads below a guess of the optimum, and increases the guess until it finds a plan. */
#ifndef PST_PARTITION_FOREIGN_DOWNSET_H
#define PST_PARTITION_FOREIGN_DOWNSET_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t from, to; /* items: `from` must be in the same part as `to`, or in an earlier part */
} pst_downset_edge;

/* The downsets of a graph (all, or those of a window), by ascending size: downset 0 is empty, the
 * last one has all items. */
typedef struct {
    uint32_t n;
    uint32_t *first; /* [n + 1] see next */
    /* for each e in [first[d], first[d + 1]): downset d plus item[e] is downset next[e] */
    uint32_t *item, *next;
    /* [n] downset d is downset parent[d] plus item last[d]; unused for d = 0 */
    uint32_t *parent, *last;
} pst_downset_list;
/* Lists all downsets of a graph. If there are more than `most`: OK with list->n 0. The caller
 * closes the list. EINPUT if the graph has a cycle; ENOMEM. */
pst_status pst_downset_list_open(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                 uint32_t most, pst_downset_list *list);
void pst_downset_list_close(pst_downset_list *list);
/* A window of an order of the items: only downsets in which each item comes with all items that are
 * `width` or more places before it in the order. */
typedef struct {
    const uint32_t *order; /* [n_item] */
    uint32_t width, most;  /* most: maximum number of downsets */
} pst_downset_window;
pst_status pst_downset_list_near(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                 pst_downset_window window, pst_downset_list *list);
/* Lists all downsets and sets *complete to 1, or, if there are more than `most`, lists those of the
 * widest window with at most `most` and sets *complete to 0. A window of width 1 allows one order
 * only. */
pst_status pst_downset_list_choose(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                   uint32_t most, pst_downset_list *list, int *complete);
/* Sets order[0..n_item) to a topological order of the items, branch by branch. EINPUT if the graph
 * has a cycle. */
pst_status pst_downset_order(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                             uint32_t *order);

enum { PST_DOWNSET_KINDS = 8, PST_DOWNSET_ITEMS = 20000 };
/* If a graph has more downsets than this, the search only visits those near one order of the items;
 * the gap to the lower bound then limits the loss. */
enum { PST_DOWNSET_MOST = 1 << 18 };

typedef struct {
    uint32_t count; /* devices of this kind */
    /* maximum number of devices of the kind that may replicate a part; 1: no replicas */
    uint32_t replicas;
    /* memory of one device, in the unit of pst_downset_problem.size; INFINITY: no limit */
    double memory;
    int pays; /* 1: the costs of cut nets count in the load of a part on this kind */
} pst_downset_kind;

/* A graph and the devices. The load of a part on m devices of a kind is (sum of times + costs of
 * the nets that the part cuts + sum of exchange * (m - 1) / m) / m. A net is a set of items (pins);
 * a part cuts a net if it has some of the pins, but not all. */
typedef struct {
    uint32_t n_item, n_edge, n_kind, n_net;
    pst_downset_edge *edge;
    double *time;     /* [n_kind][n_item], >= 0; INFINITY: not allowed on this kind */
    double *size;     /* [n_item] memory of each item, >= 0 */
    double *exchange; /* [n_item] time to exchange the item's parameters among replicas, >= 0 */
    /* [n_net + 1] net i has the items pin[net_first[i]] to pin[net_first[i + 1] - 1], each once */
    uint32_t *net_first;
    uint32_t *pin;
    double *net_cost; /* [n_net] >= 0 */
    pst_downset_kind kind[PST_DOWNSET_KINDS];
} pst_downset_problem;
void pst_downset_problem_close(pst_downset_problem *problem);

typedef struct {
    uint32_t n_part;
    uint32_t *part_of;        /* [n_item] part of each item; never descends along an edge */
    uint32_t *kind, *devices; /* [n_part] kind and number of devices of each part */
    double objective, lower_bound;
    uint32_t n_downset;
    int complete; /* 1: all downsets were searched */
} pst_downset_plan;
/* Finds the best split. The split is proven optimal (lower_bound equals objective) unless there are
 * more than `most` downsets or the search took longer than `seconds`. If all downsets were searched
 * and no split is feasible: OK with n_part 0. The caller frees the plan with
 * pst_downset_plan_close. EINPUT: too many items; ENOMEM. */
pst_status pst_downset_solve(const pst_downset_problem *problem, uint32_t most, double seconds,
                             pst_downset_plan *plan);
void pst_downset_plan_close(pst_downset_plan *plan);

/* Returns a lower bound of the largest load: the larger of the load if the work could be divided
 * arbitrarily, and the largest item. Sets weight[0..n_kind) to the prices of device time that give
 * this bound, for pst_downset_work. */
double pst_downset_bound(const pst_downset_problem *problem, double *weight);
/* Returns the cost of an item's time at these prices, on the kind of device where it is lowest. */
double pst_downset_work(const pst_downset_problem *problem, const double *weight, uint32_t item);

/* Limits of one search for a split into parts with loads of at most `limit`. Loads below `floor`
 * count as `floor`. */
typedef struct {
    double floor, limit;
    uint64_t until_ns;    /* time limit, on the monotonic clock */
    const double *weight; /* from pst_downset_bound */
} pst_downset_range;
/* Searches for the best split within `range`. OK: *found is 1 and the plan is set, or *found is 0.
 * BUSY: the time limit was reached. */
pst_status pst_downset_search(const pst_downset_problem *problem, const pst_downset_list *list,
                              const pst_downset_range *range, int *found, pst_downset_plan *plan);
/* The numbers of used devices that the search distinguishes. Numbers of a kind within the same
 * interval of `grain` devices are one state. For the kind with stride 0, each state keeps the
 * smallest number only. */
typedef struct {
    uint32_t n_state, stride[PST_DOWNSET_KINDS], grain[PST_DOWNSET_KINDS];
    int exact; /* all grains are 1 */
} pst_downset_grid;
void pst_downset_grid_of(const pst_downset_problem *problem, uint32_t most, pst_downset_grid *grid);
/* Like pst_downset_search, but for many devices: finds any split within `range`, not the best one.
 * With an exact grid, a split is found if one exists. */
pst_status pst_downset_fewest(const pst_downset_problem *problem, const pst_downset_list *list,
                              const pst_downset_range *range, const pst_downset_grid *grid,
                              int *found, pst_downset_plan *plan);
/* Builds a smaller problem with n items, each of which is a block of items of `problem`: item i
 * goes to block block_of[i], and blocks are in topological order. The caller closes *blocks, also
 * after a failure. */
pst_status pst_downset_blocks(const pst_downset_problem *problem, const uint32_t *block_of,
                              uint32_t n, pst_downset_problem *blocks);
#endif
