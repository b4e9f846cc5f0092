/* Evaluates one configuration: every order of devices that is tried, with the best cut of the
 * surrogate; in small problems with every cut, simulated where it may be the best. */
#include "partition/search/cut.h"
#include "partition/search/candidates.h"
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 8 };

/* Whether this layout is better than the row's. */
static int is_better(const pst_search_candidates *set, const pst_candidate *c, uint64_t excess) {
    if (c->step_ns == UINT64_MAX) return 0;
    if (!set->row.best) return 1;
    if (excess)
        return !set->row.fits && excess < set->row.excess && (c->exact || !set->row.best->exact);
    return !set->row.fits || c->step_ns < set->row.best->step_ns;
}

static pst_status keep(pst_search_context *x, pst_search_candidates *set,
                       const pst_search_config *c, const pst_candidate *candidate, uint64_t excess,
                       uint32_t stage) {
    pst_candidate *copy;
    if (!is_better(set, candidate, excess)) return PST_OK;
    PST_TRY(pst_candidate_copy(candidate, &copy));
    pst_candidate_close(set->row.best);
    set->row.best = copy;
    set->row.fits = !excess;
    set->row.excess = excess;
    set->row.stage = stage;
    set->best_config = *c;
    set->attributed = 0;
    if (excess || candidate->step_ns >= x->best_ns) return PST_OK;
    x->best_ns = candidate->step_ns;
    pst_search_keep_time(x, candidate);
    return PST_OK;
}

/* Estimates memory and step. A layout that does not fit gets no step: pst_search computes a bound
 * for the nearest one at the end, if the row has nothing else. */
static pst_status estimate(pst_search_context *x, const pst_search_candidates *set,
                           const pst_search_config *c, pst_candidate *candidate, uint64_t *excess,
                           uint32_t *stage) {
    const pst_search_problem *p = x->problem;
    if (p->micros)
        memcpy(candidate->layout.micros, p->micros,
               candidate->layout.data * sizeof *candidate->layout.micros);
    else
        memset(candidate->layout.micros, 0,
               candidate->layout.data * sizeof *candidate->layout.micros);
    candidate->exact = 0;
    PST_TRY(pst_search_fit(x, c, candidate, excess, stage));
    if (*excess && (set->row.fits || (set->row.best && *excess >= set->row.excess))) return PST_OK;
    candidate->step_ns = 0;
    if (*excess) return PST_OK;
    PST_TRY(pst_search_predict(x, c, candidate, PST_SCORE_PATH));
    if (candidate->layout.data > 1)
        PST_TRY(pst_search_estimate_memory(x, c, candidate, excess, stage));
    if (!*excess && set->small && is_better(set, candidate, 0))
        PST_TRY(pst_search_predict(x, c, candidate, PST_SCORE_SIMULATE));
    if (candidate->step_ns != UINT64_MAX) candidate->step_ns += c->correction_ns;
    return PST_OK;
}

/* If the prepared layout does not fit: estimates again with so much less memory. A layout that
 * exceeds only this reserve may still fit. */
static pst_status estimate_in_memory(pst_search_context *x, pst_search_candidates *set,
                                     pst_search_config *c, pst_candidate *candidate,
                                     uint64_t *excess, uint32_t *stage) {
    uint32_t over;
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t more = 0;
        PST_TRY(estimate(x, set, c, candidate, excess, stage));
        if (!*excess && is_better(set, candidate, 0))
            PST_TRY(pst_search_check(x, candidate, excess, stage, &more));
        if (more <= c->reserve) break;
        c->reserve = more;
    }
    if (!*excess || !c->reserve || candidate->exact ||
        pst_search_excess(x->problem, candidate, &over))
        return PST_OK;
    PST_TRY(pst_search_predict(x, c, candidate, set->small ? PST_SCORE_SIMULATE : PST_SCORE_PATH));
    return is_better(set, candidate, 0) ? pst_search_check(x, candidate, excess, stage, &c->reserve)
                                        : PST_OK;
}

/* first_item and device are set. *excess: bytes over. */
static pst_status try_layout(pst_search_context *x, pst_search_candidates *set,
                             pst_search_config *c, pst_candidate *candidate, uint64_t *excess) {
    uint32_t stage = 0;
    *excess = 0;
    pst_status status = estimate_in_memory(x, set, c, candidate, excess, &stage);
    if (status == PST_EINPUT) { /* no link, tensor degree or border like this */
        if (!set->row.best) snprintf(set->row.why, sizeof set->row.why, "%s", pst_error());
        pst_error_clear();
        return PST_OK;
    }
    return status == PST_OK ? keep(x, set, c, candidate, *excess, stage) : status;
}

static pst_status try_every_cut(pst_search_context *x, pst_search_candidates *set,
                                pst_search_config *c, pst_candidate *candidate) {
    for (uint32_t k = 0; k <= candidate->layout.n_chunk; k++)
        candidate->layout.first_item[k] =
            k == candidate->layout.n_chunk ? candidate->layout.n_item : k;
    do {
        uint64_t excess;
        c->reserve = 0; /* each cut has its own */
        PST_TRY(try_layout(x, set, c, candidate, &excess));
    } while (!pst_search_timed_out(x) &&
             pst_search_next_cut(candidate->layout.first_item, candidate->layout.n_chunk,
                                 candidate->layout.n_item));
    return PST_OK;
}

/* The cut found last, valid for other orders of devices too (known). Steps above limit_ns are not
 * needed. */
typedef struct {
    int known;
    uint64_t reserve, cut_reserve, bound_ns;
    uint64_t limit_ns;
    uint64_t more; /* bytes that the next cut has to leave free */
} common_cut;

/* With several chunks per stage the cut does not depend on the links between uniform devices. */
static pst_status find_cut(pst_search_context *x, const pst_search_config *c,
                           pst_candidate *candidate, common_cut *cut, uint64_t *bound_ns) {
    if (cut->known && cut->reserve == c->reserve && cut->cut_reserve == c->cut_reserve) {
        *bound_ns = cut->bound_ns;
        return PST_OK;
    }
    cut->known = 0;
    PST_TRY(pst_search_cut(x, c, candidate, cut->limit_ns, bound_ns));
    *cut = (common_cut){x->uniform && candidate->layout.n_chunk > c->pipeline,
                        c->reserve,
                        c->cut_reserve,
                        *bound_ns,
                        cut->limit_ns,
                        cut->more};
    return PST_OK;
}

/* The cut search for several chunks per stage ignores links: also tries borders where fewer bytes
 * cross. */
static pst_status try_narrow_borders(pst_search_context *x, pst_search_candidates *set,
                                     pst_search_config *c, const pst_candidate *candidate) {
    const pst_search_table *t;
    pst_candidate *other;
    uint64_t excess;
    if (candidate->layout.n_chunk == c->pipeline || c->pipeline == 1 || !pst_search_is_cheap(x))
        return PST_OK;
    PST_TRY(pst_search_table_of(x, c, x->problem->cluster->device[candidate->layout.device[0]].kind,
                                0, &t));
    if (!t->table) return PST_OK;
    PST_TRY(pst_candidate_copy(candidate, &other));
    pst_status status =
        pst_search_narrow_borders(t, other) ? try_layout(x, set, c, other, &excess) : PST_OK;
    pst_candidate_close(other);
    return status;
}

/* bound_ns: of all cuts with this order of devices and reserve. */
static pst_status try_cut(pst_search_context *x, pst_search_candidates *set, pst_search_config *c,
                          pst_candidate *candidate, common_cut *cut, uint64_t *bound_ns) {
    const uint64_t limit_ns = cut->limit_ns;
    uint64_t excess;
    cut->more = 0;
    x->limit_ns = set->row.fits ? set->row.best->step_ns : limit_ns; /* each row keeps its own best,
                                                                        even if another row is
                                                                        better */
    x->least_excess = set->row.best && !set->row.fits ? set->row.excess : UINT64_MAX;
    pst_status status = find_cut(x, c, candidate, cut, bound_ns);
    if (status == PST_EINPUT) {
        if (!set->row.best) snprintf(set->row.why, sizeof set->row.why, "%s", pst_error());
        pst_error_clear();
        *bound_ns = UINT64_MAX;
        return PST_OK;
    }
    if (status != PST_OK || (*bound_ns != UINT64_MAX && *bound_ns >= limit_ns)) return status;
    if ((*bound_ns == UINT64_MAX && set->row.fits) ||
        !candidate->layout.first_item[candidate->layout.n_chunk])
        return PST_OK;
    status = try_layout(x, set, c, candidate, &excess);
    if (status == PST_OK && *bound_ns != UINT64_MAX) cut->more = excess;
    return status == PST_OK ? try_narrow_borders(x, set, c, candidate) : status;
}

/* If a cut exceeds the memory, tries cuts that leave more memory free. bound_ns: lower bound over
 * all cuts. */
static pst_status find_best_cut(pst_search_context *x, pst_search_candidates *set,
                                pst_search_config *c, pst_candidate *candidate, common_cut *cut,
                                uint64_t *bound_ns) {
    uint64_t least = UINT64_MAX;
    if (c->reserve || c->cut_reserve)
        *bound_ns = c->bound_ns; /* cuts with a reserve prove no bound */
    for (int i = 0; i < ATTEMPTS; i++) {
        const uint64_t reserve = c->reserve, cut_reserve = c->cut_reserve;
        uint64_t bound = *bound_ns;
        PST_TRY(try_cut(x, set, c, candidate, cut, &bound));
        const uint64_t more = cut->more;
        if (!reserve && !cut_reserve) *bound_ns = bound;
        if (c->reserve > reserve) continue;
        if (!more || more >= least || (set->row.fits && c->guess_ns >= x->best_ns)) break;
        c->cut_reserve += more;
        least = more;
    }
    return PST_OK;
}

/* Lower bound over all cuts with this order of devices, where the prepared step may be shorter than
 * the estimate. */
static pst_status bound_cuts(pst_search_context *x, const pst_search_config *c,
                             pst_candidate *candidate, uint64_t *bound_ns) {
    if (!x->problem->verify) return PST_OK;
    pst_status status = pst_search_cut(x, c, candidate, UINT64_MAX, bound_ns);
    if (status != PST_EINPUT) return status;
    pst_error_clear();
    *bound_ns = UINT64_MAX;
    return PST_OK;
}

static pst_status evaluate(pst_search_context *x, pst_search_candidates *set, pst_search_config *c,
                           uint64_t limit_ns) {
    uint64_t least = UINT64_MAX, bound = c->bound_ns;
    pst_candidate *candidate;
    PST_TRY(pst_candidate_open(x->problem, c, pst_search_chunk_count(x, c), &candidate));
    pst_status status = PST_OK;
    common_cut cut = {.limit_ns = limit_ns};
    for (uint32_t i = 0; i < set->orders.n && status == PST_OK && !(i && pst_search_timed_out(x));
         i++) {
        memcpy(candidate->layout.device, set->orders.device + (size_t)i * set->orders.size,
               set->orders.size * sizeof *candidate->layout.device);
        if (set->small) status = bound_cuts(x, c, candidate, &bound);
        if (set->small && status == PST_OK) status = try_every_cut(x, set, c, candidate);
        if (!set->small) {
            status = find_best_cut(x, set, c, candidate, &cut, &bound);
            x->limit_ns = UINT64_MAX;
        }
        if (bound < least) least = bound;
    }
    if (status == PST_OK && pst_search_timed_out(x))
        least = c->bound_ns; /* perhaps not all were evaluated */
    else if (set->small && set->orders.all && !x->problem->verify)
        c->exhausted = 1; /* estimates are final */
    if (least > c->bound_ns) c->bound_ns = least;
    pst_candidate_close(candidate);
    return status;
}

pst_status pst_search_evaluate(pst_search_context *x, pst_search_candidates *set,
                               pst_search_config *c, uint64_t limit_ns) {
    c->evaluated = 1;
    if (!set->orders.device) {
        PST_TRY(pst_search_orders_of(x->problem, c, &set->orders));
        if (!set->orders.n)
            snprintf(
                set->row.why, sizeof set->row.why,
                "infeasible: needs %u tensor groups, each of %u devices of one kind on one node",
                c->pipeline * c->data, c->tensor);
    }
    if (!set->orders.n) {
        set->n_config = 0;
        set->rest_ns = UINT64_MAX;
        return PST_OK;
    }
    return c->bound_ns >= limit_ns ? PST_OK : evaluate(x, set, c, limit_ns);
}
