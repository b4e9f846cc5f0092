/* Cuts the operators of a graph into contiguous, non-empty chunks so that the largest cost of a
 * chunk is smallest. Exact, by dynamic programming. Used where no plan gives the cut. */
#ifndef PST_PARTITION_BALANCE_BALANCE_H
#define PST_PARTITION_BALANCE_BALANCE_H
#include "partition/cost/costs.h"
#include "pipeline/layout/layout.h"
#include "pipeline/schedule/schedule.h"

/* A sequence of n items that is cut into n_chunk chunks. */
typedef struct {
    const uint64_t *cost; /* [n] cost of each item, in any unit */
    /* [n] cost that a cut before the item adds to the chunks on both sides; NULL: 0 */
    const uint64_t *boundary_cost;
    const uint64_t *crossing; /* [n] bytes that cross a cut before the item; NULL: 0 */
    /* [n_chunk][n] extra cost of each item in that chunk (recomputation); NULL, for one chunk or
     * for all chunks: 0 */
    const uint64_t *const *again;
    const double *slow; /* [n_chunk] factor on the cost of the chunk's items; NULL: 1 */
    uint32_t n, n_chunk;
} pst_balance_items;
/* Sets chunk_of_item[0..n) to ascending chunk numbers. If several cuts are optimal, chooses the cut
 * with the fewest crossing bytes, then the cut with the earliest borders. EINPUT if n < n_chunk or
 * n_chunk is 0; ENOMEM. */
pst_status pst_balance_cut(const pst_balance_items *items, uint32_t *chunk_of_item);
/* Durations of operators. */
typedef struct {
    const pst_costs *costs;
    /* predict->ns gives the durations of steps; NULL: `costs` gives them. Durations of messages
     * always come from `costs` */
    const pst_chooser *predict;
    const double *slow; /* [ranks of the schedule] factor on the durations of each rank; NULL: 1 */
} pst_balance_times;
/* Cuts the graph into as many chunks as the schedule has, and sets the cut, the ranks of chunks and
 * the recomputation of *layout. recompute: [n_chunk]; the time of recomputation
 * counts, and is copied to the layout; NULL: no recomputation. EINPUT if there are more
 * chunks than operators. After EINPUT or ENOMEM the layout may have an empty cut. */
pst_status pst_balance_solve(const pst_graph *g, const pst_balance_times *times,
                             const pst_schedule *schedule, const pst_recompute_way *recompute,
                             pst_layout *layout);
#endif
