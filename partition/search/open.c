/* What is looked at, and in which order: a few of every row, then what may still be shorter than
 * the best, or bounds it. */
#include "partition/search/bound.h"
#include "partition/search/drive.h"
#include <stdlib.h>

enum {
    FIRST_LOOKS = 4,
    FITTING_LOOKS = 64,
    LONG_PIPELINE = 128,
    HOPEFUL_LOOKS = 100, /* where each takes much work; else more */
    LITTLE_WORK = 1024,
    BOUND_LOOKS = 1500,
    ANY_LOOKS = 3000
};
#define FAR 1.2

/* Of those that have not been looked at, if there are any. */
static pst_search_config *leanest(const pst_search_lot *lot) {
    pst_search_config *c = lot->config;
    for (uint32_t k = 1; k < lot->n_config; k++) {
        pst_search_config *other = &lot->config[k];
        if (other->seen != c->seen ? c->seen : other->lean < c->lean) c = other;
    }
    return c;
}

/* A few of every row, more where nothing fits yet, all of small problems. Where guesses are far
 * from the best so far, one, and until one fits those that take less memory than all before; of
 * long pipelines, which take most time, the leanest. */
pst_status pst_search_look_at_row(pst_search_all *s, pst_search_lot *lot, uint64_t *best) {
    uint64_t lean = UINT64_MAX;
    int last = 0;
    for (uint32_t k = 0; k < lot->n_config && !last; k++) {
        pst_search_config *c = &lot->config[k];
        int far = !lot->small && *best != UINT64_MAX && (double)c->guess_ns > FAR * (double)*best;
        if ((*best != UINT64_MAX || k >= FIRST_LOOKS) && pst_search_late(&s->x)) break;
        if (!lot->small && k >= (lot->row.fits ? far ? 1 : FIRST_LOOKS : FITTING_LOOKS)) break;
        if (s->x.problem->any && lot->row.fits) break;
        if (far && k && c->pipeline >= LONG_PIPELINE) {
            c = leanest(lot);
            last = 1;
        } else if (far && c->lean >= lean) continue;
        s->x.nearest = k < FIRST_LOOKS || last;
        PST_TRY(pst_search_look(&s->x, lot, c, pst_search_step_of(lot)));
        if (c->lean < lean) lean = c->lean;
        if (pst_search_step_of(lot) < *best) *best = pst_search_step_of(lot);
    }
    s->x.nearest = 0;
    /* now that its schedule is at hand */
    return s->n_lot <= PST_SEARCH_IN_FULL ? pst_search_account_row(s, lot) : PST_OK;
}

pst_status pst_search_look_at_all(pst_search_all *s) {
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_lot && i < PST_SEARCH_IN_FULL; i++) {
        if (pst_search_late(&s->x) && (best != UINT64_MAX || i >= PST_SEARCH_AT_LEAST)) break;
        PST_TRY(pst_search_look_at_row(s, &s->lot[i], &best));
    }
    return PST_OK;
}

typedef struct {
    pst_search_lot *lot;
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

static int by_lean(const void *a, const void *b) {
    const pst_search_config *x = ((const open_config *)a)->config,
                            *y = ((const open_config *)b)->config;
    if (x->lean != y->lean) return x->lean < y->lean ? -1 : 1;
    return by_guess(a, b);
}

/* The least bound of what has several chunks per stage and has not been looked at: looking raises
 * only those of others. */
static uint64_t bound_of_many(const pst_search_all *s) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_lot; i++)
        for (uint32_t k = 0; k < s->lot[i].n_config; k++) {
            const pst_search_config *c = &s->lot[i].config[k];
            if (!c->closed && !pst_search_has_one_chunk(s, c) && c->bound_ns < least)
                least = c->bound_ns;
        }
    return least;
}

/* What has not been looked at and may be shorter than the best; all: not only what the bound of all
 * depends on. */
static uint32_t find_open(pst_search_all *s, open_config *open, int all) {
    uint64_t best = pst_search_shortest(s), many = all ? UINT64_MAX : bound_of_many(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_lot; i++)
        for (uint32_t k = 0; k < s->lot[i].n_config; k++) {
            pst_search_config *c = &s->lot[i].config[k];
            if (c->seen || c->bound_ns >= best ||
                (!all && (!pst_search_has_one_chunk(s, c) || c->bound_ns >= many)))
                continue;
            open[n++] = (open_config){&s->lot[i], c};
        }
    return n;
}

/* In this order, until so many in a row were of no use; where nothing fits yet, until something
 * does. */
static pst_status look_at_open(pst_search_all *s, uint32_t most, int all,
                               int (*order)(const void *, const void *)) {
    const uint64_t before = pst_search_shortest(s);
    size_t room = 1;
    for (uint32_t i = 0; i < s->n_lot; i++) room += s->lot[i].n_config;
    open_config *open = malloc(room * sizeof *open);
    if (!open) return pst_fail(PST_ENOMEM, "no memory to search");
    uint32_t n = find_open(s, open, all);
    qsort(open, n, sizeof *open, order);
    pst_status status = PST_OK;
    for (uint32_t i = 0, since = 0;
         i < n && since < most && status == PST_OK && !pst_search_late(&s->x); i++, since++) {
        uint64_t best = pst_search_shortest(s);
        if (best != UINT64_MAX && before == UINT64_MAX) break;
        status = pst_search_look(&s->x, open[i].lot, open[i].config, best);
        if (pst_search_shortest(s) < best) since = 0;
    }
    free(open);
    return status;
}

/* Nothing fits: something may, or it is found what comes nearest, for which most has not been
 * looked at. */
pst_status pst_search_look_for_any(pst_search_all *s) {
    s->x.nearest = !s->x.problem->any;
    for (uint32_t i = 0; i < s->n_lot && s->x.nearest; i++)
        for (uint32_t k = 0; k < s->lot[i].n_config; k++) s->lot[i].config[k].seen = 0;
    pst_status status = look_at_open(s, ANY_LOOKS, 1, by_lean);
    s->x.nearest = 0;
    return status;
}

/* Whatever may still be shorter than the best, by its bound. */
static pst_status tighten(pst_search_all *s) {
    uint64_t best = pst_search_shortest(s);
    for (uint32_t i = 0; i < s->n_lot && !pst_search_late(&s->x); i++)
        for (uint32_t k = 0; k < s->lot[i].n_config; k++) {
            pst_search_config *c = &s->lot[i].config[k];
            if (!c->closed && c->bound_ns < best) PST_TRY(pst_search_tighten(&s->x, c));
        }
    return PST_OK;
}

/* How many looks of no use are enough. */
uint32_t pst_search_hopeful_looks(const pst_search_all *s) {
    return HOPEFUL_LOOKS * (pst_search_work_of(&s->x) < PST_SEARCH_MUCH_WORK
                                ? (uint32_t)(PST_SEARCH_MUCH_WORK / pst_search_work_of(&s->x))
                                : 1);
}

/* Where memory is short, cuts that leave some of it need less recomputation, of which they know
 * nothing: and so what is found in less memory is found in more. */
static pst_status look_in_less(pst_search_all *s) {
    const pst_search_problem *p = s->x.problem;
    if (!s->x.n_check || pst_search_is_small(p) || pst_search_work_of(&s->x) > LITTLE_WORK)
        return PST_OK;
    for (uint32_t part = 32; part >= 4; part /= 2) {
        for (uint32_t i = 0; i < s->n_lot; i++)
            for (uint32_t k = 0; k < s->lot[i].n_config; k++) {
                pst_search_config *c = &s->lot[i].config[k];
                c->seen = 0;
                c->reserve = 0;
                c->spare = s->x.room / part;
            }
        PST_TRY(look_at_open(s, pst_search_hopeful_looks(s), 1, by_guess));
    }
    for (uint32_t i = 0; i < s->n_lot; i++)
        for (uint32_t k = 0; k < s->lot[i].n_config; k++) s->lot[i].config[k].spare = 0;
    return PST_OK;
}

/* Of rows in which nothing fits yet, what takes least memory: it may, or it is found how near they
 * come. */
static pst_status look_at_leanest(pst_search_all *s) {
    if (pst_search_shortest(s) == UINT64_MAX) return PST_OK; /* all of it has been looked at */
    s->x.nearest = 1;
    pst_status status = PST_OK;
    for (uint32_t i = 0;
         i < s->n_lot && i < PST_SEARCH_IN_FULL && status == PST_OK && !pst_search_late(&s->x);
         i++) {
        pst_search_lot *lot = &s->lot[i];
        if (!lot->row.fits && lot->n_config)
            status = pst_search_look(&s->x, lot, leanest(lot), UINT64_MAX);
    }
    s->x.nearest = 0;
    return status;
}

/* First what may well be shorter, then what bounds the step from below. */
pst_status pst_search_look_further(pst_search_all *s) {
    PST_TRY(look_at_leanest(s));
    PST_TRY(tighten(s));
    PST_TRY(look_at_open(s, pst_search_hopeful_looks(s), 1, by_guess));
    PST_TRY(look_at_open(s, BOUND_LOOKS, 0, by_bound));
    return look_in_less(s);
}

pst_status pst_search_look_along(pst_search_all *s, pst_search_lot *lot, pst_search_along along,
                                 uint64_t below_ns, uint64_t limit_ns, uint32_t most) {
    uint32_t since = 0;
    for (uint32_t k = 0; k < lot->n_config && since < most && !pst_search_late(&s->x); k++) {
        pst_search_config *c = &lot->config[k];
        const uint64_t best = pst_search_step_of(lot), below = best < below_ns ? best : below_ns;
        if (c->bound_ns >= below) continue;
        if ((along.unseen && c->seen) || (along.chunks && pst_search_has_one_chunk(s, c))) continue;
        if (along.schedule != PST_NONE && c->schedule != along.schedule) continue;
        if (along.one && (c->micro_batch != along.micro_batch || c->zero != along.zero ||
                          c->sequence != along.sequence))
            continue;
        PST_TRY(pst_search_look(&s->x, lot, c, best < limit_ns ? best : limit_ns));
        since = pst_search_step_of(lot) < best ? 0 : since + 1;
    }
    return PST_OK;
}

/* Of the rows that may be the best all that may be shorter: guesses are of little use between
 * schedules. */
pst_status pst_search_look_at_best(pst_search_all *s) {
    pst_search_sort(s);
    for (uint32_t i = 0; i < s->n_lot && i < PST_SEARCH_REFINED && s->lot[i].row.fits; i++) {
        const uint64_t best = pst_search_shortest(s);
        const pst_search_along unseen = {.unseen = 1, .schedule = PST_NONE};
        PST_TRY(
            pst_search_look_along(s, &s->lot[i], unseen, best, best, pst_search_hopeful_looks(s)));
    }
    pst_search_sort(s);
    return PST_OK;
}
