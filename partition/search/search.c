/* The search: evaluates a few configurations of every row, then those that may still be shorter
 * than the best; simulates the best few, and verifies them where the caller can. */
#include "partition/search/candidates.h"
#include <stdlib.h>

enum { AGAIN = 3 };

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* --- result ----------------------------------------------------------------------------------- */

static uint64_t find_bound(const pst_search_state *s, uint64_t best) {
    uint64_t bound = best;
    for (uint32_t i = 0; i < s->n_set; i++) {
        const pst_search_candidates *set = &s->set[i];
        if (set->rest_ns < bound) bound = set->rest_ns;
        for (uint32_t k = 0; k < set->n_config; k++)
            if (!set->config[k].exhausted && set->config[k].bound_ns < bound)
                bound = set->config[k].bound_ns;
    }
    return bound;
}

static pst_status make_result(pst_search_state *s, pst_search_result **result) {
    pst_search_result *r = calloc(1, sizeof *r);
    if (r) r->row = calloc(s->n_set, sizeof *r->row);
    if (!r || !r->row) {
        free(r);
        return pst_fail(PST_ENOMEM, "no memory for %u rows of the result", s->n_set);
    }
    r->n_row = s->n_set;
    r->timed_out = s->x.stopped;
    for (uint32_t i = 0; i < s->n_set; i++) r->n_bounded += s->set[i].n_config;
    r->n_layout = s->x.n_layout;
    r->n_simulated = s->x.n_simulated;
    r->n_verified = s->x.n_verified + s->x.n_checked;
    const pst_candidate *best = s->set[0].row.fits ? s->set[0].row.best : NULL;
    const uint64_t step = best ? best->step_ns : UINT64_MAX;
    r->bound_ns = s->x.problem->reorders ? s->least_ns : find_bound(s, step);
    if (best && best->layout.tensor_before) r->bound_ns = least(r->bound_ns, s->unequal_ns);
    r->unequal_ns = s->unequal_ns < r->bound_ns ? s->unequal_ns : 0;
    if (r->bound_ns == UINT64_MAX) r->bound_ns = 0;
    r->gap = best && r->bound_ns ? (double)best->step_ns / (double)r->bound_ns - 1 : 0;
    pst_status status = best ? pst_candidate_copy(best, &r->best) : PST_OK;
    for (uint32_t i = 0; i < s->n_set; i++) {
        r->row[i] = s->set[i].row;
        s->set[i].row.best = NULL;
        s->set[i].row.before = NULL;
        pst_search_why(s->x.problem, r->best, &r->row[i]);
    }
    if (status == PST_OK) *result = r;
    else pst_search_result_close(r);
    return status;
}

/* A layout that fits is all that is asked for, and it is not compiled: its step does not matter. */
static pst_status improve(pst_search_state *s) {
    PST_TRY(pst_search_refine_best(s));
    PST_TRY(pst_search_try_unequal(s));
    return pst_search_simulate_best(s);
}

/* If verifying took less time than was kept free, the search goes on. */
static pst_status go_on(pst_search_state *s) {
    for (int i = 0; i < AGAIN && s->x.stopped && !s->x.problem->any; i++) {
        if (!s->set[0].row.fits) return PST_OK;
        pst_search_keep_time(&s->x, s->set[0].row.best);
        s->x.stopped = 0;
        if (pst_search_timed_out(&s->x)) return PST_OK;
        PST_TRY(pst_search_evaluate_further(s));
        PST_TRY(pst_search_evaluate_best(s));
        PST_TRY(improve(s));
        PST_TRY(pst_search_verify_best(s));
    }
    return PST_OK;
}

static pst_status run(pst_search_state *s, pst_search_result **result) {
    PST_TRY(pst_search_rows(&s->x, &s->set, &s->n_set));
    s->least_ns = find_bound(s, UINT64_MAX);
    PST_TRY(pst_search_evaluate_rows(s));
    if (pst_search_shortest(s) == UINT64_MAX) PST_TRY(pst_search_evaluate_until_fit(s));
    if (!s->x.problem->any) PST_TRY(pst_search_evaluate_further(s));
    if (!s->x.problem->any) PST_TRY(pst_search_evaluate_best(s));
    pst_search_sort(s);
    if (!s->x.problem->any || s->x.problem->verify) PST_TRY(improve(s));
    PST_TRY(pst_search_verify_best(s));
    PST_TRY(go_on(s));
    if (pst_search_shortest(s) == UINT64_MAX) PST_TRY(pst_search_verify_nearest(s));
    for (uint32_t i = 0; i < s->n_set && i < PST_SEARCH_FULL_ROWS && s->set[i].row.best; i++) {
        pst_search_candidates *set = &s->set[i];
        if (!set->row.fits && !set->row.best->exact) PST_TRY(pst_search_predict_nearest(s, set));
        else if (!i || !pst_search_timed_out(&s->x)) PST_TRY(pst_search_attribute_row(s, set));
    }
    s->x.kept_ns = 0; /* nothing will be verified any more */
    if (!s->x.problem->any) PST_TRY(pst_search_raise_bound(s, 1));
    return make_result(s, result);
}

pst_status pst_search(const pst_search_problem *problem, pst_search_result **result) {
    pst_search_state s = {.unequal_ns = UINT64_MAX};
    pst_status status = pst_search_context_open(problem, &s.x);
    if (status == PST_OK) status = run(&s, result);
    for (uint32_t i = 0; i < s.n_set; i++) pst_search_candidates_close(&s.set[i]);
    free(s.set);
    pst_search_context_close(&s.x);
    return status;
}

void pst_search_result_close(pst_search_result *r) {
    if (!r) return;
    pst_candidate_close(r->best);
    for (uint32_t i = 0; i < r->n_row; i++) {
        pst_candidate_close(r->row[i].best);
        free(r->row[i].before);
    }
    free(r->row);
    free(r);
}
