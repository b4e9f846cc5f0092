/* Solved schedules: orders of F, B and W that are optimized for given durations of every chunk,
 * memory limits of every rank, and messages, with a lower bound of the makespan over all orders.
 *
 * The problem is a job shop: each rank runs one pass at a time; passes of a micro-batch follow each
 * other from chunk to chunk. All micro-batches are equal, so the k-th F (B, W) of a chunk can be
 * assigned to micro-batch k. Therefore micro-batch order, which bitwise equal gradients require,
 * costs nothing. An order is then, per rank, a word over F, B and W of its chunks, and a memory
 * limit is a limit on all prefixes of the word. */
#ifndef PST_PIPELINE_SOLVE_SOLVE_H
#define PST_PIPELINE_SOLVE_SOLVE_H
#include "pipeline/schedule/schedule.h"

/* maximum number of passes (chunks x micro-batches x 3), and of chunks of all ranks */
enum { PST_SOLVE_MOST_PASSES = 1 << 20, PST_SOLVE_MOST_CHUNKS = 21845 };

/* Memory of one micro-batch of a chunk, in any unit: from F to the end of B, from F to the end of
 * W, and from B to the end of W. */
typedef struct {
    uint64_t f_b, f_w, b_w;
} pst_held;
/* Durations in ns of a message between neighbouring chunks. */
typedef struct {
    uint64_t forward, backward;
} pst_hop_ns;

typedef struct {
    uint32_t n_rank, n_chunk, n_micro; /* the same number of chunks on every rank */
    const uint32_t *rank_of_chunk;
    const pst_pass_ns *ns; /* [n_chunk] durations of one micro-batch */
    /* [n_chunk] a message between chunks c and c + 1 (the last entry is not read); NULL: messages
     * take no time */
    const pst_hop_ns *hop;
    const pst_held *held; /* [n_chunk] memory of one micro-batch */
    /* [n_rank] maximum memory of a rank, in the unit of `held`; NULL: no limit */
    const uint64_t *limit;
    /* divides the budgets of the search and of the lower bound; 0: like 1 */
    uint32_t budget_divisor;
} pst_solve_problem;

typedef struct {
    uint64_t makespan_ns; /* end of the last pass */
    uint64_t bound_ns;    /* lower bound: no order ends earlier */
    /* the shortest named schedule of this placement that fits; "" if none does */
    char named[32];
    uint64_t named_ns; /* makespan of `named`; UINT64_MAX if no named schedule fits */
} pst_solved;

/* A placement of chunks on ranks: the placement of the schedule named `like`, with n_virtual chunks
 * per rank. */
typedef struct {
    const char *like;
    uint32_t n_virtual;
} pst_solve_placement;
enum { PST_SOLVE_CHUNKS = 4, PST_SOLVE_PLACEMENTS = PST_SOLVE_CHUNKS + 1 };
/* Budget divisors if several placements are tried: EACH for every placement, then BEST for the best
 * one. */
enum { PST_SOLVE_DIVISOR_EACH = 16, PST_SOLVE_DIVISOR_BEST = 2 };
/* Lists the placements with `chunks` chunks per rank (0: with 1 to PST_SOLVE_CHUNKS, fewest first;
 * V shape before round robin). Returns their number. */
uint32_t pst_solve_placements(uint32_t chunks, pst_solve_placement place[PST_SOLVE_PLACEMENTS]);
/* Returns 1 if a named schedule is for training and has this placement. */
int pst_solve_placement_has(const pst_solve_placement *place, const pst_schedule_row *row);
/* Computes a schedule called "solved" with separate B and W. It is never longer than the shortest
 * named schedule with the same placement that fits. The result is deterministic: a number of
 * decisions limits the search, not time. The caller frees *schedule with pst_schedule_close.
 * EINPUT: a rank does not have enough memory for one micro-batch; ENOMEM. */
pst_status pst_schedule_solve(const pst_solve_problem *problem, pst_schedule **schedule,
                              pst_solved *solved);
/* Sets peak[0..n_rank) to the peak memory of each rank. */
void pst_solve_peak(const pst_solve_problem *problem, const pst_schedule *schedule, uint64_t *peak);
/* Returns 1 if no rank exceeds its memory limit. */
int pst_solve_fits(const pst_solve_problem *problem, const pst_schedule *schedule);
#endif
