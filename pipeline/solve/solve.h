/* Solved schedules: an order of F, B and W made for the given durations of every chunk, the given
 * memory of every rank and the given messages, and a bound below which no order can come.
 *
 * The problem is a job shop: each rank runs one pass at a time; passes of a micro-batch follow each
 * other from chunk to chunk. All micro-batches are alike, so in any order the k-th F (B, W) of a
 * chunk may be called that of micro-batch k: nothing is lost by running them in micro-batch order,
 * which the bits of the gradients need anyhow. An order is then a word over F, B and W of each
 * chunk per rank, and a limit of memory is a limit on its prefixes. */
#ifndef PST_PIPELINE_SOLVE_SOLVE_H
#define PST_PIPELINE_SOLVE_SOLVE_H
#include "pipeline/schedule/schedule.h"

/* chunks x micro-batches x 3; chunks of all ranks */
enum { PST_SOLVE_MOST_PASSES = 1 << 20, PST_SOLVE_MOST_CHUNKS = 21845 };

/* What a micro-batch of a chunk holds, in any unit: from F to the end of B, from F to that of W,
 * from B to that of W. */
typedef struct {
    uint64_t f_b, f_w, b_w;
} pst_held;
typedef struct {
    uint64_t there, back;
} pst_hop_ns;

typedef struct {
    uint32_t n_rank, n_chunk, n_micro; /* as many chunks on every rank */
    const uint32_t *rank_of_chunk;
    const pst_pass_ns *ns; /* [n_chunk] of one micro-batch */
    /* [n_chunk] a message between c and c + 1 (of the last: not read); NULL: no time */
    const pst_hop_ns *hop;
    const pst_held *held;  /* [n_chunk] */
    const uint64_t *limit; /* [n_rank] most that a rank may hold; NULL: no limit */
    uint32_t thrift;       /* search and proof take so many times less than they may; 0: as 1 */
} pst_solve_problem;

typedef struct {
    uint64_t makespan_ns; /* end of the last pass, by the problem's durations */
    uint64_t bound_ns;    /* proven: no order can end earlier */
    /* shortest of the named schedules of this placement that fit; "" when none does */
    char named[32];
    uint64_t named_ns; /* its makespan; UINT64_MAX when none fits */
} pst_solved;

/* Ways in which chunks can lie on ranks: as those of the named schedule `like`. */
typedef struct {
    const char *like;
    uint32_t n_virtual;
} pst_solve_place;
enum { PST_SOLVE_CHUNKS = 4, PST_SOLVE_PLACES = PST_SOLVE_CHUNKS + 1 };
/* Thrift where there are several: for each of them, then for the best. */
enum { PST_SOLVE_THRIFT_EACH = 16, PST_SOLVE_THRIFT_BEST = 2 };
/* Those of so many chunks per rank (0: 1 to PST_SOLVE_CHUNKS, fewest first; there and back before
 * round); returns their number. */
uint32_t pst_solve_places(uint32_t chunks, pst_solve_place place[PST_SOLVE_PLACES]);
/* Whether a named schedule trains, and has its chunks there. */
int pst_solve_has(const pst_solve_place *place, const pst_schedule_row *row);
/* A checked schedule called "solved", W apart, never longer than the best named one of the same
 * placement that fits. Deterministic: the search is bounded by a count of decisions. EINPUT when a
 * rank cannot hold a single micro-batch. */
pst_status pst_schedule_solve(const pst_solve_problem *problem, pst_schedule **schedule,
                              pst_solved *solved);
/* Most that each rank holds at a time; peak: [n_rank]. */
void pst_solve_peak(const pst_solve_problem *problem, const pst_schedule *schedule, uint64_t *peak);
/* 1 when no rank holds more than its limit. */
int pst_solve_fits(const pst_solve_problem *problem, const pst_schedule *schedule);
#endif
