/* Memory as it is: what is added up may be less than a prepared layout takes. Whatever would be the
 * best so far and comes near its room is prepared before it is taken for the best; where it does
 * not fit after all, its configuration is evaluated again in so much less room. The best of all is
 * prepared in any case. */
#include "base/hash.h"
#include "partition/search/drive.h"
#include <string.h>

enum {
    PASSES = 1536,
    ALL_PASSES = 65536,
    NEAR = 4
}; /* of one, and of all that may be prepared before the end */

static int is_near(const pst_search_problem *p, const pst_candidate *l) {
    const pst_grid grid = pst_layout_grid(&l->layout);
    for (uint32_t r = 0; r < pst_grid_size(grid); r++) {
        uint64_t room = pst_search_capacity(p, l->layout.device[r]);
        if (l->peak_bytes[pst_grid_stage(grid, r)] > room - room / NEAR) return 1;
    }
    return 0;
}

static uint64_t passes_of(const pst_candidate *l) {
    return (uint64_t)l->layout.n_chunk * l->layout.n_micro;
}

/* Those of many passes take too long: of them only the best are prepared. */
static int may_check(const pst_search_context *x, const pst_candidate *l) {
    const pst_search_problem *p = x->problem;
    return p->verify && !p->reorders && l->step_ns <= x->best_ns && !pst_search_late(x) &&
           ((passes_of(l) <= PASSES && x->n_passes + passes_of(l) <= ALL_PASSES) ||
            pst_search_is_small(p));
}

/* *copy: the layout as it is prepared. *more: bytes that it takes beyond what was estimated, on the
 * stage that is most over. */
static pst_status prepare(pst_search_context *x, const pst_candidate *l, pst_candidate **copy,
                          uint64_t *excess, uint32_t *stage, uint64_t *more) {
    PST_TRY(pst_candidate_copy(l, copy));
    pst_status status = x->problem->verify(x->problem->arg, *copy);
    if (status != PST_OK) {
        pst_candidate_close(*copy);
        return status;
    }
    *excess = pst_search_excess(x->problem, *copy, stage);
    if (*excess) x->needs_margin = 1;
    if (!*excess) return PST_OK;
    uint64_t is = (*copy)->peak_bytes[*stage], was = l->peak_bytes[*stage];
    if (is > was && is - was > *more) *more = is - was;
    return PST_OK;
}

/* Of what tells layouts apart that are evaluated one after another. */
static uint64_t hash_of(const pst_candidate *l) {
    uint64_t hash =
        pst_hash64(l->peak_bytes, l->layout.pipeline * sizeof *l->peak_bytes, l->step_ns);
    const uint32_t of[] = {l->layout.micro_batch, l->layout.zero, l->layout.sequence,
                           l->layout.tensor, l->layout.data};
    hash = pst_hash64(of, sizeof of, hash);
    return pst_hash64(l->layout.schedule, strlen(l->layout.schedule), hash);
}

pst_status pst_search_check(pst_search_context *x, pst_candidate *l, uint64_t *excess,
                            uint32_t *stage, uint64_t *more) {
    const uint64_t hash = hash_of(l);
    pst_candidate *copy;
    if (x->failed.excess && hash == x->failed.hash) {
        *excess = x->failed.excess;
        *stage = x->failed.stage;
        if (x->failed.more > *more) *more = x->failed.more;
        return PST_OK;
    }
    if (!may_check(x, l) || (!*excess && !x->needs_margin && !is_near(x->problem, l)))
        return PST_OK;
    x->n_check++;
    x->n_passes += passes_of(l);
    PST_TRY(prepare(x, l, &copy, excess, stage, more));
    if (*excess) {
        x->failed.hash = hash;
        x->failed.excess = *excess;
        x->failed.stage = *stage;
        x->failed.more = *more;
        memcpy(l->peak_bytes, copy->peak_bytes, l->layout.pipeline * sizeof *l->peak_bytes);
    }
    pst_candidate_close(copy);
    return PST_OK;
}

/* --- the best --------------------------------------------------------------------------------- */

pst_status pst_search_verify(pst_search_context *x, pst_search_candidates *set) {
    pst_search_row *row = &set->row;
    pst_candidate *l;
    x->n_verified++;
    pst_status status = prepare(x, row->best, &l, &row->excess, &row->stage, &set->best.reserve);
    if (status != PST_OK && status != PST_EINPUT) return status;
    pst_candidate_close(row->best);
    row->best = status == PST_OK ? l : NULL;
    row->fits = row->best && !row->excess;
    if (status == PST_EINPUT) { /* not for want of memory: no such run is possible */
        snprintf(row->why, sizeof row->why, "%s", pst_error());
        pst_error_clear();
        return PST_OK;
    }
    return PST_OK;
}
