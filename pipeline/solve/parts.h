/* Private to this component: a problem as queues. A queue is one kind of pass of one chunk, its
 * micro-batches in order; queue 3 * chunk + kind. Everything is done in two directions: 0 forwards
 * in time, 1 backwards, where the last micro-batch comes first and successors take the place of
 * predecessors. */
#ifndef PST_PIPELINE_SOLVE_PARTS_H
#define PST_PIPELINE_SOLVE_PARTS_H
#include "pipeline/solve/solve.h"

enum { SOLVE_F, SOLVE_B, SOLVE_W, SOLVE_KINDS };
#define SOLVE_NONE UINT32_MAX
#define SOLVE_NEVER UINT64_MAX

/* The pass of the same micro-batch in `queue` has to end `lag` before this one starts; SOLVE_NONE:
 * none. */
typedef struct {
    uint32_t queue;
    uint64_t lag;
} pst_solve_edge;

typedef struct {
    const pst_solve_problem *problem;
    uint32_t n_rank, n_queue, n_micro, per_rank; /* queues of a rank */
    size_t n_op;                  /* pass (queue, micro) is queue * n_micro + micro */
    uint64_t *ns;                 /* [n_queue] */
    uint32_t *rank_of;            /* [n_queue] */
    uint32_t *queue_of;           /* [n_rank][per_rank], ascending */
    uint32_t *place_of;           /* [n_queue] among its rank's */
    pst_solve_edge (*edge[2])[2]; /* [direction][n_queue] */
    uint64_t *taken[2]; /* [direction][n_queue] what has to be free when a pass starts, beside what
                           is held then */
    /* [direction][n_queue] with so much more beside it, what has begun can surely be finished */
    uint64_t *spare[2];
    uint64_t *whole;       /* [n_rank] most that one micro-batch alone holds */
    uint32_t *alone[2];    /* [direction][n_rank][per_rank] the rank's queues as a micro-batch alone
                              goes through them */
    int64_t *change;       /* [n_queue] of what is held, by a pass that has run */
    uint32_t *topological; /* [n_queue] each behind its predecessors of the same micro-batch */
    int hops;              /* some message takes time */
} pst_solver;

/* Words: word[rank * length + k] is the queue of the rank's k-th pass. */
typedef struct {
    uint64_t makespan; /* SOLVE_NEVER: it cannot be finished */
    uint64_t *start;   /* [n_op] */
    uint16_t *word;    /* [n_rank][n_op / n_rank] */
} pst_solution;

static inline size_t pst_solve_length(const pst_solver *s) {
    return (size_t)s->per_rank * s->n_micro;
}

/* patience 0: a rank never waits while a pass is ready; 4: it waits for any pass that could start
 * before the first ready one ends. sparing: F leaves `spare` in any case, which may get stuck; else
 * what has begun can be finished. */
typedef struct {
    uint32_t patience;
    int sparing;
} pst_solve_way;

/* pipeline/solve/list.c: builds a solution decision by decision, the pass with the smallest
 * priority first among those that a rank could end before anything else. Backwards, solution->start
 * is counted from the end, and the word is that of a forward run all the same. */
typedef struct pst_solve_list pst_solve_list;
pst_status pst_solve_list_open(const pst_solver *s, pst_solve_list **list);
void pst_solve_list_close(pst_solve_list *list);
void pst_solve_list_run(pst_solve_list *list, int direction, const int64_t *priority,
                        pst_solve_way way, pst_solution *solution);
/* Start times of a word: what messages cost with the rule that a receive is posted when the pass
 * before its consumer starts. */
void pst_solve_replay(pst_solve_list *list, pst_solution *solution);

/* pipeline/solve/search.c. The best that is found; its start and word are the caller's to free. */
pst_status pst_solve_search(const pst_solver *s, pst_solution *best, pst_solved *solved);
/* pipeline/solve/area.c. No order ends before that, by what the rank may hold. head:
 * [direction][n_op], before a pass starts and after it ends. */
uint64_t pst_solve_area(const pst_solver *s, uint32_t rank, uint64_t *const head[2]);
/* pipeline/solve/bound.c. tail: [n_op] what surely follows the end of each pass. best: makespan of
 * a solution. */
pst_status pst_solve_bound(const pst_solver *s, uint64_t best, uint64_t *bound, uint64_t *tail);
#endif
