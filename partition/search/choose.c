/* What is evaluated, and in which order: a few of every row, then what may still be shorter than
 * the best, or bounds it. */
#include "partition/search/bound.h"
#include "partition/search/drive.h"
#include <stdlib.h>

enum {
    FIRST_EVALUATIONS = 4,
    FITTING_EVALUATIONS = 64,
    LONG_PIPELINE = 128,
    HOPEFUL_EVALUATIONS = 100, /* where each takes much work; else more */
    LITTLE_WORK = 1024,
    BOUND_EVALUATIONS = 1500,
    ANY_EVALUATIONS = 3000
};
#define FAR 1.2

/* Of those that have not been evaluated, if there are any. */
static pst_search_config *smallest(const pst_search_candidates *set) {
    pst_search_config *c = set->config;
    for (uint32_t k = 1; k < set->n_config; k++) {
        pst_search_config *other = &set->config[k];
        if (other->seen != c->seen ? c->seen : other->min_bytes < c->min_bytes) c = other;
    }
    return c;
}

/* A few of every row, more where nothing fits yet, all of small problems. Where guesses are far
 * from the best so far, one, and until one fits those that take less memory than all before; of
 * long pipelines, which take most time, the smallest. */
pst_status pst_search_evaluate_row(pst_search_all *s, pst_search_candidates *set, uint64_t *best) {
    uint64_t min_bytes = UINT64_MAX;
    int last = 0;
    for (uint32_t k = 0; k < set->n_config && !last; k++) {
        pst_search_config *c = &set->config[k];
        int far = !set->small && *best != UINT64_MAX && (double)c->guess_ns > FAR * (double)*best;
        if ((*best != UINT64_MAX || k >= FIRST_EVALUATIONS) && pst_search_late(&s->x)) break;
        const uint32_t most = far ? 1 : FIRST_EVALUATIONS;
        if (!set->small && k >= (set->row.fits ? most : FITTING_EVALUATIONS)) break;
        if (s->x.problem->any && set->row.fits) break;
        if (far && k && c->pipeline >= LONG_PIPELINE) {
            c = smallest(set);
            last = 1;
        } else if (far && c->min_bytes >= min_bytes) continue;
        s->x.nearest = k < FIRST_EVALUATIONS || last;
        PST_TRY(pst_search_evaluate(&s->x, set, c, pst_search_step_of(set)));
        if (c->min_bytes < min_bytes) min_bytes = c->min_bytes;
        if (pst_search_step_of(set) < *best) *best = pst_search_step_of(set);
    }
    s->x.nearest = 0;
    /* now that its schedule is at hand */
    return s->n_set <= PST_SEARCH_IN_FULL ? pst_search_attribute_row(s, set) : PST_OK;
}

pst_status pst_search_evaluate_rows(pst_search_all *s) {
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_set && i < PST_SEARCH_IN_FULL; i++) {
        if (pst_search_late(&s->x) && (best != UINT64_MAX || i >= PST_SEARCH_AT_LEAST)) break;
        PST_TRY(pst_search_evaluate_row(s, &s->set[i], &best));
    }
    return PST_OK;
}

typedef struct {
    pst_search_candidates *set;
    pst_search_config *config;
} open_config;

static int by_guess(const void *a, const void *b) {
    const pst_search_config *x = ((const open_config *)a)->config,
                            *y = ((const open_config *)b)->config;
    if (x->guess_ns != y->guess_ns) return x->guess_ns < y->guess_ns ? -1 : 1;
    return (x->bound_ns > y->bound_ns) - (x->bound_ns < y->bound_ns);
}

static int by_bound(const void *a, const void *b) {
    const pst_search_config *x = ((const open_config *)a)->config,
                            *y = ((const open_config *)b)->config;
    if (x->bound_ns != y->bound_ns) return x->bound_ns < y->bound_ns ? -1 : 1;
    return (x->guess_ns > y->guess_ns) - (x->guess_ns < y->guess_ns);
}

static int by_bytes(const void *a, const void *b) {
    const pst_search_config *x = ((const open_config *)a)->config,
                            *y = ((const open_config *)b)->config;
    if (x->min_bytes != y->min_bytes) return x->min_bytes < y->min_bytes ? -1 : 1;
    return by_guess(a, b);
}

/* The least bound of what has several chunks per stage and has not been evaluated: evaluating
 * raises only those of others. */
static uint64_t bound_of_many(const pst_search_all *s) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_set; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) {
            const pst_search_config *c = &s->set[i].config[k];
            if (!c->closed && !pst_search_has_one_chunk(s, c) && c->bound_ns < least)
                least = c->bound_ns;
        }
    return least;
}

/* What has not been evaluated and may be shorter than the best; all: not only what the bound of all
 * depends on. */
static uint32_t find_open(pst_search_all *s, open_config *open, int all) {
    uint64_t best = pst_search_shortest(s), many = all ? UINT64_MAX : bound_of_many(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_set; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) {
            pst_search_config *c = &s->set[i].config[k];
            if (c->seen || c->bound_ns >= best ||
                (!all && (!pst_search_has_one_chunk(s, c) || c->bound_ns >= many)))
                continue;
            open[n++] = (open_config){&s->set[i], c};
        }
    return n;
}

/* In this order, until so many in a row were of no use; where nothing fits yet, until something
 * does. */
static pst_status evaluate_open(pst_search_all *s, uint32_t most, int all,
                                int (*order)(const void *, const void *)) {
    const uint64_t before = pst_search_shortest(s);
    size_t room = 1;
    for (uint32_t i = 0; i < s->n_set; i++) room += s->set[i].n_config;
    open_config *open = malloc(room * sizeof *open);
    if (!open) return pst_fail(PST_ENOMEM, "no memory to search");
    uint32_t n = find_open(s, open, all);
    qsort(open, n, sizeof *open, order);
    pst_status status = PST_OK;
    for (uint32_t i = 0, since = 0;
         i < n && since < most && status == PST_OK && !pst_search_late(&s->x); i++, since++) {
        uint64_t best = pst_search_shortest(s);
        if (best != UINT64_MAX && before == UINT64_MAX) break;
        status = pst_search_evaluate(&s->x, open[i].set, open[i].config, best);
        if (pst_search_shortest(s) < best) since = 0;
    }
    free(open);
    return status;
}

/* Nothing fits: something may, or it is found what comes nearest, for which most has not been
 * evaluated. */
pst_status pst_search_evaluate_until_fit(pst_search_all *s) {
    s->x.nearest = !s->x.problem->any;
    for (uint32_t i = 0; i < s->n_set && s->x.nearest; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) s->set[i].config[k].seen = 0;
    pst_status status = evaluate_open(s, ANY_EVALUATIONS, 1, by_bytes);
    s->x.nearest = 0;
    return status;
}

/* Whatever may still be shorter than the best, by its bound. */
static pst_status tighten(pst_search_all *s) {
    uint64_t best = pst_search_shortest(s);
    for (uint32_t i = 0; i < s->n_set && !pst_search_late(&s->x); i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) {
            pst_search_config *c = &s->set[i].config[k];
            if (!c->closed && c->bound_ns < best) PST_TRY(pst_search_tighten(&s->x, c));
        }
    return PST_OK;
}

/* How many evaluations of no use are enough. */
uint32_t pst_search_hopeful_evaluations(const pst_search_all *s) {
    return HOPEFUL_EVALUATIONS * (pst_search_work_of(&s->x) < PST_SEARCH_MUCH_WORK
                                      ? (uint32_t)(PST_SEARCH_MUCH_WORK / pst_search_work_of(&s->x))
                                      : 1);
}

/* Where memory is short, cuts that leave some of it need less recomputation, of which they know
 * nothing: and so what is found in less memory is found in more. */
static pst_status evaluate_in_less(pst_search_all *s) {
    const pst_search_problem *p = s->x.problem;
    if (!s->x.n_check || pst_search_is_small(p) || pst_search_work_of(&s->x) > LITTLE_WORK)
        return PST_OK;
    for (uint32_t part = 32; part >= 4; part /= 2) {
        for (uint32_t i = 0; i < s->n_set; i++)
            for (uint32_t k = 0; k < s->set[i].n_config; k++) {
                pst_search_config *c = &s->set[i].config[k];
                c->seen = 0;
                c->reserve = 0;
                c->spare = s->x.room / part;
            }
        PST_TRY(evaluate_open(s, pst_search_hopeful_evaluations(s), 1, by_guess));
    }
    for (uint32_t i = 0; i < s->n_set; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) s->set[i].config[k].spare = 0;
    return PST_OK;
}

/* Of rows in which nothing fits yet, what takes least memory: it may, or it is found how near they
 * come. */
static pst_status evaluate_smallest(pst_search_all *s) {
    if (pst_search_shortest(s) == UINT64_MAX) return PST_OK; /* all of it has been evaluated */
    s->x.nearest = 1;
    pst_status status = PST_OK;
    for (uint32_t i = 0;
         i < s->n_set && i < PST_SEARCH_IN_FULL && status == PST_OK && !pst_search_late(&s->x);
         i++) {
        pst_search_candidates *set = &s->set[i];
        if (!set->row.fits && set->n_config)
            status = pst_search_evaluate(&s->x, set, smallest(set), UINT64_MAX);
    }
    s->x.nearest = 0;
    return status;
}

/* First what may well be shorter, then what bounds the step from below. */
pst_status pst_search_evaluate_further(pst_search_all *s) {
    PST_TRY(evaluate_smallest(s));
    PST_TRY(tighten(s));
    PST_TRY(evaluate_open(s, pst_search_hopeful_evaluations(s), 1, by_guess));
    PST_TRY(evaluate_open(s, BOUND_EVALUATIONS, 0, by_bound));
    return evaluate_in_less(s);
}

pst_status pst_search_evaluate_along(pst_search_all *s, pst_search_candidates *set,
                                     pst_search_along along, uint64_t below_ns, uint64_t limit_ns,
                                     uint32_t most) {
    uint32_t since = 0;
    for (uint32_t k = 0; k < set->n_config && since < most && !pst_search_late(&s->x); k++) {
        pst_search_config *c = &set->config[k];
        const uint64_t best = pst_search_step_of(set), below = best < below_ns ? best : below_ns;
        if (c->bound_ns >= below) continue;
        if ((along.unseen && c->seen) || (along.chunks && pst_search_has_one_chunk(s, c))) continue;
        if (along.schedule != PST_NONE && c->schedule != along.schedule) continue;
        if (along.one && (c->micro_batch != along.micro_batch || c->zero != along.zero ||
                          c->sequence != along.sequence))
            continue;
        PST_TRY(pst_search_evaluate(&s->x, set, c, best < limit_ns ? best : limit_ns));
        since = pst_search_step_of(set) < best ? 0 : since + 1;
    }
    return PST_OK;
}

/* Of the rows that may be the best all that may be shorter: guesses are of little use between
 * schedules. */
pst_status pst_search_evaluate_best(pst_search_all *s) {
    pst_search_sort(s);
    for (uint32_t i = 0; i < s->n_set && i < PST_SEARCH_REFINED && s->set[i].row.fits; i++) {
        const uint64_t best = pst_search_shortest(s);
        const pst_search_along unseen = {.unseen = 1, .schedule = PST_NONE};
        PST_TRY(pst_search_evaluate_along(s, &s->set[i], unseen, best, best,
                                          pst_search_hopeful_evaluations(s)));
    }
    pst_search_sort(s);
    return PST_OK;
}
