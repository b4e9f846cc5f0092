/* Which configurations are evaluated, in which order, and what is kept of them. */
#ifndef PST_PARTITION_SEARCH_DRIVE_H
#define PST_PARTITION_SEARCH_DRIVE_H
#include "partition/search/space.h"

/* --- candidates.c: of a row */
/* A row (one combination of degrees) and its configurations. */
typedef struct {
    pst_search_row row;
    pst_search_config *config; /* [n_config] by guess_ns */
    uint32_t n_config;
    uint64_t rest_ns; /* lower bound of configurations not in the list; UINT64_MAX: all are in it */
    pst_search_config best_config; /* the configuration of row.best */
    pst_candidate *verified; /* the shortest verified layout, if row.best is another; NULL: none */
    pst_search_config verified_config;
    pst_search_orders orders;
    int attributed; /* 1: pst_search_attribute was called for row.best */
    int small;      /* 1: all cuts of all device orders are evaluated, and those that may be best
                       simulated */
} pst_search_candidates;
void pst_search_candidates_close(pst_search_candidates *set);
/* Compares two sets, for qsort. */
int pst_search_by_guess(const void *a, const void *b);
typedef struct {
    pst_search_context x;
    pst_search_candidates *set;
    uint32_t n_set;
    uint64_t unequal_ns; /* lower bound of layouts that are not in a row and whose stages have
                            different numbers of tensor ranks */
    uint64_t least_ns;   /* lower bound for any order of passes, from before the first evaluation */
    uint64_t n_early; /* how many of x.n_verified were prepared before the rows' best were verified
                       */
} pst_search_state;
enum { PST_SEARCH_REFINED_ROWS = 3 }; /* rows */
/* UINT64_MAX: nothing fits. */
static inline uint64_t pst_search_step_of(const pst_search_candidates *set) {
    return set->row.fits ? set->row.best->step_ns : UINT64_MAX;
}
static inline int pst_search_has_one_chunk(const pst_search_state *s, const pst_search_config *c) {
    return s->x.row[c->schedule]->n_virtual == 1;
}
/* By step; rows where nothing fits come last. */
void pst_search_sort(pst_search_state *s);
/* pst_search_attribute, once per layout. */
pst_status pst_search_attribute_row(pst_search_state *s, pst_search_candidates *set);
/* UINT64_MAX: nothing fits. */
uint64_t pst_search_shortest(const pst_search_state *s);

/* --- evaluate.c: one configuration */
/* Evaluates a configuration of the set. Steps above limit_ns are not needed. */
pst_status pst_search_evaluate(pst_search_context *x, pst_search_candidates *set,
                               pst_search_config *config, uint64_t limit_ns);

/* --- rows.c */
/* With more rows than FULL_ROWS each keeps only its first configurations. MIN_ROWS are evaluated
 * even after the time limit, until one fits. */
enum { PST_SEARCH_FULL_ROWS = 256, PST_SEARCH_MIN_ROWS = 16 };
/* Rows by guess. *set and what it holds are the caller's to close, also on failure. */
pst_status pst_search_rows(pst_search_context *x, pst_search_candidates **set, uint32_t *n);

/* --- refine.c */
/* Moves borders of the set's layout while its step becomes shorter. *passes: how many passes the
 * longest paths may still take; lowered. */
pst_status pst_search_refine(pst_search_context *x, pst_search_candidates *set, uint64_t *passes);

/* --- unequal.c */
/* Whether stages may have different numbers of tensor ranks, although the rows do not cover all
 * such combinations. */
int pst_search_has_unequal(const pst_search_problem *problem);
/* *found: a set, the caller's to close, with a layout shorter than limit_ns that is similar to the
 * one of `from` (which fits and has equal tensor degrees); without a layout: there is none. */
pst_status pst_search_unequal(pst_search_context *x, const pst_search_candidates *from,
                              uint64_t limit_ns, pst_search_candidates *found);

/* --- lower_zero.c */
/* Gives the set's layout, which fits, the lowest ZeRO stage that does not make the step longer. */
pst_status pst_search_lower_zero(pst_search_context *x, pst_search_candidates *set);

/* --- verify.c */
/* Verifies the memory of a layout, if there is time: one that fits by the estimate and would be the
 * best so far, or one that may fit although the estimate exceeds its memory. Sets excess to the
 * exact value; if it does not fit also peak_bytes, and raises more to how much the estimate was too
 * low. EINPUT: it cannot be prepared. */
pst_status pst_search_check(pst_search_context *x, pst_candidate *candidate, uint64_t *excess,
                            uint32_t *stage, uint64_t *more);
/* Replaces the row's layout by the prepared one with exact predictions, and raises
 * best_config.reserve as above; or the row has none. */
pst_status pst_search_verify(pst_search_context *x, pst_search_candidates *set);

/* --- choose.c: which configurations are evaluated */
/* best: the shortest step of all rows so far; updated. */
pst_status pst_search_evaluate_row(pst_search_state *s, pst_search_candidates *set, uint64_t *best);
pst_status pst_search_evaluate_rows(pst_search_state *s);
/* Where nothing fits. */
pst_status pst_search_evaluate_until_fit(pst_search_state *s);
/* Evaluates what may be shorter than the best, and what limits the lower bound. */
pst_status pst_search_evaluate_further(pst_search_state *s);
pst_status pst_search_evaluate_best(pst_search_state *s);
/* Evaluates the configurations of a row that match the filter, by guess, if their bound is below
 * below_ns and the row's step. Steps above limit_ns are not needed. Stops after `most` evaluations
 * without improvement. */
typedef struct {
    /* 1: only configurations that are not evaluated; only those with several chunks per stage */
    int not_evaluated, chunks;
    uint32_t schedule; /* PST_NONE: all */
    int exact;         /* 1: only with the values below */
    uint32_t micro_batch, zero, sequence;
} pst_search_filter;
pst_status pst_search_evaluate_matching(pst_search_state *s, pst_search_candidates *set,
                                        pst_search_filter filter, uint64_t below_ns,
                                        uint64_t limit_ns, uint32_t most);
/* Evaluations without improvement after which a search stops. */
uint32_t pst_search_patience(const pst_search_state *s);

/* --- best.c */
pst_status pst_search_refine_best(pst_search_state *s);
pst_status pst_search_try_unequal(pst_search_state *s);
pst_status pst_search_simulate_best(pst_search_state *s);
/* Verifies rows until the first row's layout is verified, if anything fits. */
pst_status pst_search_verify_best(pst_search_state *s);
/* Where nothing fits: verifies the nearest layouts. */
pst_status pst_search_verify_nearest(pst_search_state *s);
/* For a row where nothing fits: a lower bound of the step of its nearest layout, or why that is
 * infeasible. */
pst_status pst_search_predict_nearest(pst_search_state *s, pst_search_candidates *set);

/* --- why.c */
void pst_search_why(const pst_search_problem *problem, const pst_candidate *best,
                    pst_search_row *row);
#endif
