/* Improves and verifies the best rows: refines their cuts, simulates them and, where the caller
 * can, prepares them (exact step and memory) until the first row is verified. */
#include "partition/search/bound.h"
#include "partition/search/candidates.h"
#include "partition/search/score.h"
#include <stdlib.h>
#include <string.h>

enum {
    UNEQUAL = 3,
    REFINED_QUICKLY = 8, /* rows */
    REFINED_PASSES = 8000000,
    QUICK_PASSES = 40000000,
    FLAT_PASSES = 10000000,
    SHARES = 64,
    AGAIN = 12,
    PREPARED = 40,
    PREPARED_PASSES = 32768,
    HOPEFUL = 4,
    FINALISTS = 6,
    VERIFIED = 12,
    VERIFIED_MOST = 64,
    NEAREST = 1,
    ROW_EVALUATIONS = 32,
    ROUNDS = 3,
    NEAR_PASSES = 32768,
    NEAR_ITEM = 8 /* passes that take as long to prepare as one operator */
};
/* estimates that are lower than the prepared step by more make the row be searched again */
#define LONGER 1.01
#define NEARLY 1.1
#define REFINABLE                                                                                  \
    1.08 /* rows whose estimated step is at most this many times the best one are refined */
#define REFINABLE_QUICKLY 8.0
#define PROMISING                                                                                  \
    1.15 /* layouts whose estimated step is at most this many times the best verified one are      \
            prepared */

static int is_verified(const pst_search_candidates *set) {
    return set->row.fits && set->row.best->exact;
}

/* A copy of the set with the best layout that matches the filter, which may be none. close_other
 * closes it. */
static pst_status open_other(pst_search_state *s, const pst_search_candidates *set,
                             pst_search_filter filter, double refinable,
                             pst_search_candidates *other) {
    const uint64_t best = pst_search_step_of(set);
    *other = *set;
    /* small sets: the row already has the best estimate over all cuts */
    other->small &= !s->x.problem->verify;
    other->row.best = NULL;
    other->row.fits = 0;
    other->row.excess = 0;
    other->attributed = 0;
    other->verified = NULL;
    return pst_search_evaluate_matching(
        s, other, filter, best, (uint64_t)(refinable * (double)best), pst_search_patience(s));
}

/* The other layout replaces the row's if its step is shorter, or if only the other is verified. */
static void close_other(pst_search_candidates *set, pst_search_candidates *other) {
    pst_candidate *rest = other->row.best;
    const int verified = is_verified(other);
    if (verified != is_verified(set) ? verified
                                     : pst_search_step_of(other) < pst_search_step_of(set)) {
        rest = set->row.best;
        set->row.best = other->row.best;
        set->best_config = other->best_config;
        set->attributed = 0;
    }
    pst_candidate_close(rest);
    other->row.best = NULL;
}

/* If the best layout of a row has one chunk per stage, a layout with several chunks may become
 * better by refinement, because cuts into several chunks are poor before they are refined. */
static pst_status refine_more_chunks(pst_search_state *s, pst_search_candidates *set,
                                     uint64_t *passes) {
    const pst_search_filter filter = {.chunks = 1, .schedule = PST_NONE};
    pst_search_candidates other;
    if (set->row.pipeline == 1 || set->small || set->row.best->layout.n_chunk > set->row.pipeline)
        return PST_OK;
    pst_status status = open_other(s, set, filter, REFINABLE, &other);
    if (status == PST_OK && other.row.fits) status = pst_search_refine(&s->x, &other, passes);
    close_other(set, &other);
    return status;
}

/* Refines the cuts of the first rows. */
static pst_status refine_rows(pst_search_state *s) {
    uint64_t passes = REFINED_PASSES;
    for (uint32_t i = 0; i < s->n_set && i < PST_SEARCH_REFINED_ROWS &&
                         !pst_search_timed_out(&s->x) && s->set[i].row.fits;
         i++) {
        PST_TRY(pst_search_refine(&s->x, &s->set[i], &passes));
        PST_TRY(refine_more_chunks(s, &s->set[i], &passes));
    }
    return PST_OK;
}

/* For each of the first rows: the best layout of every schedule, micro-batch, ZeRO stage and
 * sequence setting. */
typedef struct {
    pst_search_candidates *of; /* the row it comes from */
    pst_search_candidates set;
    int flat; /* 1: found with flat exchanges between replicas */
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

/* list has capacity for as many more as the set has configurations. */
static pst_status find_others(pst_search_state *s, pst_search_candidates *set, finalist *list,
                              uint32_t *n) {
    for (uint32_t i = 0; i < set->n_config && !pst_search_timed_out(&s->x); i++) {
        const pst_search_config *c = &set->config[i];
        const pst_search_filter filter = {.schedule = c->schedule,
                                          .exact = 1,
                                          .micro_batch = c->micro_batch,
                                          .zero = c->zero,
                                          .sequence = c->sequence};
        uint32_t k = 0;
        while (k < i && differs(&set->config[k], c)) k++;
        if (k < i) continue;
        list[*n] = (finalist){.of = set};
        pst_status status = open_other(s, set, filter, REFINABLE_QUICKLY, &list[*n].set);
        if (status == PST_OK && list[*n].set.row.fits) ++*n;
        else pst_candidate_close(list[*n].set.row.best);
        PST_TRY(status);
    }
    return PST_OK;
}

/* The row's own best layout, then the others. list has capacity for one more than the
 * configurations of the set. */
static pst_status find_finalists(pst_search_state *s, pst_search_candidates *set, finalist *list,
                                 uint32_t *n) {
    list[*n] = (finalist){.of = set, .set = *set};
    list[*n].set.verified = NULL;
    PST_TRY(pst_candidate_copy(set->row.best, &list[*n].set.row.best));
    ++*n;
    return find_others(s, set, list, n);
}

/* Which exchange between replicas is shorter is only known once the layout is prepared, and each
 * has another best cut: adds those with a flat exchange. */
static pst_status find_flat(pst_search_state *s, pst_search_candidates *set, finalist *list,
                            uint32_t *n) {
    const uint32_t first = *n;
    if (!pst_search_is_two_level(s->x.problem, &set->best_config, 2)) return PST_OK;
    s->x.flat = 1;
    pst_status status = find_others(s, set, list, n);
    s->x.flat = 0;
    for (uint32_t k = first; k < *n; k++) list[k].flat = 1;
    return status;
}

/* The shortest estimate of a layout that is not prepared and may be the best. NULL: none. */
static finalist *most_promising(finalist *list, uint32_t n) {
    uint64_t verified = UINT64_MAX, estimated = UINT64_MAX;
    finalist *next = NULL;
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t step = pst_search_step_of(&list[k].set);
        if (step == UINT64_MAX) continue;
        if (list[k].set.row.best->exact) verified = step < verified ? step : verified;
        else if (step < estimated) {
            estimated = step;
            next = &list[k];
        }
    }
    return next && (double)estimated <= PROMISING * (double)verified ? next : NULL;
}

/* Estimates are as often too low as too high, so that the shortest of many is probably too low:
 * prepare it, then look for the next one. */
static pst_status prepare_shortest(pst_search_state *s, finalist *list, uint32_t n) {
    const int most = s->x.problem->reorders ? FINALISTS : PREPARED;
    uint64_t passes = 0;
    for (int i = 0; i < most && s->x.problem->verify && !pst_search_timed_out(&s->x); i++) {
        finalist *best = most_promising(list, n);
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

/* In ascending order of the step, at most `each` passes per layout. */
static pst_status refine_finalists(pst_search_state *s, finalist *list, uint32_t n, uint64_t each,
                                   uint64_t *passes) {
    qsort(list, n, sizeof *list, by_finalist);
    for (uint32_t k = 0; k < n && *passes && !pst_search_timed_out(&s->x); k++) {
        const uint64_t own = each < *passes ? each : *passes;
        uint64_t left = own;
        s->x.flat = list[k].flat;
        const pst_status status = pst_search_refine(&s->x, &list[k].set, &left);
        s->x.flat = 0;
        PST_TRY(status);
        *passes -= own - left;
    }
    return PST_OK;
}

/* find: adds the finalists of a row. */
typedef pst_status finder(pst_search_state *s, pst_search_candidates *set, finalist *list,
                          uint32_t *n);

/* Refines layouts of all schedules and micro-batches: unrefined cuts do not tell which of them is
 * best. */
static pst_status refine_found(pst_search_state *s, finder *find, uint64_t passes) {
    const pst_search_problem *p = s->x.problem;
    const uint32_t rows = s->n_set < REFINED_QUICKLY ? s->n_set : REFINED_QUICKLY;
    uint32_t n = 0;
    size_t capacity = 1;
    for (uint32_t i = 0; i < rows; i++) capacity += s->set[i].n_config + (size_t)1;
    finalist *list = malloc(capacity * sizeof *list);
    if (!list) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    pst_status status = PST_OK;
    for (uint32_t i = 0; i < rows && status == PST_OK && s->set[i].row.fits; i++)
        if (s->set[i].small ? p->verify != NULL : s->set[i].row.pipeline > 1)
            status = find(s, &s->set[i], list, &n);
    if (status == PST_OK) status = refine_finalists(s, list, n, passes / SHARES, &passes);
    if (status == PST_OK)
        status = refine_finalists(s, list, n < AGAIN ? n : AGAIN, passes, &passes);
    if (status == PST_OK) status = prepare_shortest(s, list, n);
    for (uint32_t k = 0; k < n; k++) close_other(list[k].of, &list[k].set);
    free(list);
    return status;
}

/* The shortest estimate of a layout that is not prepared and that would be the best if its
 * exchanges took no time. NULL: none. */
static finalist *most_hopeful(finalist *list, uint32_t n, uint64_t shortest) {
    finalist *next = NULL;
    for (uint32_t k = 0; k < n; k++) {
        const pst_candidate *c = list[k].set.row.best;
        if (!c || c->exact || c->step_ns - c->flush_ns >= shortest) continue;
        if (!next || c->step_ns < pst_search_step_of(&next->set)) next = &list[k];
    }
    return next;
}

/* Estimates count the exchanges of a stage after its last pass. Where the only stage has several
 * chunks, most of them run beside the passes of the other chunks: prepares a few such layouts. */
static pst_status prepare_single(pst_search_state *s, pst_search_candidates *set) {
    finalist *list = malloc((set->n_config + (size_t)1) * sizeof *list);
    uint32_t n = 0;
    if (!list) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    pst_status status = find_finalists(s, set, list, &n);
    for (int i = 0; i < HOPEFUL && status == PST_OK && !pst_search_timed_out(&s->x); i++) {
        finalist *next = most_hopeful(list, n, pst_search_shortest(s));
        if (!next) break;
        status = pst_search_verify(&s->x, &next->set);
        if (status != PST_OK || next->set.row.fits) continue;
        pst_candidate_close(next->set.row.best);
        next->set.row.best = NULL;
    }
    for (uint32_t k = 0; k < n; k++) close_other(set, &list[k].set);
    free(list);
    return status;
}

/* Where an evaluation is cheap. */
static pst_status refine_all(pst_search_state *s) {
    PST_TRY(refine_found(s, find_finalists, QUICK_PASSES));
    PST_TRY(refine_found(s, find_flat, FLAT_PASSES));
    for (uint32_t i = 0; i < s->n_set && s->x.problem->verify; i++) {
        pst_search_candidates *set = &s->set[i];
        if (set->row.pipeline > 1 || set->row.data == 1 || !set->row.fits || set->small) continue;
        /* the best row is prepared in any case */
        if (pst_search_step_of(set) > pst_search_shortest(s)) PST_TRY(prepare_single(s, set));
    }
    return PST_OK;
}

pst_status pst_search_refine_best(pst_search_state *s) {
    s->x.best_ns = UINT64_MAX; /* verify these rows independently of the steps of other rows */
    PST_TRY(refine_rows(s));
    if (pst_search_is_cheap(&s->x)) PST_TRY(refine_all(s));
    pst_search_sort(s);
    return PST_OK;
}

static pst_status add_set(pst_search_state *s, const pst_search_candidates *set) {
    pst_search_candidates *more = realloc(s->set, (s->n_set + (size_t)1) * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    s->set = more;
    s->set[s->n_set++] = *set;
    return PST_OK;
}

/* Starting from the best rows, tries stages with different numbers of tensor ranks. */
pst_status pst_search_try_unequal(pst_search_state *s) {
    const uint32_t n = s->n_set;
    if (!pst_search_has_unequal(s->x.problem)) return PST_OK;
    PST_TRY(pst_search_unequal_bound(&s->x, &s->unequal_ns));
    for (uint32_t i = 0; i < n && i < UNEQUAL && !pst_search_timed_out(&s->x) && s->set[i].row.fits;
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

/* The longest path is never longer than the simulated step: a layout whose path is longer than the
 * best simulated step is not the best. */
pst_status pst_search_simulate_best(pst_search_state *s) {
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_set && i < FINALISTS; i++) {
        pst_search_candidates *set = &s->set[i];
        if (pst_search_step_of(set) >= best) break;
        /* the first one will be verified, which tells the same */
        if (pst_search_timed_out(&s->x) && (i || s->x.problem->verify)) break;
        const int verified = is_verified(set);
        if (!verified && !set->small)
            PST_TRY(
                pst_search_predict(&s->x, &set->best_config, set->row.best, PST_SCORE_SIMULATE));
        if (!verified) PST_TRY(pst_search_lower_zero(&s->x, set));
        if (pst_search_step_of(set) < best) best = pst_search_step_of(set);
    }
    pst_search_sort(s);
    return PST_OK;
}

/* The layout needed more memory than estimated: searches the row again with so much less memory. */
static pst_status evaluate_again(pst_search_state *s, pst_search_candidates *set) {
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

/* In a row where nothing fits: sets the step of the nearest layout to a lower bound (building its
 * order of passes would take long, and nothing depends on it), or says why the layout is
 * infeasible. */
pst_status pst_search_predict_nearest(pst_search_state *s, pst_search_candidates *set) {
    pst_status status =
        pst_search_predict(&s->x, &set->best_config, set->row.best, PST_SCORE_BOUND);
    if (status != PST_EINPUT) return status;
    snprintf(set->row.why, sizeof set->row.why, "%s", pst_error());
    pst_error_clear();
    pst_candidate_close(set->row.best);
    set->row.best = NULL;
    set->row.excess = 0;
    return PST_OK;
}

/* Where nothing fits: prepares the nearest layouts, to know exactly how much memory they lack. */
pst_status pst_search_verify_nearest(pst_search_state *s) {
    for (uint32_t i = 0; i < s->n_set && i < NEAREST && s->x.problem->verify && !s->x.problem->any;
         i++) {
        if (pst_search_timed_out(&s->x)) break;
        pst_search_candidates *set = &s->set[i];
        if (!set->row.best || set->row.best->exact) continue;
        PST_TRY(pst_search_predict_nearest(s, set));
        if (set->row.best) PST_TRY(pst_search_verify(&s->x, set));
    }
    pst_search_sort(s);
    return PST_OK;
}

/* The first row that is not verified and may be the best. Where `verify` looks for its own order of
 * passes: one of several rows. NULL: none. */
static pst_search_candidates *to_verify(const pst_search_state *s) {
    uint32_t n = s->x.problem->reorders ? FINALISTS : 1;
    for (uint32_t i = 0; i < n && i < s->n_set && s->set[i].row.fits; i++)
        if (!s->set[i].row.best->exact) return &s->set[i];
    return NULL;
}

/* Index of the first verified row that fits; n_set: none. */
static uint32_t first_verified(const pst_search_state *s) {
    uint32_t i = 0;
    while (i < s->n_set && !is_verified(&s->set[i])) i++;
    return i;
}

/* Keeps the verified layout while an estimate that promises a shorter step replaces it. */
static pst_status keep_verified(pst_search_candidates *set) {
    pst_candidate *copy;
    PST_TRY(pst_candidate_copy(set->row.best, &copy));
    pst_candidate_close(set->verified);
    set->verified = copy;
    set->verified_config = set->best_config;
    return PST_OK;
}

static void restore_verified(pst_search_candidates *set) {
    if (!set->verified) return;
    pst_candidate_close(set->row.best);
    set->row.best = set->verified;
    set->best_config = set->verified_config;
    set->verified = NULL;
    set->row.fits = 1;
    set->row.excess = 0;
    *set->row.why = 0;
    set->attributed = 0;
}

/* Called if a layout takes longer than estimated, which may hold for similar layouts: evaluates the
 * configurations of the row that were skipped because of that estimate. */
static pst_status evaluate_skipped(pst_search_state *s, pst_search_candidates *set,
                                   uint64_t by_ns) {
    const pst_search_config longer = set->best_config;
    for (uint32_t k = 0; k < set->n_config; k++) {
        pst_search_config *c = &set->config[k];
        if (c->schedule == longer.schedule && c->zero == longer.zero) c->correction_ns += by_ns;
    }
    if (!set->verified || set->verified->step_ns > set->row.best->step_ns)
        PST_TRY(keep_verified(set));
    else restore_verified(set);
    s->x.best_ns = pst_search_shortest(s);
    const pst_search_filter all = {.schedule = PST_NONE};
    return pst_search_evaluate_matching(s, set, all, UINT64_MAX, UINT64_MAX,
                                        set->small ? set->n_config : ROW_EVALUATIONS);
}

static pst_status verify_one(pst_search_state *s, pst_search_candidates *set) {
    const uint64_t estimated_ns = set->row.best->step_ns;
    PST_TRY(pst_search_verify(&s->x, set));
    if (set->row.best && !set->row.fits) PST_TRY(evaluate_again(s, set));
    if (!is_verified(set) && set->verified && pst_search_step_of(set) >= set->verified->step_ns)
        restore_verified(set);
    else if (is_verified(set) && (double)set->row.best->step_ns > LONGER * (double)estimated_ns)
        return evaluate_skipped(s, set, set->row.best->step_ns - estimated_ns);
    return PST_OK;
}

/* Verifies until the first row is verified: a layout that is slower than estimated, or does not
 * fit, moves down. When time is over, one verified row is enough and becomes the first. */
static pst_status verify_first(pst_search_state *s) {
    const uint64_t enough = pst_search_is_small(s->x.problem) ? VERIFIED_MOST : VERIFIED;
    pst_search_candidates *set;
    while (s->x.problem->verify && s->x.n_verified - s->n_early < VERIFIED_MOST &&
           (set = to_verify(s))) {
        if ((pst_search_timed_out(&s->x) || s->x.n_verified - s->n_early >= enough) &&
            first_verified(s) < s->n_set)
            break;
        PST_TRY(verify_one(s, set));
        pst_search_sort(s);
    }
    for (uint32_t i = 0; i < s->n_set; i++)
        if (!is_verified(&s->set[i])) restore_verified(&s->set[i]);
    pst_search_sort(s);
    const uint32_t verified = first_verified(s);
    if (verified == s->n_set || is_verified(&s->set[0])) return PST_OK;
    pst_search_candidates best = s->set[verified];
    memmove(&s->set[1], s->set, verified * sizeof *s->set);
    s->set[0] = best;
    return PST_OK;
}

/* Verifies rows that are nearly as good as the best: their estimates assume that all ranks of a
 * node use its NICs at the same time, which is often too slow. */
static pst_status verify_near(pst_search_state *s) {
    uint64_t passes = 0;
    for (uint32_t i = 1;
         i < s->n_set && i < FINALISTS && s->x.problem->verify && !pst_search_timed_out(&s->x);
         i++) {
        pst_search_candidates *set = &s->set[i];
        if (!set->row.fits ||
            (double)pst_search_step_of(set) > NEARLY * (double)pst_search_shortest(s))
            break;
        passes += (uint64_t)set->row.best->layout.n_chunk * set->row.best->layout.n_micro +
                  NEAR_ITEM * (uint64_t)set->row.best->layout.n_item;
        if (passes > NEAR_PASSES) break;
        if (!is_verified(set)) PST_TRY(verify_one(s, set));
    }
    pst_search_sort(s);
    return PST_OK;
}

/* Repeats when the best layout turned out longer than estimated, because other rows were skipped
 * for that estimate. */
pst_status pst_search_verify_best(pst_search_state *s) {
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t estimated_ns = pst_search_shortest(s);
        PST_TRY(verify_first(s));
        const uint64_t is = pst_search_shortest(s);
        if (is == UINT64_MAX || (double)is <= LONGER * (double)estimated_ns ||
            pst_search_timed_out(&s->x))
            break;
        s->x.best_ns = is;
        PST_TRY(pst_search_evaluate_further(s));
        pst_search_sort(s);
    }
    PST_TRY(verify_near(s));
    return verify_first(s);
}
