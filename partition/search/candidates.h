/* The order in which configurations are evaluated, and the results that are kept. */
#ifndef PST_PARTITION_SEARCH_DRIVE_H
#define PST_PARTITION_SEARCH_DRIVE_H
#include "partition/search/space.h"

/* --- candidates.c: of a row */
/* A row (one combination of degrees) and the configurations with these degrees. */
typedef struct {
    pst_search_row row;
    pst_search_config *config; /* [n_config] ascending by guess_ns */
    uint32_t n_config;
    /* lower bound of the configurations that are not in the list; UINT64_MAX: the list is
     * complete */
    uint64_t rest_ns;
    pst_search_config best_config; /* the configuration of row.best */
    /* the shortest verified layout, if row.best is another layout; else NULL */
    pst_candidate *verified;
    pst_search_config verified_config; /* the configuration of `verified` */
    pst_search_orders orders;          /* of devices */
    int attributed;                    /* 1: pst_search_attribute was called for row.best */
    /* 1: the problem is small: all cuts of all device orders are evaluated, and all that may be the
     * best are simulated */
    int small;
} pst_search_candidates;
void pst_search_candidates_close(pst_search_candidates *set);
/* Compares two sets by the guess of their first configuration, for qsort. */
int pst_search_by_guess(const void *a, const void *b);
typedef struct {
    pst_search_context x;
    pst_search_candidates *set;
    uint32_t n_set;
    /* lower bound of the layouts with different numbers of tensor ranks per stage that belong to no
     * row */
    uint64_t unequal_ns;
    /* lower bound for all orders of passes, computed before the first evaluation */
    uint64_t least_ns;
    /* number of layouts in x.n_verified that were compiled before the best layout of each row was
     * verified */
    uint64_t n_early;
} pst_search_state;
enum { PST_SEARCH_REFINED_ROWS = 3 }; /* number of rows that are refined */
/* Returns the step of the row's best layout in ns; UINT64_MAX: no layout of the row fits. */
static inline uint64_t pst_search_step_of(const pst_search_candidates *set) {
    return set->row.fits ? set->row.best->step_ns : UINT64_MAX;
}
static inline int pst_search_has_one_chunk(const pst_search_state *s, const pst_search_config *c) {
    return s->x.row[c->schedule]->n_virtual == 1;
}
/* Sorts the rows by step; rows without a layout that fits come last. */
void pst_search_sort(pst_search_state *s);
/* Calls pst_search_attribute for the row's best layout, unless that was done before. */
pst_status pst_search_attribute_row(pst_search_state *s, pst_search_candidates *set);
/* Returns the shortest step of all rows in ns; UINT64_MAX: no layout fits. */
uint64_t pst_search_shortest(const pst_search_state *s);

/* --- evaluate.c: one configuration */
/* Evaluates a configuration of the set: finds its best cut and device order, and updates the row.
 * The evaluation may stop as soon as the step is certain to exceed limit_ns. */
pst_status pst_search_evaluate(pst_search_context *x, pst_search_candidates *set,
                               pst_search_config *config, uint64_t limit_ns);

/* --- rows.c */
/* If there are more than FULL_ROWS rows, each row keeps only the configurations that are evaluated
 * first. The first MIN_ROWS rows are evaluated even after the time limit, until a layout fits. */
enum { PST_SEARCH_FULL_ROWS = 256, PST_SEARCH_MIN_ROWS = 16 };
/* Lists all rows, ascending by guess. The caller frees *set and closes each of the *n sets, also
 * after a failure. */
pst_status pst_search_rows(pst_search_context *x, pst_search_candidates **set, uint32_t *n);

/* --- refine.c */
/* Moves chunk borders of the set's best layout as long as the step becomes shorter. *passes: budget
 * of passes in longest-path computations; reduced by the number used. */
pst_status pst_search_refine(pst_search_context *x, pst_search_candidates *set, uint64_t *passes);

/* --- unequal.c */
/* Returns 1 if stages may have different numbers of tensor ranks and the rows do not cover all such
 * combinations. */
int pst_search_has_unequal(const pst_search_problem *problem);
/* Searches for a layout with different numbers of tensor ranks per stage and a step below limit_ns,
 * similar to the layout of `from` (which fits and has equal tensor degrees). *found: a set with the
 * layout, or without one if none was found; the caller closes it. */
pst_status pst_search_unequal(pst_search_context *x, const pst_search_candidates *from,
                              uint64_t limit_ns, pst_search_candidates *found);

/* --- lower_zero.c */
/* Changes the set's layout, which fits, to the lowest ZeRO stage with which the step is not
 * longer. */
pst_status pst_search_lower_zero(pst_search_context *x, pst_search_candidates *set);

/* --- verify.c */
/* Computes the exact memory of a layout before the time limit: of a layout that fits by the
 * estimate and would be the best so far, or that may fit although the estimate exceeds the memory.
 * Sets *excess to the bytes over the memory of stage *stage (0: the layout fits). If it does not
 * fit, also sets peak_bytes and raises *more to the bytes by which the estimate was too low.
 * EINPUT: the layout cannot be compiled. */
pst_status pst_search_check(pst_search_context *x, pst_candidate *candidate, uint64_t *excess,
                            uint32_t *stage, uint64_t *more);
/* Compiles the row's best layout and replaces its predictions by exact ones. If the layout does not
 * fit, raises best_config.reserve by the bytes that the estimate missed, and the row loses the
 * layout. */
pst_status pst_search_verify(pst_search_context *x, pst_search_candidates *set);

/* --- choose.c: which configurations are evaluated */
/* Evaluates a row. *best: the shortest step of all rows so far in ns; updated. */
pst_status pst_search_evaluate_row(pst_search_state *s, pst_search_candidates *set, uint64_t *best);
pst_status pst_search_evaluate_rows(pst_search_state *s);
/* Called if no layout fits: evaluates the configurations again, smallest memory first, until a
 * layout fits; else finds the layout that exceeds the memory least. */
pst_status pst_search_evaluate_until_fit(pst_search_state *s);
/* Evaluates the configurations that may be shorter than the best layout, and those that determine
 * the lower bound. */
pst_status pst_search_evaluate_further(pst_search_state *s);
pst_status pst_search_evaluate_best(pst_search_state *s);
/* Raises the lowest lower bounds of configurations that may be shorter than the best, within a
 * limit of effort for the whole search. last 1: no more layouts will be evaluated, and everything
 * that raises a bound is done. */
pst_status pst_search_raise_bound(pst_search_state *s, int last);
/* Evaluates, ascending by guess, the configurations of a row that match the filter and have a lower
 * bound below below_ns and below the row's step. An evaluation may stop as soon as the step is
 * certain to exceed limit_ns. Stops after `most` evaluations without improvement. */
typedef struct {
    /* not_evaluated 1: only configurations that were not evaluated; chunks 1: only those with
     * several chunks per stage */
    int not_evaluated, chunks;
    uint32_t schedule; /* PST_NONE: all */
    int exact;         /* 1: only with the values below */
    uint32_t micro_batch, zero, sequence;
} pst_search_filter;
pst_status pst_search_evaluate_matching(pst_search_state *s, pst_search_candidates *set,
                                        pst_search_filter filter, uint64_t below_ns,
                                        uint64_t limit_ns, uint32_t most);
/* Returns the number of evaluations without improvement after which a search of a row stops. */
uint32_t pst_search_patience(const pst_search_state *s);

/* --- best.c */
pst_status pst_search_refine_best(pst_search_state *s);
pst_status pst_search_try_unequal(pst_search_state *s);
pst_status pst_search_simulate_best(pst_search_state *s);
/* Verifies the best layouts of the rows in turn until the shortest layout is a verified one. Does
 * nothing if no layout fits. */
pst_status pst_search_verify_best(pst_search_state *s);
/* If no layout fits: verifies the layouts that exceed the memory least. */
pst_status pst_search_verify_nearest(pst_search_state *s);
/* For a row without a layout that fits: predicts a lower bound of the step of the layout that
 * exceeds the memory least, or sets row.why to the reason why it is infeasible. */
pst_status pst_search_predict_nearest(pst_search_state *s, pst_search_candidates *set);

/* --- why.c */ /* Sets row->why: why the row has no layout that fits, or why its layout is slower
                   than `best`. */
void pst_search_why(const pst_search_problem *problem, const pst_candidate *best,
                    pst_search_row *row);
#endif
