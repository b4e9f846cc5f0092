/* From what was prepared with one schedule to the problems that a solved one has to answer: how
 * long passes and messages of each chunk take, what they stash, and what each rank may stash beside
 * everything else that it has. */
#ifndef PST_PREPARE_PROBLEM_H
#define PST_PREPARE_PROBLEM_H
#include "pipeline/solve/solve.h"
#include "prepare/prepare.h"

/* What the replicas that take as many micro-batches are solved for: of their ranks the slowest, and
 * the one with least room. */
typedef struct {
    uint32_t n_micro;
    pst_pass_ns *ns; /* [n_chunk] */
    uint64_t *limit; /* [grid.pipeline] bytes */
    pst_solve_problem problem;
} pst_prepare_replicas;

typedef struct {
    uint32_t n;               /* different numbers of micro-batches */
    pst_prepare_replicas *of; /* [n] */
    pst_schedule **schedule;  /* [n] solved; NULL before */
    pst_hop_ns *hop;          /* [n_chunk] */
    pst_held *held;           /* [n_chunk] bytes */
} pst_prepare_problems;

/* limit: bytes of any rank. Close it also when it fails. */
pst_status pst_prepare_problems_open(const pst_prepared *p, uint64_t limit,
                                     pst_prepare_problems *x);
void pst_prepare_problems_close(pst_prepare_problems *x);
/* Solves all, and takes what was solved before away. bound_ns: of the one that takes longest, flush
 * left out. EINPUT: it cannot be in this memory. */
pst_status pst_prepare_problems_solve(pst_prepare_problems *x, uint32_t budget_divisor,
                                      uint64_t *bound_ns);
/* Less memory for the ranks whose layout, in p, came out too large; 0: none is, or one cannot do
 * with less. */
int pst_prepare_problems_tighten(const pst_prepared *p, uint64_t limit, pst_prepare_problems *x);
#endif
