/* Chooses the lowest ZeRO stage among equally fast ones, for a layout that is otherwise final. */
#include "partition/search/candidates.h"
#include "partition/search/score.h"

/* The set's layout with another ZeRO stage, predicted; *other NULL: infeasible. */
static pst_status predict_with(pst_search_context *x, const pst_search_candidates *set,
                               uint32_t zero, pst_search_config *c, pst_candidate **other) {
    uint64_t excess;
    uint32_t stage;
    *other = NULL;
    *c = set->best_config;
    c->zero = zero;
    pst_candidate *candidate;
    PST_TRY(pst_candidate_copy(set->row.best, &candidate));
    candidate->layout.zero = zero;
    pst_status status = pst_search_fit(x, c, candidate, &excess, &stage);
    if (status == PST_OK && !excess)
        status = pst_search_predict(x, c, candidate, PST_SCORE_SIMULATE);
    if (status == PST_OK && !excess) *other = candidate;
    else pst_candidate_close(candidate);
    if (status == PST_EINPUT) {
        pst_error_clear();
        status = PST_OK;
    }
    return status;
}

static void take(pst_search_candidates *set, const pst_search_config *c, pst_candidate *candidate) {
    pst_candidate_close(set->row.best);
    set->row.best = candidate;
    set->best_config = *c;
}

pst_status pst_search_lower_zero(pst_search_context *x, pst_search_candidates *set) {
    const pst_search_values *zero = &x->problem->zero;
    for (uint32_t i = 0;
         i < zero->n && set->row.data > 1 && zero->value[i] < set->row.best->layout.zero; i++) {
        pst_search_config c;
        pst_candidate *candidate;
        PST_TRY(predict_with(x, set, zero->value[i], &c, &candidate));
        if (!candidate) continue;
        uint64_t excess = 0;
        uint32_t stage;
        pst_status status = PST_OK;
        if (candidate->step_ns <= set->row.best->step_ns) {
            status = pst_search_check(x, candidate, &excess, &stage, &c.reserve);
            if (status == PST_OK && !excess) {
                take(set, &c, candidate);
                return PST_OK;
            }
        }
        pst_candidate_close(candidate);
        PST_TRY(status);
    }
    return PST_OK;
}
