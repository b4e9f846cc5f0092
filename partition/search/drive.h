/* What is evaluated, in which order, and what is kept: the candidates of every row of degrees. */
#ifndef PST_PARTITION_SEARCH_DRIVE_H
#define PST_PARTITION_SEARCH_DRIVE_H
#include "partition/search/space.h"

/* --- candidates.c: of a row */
/* The row of the table with these degrees, and what is left to evaluate. */
typedef struct {
    pst_search_row row;
    pst_search_config *config; /* [n_config] by guess_ns */
    uint32_t n_config;
    uint64_t rest_ns; /* bound of what is not in the list; UINT64_MAX: nothing is left out */
    pst_search_config best_config; /* that of row.best */
    pst_candidate *sure; /* the shortest that was prepared, if row.best is another; NULL */
    pst_search_config sure_config;
    pst_search_orders orders;
    int attributed; /* 1: pst_search_attribute has been through row.best */
    int small; /* 1: all cuts of all orders are evaluated, and those that may be best simulated */
} pst_search_candidates;
void pst_search_candidates_close(pst_search_candidates *set);
/* Of two sets, for qsort. */
int pst_search_by_guess(const void *a, const void *b);
typedef struct {
    pst_search_context x;
    pst_search_candidates *set;
    uint32_t n_set;
    uint64_t unequal_ns; /* no layout whose stages have different numbers of tensor ranks, and no
                            row, is shorter */
    uint64_t least_ns;   /* before anything was evaluated: no order of passes takes less */
    uint64_t n_early;    /* of x.n_verified: prepared before the rows' best are */
} pst_search_all;
enum { PST_SEARCH_REFINED = 3 }; /* rows */
/* UINT64_MAX: nothing fits. */
static inline uint64_t pst_search_step_of(const pst_search_candidates *set) {
    return set->row.fits ? set->row.best->step_ns : UINT64_MAX;
}
static inline int pst_search_has_one_chunk(const pst_search_all *s, const pst_search_config *c) {
    return s->x.row[c->schedule]->n_virtual == 1;
}
/* By step; what does not fit comes last. */
void pst_search_sort(pst_search_all *s);
/* pst_search_attribute, once. */
pst_status pst_search_attribute_row(pst_search_all *s, pst_search_candidates *set);
/* UINT64_MAX: nothing fits. */
uint64_t pst_search_shortest(const pst_search_all *s);

/* --- evaluate.c: one configuration */
/* Evaluates a configuration of the set; limit_ns: longer steps are of no use. */
pst_status pst_search_evaluate(pst_search_context *x, pst_search_candidates *set,
                               pst_search_config *config, uint64_t limit_ns);

/* --- rows.c */
/* Of more rows than IN_FULL only what is evaluated first is kept; AT_LEAST so many are evaluated,
 * be it late, until one fits. */
enum { PST_SEARCH_IN_FULL = 256, PST_SEARCH_AT_LEAST = 16 };
/* By guess. *set is the caller's, also when it fails, as are orders and configurations of each. */
pst_status pst_search_rows(pst_search_context *x, pst_search_candidates **set, uint32_t *n);

/* --- refine.c */
/* The set's layout, if it has several chunks per stage, with borders moved where that makes it
 * shorter. *passes: of walks, that may still be gone through. */
pst_status pst_search_refine(pst_search_context *x, pst_search_candidates *set, uint64_t *passes);

/* --- unequal.c */
/* Whether stages may have different numbers of tensor ranks although not all lists of these are
 * rows. */
int pst_search_has_unequal(const pst_search_problem *problem);
/* *found: a set, the caller's, whose layout is shorter than limit_ns and near that of `from`, which
 * fits and has as many tensor ranks on every stage; without a layout: there is none. */
pst_status pst_search_unequal(pst_search_context *x, const pst_search_candidates *from,
                              uint64_t limit_ns, pst_search_candidates *found);

/* --- plain.c */
/* The set's layout, which fits, has the least zero that makes the step no longer. */
pst_status pst_search_plainer(pst_search_context *x, pst_search_candidates *set);

/* --- verify.c */
/* Of a layout that seems to fit and would be the best so far, or one that may fit although it seems
 * to be over: if there is time, sets excess as it is when it is prepared, and where it is over
 * peak_bytes, and raises more to by how much that is beyond what was estimated. EINPUT: it cannot
 * be prepared. */
pst_status pst_search_check(pst_search_context *x, pst_candidate *candidate, uint64_t *excess,
                            uint32_t *stage, uint64_t *more);
/* The row's layout becomes as it is when it is prepared, and raises best_config.reserve as above;
 * or the row has none. */
pst_status pst_search_verify(pst_search_context *x, pst_search_candidates *set);

/* --- choose.c: which configurations are evaluated */
/* best: of all rows so far; lowered. */
pst_status pst_search_evaluate_row(pst_search_all *s, pst_search_candidates *set, uint64_t *best);
pst_status pst_search_evaluate_rows(pst_search_all *s);
/* Where nothing fits. */
pst_status pst_search_evaluate_until_fit(pst_search_all *s);
/* What may be shorter than the best, and what bounds it. */
pst_status pst_search_evaluate_further(pst_search_all *s);
pst_status pst_search_evaluate_best(pst_search_all *s);
/* Of a row, by guess, what has a bound below below_ns and the row's step, for steps below limit_ns
 * and that one, until `most` in a row were of no use. */
typedef struct {
    /* 1: only what has not been evaluated; only what has several chunks per stage */
    int unseen, chunks;
    uint32_t schedule; /* PST_NONE: all */
    int one;           /* 1: only with these: */
    uint32_t micro_batch, zero, sequence;
} pst_search_along;
pst_status pst_search_evaluate_along(pst_search_all *s, pst_search_candidates *set,
                                     pst_search_along along, uint64_t below_ns, uint64_t limit_ns,
                                     uint32_t most);
/* How many evaluations of no use are enough. */
uint32_t pst_search_hopeful_evaluations(const pst_search_all *s);

/* --- best.c */
pst_status pst_search_refine_best(pst_search_all *s);
pst_status pst_search_try_unequal(pst_search_all *s);
pst_status pst_search_simulate_best(pst_search_all *s);
/* The first row's layout is as it is when it is prepared, if anything fits. */
pst_status pst_search_verify_best(pst_search_all *s);
/* Where nothing fits: of what comes nearest, how near it does. */
pst_status pst_search_verify_nearest(pst_search_all *s);
/* Of a row in which nothing fits: a step that its layout is no shorter than, or why it cannot be
 * had. */
pst_status pst_search_predict_nearest(pst_search_all *s, pst_search_candidates *set);

/* --- why.c */
void pst_search_why(const pst_search_problem *problem, const pst_candidate *best,
                    pst_search_row *row);
#endif
