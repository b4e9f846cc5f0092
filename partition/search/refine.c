/* Cuts with several chunks per stage come from bisection: chunks get equal shares of the longest
 * stage, independently of waiting times. This file moves chunk borders as long as the longest path
 * through the order of passes becomes shorter. */
#include "partition/search/cut.h"
#include "partition/search/candidates.h"
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, ATTEMPTS = 3 };
static const int step_of[STEPS] = {1, -1, 2, -2, 5, -5};

/* Passes on the longest path's graph. */
static uint64_t passes_of(const pst_candidate *c) {
    return 3 * (uint64_t)c->layout.n_chunk * pst_search_most_micros(c);
}

/* *shorter 1: the layout fits and is shorter than `than`. */
static pst_status attempt(pst_search_context *x, const pst_search_config *c,
                          pst_candidate *candidate, uint64_t than, int *shorter) {
    uint64_t excess;
    uint32_t stage;
    *shorter = 0;
    PST_TRY(pst_search_fit(x, c, candidate, &excess, &stage));
    if (excess) return PST_OK;
    x->limit_ns = than;
    pst_status status = pst_search_predict(x, c, candidate, PST_SCORE_PATH);
    x->limit_ns = UINT64_MAX;
    *shorter = status == PST_OK && candidate->step_ns < than;
    if (status == PST_EINPUT) {
        pst_error_clear();
        status = PST_OK;
    } /* no border here */
    return status;
}

/* Tries to move each border in turn. *moved: one moved. */
static pst_status move_borders(pst_search_context *x, const pst_search_config *c,
                               pst_candidate *candidate, uint64_t *least, uint64_t *passes,
                               int *moved) {
    const size_t bytes =
        (candidate->layout.n_chunk + (size_t)1) * sizeof *candidate->layout.first_item;
    uint32_t *was = malloc(bytes);
    pst_status status = was ? PST_OK : pst_fail(PST_ENOMEM, "no memory for the layout search");
    *moved = 0;
    for (uint32_t k = 1; k < candidate->layout.n_chunk && status == PST_OK; k++)
        for (int i = 0; i < STEPS && status == PST_OK && *passes >= passes_of(candidate) &&
                        !pst_search_timed_out(x);
             i++) {
            int shorter;
            memcpy(was, candidate->layout.first_item, bytes);
            if (!pst_search_move_border(candidate, k,
                                        (int64_t)candidate->layout.first_item[k] + step_of[i]))
                continue;
            *passes -= passes_of(candidate);
            status = attempt(x, c, candidate, *least, &shorter);
            if (status == PST_OK && shorter) {
                *least = candidate->step_ns;
                *moved = 1;
                i = -1;
            } else memcpy(candidate->layout.first_item, was, bytes);
        }
    free(was);
    return status;
}

/* With free_links links carry any number of messages at a time, which shows the effect of every
 * border. Without it, where a link is the bottleneck, most borders make no difference. */
static pst_status move_all(pst_search_context *x, const pst_search_config *c,
                           pst_candidate *candidate, int free_links, uint64_t *passes) {
    uint64_t least;
    int any;
    x->free_links = free_links;
    pst_status status = attempt(x, c, candidate, UINT64_MAX, &any);
    least = candidate->step_ns;
    for (int moved = any; moved && status == PST_OK;)
        status = move_borders(x, c, candidate, &least, passes, &moved);
    x->free_links = 0;
    return status;
}

/* *shorter: c, a copy of the set's layout, became shorter and fits. */
static pst_status refine(pst_search_context *x, pst_search_candidates *set, pst_candidate *c,
                         uint64_t *passes, int *shorter) {
    const uint64_t before = c->step_ns;
    uint64_t excess = 0;
    uint32_t stage;
    *shorter = 0;
    for (int free_links = 1; free_links >= 0 && !*shorter; free_links--) {
        memcpy(c->layout.first_item, set->row.best->layout.first_item,
               (c->layout.n_chunk + (size_t)1) * sizeof *c->layout.first_item);
        PST_TRY(move_all(x, &set->best_config, c, free_links, passes));
        PST_TRY(attempt(x, &set->best_config, c, before, shorter));
    }
    if (*shorter) PST_TRY(pst_search_check(x, c, &excess, &stage, &set->best_config.reserve));
    *shorter &= !excess;
    return PST_OK;
}

pst_status pst_search_refine(pst_search_context *x, pst_search_candidates *set, uint64_t *passes) {
    if (set->row.best->layout.n_chunk == 1 || set->small || !set->row.fits) return PST_OK;
    for (int i = 0, again = 1; i < ATTEMPTS && again; i++) {
        const uint64_t reserve = set->best_config.reserve;
        pst_candidate *candidate;
        int shorter;
        PST_TRY(pst_candidate_copy(set->row.best, &candidate));
        pst_status status = refine(x, set, candidate, passes, &shorter);
        if (status == PST_OK && shorter) {
            pst_candidate *was = set->row.best;
            set->row.best = candidate;
            set->attributed = 0;
            candidate = was;
        }
        pst_candidate_close(candidate);
        PST_TRY(status);
        /* it needed more memory than estimated: once more with a reserve */
        again = !shorter && set->best_config.reserve > reserve;
    }
    return PST_OK;
}
