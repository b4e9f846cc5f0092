/* Exact memory: the estimate may be less than a prepared layout needs. A layout that would be the
 * best so far and nearly fills its memory is prepared first; if it does not fit, its configuration
 * is evaluated again with so much less memory. The best layout of all is always prepared. */
#include "base/clock.h"
#include "base/hash.h"
#include "partition/search/candidates.h"
#include <string.h>

enum {
    PASSES = 1536,
    ALL_PASSES = 65536,
    NEAR = 4
}; /* of one layout, and of all that may be prepared before the end of the search */

static int is_near(const pst_search_problem *p, const pst_candidate *c) {
    const pst_grid grid = pst_layout_grid(&c->layout);
    for (uint32_t r = 0; r < pst_grid_size(grid); r++) {
        uint64_t capacity = pst_search_capacity(p, c->layout.device[r]);
        if (c->peak_bytes[pst_grid_stage(grid, r)] > capacity - capacity / NEAR) return 1;
    }
    return 0;
}

static uint64_t passes_of(const pst_candidate *c) {
    return (uint64_t)c->layout.n_chunk * c->layout.n_micro;
}

/* Layouts with many passes take too long to prepare: only the best of them are. */
static int may_check(pst_search_context *x, const pst_candidate *c) {
    const pst_search_problem *p = x->problem;
    return p->verify && !p->reorders && c->step_ns <= x->best_ns && !pst_search_timed_out(x) &&
           ((passes_of(c) <= PASSES && x->n_passes + passes_of(c) <= ALL_PASSES) ||
            pst_search_is_small(p));
}

/* *copy: the prepared layout. *more: raised to the bytes that it needs beyond the estimate, on the
 * stage that exceeds its memory most. */
static pst_status prepare(pst_search_context *x, const pst_candidate *c, pst_candidate **copy,
                          uint64_t *excess, uint32_t *stage, uint64_t *more) {
    PST_TRY(pst_candidate_copy(c, copy));
    const uint64_t from_ns = pst_monotonic_ns();
    pst_status status = x->problem->verify(x->problem->arg, *copy);
    pst_search_note_time(x, c, pst_monotonic_ns() - from_ns);
    if (status != PST_OK) {
        pst_candidate_close(*copy);
        return status;
    }
    *excess = pst_search_excess(x->problem, *copy, stage);
    if (*excess) x->needs_margin = 1;
    if (!*excess) return PST_OK;
    uint64_t is = (*copy)->peak_bytes[*stage], was = c->peak_bytes[*stage];
    if (is > was && is - was > *more) *more = is - was;
    return PST_OK;
}

/* Identifies a layout among those that are evaluated one after another. */
static uint64_t hash_of(const pst_candidate *c) {
    uint64_t hash =
        pst_hash64(c->peak_bytes, c->layout.pipeline * sizeof *c->peak_bytes, c->step_ns);
    const uint32_t of[] = {c->layout.micro_batch, c->layout.zero, c->layout.sequence,
                           c->layout.tensor, c->layout.data};
    hash = pst_hash64(of, sizeof of, hash);
    return pst_hash64(c->layout.schedule, strlen(c->layout.schedule), hash);
}

pst_status pst_search_check(pst_search_context *x, pst_candidate *candidate, uint64_t *excess,
                            uint32_t *stage, uint64_t *more) {
    const uint64_t hash = hash_of(candidate);
    pst_candidate *copy;
    if (x->failed.excess && hash == x->failed.hash) {
        *excess = x->failed.excess;
        *stage = x->failed.stage;
        if (x->failed.more > *more) *more = x->failed.more;
        return PST_OK;
    }
    if (!may_check(x, candidate) ||
        (!*excess && !x->needs_margin && !is_near(x->problem, candidate)))
        return PST_OK;
    x->n_checked++;
    x->n_passes += passes_of(candidate);
    PST_TRY(prepare(x, candidate, &copy, excess, stage, more));
    if (*excess) {
        x->failed.hash = hash;
        x->failed.excess = *excess;
        x->failed.stage = *stage;
        x->failed.more = *more;
        memcpy(candidate->peak_bytes, copy->peak_bytes,
               candidate->layout.pipeline * sizeof *candidate->peak_bytes);
    }
    pst_candidate_close(copy);
    return PST_OK;
}

/* --- the best --------------------------------------------------------------------------------- */

pst_status pst_search_verify(pst_search_context *x, pst_search_candidates *set) {
    pst_search_row *row = &set->row;
    pst_candidate *c;
    x->n_verified++;
    pst_status status =
        prepare(x, row->best, &c, &row->excess, &row->stage, &set->best_config.reserve);
    if (status != PST_OK && status != PST_EINPUT) return status;
    pst_candidate_close(row->best);
    row->best = status == PST_OK ? c : NULL;
    row->fits = row->best && !row->excess;
    if (status == PST_EINPUT) { /* infeasible for another reason than memory */
        snprintf(row->why, sizeof row->why, "%s", pst_error());
        pst_error_clear();
        return PST_OK;
    }
    return PST_OK;
}
