/* Of the rows the best: refined, simulated, and prepared in full where the caller can, until the
 * first is. */
#include "partition/search/bound.h"
#include "partition/search/drive.h"
#include "partition/search/score.h"
#include <stdlib.h>
#include <string.h>

enum {
    UNEQUAL = 3,
    REFINED_QUICKLY = 8, /* rows */
    REFINED_PASSES = 8000000,
    QUICK_PASSES = 40000000,
    SHARES = 64,
    AGAIN = 12,
    PREPARED = 40,
    PREPARED_PASSES = 32768,
    FINALISTS = 6,
    VERIFIED = 12,
    VERIFIED_MOST = 64,
    NEAREST = 6,
    ROW_EVALUATIONS = 32,
    ROUNDS = 3,
    NEAR_PASSES = 32768
};
#define LONGER 1.01 /* than estimated */
#define NEARLY 1.1
#define REFINABLE 1.08 /* as much longer may be what is refined */
#define REFINABLE_QUICKLY 8.0
#define HOPEFUL 1.15 /* as much longer may be estimated what is prepared */

static int is_sure(const pst_search_candidates *set) {
    return set->row.fits && set->row.best->exact;
}

/* A set with the row's best of what is named, to be closed by close_other; it may have no
 * layout. */
static pst_status open_other(pst_search_all *s, const pst_search_candidates *set,
                             pst_search_along along, double refinable,
                             pst_search_candidates *other) {
    const uint64_t best = pst_search_step_of(set);
    *other = *set;
    /* what was estimated of all cuts has its best in the row */
    other->small &= !s->x.problem->verify;
    other->row.best = NULL;
    other->row.fits = 0;
    other->row.excess = 0;
    other->attributed = 0;
    other->sure = NULL;
    return pst_search_evaluate_along(s, other, along, best, (uint64_t)(refinable * (double)best),
                                     pst_search_hopeful_evaluations(s));
}

/* The other's layout is the row's if it is shorter, or is known as it is when the row's is not. */
static void close_other(pst_search_candidates *set, pst_search_candidates *other) {
    pst_candidate *rest = other->row.best;
    const int sure = is_sure(other);
    if (sure != is_sure(set) ? sure : pst_search_step_of(other) < pst_search_step_of(set)) {
        rest = set->row.best;
        set->row.best = other->row.best;
        set->best_config = other->best_config;
        set->attributed = 0;
    }
    pst_candidate_close(rest);
    other->row.best = NULL;
}

/* A row's best with one chunk per stage may hide one with several, whose cuts are not the best
 * before they are refined. */
static pst_status refine_hidden(pst_search_all *s, pst_search_candidates *set, uint64_t *passes) {
    const pst_search_along along = {.chunks = 1, .schedule = PST_NONE};
    pst_search_candidates other;
    if (set->row.pipeline == 1 || set->small || set->row.best->layout.n_chunk > set->row.pipeline)
        return PST_OK;
    pst_status status = open_other(s, set, along, REFINABLE, &other);
    if (status == PST_OK && other.row.fits) status = pst_search_refine(&s->x, &other, passes);
    close_other(set, &other);
    return status;
}

/* Of those that may be the best the cuts. */
static pst_status refine_rows(pst_search_all *s) {
    uint64_t passes = REFINED_PASSES;
    for (uint32_t i = 0;
         i < s->n_set && i < PST_SEARCH_REFINED && !pst_search_late(&s->x) && s->set[i].row.fits;
         i++) {
        PST_TRY(pst_search_refine(&s->x, &s->set[i], &passes));
        PST_TRY(refine_hidden(s, &s->set[i], &passes));
    }
    return PST_OK;
}

/* The best of every schedule, micro-batch, zero and sequence of the first rows. */
typedef struct {
    pst_search_candidates *of; /* whose it is */
    pst_search_candidates set;
} finalist;

static int by_finalist(const void *a, const void *b) {
    const finalist *x = a, *y = b;
    uint64_t p = pst_search_step_of(&x->set), q = pst_search_step_of(&y->set);
    if (p != q) return p < q ? -1 : 1;
    if (x->of != y->of) return x->of < y->of ? -1 : 1;
    return pst_search_by_guess(&x->set, &y->set);
}

static int differs(const pst_search_config *a, const pst_search_config *b) {
    return a->schedule != b->schedule || a->micro_batch != b->micro_batch || a->zero != b->zero ||
           a->sequence != b->sequence;
}

/* The row's own best, and others; list: room for one and all configurations of the set. */
static pst_status find_finalists(pst_search_all *s, pst_search_candidates *set, finalist *list,
                                 uint32_t *n) {
    list[*n] = (finalist){set, *set};
    list[*n].set.sure = NULL;
    PST_TRY(pst_candidate_copy(set->row.best, &list[*n].set.row.best));
    ++*n;
    for (uint32_t i = 0; i < set->n_config && !pst_search_late(&s->x); i++) {
        const pst_search_config *c = &set->config[i];
        const pst_search_along along = {.schedule = c->schedule,
                                        .one = 1,
                                        .micro_batch = c->micro_batch,
                                        .zero = c->zero,
                                        .sequence = c->sequence};
        uint32_t k = 0;
        while (k < i && differs(&set->config[k], c)) k++;
        if (k < i) continue;
        list[*n].of = set;
        pst_status status = open_other(s, set, along, REFINABLE_QUICKLY, &list[*n].set);
        if (status == PST_OK && list[*n].set.row.fits) ++*n;
        else pst_candidate_close(list[*n].set.row.best);
        PST_TRY(status);
    }
    return PST_OK;
}

/* The one estimated shortest of those that have not been prepared and may be the best: what has
 * been is at most a little shorter. NULL: there is none. */
static finalist *most_hopeful(finalist *list, uint32_t n) {
    uint64_t sure = UINT64_MAX, estimated = UINT64_MAX;
    finalist *next = NULL;
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t step = pst_search_step_of(&list[k].set);
        if (step == UINT64_MAX) continue;
        if (list[k].set.row.best->exact) sure = step < sure ? step : sure;
        else if (step < estimated) {
            estimated = step;
            next = &list[k];
        }
    }
    return next && (double)estimated <= HOPEFUL * (double)sure ? next : NULL;
}

/* Thoughts are as often too long as too short, and the best of many is one that is too short. */
static pst_status prepare_shortest(pst_search_all *s, finalist *list, uint32_t n) {
    const int most = s->x.problem->reorders ? FINALISTS : PREPARED;
    uint64_t passes = 0;
    for (int i = 0; i < most && s->x.problem->verify && !pst_search_late(&s->x); i++) {
        finalist *best = most_hopeful(list, n);
        if (!best) break;
        passes += (uint64_t)best->set.row.best->layout.n_chunk * best->set.row.best->layout.n_micro;
        if (i && passes > PREPARED_PASSES) break;
        s->n_early++;
        PST_TRY(pst_search_verify(&s->x, &best->set));
        if (best->set.row.best && best->set.row.fits) continue;
        pst_candidate_close(best->set.row.best);
        best->set.row.best = NULL;
        best->set.row.fits = 0;
    }
    return PST_OK;
}

/* In the order of the list, which is sorted before, each by so many passes at most. */
static pst_status refine_finalists(pst_search_all *s, finalist *list, uint32_t n, uint64_t each,
                                   uint64_t *passes) {
    qsort(list, n, sizeof *list, by_finalist);
    for (uint32_t k = 0; k < n && *passes && !pst_search_late(&s->x); k++) {
        const uint64_t own = each < *passes ? each : *passes;
        uint64_t left = own;
        PST_TRY(pst_search_refine(&s->x, &list[k].set, &left));
        *passes -= own - left;
    }
    return PST_OK;
}

/* Where an evaluation takes little: between schedules and micro-batches cuts that are not refined
 * say little. */
static pst_status refine_all(pst_search_all *s) {
    const pst_search_problem *p = s->x.problem;
    const uint32_t rows = s->n_set < REFINED_QUICKLY ? s->n_set : REFINED_QUICKLY;
    uint64_t passes = QUICK_PASSES;
    uint32_t n = 0;
    size_t room = 1;
    for (uint32_t i = 0; i < rows; i++) room += s->set[i].n_config + (size_t)1;
    finalist *list = malloc(room * sizeof *list);
    if (!list) return pst_fail(PST_ENOMEM, "no memory to search");
    pst_status status = PST_OK;
    for (uint32_t i = 0; i < rows && status == PST_OK && s->set[i].row.fits; i++)
        if (s->set[i].small ? p->verify != NULL : s->set[i].row.pipeline > 1)
            status = find_finalists(s, &s->set[i], list, &n);
    if (status == PST_OK) status = refine_finalists(s, list, n, passes / SHARES, &passes);
    if (status == PST_OK)
        status = refine_finalists(s, list, n < AGAIN ? n : AGAIN, passes, &passes);
    if (status == PST_OK) status = prepare_shortest(s, list, n);
    for (uint32_t k = 0; k < n; k++) close_other(list[k].of, &list[k].set);
    free(list);
    return status;
}

pst_status pst_search_refine_best(pst_search_all *s) {
    s->x.best_ns = UINT64_MAX; /* they are checked whatever the others are */
    PST_TRY(refine_rows(s));
    if (pst_search_is_quick(&s->x)) PST_TRY(refine_all(s));
    pst_search_sort(s);
    return PST_OK;
}

static pst_status add_set(pst_search_all *s, const pst_search_candidates *set) {
    pst_search_candidates *more = realloc(s->set, (s->n_set + (size_t)1) * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory to search");
    s->set = more;
    s->set[s->n_set++] = *set;
    return PST_OK;
}

/* From those that may be the best on: stages with different numbers of tensor ranks. */
pst_status pst_search_try_unequal(pst_search_all *s) {
    const uint32_t n = s->n_set;
    if (!pst_search_has_unequal(s->x.problem)) return PST_OK;
    PST_TRY(pst_search_least_unequal(&s->x, &s->unequal_ns));
    for (uint32_t i = 0; i < n && i < UNEQUAL && !pst_search_late(&s->x) && s->set[i].row.fits;
         i++) {
        pst_search_candidates found;
        if (s->set[i].row.pipeline == 1 || s->unequal_ns >= pst_search_shortest(s)) continue;
        PST_TRY(pst_search_unequal(&s->x, &s->set[i], pst_search_shortest(s), &found));
        if (!found.row.best) continue;
        pst_status status = add_set(s, &found);
        if (status != PST_OK) pst_search_candidates_close(&found);
        PST_TRY(status);
    }
    pst_search_sort(s);
    return PST_OK;
}

/* Walks end no later than simulations: whoever walks longer than the best was simulated is not the
 * best. */
pst_status pst_search_simulate_best(pst_search_all *s) {
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_set && i < FINALISTS; i++) {
        pst_search_candidates *set = &s->set[i];
        if (pst_search_step_of(set) >= best || (i && pst_search_late(&s->x))) break;
        const int sure = is_sure(set);
        if (!sure && !set->small)
            PST_TRY(
                pst_search_predict(&s->x, &set->best_config, set->row.best, PST_SCORE_SIMULATE));
        if (!sure) PST_TRY(pst_search_plainer(&s->x, set));
        if (pst_search_step_of(set) < best) best = pst_search_step_of(set);
    }
    pst_search_sort(s);
    return PST_OK;
}

/* What turned out to take more is looked for again, in so much less room. */
static pst_status evaluate_again(pst_search_all *s, pst_search_candidates *set) {
    const pst_search_config failed = set->best_config;
    uint64_t best = s->x.best_ns = pst_search_shortest(s);
    for (uint32_t k = 0; k < set->n_config; k++) {
        pst_search_config *c = &set->config[k];
        if (c->schedule == failed.schedule && c->reserve < failed.reserve)
            c->reserve = failed.reserve;
    }
    pst_candidate_close(set->row.best);
    set->row.best = NULL;
    set->row.excess = 0;
    *set->row.why = 0;
    return pst_search_evaluate_row(s, set, &best);
}

/* What the step of what comes nearest in a row where nothing fits is no shorter than: its order of
 * passes would take long to make, and nothing depends on it. Or why it cannot be had. */
pst_status pst_search_predict_nearest(pst_search_all *s, pst_search_candidates *set) {
    pst_status status =
        pst_search_predict(&s->x, &set->best_config, set->row.best, PST_SCORE_EARLY);
    if (status != PST_EINPUT) return status;
    snprintf(set->row.why, sizeof set->row.why, "%s", pst_error());
    pst_error_clear();
    pst_candidate_close(set->row.best);
    set->row.best = NULL;
    set->row.excess = 0;
    return PST_OK;
}

/* Nothing fits: of what comes nearest, how near it does. */
pst_status pst_search_verify_nearest(pst_search_all *s) {
    for (uint32_t i = 0; i < s->n_set && i < NEAREST && s->x.problem->verify && !s->x.problem->any;
         i++) {
        if (pst_search_late(&s->x)) break;
        pst_search_candidates *set = &s->set[i];
        if (!set->row.best || set->row.best->exact) continue;
        PST_TRY(pst_search_predict_nearest(s, set));
        if (set->row.best) PST_TRY(pst_search_verify(&s->x, set));
    }
    pst_search_sort(s);
    return PST_OK;
}

/* The first that is not verified, if it may be the best; where orders are found anew, one of
 * several. NULL: none. */
static pst_search_candidates *to_verify(const pst_search_all *s) {
    uint32_t n = s->x.problem->reorders ? FINALISTS : 1;
    for (uint32_t i = 0; i < n && i < s->n_set && s->set[i].row.fits; i++)
        if (!s->set[i].row.best->exact) return &s->set[i];
    return NULL;
}

/* The best of what is verified; n_lot: nothing that fits is. */
static uint32_t first_sure(const pst_search_all *s) {
    uint32_t i = 0;
    while (i < s->n_set && !is_sure(&s->set[i])) i++;
    return i;
}

/* What was prepared is not lost to what promises to be shorter. */
static pst_status keep_sure(pst_search_candidates *set) {
    pst_candidate *copy;
    PST_TRY(pst_candidate_copy(set->row.best, &copy));
    pst_candidate_close(set->sure);
    set->sure = copy;
    set->sure_config = set->best_config;
    return PST_OK;
}

static void take_sure(pst_search_candidates *set) {
    if (!set->sure) return;
    pst_candidate_close(set->row.best);
    set->row.best = set->sure;
    set->best_config = set->sure_config;
    set->sure = NULL;
    set->row.fits = 1;
    set->row.excess = 0;
    *set->row.why = 0;
    set->attributed = 0;
}

/* It turned out longer than estimated, as others of its kind may: what of its row was passed over
 * for it may be shorter. */
static pst_status evaluate_past(pst_search_all *s, pst_search_candidates *set, uint64_t by_ns) {
    const pst_search_config longer = set->best_config;
    for (uint32_t k = 0; k < set->n_config; k++) {
        pst_search_config *c = &set->config[k];
        if (c->schedule == longer.schedule && c->zero == longer.zero) c->more_ns += by_ns;
    }
    if (!set->sure || set->sure->step_ns > set->row.best->step_ns) PST_TRY(keep_sure(set));
    else take_sure(set);
    s->x.best_ns = pst_search_shortest(s);
    const pst_search_along all = {.schedule = PST_NONE};
    return pst_search_evaluate_along(s, set, all, UINT64_MAX, UINT64_MAX,
                                     set->small ? set->n_config : ROW_EVALUATIONS);
}

static pst_status verify_one(pst_search_all *s, pst_search_candidates *set) {
    const uint64_t estimated_ns = set->row.best->step_ns;
    PST_TRY(pst_search_verify(&s->x, set));
    if (set->row.best && !set->row.fits) PST_TRY(evaluate_again(s, set));
    if (!is_sure(set) && set->sure && pst_search_step_of(set) >= set->sure->step_ns) take_sure(set);
    else if (is_sure(set) && (double)set->row.best->step_ns > LONGER * (double)estimated_ns)
        return evaluate_past(s, set, set->row.best->step_ns - estimated_ns);
    return PST_OK;
}

/* Until the first is verified: what is not as good as predicted, or does not fit, falls behind. Out
 * of time, until one is, which then is the first: what is said of the best holds. */
static pst_status verify_first(pst_search_all *s) {
    const uint64_t enough = pst_search_is_small(s->x.problem) ? VERIFIED_MOST : VERIFIED;
    pst_search_candidates *set;
    while (s->x.problem->verify && s->x.n_verified - s->n_early < VERIFIED_MOST &&
           (set = to_verify(s))) {
        if ((pst_search_late(&s->x) || s->x.n_verified - s->n_early >= enough) &&
            first_sure(s) < s->n_set)
            break;
        PST_TRY(verify_one(s, set));
        pst_search_sort(s);
    }
    for (uint32_t i = 0; i < s->n_set; i++)
        if (!is_sure(&s->set[i])) take_sure(&s->set[i]);
    pst_search_sort(s);
    const uint32_t sure = first_sure(s);
    if (sure == s->n_set || is_sure(&s->set[0])) return PST_OK;
    pst_search_candidates best = s->set[sure];
    memmove(&s->set[1], s->set, sure * sizeof *s->set);
    s->set[0] = best;
    return PST_OK;
}

/* What is nearly as good is perhaps better: ranks of a node that share its NICs are estimated to
 * send at the same time, and often do not. As many as take little. */
static pst_status verify_near(pst_search_all *s) {
    uint64_t passes = 0;
    for (uint32_t i = 1;
         i < s->n_set && i < FINALISTS && s->x.problem->verify && !pst_search_late(&s->x); i++) {
        pst_search_candidates *set = &s->set[i];
        if (!set->row.fits ||
            (double)pst_search_step_of(set) > NEARLY * (double)pst_search_shortest(s))
            break;
        passes += (uint64_t)set->row.best->layout.n_chunk * set->row.best->layout.n_micro;
        if (passes > NEAR_PASSES) break;
        if (!is_sure(set)) PST_TRY(verify_one(s, set));
    }
    pst_search_sort(s);
    return PST_OK;
}

/* Again where the best turned out longer than estimated: other rows were passed over for that. */
pst_status pst_search_verify_best(pst_search_all *s) {
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t estimated_ns = pst_search_shortest(s);
        PST_TRY(verify_first(s));
        const uint64_t is = pst_search_shortest(s);
        if (is == UINT64_MAX || (double)is <= LONGER * (double)estimated_ns ||
            pst_search_late(&s->x))
            break;
        s->x.best_ns = is;
        PST_TRY(pst_search_evaluate_further(s));
        pst_search_sort(s);
    }
    PST_TRY(verify_near(s));
    return verify_first(s);
}
