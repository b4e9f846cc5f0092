/* Evaluates one configuration: its devices in every order that is tried, with the best cut of the
 * surrogate; in small problems with every cut, simulated where it may be the best. */
#include "partition/search/cut.h"
#include "partition/search/drive.h"
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 8 };

/* The better of the row's layout and this one. */
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
    if (!excess && candidate->step_ns < x->best_ns) x->best_ns = candidate->step_ns;
    return PST_OK;
}

/* As it is estimated of. What does not fit is not predicted: pst_search bounds the step of what
 * comes nearest in the end, when that is all a row has. */
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
    PST_TRY(pst_search_predict(x, c, candidate, PST_SCORE_WALK));
    if (candidate->layout.data > 1) PST_TRY(pst_search_measure(x, c, candidate, excess, stage));
    if (!*excess && set->small && is_better(set, candidate, 0))
        PST_TRY(pst_search_predict(x, c, candidate, PST_SCORE_SIMULATE));
    if (candidate->step_ns != UINT64_MAX) candidate->step_ns += c->more_ns;
    return PST_OK;
}

/* Where it does not fit when it is prepared, again with so much less room; what leaves no such room
 * may fit after all. */
static pst_status try_it(pst_search_context *x, pst_search_candidates *set, pst_search_config *c,
                         pst_candidate *candidate, uint64_t *excess, uint32_t *stage) {
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
    PST_TRY(pst_search_predict(x, c, candidate, set->small ? PST_SCORE_SIMULATE : PST_SCORE_WALK));
    return is_better(set, candidate, 0) ? pst_search_check(x, candidate, excess, stage, &c->reserve)
                                        : PST_OK;
}

/* first_item and device are set. *excess: bytes over. */
static pst_status consider(pst_search_context *x, pst_search_candidates *set, pst_search_config *c,
                           pst_candidate *candidate, uint64_t *excess) {
    uint32_t stage = 0;
    *excess = 0;
    pst_status status = try_it(x, set, c, candidate, excess, &stage);
    if (status == PST_EINPUT) { /* no link, no such tensor degree on a kind, no such border */
        if (!set->row.best) snprintf(set->row.why, sizeof set->row.why, "%s", pst_error());
        pst_error_clear();
        return PST_OK;
    }
    return status == PST_OK ? keep(x, set, c, candidate, *excess, stage) : status;
}

static pst_status every_cut(pst_search_context *x, pst_search_candidates *set, pst_search_config *c,
                            pst_candidate *candidate) {
    for (uint32_t k = 0; k <= candidate->layout.n_chunk; k++)
        candidate->layout.first_item[k] =
            k == candidate->layout.n_chunk ? candidate->layout.n_item : k;
    do {
        uint64_t excess;
        c->reserve = 0; /* every cut has its own */
        PST_TRY(consider(x, set, c, candidate, &excess));
    } while (!pst_search_late(x) &&
             pst_search_next_cut(candidate->layout.first_item, candidate->layout.n_chunk,
                                 candidate->layout.n_item));
    return PST_OK;
}

/* The cut that a layout has, if it is that of every order (known). limit_ns: longer steps are of no
 * use. */
typedef struct {
    int known;
    uint64_t reserve, spare, bound_ns;
    uint64_t limit_ns;
    uint64_t more; /* bytes that another cut would have to leave */
} common_cut;

/* Cuts of several chunks do not depend on what lies between devices that are alike. */
static pst_status find_cut(pst_search_context *x, const pst_search_config *c,
                           pst_candidate *candidate, common_cut *cut, uint64_t *bound_ns) {
    if (cut->known && cut->reserve == c->reserve && cut->spare == c->spare) {
        *bound_ns = cut->bound_ns;
        return PST_OK;
    }
    cut->known = 0;
    PST_TRY(pst_search_cut(x, c, candidate, cut->limit_ns, bound_ns));
    *cut = (common_cut){x->alike && candidate->layout.n_chunk > c->pipeline,
                        c->reserve,
                        c->spare,
                        *bound_ns,
                        cut->limit_ns,
                        cut->more};
    return PST_OK;
}

/* Cuts of several chunks know nothing of links. */
static pst_status consider_narrow(pst_search_context *x, pst_search_candidates *set,
                                  pst_search_config *c, const pst_candidate *candidate) {
    const pst_search_table *t;
    pst_candidate *other;
    uint64_t excess;
    if (candidate->layout.n_chunk == c->pipeline || c->pipeline == 1 || !pst_search_is_quick(x))
        return PST_OK;
    PST_TRY(pst_search_table_of(x, c, x->problem->cluster->device[candidate->layout.device[0]].kind,
                                0, &t));
    if (!t->table) return PST_OK;
    PST_TRY(pst_candidate_copy(candidate, &other));
    pst_status status = pst_search_narrow(t, other) ? consider(x, set, c, other, &excess) : PST_OK;
    pst_candidate_close(other);
    return status;
}

/* bound_ns: of all cuts with this order that leave so much room. */
static pst_status one_cut(pst_search_context *x, pst_search_candidates *set, pst_search_config *c,
                          pst_candidate *candidate, common_cut *cut, uint64_t *bound_ns) {
    const uint64_t limit_ns = cut->limit_ns;
    uint64_t excess;
    cut->more = 0;
    x->limit_ns = set->row.fits ? set->row.best->step_ns : limit_ns; /* rows have their best, be
                                                                          it not that of all */
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
    status = consider(x, set, c, candidate, &excess);
    if (status == PST_OK && *bound_ns != UINT64_MAX) cut->more = excess;
    return status == PST_OK ? consider_narrow(x, set, c, candidate) : status;
}

/* Cuts that seemed to fit and do not are followed by those that leave more room. bound_ns: of
 * all. */
static pst_status best_cut(pst_search_context *x, pst_search_candidates *set, pst_search_config *c,
                           pst_candidate *candidate, common_cut *cut, uint64_t *bound_ns) {
    uint64_t least = UINT64_MAX;
    if (c->reserve || c->spare)
        *bound_ns = c->bound_ns; /* cuts in less room than there is bound nothing */
    for (int i = 0; i < ATTEMPTS; i++) {
        const uint64_t reserve = c->reserve, spare = c->spare;
        uint64_t bound = *bound_ns;
        PST_TRY(one_cut(x, set, c, candidate, cut, &bound));
        const uint64_t more = cut->more;
        if (!reserve && !spare) *bound_ns = bound;
        if (c->reserve > reserve) continue;
        if (!more || more >= least || (set->row.fits && c->guess_ns >= x->best_ns)) break;
        c->spare += more;
        least = more;
    }
    return PST_OK;
}

/* Of all cuts with this order, where what is prepared may be shorter than estimated. */
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
    for (uint32_t i = 0; i < set->orders.n && status == PST_OK && !(i && pst_search_late(x)); i++) {
        memcpy(candidate->layout.device, set->orders.device + (size_t)i * set->orders.size,
               set->orders.size * sizeof *candidate->layout.device);
        if (set->small) status = bound_cuts(x, c, candidate, &bound);
        if (set->small && status == PST_OK) status = every_cut(x, set, c, candidate);
        if (!set->small) {
            status = best_cut(x, set, c, candidate, &cut, &bound);
            x->limit_ns = UINT64_MAX;
        }
        if (bound < least) least = bound;
    }
    if (status == PST_OK && pst_search_late(x))
        least = c->bound_ns; /* perhaps not all have been evaluated */
    else if (set->small && set->orders.all && !x->problem->verify)
        c->closed = 1; /* steps are as they are estimated */
    if (least > c->bound_ns) c->bound_ns = least;
    pst_candidate_close(candidate);
    return status;
}

pst_status pst_search_evaluate(pst_search_context *x, pst_search_candidates *set,
                               pst_search_config *c, uint64_t limit_ns) {
    c->seen = 1;
    if (!set->orders.device) {
        PST_TRY(pst_search_orders_of(x->problem, c, &set->orders));
        if (!set->orders.n)
            snprintf(set->row.why, sizeof set->row.why,
                     "the nodes have fewer than %u groups of %u devices of one kind",
                     c->pipeline * c->data, c->tensor);
    }
    if (!set->orders.n) {
        set->n_config = 0;
        set->rest_ns = UINT64_MAX;
        return PST_OK;
    }
    return c->bound_ns >= limit_ns ? PST_OK : evaluate(x, set, c, limit_ns);
}
