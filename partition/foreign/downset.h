/* Contiguous splits of a DAG of items over devices, so that the largest load is smallest. A split
 * is a chain of downsets (sets that contain all predecessors of their items); a part is the
 * difference of two consecutive ones. The method is that of Tarnawski et al., Efficient Algorithms
 * for Device Placement of DNN Graph Operators (NeurIPS 2020). It searches below a guess of the
 * answer, which rises until a plan is found; states above the guess are never visited. */
#ifndef PST_PARTITION_FOREIGN_DOWNSET_H
#define PST_PARTITION_FOREIGN_DOWNSET_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t from, to; /* items: `from` is in the same part as `to`, or in an earlier one */
} pst_downset_edge;

/* All downsets, or those of a window. Number 0 is empty, the last has all items; sizes ascend. */
typedef struct {
    uint32_t n;
    uint32_t *first;       /* [n + 1] */
    uint32_t *item, *next; /* for e in [first[d], first[d + 1]): d with item[e] added is next[e] */
    uint32_t *parent, *last; /* [n] d is parent[d] with the item last[d] added; 0 has none */
} pst_downset_list;
/* EINPUT for a cycle. More than `most`: OK with list->n == 0. */
pst_status pst_downset_list_open(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                 uint32_t most, pst_downset_list *list);
void pst_downset_list_close(pst_downset_list *list);
/* Only the downsets within a window of an order: an item comes after all items that are `width` or
 * more places before it. */
typedef struct {
    const uint32_t *order; /* [n_item] */
    uint32_t width, most;  /* most: as above */
} pst_downset_window;
pst_status pst_downset_list_near(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                 pst_downset_window window, pst_downset_list *list);
/* All, with *complete 1, or those in the widest window with at most `most`. A window of 1 allows
 * one order. */
pst_status pst_downset_list_choose(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                   uint32_t most, pst_downset_list *list, int *complete);
/* An order in which items come after their predecessors, branch by branch. EINPUT for a cycle. */
pst_status pst_downset_order(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                             uint32_t *order);

enum { PST_DOWNSET_KINDS = 8, PST_DOWNSET_ITEMS = 20000 };
/* With more downsets than this only those near one order of the items are searched, and the gap
 * bounds the loss. */
enum { PST_DOWNSET_MOST = 1 << 18 };

typedef struct {
    uint32_t count;    /* devices of this kind */
    uint32_t replicas; /* most devices of the kind that may share a part; 1: no replicas */
    double memory;     /* memory of one device, in units of size; INFINITY: no limit */
    int pays;          /* 1: a part here pays for the nets that it cuts */
} pst_downset_kind;

/* Load of a part on m devices of a kind: (times + costs of the nets that it cuts + exchange * (m -
 * 1) / m) / m. A part cuts a net if it has some of its pins, but not all. */
typedef struct {
    uint32_t n_item, n_edge, n_kind, n_net;
    pst_downset_edge *edge;
    double *time;        /* [n_kind][n_item], >= 0; INFINITY: not allowed on this kind */
    double *size;        /* [n_item] >= 0 */
    double *exchange;    /* [n_item] >= 0; what replicas of a part exchange */
    uint32_t *net_first; /* [n_net + 1] into pin: the items of a net, each once */
    uint32_t *pin;
    double *net_cost; /* [n_net] >= 0 */
    pst_downset_kind kind[PST_DOWNSET_KINDS];
} pst_downset_problem;
void pst_downset_problem_close(pst_downset_problem *problem);

typedef struct {
    uint32_t n_part;
    uint32_t *part_of;        /* [n_item] ascending along the edges */
    uint32_t *kind, *devices; /* [n_part] */
    double objective, lower_bound;
    uint32_t n_downset;
    int complete; /* all downsets were searched */
} pst_downset_plan;
/* The best split. It is proven (lower_bound equals objective) unless there are more than `most`
 * downsets or it took longer than `seconds`. If no split is possible, with all downsets searched:
 * OK with n_part 0. EINPUT: too many items; ENOMEM. */
pst_status pst_downset_solve(const pst_downset_problem *problem, uint32_t most, double seconds,
                             pst_downset_plan *plan);
void pst_downset_plan_close(pst_downset_plan *plan);

/* Lower bound of the largest load: work spread as if it could be cut anywhere, and the largest
 * item. weight: [n_kind] prices of a device's time that give this bound (pst_downset_work). */
double pst_downset_bound(const pst_downset_problem *problem, double *weight);
/* An item's work at these prices: on the cheapest kind. */
double pst_downset_work(const pst_downset_problem *problem, const double *weight, uint32_t item);

/* One search: the best split into parts with loads of at most `limit`; no part counts less than
 * `floor`. */
typedef struct {
    double floor, limit;
    uint64_t until_ns;    /* monotonic clock */
    const double *weight; /* from pst_downset_bound */
} pst_downset_range;
/* OK: *found says whether there is one, and plan has it. BUSY: time was over. */
pst_status pst_downset_search(const pst_downset_problem *problem, const pst_downset_list *list,
                              const pst_downset_range *range, int *found, pst_downset_plan *plan);
/* Which numbers of devices the search distinguishes: numbers of a kind within the same `grain` are
 * one state, and for the kind with stride 0 only the fewest devices are kept. */
typedef struct {
    uint32_t n_state, stride[PST_DOWNSET_KINDS], grain[PST_DOWNSET_KINDS];
    int exact; /* all grains are 1 */
} pst_downset_grid;
void pst_downset_grid_of(const pst_downset_problem *problem, uint32_t most, pst_downset_grid *grid);
/* The same for many devices: any split into such parts. With an exact grid, one is found if it
 * exists. */
pst_status pst_downset_fewest(const pst_downset_problem *problem, const pst_downset_list *list,
                              const pst_downset_range *range, const pst_downset_grid *grid,
                              int *found, pst_downset_plan *plan);
/* A smaller problem: its items are n blocks of items, in order. Close it also when it fails. */
pst_status pst_downset_blocks(const pst_downset_problem *problem, const uint32_t *block_of,
                              uint32_t n, pst_downset_problem *blocks);
#endif
