/* Partition without a plan: graph + costs -> the cut of a layout. Cuts the operator list into
 * contiguous, non-empty chunks so that the largest modelled cost of a chunk is smallest. Exact, by
 * dynamic programming. */
#ifndef PST_PARTITION_BALANCE_BALANCE_H
#define PST_PARTITION_BALANCE_BALANCE_H
#include "partition/cost/costs.h"
#include "pipeline/layout/layout.h"
#include "pipeline/schedule/schedule.h"

/* n items in a row, to be cut into n_chunk. */
typedef struct {
    const uint64_t *cost;          /* [n] in any unit */
    const uint64_t *boundary_cost; /* [n] added to both sides of a cut before it; NULL: 0 */
    const uint64_t *crossing;      /* [n] bytes that cross a cut before it; NULL: 0 */
    const uint64_t *const *again;  /* [n_chunk][n] extra cost of the items in this chunk; NULL, for
                                      one chunk or all: none */
    const double *slow;            /* [n_chunk] factor on the cost of its items; NULL: 1 */
    uint32_t n, n_chunk;
} pst_balance_items;
/* chunk_of_item receives ascending chunk numbers. Among optimal cuts the one with the fewest
 * crossing bytes, then the earliest cuts. EINPUT when n < n_chunk. */
pst_status pst_balance_cut(const pst_balance_items *items, uint32_t *chunk_of_item);
/* Where durations of operators come from. */
typedef struct {
    const pst_costs *costs;
    const pst_chooser *predict; /* its member ns gives the durations of steps; NULL: from costs.
                                   Messages always use costs */
    const double *slow;         /* [ranks of the schedule] factor on durations there; NULL: 1 */
} pst_balance_times;
/* Cuts the graph into the schedule's chunks and fills the layout's cut, ranks of chunks and
 * recomputation. recompute: [n_chunk] pst_recompute, which costs time and goes into the layout;
 * NULL: none. EINPUT when there are more chunks than operators; then, and on ENOMEM, the layout may
 * have an empty cut. */
pst_status pst_balance_solve(const pst_graph *g, const pst_balance_times *times,
                             const pst_schedule *schedule, const uint8_t *recompute,
                             pst_layout *layout);
#endif
