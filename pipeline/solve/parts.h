/* The problem in terms of queues. Private to this component. A queue is one kind of pass (F, B or
 * W) of one chunk, with all micro-batches in order; its index is 3 * chunk + kind. All algorithms
 * run in two directions: 0 is forward in time; 1 is backward in time, with the last micro-batch
 * first, and with successors instead of predecessors. */
#ifndef PST_PIPELINE_SOLVE_PARTS_H
#define PST_PIPELINE_SOLVE_PARTS_H
#include "pipeline/solve/solve.h"

enum { SOLVE_F, SOLVE_B, SOLVE_W, SOLVE_KINDS };
#define SOLVE_NONE UINT32_MAX
#define SOLVE_NEVER UINT64_MAX

/* A constraint: the pass of the same micro-batch in `queue` must end at least `lag` ns before this
 * pass starts. queue SOLVE_NONE: no constraint. */
typedef struct {
    uint32_t queue;
    uint64_t lag;
} pst_solve_edge;

typedef struct {
    const pst_solve_problem *problem;
    uint32_t n_rank, n_queue, n_micro, per_rank; /* per_rank: number of queues per rank */
    size_t n_op;  /* number of passes; the index of (queue, micro) is queue * n_micro + micro */
    uint64_t *ns; /* [n_queue] duration of a pass */
    uint32_t *rank_of;            /* [n_queue] rank of each queue */
    uint32_t *queue_of;           /* [n_rank][per_rank] queues of each rank, ascending */
    uint32_t *place_of;           /* [n_queue] index of the queue among the queues of its rank */
    pst_solve_edge (*edge[2])[2]; /* [direction][n_queue] up to two constraints per queue */
    /* [direction][n_queue] additional memory that a pass needs when it starts */
    uint64_t *needed[2];
    /* [direction][n_queue] free memory with which all micro-batches in flight can be finished after
     * a pass of the queue has started */
    uint64_t *reserve[2];
    uint64_t *single_peak; /* [n_rank] peak memory of a single micro-batch */
    /* [direction][n_rank][per_rank] order of the queues of each rank for a single micro-batch */
    uint32_t *single_order[2];
    int64_t *change;       /* [n_queue] change of the memory in use by a pass, after its end */
    uint32_t *topological; /* [n_queue] the queues in topological order for one micro-batch */
    int hops;              /* 1: messages take time */
} pst_solver;

/* An order of passes and its start times. word[rank * length + k] is the queue of the k-th pass of
 * the rank (a word over the alphabet of queues); length: pst_solve_length. */
typedef struct {
    uint64_t makespan; /* SOLVE_NEVER: the order deadlocks */
    uint64_t *start;   /* [n_op] start time of each pass */
    uint16_t *word;    /* [n_rank][n_op / n_rank] */
} pst_solution;

static inline size_t pst_solve_length(const pst_solver *s) {
    return (size_t)s->per_rank * s->n_micro;
}

/* How list scheduling chooses the next pass. patience 0: a rank never waits while a pass is ready;
 * 4: a rank waits for any pass that could start before the first ready pass would end; 1 to 3:
 * between these. fixed_reserve 1: F always leaves `reserve` free, which may deadlock; 0: before
 * each pass the algorithm checks that all started micro-batches can be finished. */
typedef struct {
    uint32_t patience;
    int fixed_reserve;
} pst_solve_policy;

/* pipeline/solve/list.c: builds a solution pass by pass. The next pass is the one with the smallest
 * priority among the passes that could start before any could end. priority: [n_op]. In direction
 * 1, solution->start counts from the end; the word always is the forward order. */
typedef struct pst_solve_list pst_solve_list;
pst_status pst_solve_list_open(const pst_solver *s, pst_solve_list **list);
void pst_solve_list_close(pst_solve_list *list);
void pst_solve_list_run(pst_solve_list *list, int direction, const int64_t *priority,
                        pst_solve_policy policy, pst_solution *solution);
/* Computes the start times and the makespan of solution->word, with the rule of messages: a receive
 * is posted when the pass before its consumer starts. */
void pst_solve_replay(pst_solve_list *list, pst_solution *solution);

/* pipeline/solve/search.c: returns the best solution that the search finds; the caller frees
 * best->start and best->word. ENOMEM. */
pst_status pst_solve_search(const pst_solver *s, pst_solution *best, pst_solved *solved);
/* pipeline/solve/area.c: returns a lower bound of the makespan from the memory limit of a rank.
 * head: [direction][n_op] smallest possible time before the start and after the end of each
 * pass. */
uint64_t pst_solve_area(const pst_solver *s, uint32_t rank, uint64_t *const head[2]);
/* pipeline/solve/bound.c: computes a lower bound of the makespan, and tail[0..n_op), the smallest
 * possible time after the end of each pass. best: makespan of a known solution. ENOMEM. */
pst_status pst_solve_bound(const pst_solver *s, uint64_t best, uint64_t *bound, uint64_t *tail);
#endif
