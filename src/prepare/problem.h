/* From a job prepared with one schedule to the problems for the solver: durations of each chunk's
 * passes and messages, what they stash, and what each rank may stash beside everything else. */
#ifndef PST_PREPARE_PROBLEM_H
#define PST_PREPARE_PROBLEM_H
#include "pipeline/solve/solve.h"
#include "prepare/prepare.h"

/* The problem for all replicas with the same number of micro-batches: of their ranks, the slowest
 * times and the smallest limit. */
typedef struct {
    uint32_t n_micro;
    pst_pass_ns *ns; /* [n_chunk] */
    uint64_t *limit; /* [grid.pipeline] bytes */
    pst_solve_problem problem;
} pst_prepare_replicas;

typedef struct {
    uint32_t n;               /* different numbers of micro-batches */
    pst_prepare_replicas *of; /* [n] */
    pst_schedule **schedule;  /* [n] solutions; NULL: not yet solved */
    pst_hop_ns *hop;          /* [n_chunk] */
    pst_held *held;           /* [n_chunk] bytes */
} pst_prepare_problems;

/* limit: bytes of each rank. The caller closes x even on failure. */
pst_status pst_prepare_problems_open(const pst_prepared *p, uint64_t limit,
                                     pst_prepare_problems *x);
void pst_prepare_problems_close(pst_prepare_problems *x);
/* Solves all problems and replaces earlier solutions. bound_ns: the largest lower bound, without
 * the flush. EINPUT: infeasible within this memory. */
pst_status pst_prepare_problems_solve(pst_prepare_problems *x, uint32_t budget_divisor,
                                      uint64_t *bound_ns);
/* Lowers the limits of the ranks whose memory map in p is too large; 0: none is, or a limit cannot
 * be lowered. */
int pst_prepare_problems_tighten(const pst_prepared *p, uint64_t limit, pst_prepare_problems *x);
#endif
