/* Private to this component: a problem as queues. A queue is one kind of pass (F, B or W) of one
 * chunk, with its micro-batches in order; its index is 3 * chunk + kind. Everything works in two
 * directions: 0 forwards in time, 1 backwards, where the last micro-batch comes first and
 * successors take the place of predecessors. */
#ifndef PST_PIPELINE_SOLVE_PARTS_H
#define PST_PIPELINE_SOLVE_PARTS_H
#include "pipeline/solve/solve.h"

enum { SOLVE_F, SOLVE_B, SOLVE_W, SOLVE_KINDS };
#define SOLVE_NONE UINT32_MAX
#define SOLVE_NEVER UINT64_MAX

/* The pass of the same micro-batch in `queue` has to end `lag` ns before this one starts. queue
 * SOLVE_NONE: no such constraint. */
typedef struct {
    uint32_t queue;
    uint64_t lag;
} pst_solve_edge;

typedef struct {
    const pst_solve_problem *problem;
    uint32_t n_rank, n_queue, n_micro, per_rank; /* per_rank: queues of a rank */
    size_t n_op;                  /* passes; that of (queue, micro) is queue * n_micro + micro */
    uint64_t *ns;                 /* [n_queue] */
    uint32_t *rank_of;            /* [n_queue] */
    uint32_t *queue_of;           /* [n_rank][per_rank], ascending */
    uint32_t *place_of;           /* [n_queue] index among its rank's queues */
    pst_solve_edge (*edge[2])[2]; /* [direction][n_queue] */
    /* [direction][n_queue] memory that a pass needs free when it starts, beyond what is held */
    uint64_t *needed[2];
    /* [direction][n_queue] with this much more free, all micro-batches in flight can be finished */
    uint64_t *reserve[2];
    uint64_t *single_peak; /* [n_rank] the peak of a single micro-batch */
    /* [direction][n_rank][per_rank] the order of a rank's queues for a single micro-batch */
    uint32_t *single_order[2];
    int64_t *change;       /* [n_queue] change of what is held after a pass has run */
    uint32_t *topological; /* [n_queue] in topological order for one micro-batch */
    int hops;              /* 1: some message takes time */
} pst_solver;

/* word[rank * length + k] is the queue of the rank's k-th pass (a word over the alphabet of
 * queues). */
typedef struct {
    uint64_t makespan; /* SOLVE_NEVER: the order deadlocks */
    uint64_t *start;   /* [n_op] */
    uint16_t *word;    /* [n_rank][n_op / n_rank] */
} pst_solution;

static inline size_t pst_solve_length(const pst_solver *s) {
    return (size_t)s->per_rank * s->n_micro;
}

/* patience 0: a rank never waits while a pass is ready; 4: it waits for any pass that could start
 * before the first ready one ends. fixed_reserve: F always keeps `reserve` free, which may
 * deadlock; else every step checks that all started micro-batches can be finished. */
typedef struct {
    uint32_t patience;
    int fixed_reserve;
} pst_solve_policy;

/* pipeline/solve/list.c: builds a solution pass by pass. Among the passes that could start before
 * any could end, the one with the smallest priority is next. Backwards, solution->start counts from
 * the end; the word is that of the forward order in either case. */
typedef struct pst_solve_list pst_solve_list;
pst_status pst_solve_list_open(const pst_solver *s, pst_solve_list **list);
void pst_solve_list_close(pst_solve_list *list);
void pst_solve_list_run(pst_solve_list *list, int direction, const int64_t *priority,
                        pst_solve_policy policy, pst_solution *solution);
/* Start times of a word, with the messages' rule: a receive is posted when the pass before its
 * consumer starts. */
void pst_solve_replay(pst_solve_list *list, pst_solution *solution);

/* pipeline/solve/search.c. The best solution found; the caller frees its start and word. */
pst_status pst_solve_search(const pst_solver *s, pst_solution *best, pst_solved *solved);
/* pipeline/solve/area.c. Lower bound on the makespan from the memory limit of a rank. head:
 * [direction][n_op], the least time before a pass starts and after it ends. */
uint64_t pst_solve_area(const pst_solver *s, uint32_t rank, uint64_t *const head[2]);
/* pipeline/solve/bound.c. tail: [n_op] the least time after the end of each pass. best: makespan of
 * a solution. */
pst_status pst_solve_bound(const pst_solver *s, uint64_t best, uint64_t *bound, uint64_t *tail);
#endif
