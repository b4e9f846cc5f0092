/* Solved schedules: an order of F, B and W optimized for given durations of every chunk, memory of
 * every rank and messages, with a lower bound on the makespan of all orders.
 *
 * The problem is a job shop: each rank runs one pass at a time; passes of a micro-batch follow each
 * other from chunk to chunk. All micro-batches are alike, so in any order the k-th F (B, W) of a
 * chunk may be called that of micro-batch k. So micro-batch order, which the same bits of gradients
 * require, costs nothing. An order is then, per rank, a word over F, B and W of its chunks, and a
 * memory limit is a limit on the prefixes of the word. */
#ifndef PST_PIPELINE_SOLVE_SOLVE_H
#define PST_PIPELINE_SOLVE_SOLVE_H
#include "pipeline/schedule/schedule.h"

/* chunks x micro-batches x 3; chunks of all ranks */
enum { PST_SOLVE_MOST_PASSES = 1 << 20, PST_SOLVE_MOST_CHUNKS = 21845 };

/* What a micro-batch of a chunk holds, in any unit: from F to the end of B, from F to the end of W,
 * from B to the end of W. */
typedef struct {
    uint64_t f_b, f_w, b_w;
} pst_held;
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
    const pst_held *held;    /* [n_chunk] */
    const uint64_t *limit;   /* [n_rank] the most that a rank may hold; NULL: no limit */
    uint32_t budget_divisor; /* divides the budgets of search and proof; 0: as 1 */
} pst_solve_problem;

typedef struct {
    uint64_t makespan_ns; /* end of the last pass, by the problem's durations */
    uint64_t bound_ns;    /* lower bound: no order ends earlier */
    /* the shortest named schedule of this placement that fits; "" if none does */
    char named[32];
    uint64_t named_ns; /* makespan of `named`; UINT64_MAX if no named schedule fits */
} pst_solved;

/* A placement of chunks on ranks: that of the named schedule `like`. */
typedef struct {
    const char *like;
    uint32_t n_virtual;
} pst_solve_placement;
enum { PST_SOLVE_CHUNKS = 4, PST_SOLVE_PLACEMENTS = PST_SOLVE_CHUNKS + 1 };
/* Budget divisors if several placements are tried: for each of them, then for the best. */
enum { PST_SOLVE_DIVISOR_EACH = 16, PST_SOLVE_DIVISOR_BEST = 2 };
/* The placements with this number of chunks per rank (0: 1 to PST_SOLVE_CHUNKS, fewest first; V
 * shape before round robin); returns how many. */
uint32_t pst_solve_placements(uint32_t chunks, pst_solve_placement place[PST_SOLVE_PLACEMENTS]);
/* Whether a named schedule is for training and has this placement. */
int pst_solve_placement_has(const pst_solve_placement *place, const pst_schedule_row *row);
/* A checked schedule called "solved", with W apart; never longer than the best named one of the
 * same placement that fits. Deterministic: the search is limited by a number of decisions, not by
 * time. EINPUT if a rank cannot hold a single micro-batch. */
pst_status pst_schedule_solve(const pst_solve_problem *problem, pst_schedule **schedule,
                              pst_solved *solved);
/* The peak of what each rank holds; peak: [n_rank]. */
void pst_solve_peak(const pst_solve_problem *problem, const pst_schedule *schedule, uint64_t *peak);
/* 1: no rank holds more than its limit. */
int pst_solve_fits(const pst_solve_problem *problem, const pst_schedule *schedule);
#endif
