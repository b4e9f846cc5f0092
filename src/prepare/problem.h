/* Turns a job that was prepared with some schedule into the solver's problems: durations of the
 * passes and messages of each chunk, bytes that a chunk stashes per micro-batch, and bytes that
 * each rank has for stashes. */
#ifndef PST_PREPARE_PROBLEM_H
#define PST_PREPARE_PROBLEM_H
#include "pipeline/solve/solve.h"
#include "prepare/prepare.h"

/* The problem of all replicas with n_micro micro-batches: per stage the longest times and the
 * smallest limit of their ranks. */
typedef struct {
    uint32_t n_micro;
    pst_pass_ns *ns; /* [n_chunk] */
    uint64_t *limit; /* [grid.pipeline] bytes */
    pst_solve_problem problem;
} pst_prepare_replicas;

typedef struct {
    uint32_t n;               /* number of distinct numbers of micro-batches */
    pst_prepare_replicas *of; /* [n] */
    pst_schedule **schedule;  /* [n] solutions; NULL: not yet solved */
    pst_hop_ns *hop;          /* [n_chunk] */
    pst_held *held;           /* [n_chunk] bytes */
} pst_prepare_problems;

/* limit: memory limit of each rank in bytes. The caller closes x, also after a failure. ENOMEM. */
pst_status pst_prepare_problems_open(const pst_prepared *p, uint64_t limit,
                                     pst_prepare_problems *x);
void pst_prepare_problems_close(pst_prepare_problems *x);
/* Solves all problems and replaces earlier solutions. budget_divisor: divides the solver's effort.
 * *bound_ns: the largest of the lower bounds of a step, without the flush. EINPUT: infeasible
 * within the memory limits. */
pst_status pst_prepare_problems_solve(pst_prepare_problems *x, uint32_t budget_divisor,
                                      uint64_t *bound_ns);
/* Lowers the problems' limits of ranks whose memory map in p exceeds `limit`. Returns 0 if no map
 * does, or if a limit cannot be lowered. */
int pst_prepare_problems_tighten(const pst_prepared *p, uint64_t limit, pst_prepare_problems *x);
#endif
