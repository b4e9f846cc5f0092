/* Partition: graph + costs -> plan. The first solver cuts the operator list into contiguous chunks
 * so that the largest chunk's modelled cost is smallest: exact, by dynamic programming, never an
 * empty chunk. */
#ifndef PST_PARTITION_BALANCE_BALANCE_H
#define PST_PARTITION_BALANCE_BALANCE_H
#include "partition/cost/costs.h"
#include "pipeline/layout/plan.h"
#include "pipeline/schedule/schedule.h"

/* cost[i] of item i (any unit), and again[c][i] as well in chunk c (again and again[c] may be
 * NULL); boundary_cost[i] (may be NULL) is added to both sides of a cut before item i.
 * chunk_of_item receives ascending chunk numbers. Among optimal cuts the one with the fewest
 * crossing bytes (crossing[i] bytes cross a cut before item i, may be NULL), then the earliest
 * cuts. slow[c] (may be NULL): items of chunk c cost so many times as much. EINPUT when n <
 * n_chunk. */
pst_status pst_partition_cut(const uint64_t *cost, const uint64_t *const *again,
                             const uint64_t *boundary_cost, const uint64_t *crossing,
                             const double *slow, uint32_t n, uint32_t n_chunk,
                             uint32_t *chunk_of_item);
/* Cuts the graph into the schedule's chunks, on the ranks where it has them. predict: its ns say
 * how long steps take (NULL: costs do, as of messages in any case). slow: [ranks of the schedule]
 * operators take so many times as long there; NULL: 1. recompute: [n_chunk] pst_recompute, which
 * costs time and goes into the plan; NULL: none. EINPUT when there are more chunks than
 * operators. */
pst_status pst_partition_solve(const pst_graph *g, const pst_costs *costs,
                               const pst_chooser *predict, const pst_schedule *schedule,
                               const double *slow, const uint8_t *recompute, pst_plan **plan);
#endif
