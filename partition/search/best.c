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
    CANDIDATES = 40,
    CANDIDATE_PASSES = 32768,
    FINALISTS = 6,
    VERIFIED = 12,
    VERIFIED_MOST = 64,
    NEAREST = 6,
    ROW_LOOKS = 32,
    ROUNDS = 3,
    NEAR_PASSES = 32768
};
#define LONGER 1.01 /* than thought */
#define NEARLY 1.1
#define REFINABLE 1.08 /* as much longer may be what is refined */
#define REFINABLE_QUICKLY 8.0
#define HOPEFUL 1.15 /* as much longer may be thought what is prepared */

static int is_sure(const pst_search_lot *lot) { return lot->row.fits && lot->row.layout->exact; }

/* A lot with the row's best of what is named, to be closed by close_other; it may have no
 * layout. */
static pst_status open_other(pst_search_all *s, const pst_search_lot *lot, pst_search_along along,
                             double refinable, pst_search_lot *other) {
    const uint64_t best = pst_search_step_of(lot);
    *other = *lot;
    other->small &= !s->x.problem->verify; /* what was thought of all cuts has its best in the
                                              row */
    other->row.layout = NULL;
    other->row.fits = 0;
    other->row.excess = 0;
    other->accounted = 0;
    other->sure = NULL;
    return pst_search_look_along(s, other, along, best, (uint64_t)(refinable * (double)best),
                                 pst_search_hopeful_looks(s));
}

/* The other's layout is the row's if it is shorter, or is known as it is when the row's is not. */
static void close_other(pst_search_lot *lot, pst_search_lot *other) {
    pst_layout *rest = other->row.layout;
    const int sure = is_sure(other);
    if (sure != is_sure(lot) ? sure : pst_search_step_of(other) < pst_search_step_of(lot)) {
        rest = lot->row.layout;
        lot->row.layout = other->row.layout;
        lot->best = other->best;
        lot->accounted = 0;
    }
    pst_layout_close(rest);
    other->row.layout = NULL;
}

/* A row's best with one chunk per stage may hide one with several, whose cuts are not the best
 * before they are refined. */
static pst_status refine_hidden(pst_search_all *s, pst_search_lot *lot, uint64_t *passes) {
    const pst_search_along along = {.chunks = 1, .schedule = PST_NONE};
    pst_search_lot other;
    if (lot->row.pipeline == 1 || lot->small || lot->row.layout->n_chunk > lot->row.pipeline)
        return PST_OK;
    pst_status status = open_other(s, lot, along, REFINABLE, &other);
    if (status == PST_OK && other.row.fits) status = pst_search_refine(&s->x, &other, passes);
    close_other(lot, &other);
    return status;
}

/* Of those that may be the best the cuts. */
static pst_status refine_rows(pst_search_all *s) {
    uint64_t passes = REFINED_PASSES;
    for (uint32_t i = 0;
         i < s->n_lot && i < PST_SEARCH_REFINED && !pst_search_late(&s->x) && s->lot[i].row.fits;
         i++) {
        PST_TRY(pst_search_refine(&s->x, &s->lot[i], &passes));
        PST_TRY(refine_hidden(s, &s->lot[i], &passes));
    }
    return PST_OK;
}

/* The best of every schedule, micro-batch, zero and sequence of the first rows. */
typedef struct {
    pst_search_lot *of; /* whose it is */
    pst_search_lot lot;
} candidate;

static int by_candidate(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    uint64_t p = pst_search_step_of(&x->lot), q = pst_search_step_of(&y->lot);
    if (p != q) return p < q ? -1 : 1;
    if (x->of != y->of) return x->of < y->of ? -1 : 1;
    return pst_search_by_guess(&x->lot, &y->lot);
}

static int differs(const pst_search_config *a, const pst_search_config *b) {
    return a->schedule != b->schedule || a->micro_batch != b->micro_batch || a->zero != b->zero ||
           a->sequence != b->sequence;
}

/* The row's own best, and others; list: room for one and all configurations of the lot. */
static pst_status find_candidates(pst_search_all *s, pst_search_lot *lot, candidate *list,
                                  uint32_t *n) {
    list[*n] = (candidate){lot, *lot};
    list[*n].lot.sure = NULL;
    PST_TRY(pst_layout_copy(lot->row.layout, &list[*n].lot.row.layout));
    ++*n;
    for (uint32_t i = 0; i < lot->n_config && !pst_search_late(&s->x); i++) {
        const pst_search_config *c = &lot->config[i];
        const pst_search_along along = {.schedule = c->schedule,
                                        .one = 1,
                                        .micro_batch = c->micro_batch,
                                        .zero = c->zero,
                                        .sequence = c->sequence};
        uint32_t k = 0;
        while (k < i && differs(&lot->config[k], c)) k++;
        if (k < i) continue;
        list[*n].of = lot;
        pst_status status = open_other(s, lot, along, REFINABLE_QUICKLY, &list[*n].lot);
        if (status == PST_OK && list[*n].lot.row.fits) ++*n;
        else pst_layout_close(list[*n].lot.row.layout);
        PST_TRY(status);
    }
    return PST_OK;
}

/* The one thought shortest of those that have not been prepared and may be the best: what has been
 * is at most a little shorter. NULL: there is none. */
static candidate *most_hopeful(candidate *list, uint32_t n) {
    uint64_t sure = UINT64_MAX, thought = UINT64_MAX;
    candidate *next = NULL;
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t step = pst_search_step_of(&list[k].lot);
        if (step == UINT64_MAX) continue;
        if (list[k].lot.row.layout->exact) sure = step < sure ? step : sure;
        else if (step < thought) {
            thought = step;
            next = &list[k];
        }
    }
    return next && (double)thought <= HOPEFUL * (double)sure ? next : NULL;
}

/* Thoughts are as often too long as too short, and the best of many is one that is too short. */
static pst_status prepare_shortest(pst_search_all *s, candidate *list, uint32_t n) {
    const int most = s->x.problem->reorders ? FINALISTS : CANDIDATES;
    uint64_t passes = 0;
    for (int i = 0; i < most && s->x.problem->verify && !pst_search_late(&s->x); i++) {
        candidate *best = most_hopeful(list, n);
        if (!best) break;
        passes += (uint64_t)best->lot.row.layout->n_chunk * best->lot.row.layout->n_micro;
        if (i && passes > CANDIDATE_PASSES) break;
        s->n_candidate++;
        PST_TRY(pst_search_verify(&s->x, &best->lot));
        if (best->lot.row.layout && best->lot.row.fits) continue;
        pst_layout_close(best->lot.row.layout);
        best->lot.row.layout = NULL;
        best->lot.row.fits = 0;
    }
    return PST_OK;
}

/* In the order of the list, which is sorted before, each by so many passes at most. */
static pst_status refine_candidates(pst_search_all *s, candidate *list, uint32_t n, uint64_t each,
                                    uint64_t *passes) {
    qsort(list, n, sizeof *list, by_candidate);
    for (uint32_t k = 0; k < n && *passes && !pst_search_late(&s->x); k++) {
        const uint64_t own = each < *passes ? each : *passes;
        uint64_t left = own;
        PST_TRY(pst_search_refine(&s->x, &list[k].lot, &left));
        *passes -= own - left;
    }
    return PST_OK;
}

/* Where a look takes little: between schedules and micro-batches cuts that are not refined say
 * little. */
static pst_status refine_all(pst_search_all *s) {
    const pst_search_problem *p = s->x.problem;
    const uint32_t rows = s->n_lot < REFINED_QUICKLY ? s->n_lot : REFINED_QUICKLY;
    uint64_t passes = QUICK_PASSES;
    uint32_t n = 0;
    size_t room = 1;
    for (uint32_t i = 0; i < rows; i++) room += s->lot[i].n_config + (size_t)1;
    candidate *list = malloc(room * sizeof *list);
    if (!list) return pst_fail(PST_ENOMEM, "no memory to search");
    pst_status status = PST_OK;
    for (uint32_t i = 0; i < rows && status == PST_OK && s->lot[i].row.fits; i++)
        if (s->lot[i].small ? p->verify != NULL : s->lot[i].row.pipeline > 1)
            status = find_candidates(s, &s->lot[i], list, &n);
    if (status == PST_OK) status = refine_candidates(s, list, n, passes / SHARES, &passes);
    if (status == PST_OK)
        status = refine_candidates(s, list, n < AGAIN ? n : AGAIN, passes, &passes);
    if (status == PST_OK) status = prepare_shortest(s, list, n);
    for (uint32_t k = 0; k < n; k++) close_other(list[k].of, &list[k].lot);
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

static pst_status add_lot(pst_search_all *s, const pst_search_lot *lot) {
    pst_search_lot *more = realloc(s->lot, (s->n_lot + (size_t)1) * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "no memory to search");
    s->lot = more;
    s->lot[s->n_lot++] = *lot;
    return PST_OK;
}

/* From those that may be the best on: stages with different numbers of tensor ranks. */
pst_status pst_search_try_unequal(pst_search_all *s) {
    const uint32_t n = s->n_lot;
    if (!pst_search_has_unequal(s->x.problem)) return PST_OK;
    PST_TRY(pst_search_least_unequal(&s->x, &s->unequal_ns));
    for (uint32_t i = 0; i < n && i < UNEQUAL && !pst_search_late(&s->x) && s->lot[i].row.fits;
         i++) {
        pst_search_lot found;
        if (s->lot[i].row.pipeline == 1 || s->unequal_ns >= pst_search_shortest(s)) continue;
        PST_TRY(pst_search_unequal(&s->x, &s->lot[i], pst_search_shortest(s), &found));
        if (!found.row.layout) continue;
        pst_status status = add_lot(s, &found);
        if (status != PST_OK) pst_search_lot_close(&found);
        PST_TRY(status);
    }
    pst_search_sort(s);
    return PST_OK;
}

/* Walks end no later than simulations: whoever walks longer than the best was simulated is not the
 * best. */
pst_status pst_search_simulate_best(pst_search_all *s) {
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_lot && i < FINALISTS; i++) {
        pst_search_lot *lot = &s->lot[i];
        if (pst_search_step_of(lot) >= best || (i && pst_search_late(&s->x))) break;
        const int sure = is_sure(lot);
        if (!sure && !lot->small)
            PST_TRY(pst_search_predict(&s->x, &lot->best, lot->row.layout, PST_SCORE_SIMULATE));
        if (!sure) PST_TRY(pst_search_plainer(&s->x, lot));
        if (pst_search_step_of(lot) < best) best = pst_search_step_of(lot);
    }
    pst_search_sort(s);
    return PST_OK;
}

/* What turned out to take more is looked for again, in so much less room. */
static pst_status look_again(pst_search_all *s, pst_search_lot *lot) {
    const pst_search_config failed = lot->best;
    uint64_t best = s->x.best_ns = pst_search_shortest(s);
    for (uint32_t k = 0; k < lot->n_config; k++) {
        pst_search_config *c = &lot->config[k];
        if (c->schedule == failed.schedule && c->reserve < failed.reserve)
            c->reserve = failed.reserve;
    }
    pst_layout_close(lot->row.layout);
    lot->row.layout = NULL;
    lot->row.excess = 0;
    *lot->row.why = 0;
    return pst_search_look_at_row(s, lot, &best);
}

/* What the step of what comes nearest in a row where nothing fits is no shorter than: its order of
 * passes would take long to make, and nothing depends on it. Or why it cannot be had. */
pst_status pst_search_predict_nearest(pst_search_all *s, pst_search_lot *lot) {
    pst_status status = pst_search_predict(&s->x, &lot->best, lot->row.layout, PST_SCORE_EARLY);
    if (status != PST_EINPUT) return status;
    snprintf(lot->row.why, sizeof lot->row.why, "%s", pst_error());
    pst_error_clear();
    pst_layout_close(lot->row.layout);
    lot->row.layout = NULL;
    lot->row.excess = 0;
    return PST_OK;
}

/* Nothing fits: of what comes nearest, how near it does. */
pst_status pst_search_verify_nearest(pst_search_all *s) {
    for (uint32_t i = 0; i < s->n_lot && i < NEAREST && s->x.problem->verify && !s->x.problem->any;
         i++) {
        if (pst_search_late(&s->x)) break;
        pst_search_lot *lot = &s->lot[i];
        if (!lot->row.layout || lot->row.layout->exact) continue;
        PST_TRY(pst_search_predict_nearest(s, lot));
        if (lot->row.layout) PST_TRY(pst_search_verify(&s->x, lot));
    }
    pst_search_sort(s);
    return PST_OK;
}

/* The first that is not verified, if it may be the best; where orders are found anew, one of
 * several. NULL: none. */
static pst_search_lot *to_verify(const pst_search_all *s) {
    uint32_t n = s->x.problem->reorders ? FINALISTS : 1;
    for (uint32_t i = 0; i < n && i < s->n_lot && s->lot[i].row.fits; i++)
        if (!s->lot[i].row.layout->exact) return &s->lot[i];
    return NULL;
}

/* The best of what is verified; n_lot: nothing that fits is. */
static uint32_t first_sure(const pst_search_all *s) {
    uint32_t i = 0;
    while (i < s->n_lot && !is_sure(&s->lot[i])) i++;
    return i;
}

/* What was prepared is not lost to what promises to be shorter. */
static pst_status keep_sure(pst_search_lot *lot) {
    pst_layout *copy;
    PST_TRY(pst_layout_copy(lot->row.layout, &copy));
    pst_layout_close(lot->sure);
    lot->sure = copy;
    lot->of_sure = lot->best;
    return PST_OK;
}

static void take_sure(pst_search_lot *lot) {
    if (!lot->sure) return;
    pst_layout_close(lot->row.layout);
    lot->row.layout = lot->sure;
    lot->best = lot->of_sure;
    lot->sure = NULL;
    lot->row.fits = 1;
    lot->row.excess = 0;
    *lot->row.why = 0;
    lot->accounted = 0;
}

/* It turned out longer than thought, as others of its kind may: what of its row was passed over for
 * it may be shorter. */
static pst_status look_past(pst_search_all *s, pst_search_lot *lot, uint64_t by_ns) {
    const pst_search_config longer = lot->best;
    for (uint32_t k = 0; k < lot->n_config; k++) {
        pst_search_config *c = &lot->config[k];
        if (c->schedule == longer.schedule && c->zero == longer.zero) c->more_ns += by_ns;
    }
    if (!lot->sure || lot->sure->step_ns > lot->row.layout->step_ns) PST_TRY(keep_sure(lot));
    else take_sure(lot);
    s->x.best_ns = pst_search_shortest(s);
    const pst_search_along all = {.schedule = PST_NONE};
    return pst_search_look_along(s, lot, all, UINT64_MAX, UINT64_MAX,
                                 lot->small ? lot->n_config : ROW_LOOKS);
}

static pst_status verify_one(pst_search_all *s, pst_search_lot *lot) {
    const uint64_t thought_ns = lot->row.layout->step_ns;
    PST_TRY(pst_search_verify(&s->x, lot));
    if (lot->row.layout && !lot->row.fits) PST_TRY(look_again(s, lot));
    if (!is_sure(lot) && lot->sure && pst_search_step_of(lot) >= lot->sure->step_ns) take_sure(lot);
    else if (is_sure(lot) && (double)lot->row.layout->step_ns > LONGER * (double)thought_ns)
        return look_past(s, lot, lot->row.layout->step_ns - thought_ns);
    return PST_OK;
}

/* Until the first is verified: what is not as good as predicted, or does not fit, falls behind. Out
 * of time, until one is, which then is the first: what is said of the best holds. */
static pst_status verify_first(pst_search_all *s) {
    const uint64_t enough = pst_search_is_small(s->x.problem) ? VERIFIED_MOST : VERIFIED;
    pst_search_lot *lot;
    while (s->x.problem->verify && s->x.n_verified - s->n_candidate < VERIFIED_MOST &&
           (lot = to_verify(s))) {
        if ((pst_search_late(&s->x) || s->x.n_verified - s->n_candidate >= enough) &&
            first_sure(s) < s->n_lot)
            break;
        PST_TRY(verify_one(s, lot));
        pst_search_sort(s);
    }
    for (uint32_t i = 0; i < s->n_lot; i++)
        if (!is_sure(&s->lot[i])) take_sure(&s->lot[i]);
    pst_search_sort(s);
    const uint32_t sure = first_sure(s);
    if (sure == s->n_lot || is_sure(&s->lot[0])) return PST_OK;
    pst_search_lot best = s->lot[sure];
    memmove(&s->lot[1], s->lot, sure * sizeof *s->lot);
    s->lot[0] = best;
    return PST_OK;
}

/* What is nearly as good is perhaps better: ranks of a node that share its NICs are thought to send
 * at the same time, and often do not. As many as take little. */
static pst_status verify_near(pst_search_all *s) {
    uint64_t passes = 0;
    for (uint32_t i = 1;
         i < s->n_lot && i < FINALISTS && s->x.problem->verify && !pst_search_late(&s->x); i++) {
        pst_search_lot *lot = &s->lot[i];
        if (!lot->row.fits ||
            (double)pst_search_step_of(lot) > NEARLY * (double)pst_search_shortest(s))
            break;
        passes += (uint64_t)lot->row.layout->n_chunk * lot->row.layout->n_micro;
        if (passes > NEAR_PASSES) break;
        if (!is_sure(lot)) PST_TRY(verify_one(s, lot));
    }
    pst_search_sort(s);
    return PST_OK;
}

/* Again where the best turned out longer than thought: other rows were passed over for that. */
pst_status pst_search_verify_best(pst_search_all *s) {
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t thought_ns = pst_search_shortest(s);
        PST_TRY(verify_first(s));
        const uint64_t is = pst_search_shortest(s);
        if (is == UINT64_MAX || (double)is <= LONGER * (double)thought_ns || pst_search_late(&s->x))
            break;
        s->x.best_ns = is;
        PST_TRY(pst_search_look_further(s));
        pst_search_sort(s);
    }
    PST_TRY(verify_near(s));
    return verify_first(s);
}
