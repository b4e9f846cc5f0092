/* Chooses which configurations are evaluated, and in which order: a few of every row, then those
 * that may be shorter than the best or that determine the lower bound. */
#include "partition/search/bound.h"
#include "partition/search/candidates.h"
#include "partition/search/price.h"
#include <stdlib.h>

enum {
    FIRST_EVALUATIONS = 4,
    FITTING_EVALUATIONS = 64,
    LONG_PIPELINE = 128,
    PATIENCE = 100, /* evaluations without improvement; more where each is cheap */
    LOW_EFFORT = 1024,
    BOUND_EVALUATIONS = 1500,
    ANY_EVALUATIONS = 3000,
    PRICE_EFFORT = 200000000
};
#define FAR 1.2
/* about 2 s */
#define ORDER_EFFORT UINT64_C(6000000000)

/* The configuration with the smallest memory, of those not evaluated if there are any. */
static pst_search_config *smallest(const pst_search_candidates *set) {
    pst_search_config *c = set->config;
    for (uint32_t k = 1; k < set->n_config; k++) {
        pst_search_config *other = &set->config[k];
        if (other->evaluated != c->evaluated ? c->evaluated : other->min_bytes < c->min_bytes)
            c = other;
    }
    return c;
}

/* Evaluates a few configurations of a row: more while none fits, all of them in small problems.
 * Where guesses are much longer than the best step: one, and if it does not fit, those that need
 * less memory than all before; of long pipelines, which take longest to evaluate, only the
 * smallest. */
pst_status pst_search_evaluate_row(pst_search_state *s, pst_search_candidates *set,
                                   uint64_t *best) {
    uint64_t min_bytes = UINT64_MAX;
    int last = 0;
    for (uint32_t k = 0; k < set->n_config && !last; k++) {
        pst_search_config *c = &set->config[k];
        int far = !set->small && *best != UINT64_MAX && (double)c->guess_ns > FAR * (double)*best;
        if ((*best != UINT64_MAX || k >= FIRST_EVALUATIONS) && pst_search_timed_out(&s->x)) break;
        const uint32_t most = far ? 1 : FIRST_EVALUATIONS;
        if (!set->small && k >= (set->row.fits ? most : FITTING_EVALUATIONS)) break;
        if (s->x.problem->any && set->row.fits) break;
        if (s->x.problem->any && c->bound_ns == PST_SEARCH_TOO_LARGE) continue;
        if (far && k && c->pipeline >= LONG_PIPELINE) {
            c = smallest(set);
            last = 1;
        } else if (far && c->min_bytes >= min_bytes) continue;
        s->x.want_nearest = k < FIRST_EVALUATIONS || last;
        PST_TRY(pst_search_evaluate(&s->x, set, c, pst_search_step_of(set)));
        if (c->min_bytes < min_bytes) min_bytes = c->min_bytes;
        if (pst_search_step_of(set) < *best) *best = pst_search_step_of(set);
    }
    s->x.want_nearest = 0;
    /* while its schedule is cached */
    return s->n_set <= PST_SEARCH_FULL_ROWS ? pst_search_attribute_row(s, set) : PST_OK;
}

pst_status pst_search_evaluate_rows(pst_search_state *s) {
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_set && i < PST_SEARCH_FULL_ROWS; i++) {
        if (pst_search_timed_out(&s->x) && (best != UINT64_MAX || i >= PST_SEARCH_MIN_ROWS)) break;
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

/* The least lower bound of configurations with several chunks per stage: evaluating them does not
 * raise it. */
static uint64_t bound_of_many(const pst_search_state *s) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < s->n_set; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) {
            const pst_search_config *c = &s->set[i].config[k];
            if (!c->exhausted && !pst_search_has_one_chunk(s, c) && c->bound_ns < least)
                least = c->bound_ns;
        }
    return least;
}

/* Configurations that are not evaluated and may be shorter than the best. all: 0: only those that
 * limit the overall lower bound. */
static uint32_t find_open(pst_search_state *s, open_config *open, int all) {
    uint64_t best = pst_search_shortest(s), many = all ? UINT64_MAX : bound_of_many(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_set; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) {
            pst_search_config *c = &s->set[i].config[k];
            if (c->evaluated || c->bound_ns >= best ||
                (s->x.problem->any && c->bound_ns == PST_SEARCH_TOO_LARGE) ||
                (!all && (!pst_search_has_one_chunk(s, c) || c->bound_ns >= many)))
                continue;
            open[n++] = (open_config){&s->set[i], c};
        }
    return n;
}

/* Evaluates in this order until `most` in a row did not improve the best; where nothing fits yet,
 * until something does. */
static pst_status evaluate_open(pst_search_state *s, uint32_t most, int all,
                                int (*order)(const void *, const void *)) {
    const uint64_t before = pst_search_shortest(s);
    size_t capacity = 1;
    for (uint32_t i = 0; i < s->n_set; i++) capacity += s->set[i].n_config;
    open_config *open = malloc(capacity * sizeof *open);
    if (!open) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    uint32_t n = find_open(s, open, all);
    qsort(open, n, sizeof *open, order);
    pst_status status = PST_OK;
    for (uint32_t i = 0, since = 0;
         i < n && since < most && status == PST_OK && !pst_search_timed_out(&s->x); i++, since++) {
        uint64_t best = pst_search_shortest(s);
        if (best != UINT64_MAX && before == UINT64_MAX) break;
        status = pst_search_evaluate(&s->x, open[i].set, open[i].config, best);
        if (pst_search_shortest(s) < best) since = 0;
    }
    free(open);
    return status;
}

/* Nothing fits: evaluates again, smallest memory first, until a layout fits. Otherwise finds the
 * one that exceeds its memory least. */
pst_status pst_search_evaluate_until_fit(pst_search_state *s) {
    s->x.want_nearest = !s->x.problem->any;
    for (uint32_t i = 0; i < s->n_set && s->x.want_nearest; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) s->set[i].config[k].evaluated = 0;
    pst_status status = evaluate_open(s, ANY_EVALUATIONS, 1, by_bytes);
    s->x.want_nearest = 0;
    return status;
}

/* Tightens the bounds of all configurations that may still be shorter than the best. */
static pst_status tighten(pst_search_state *s) {
    uint64_t best = pst_search_shortest(s);
    for (uint32_t i = 0; i < s->n_set && !pst_search_timed_out(&s->x); i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) {
            pst_search_config *c = &s->set[i].config[k];
            if (!c->exhausted && c->bound_ns < best) PST_TRY(pst_search_tighten(&s->x, c));
        }
    return PST_OK;
}

/* All configurations that may still be shorter than the best. */
static uint32_t find_shorter(pst_search_state *s, open_config *open) {
    const uint64_t best = pst_search_shortest(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_set; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) {
            pst_search_config *c = &s->set[i].config[k];
            if (!c->exhausted && c->bound_ns < best) open[n++] = (open_config){&s->set[i], c};
        }
    return n;
}

/* Raises a bound, the quick ways first. below_ns: another configuration has this bound. */
static pst_status raise_one(pst_search_state *s, pst_search_config *c, int last,
                            uint64_t below_ns) {
    if (!c->priced) s->x.price_effort += pst_search_price_effort(&s->x, c);
    PST_TRY(pst_search_tighten_more(&s->x, c));
    if (!last || c->bound_ns >= below_ns) return PST_OK;
    return pst_search_tighten_orders(&s->x, c);
}

/* Raises the lowest bounds until one that was raised already is the lowest. */
static pst_status raise_lowest(pst_search_state *s, open_config *open, int last) {
    const uint32_t n = find_shorter(s, open);
    uint64_t lowest = UINT64_MAX;
    s->x.enough_ns = pst_search_shortest(s);
    qsort(open, n, sizeof *open, by_bound);
    for (uint32_t i = 0; i < n && open[i].config->bound_ns < lowest; i++) {
        pst_search_config *c = open[i].config;
        if (s->x.price_effort > PRICE_EFFORT || s->x.order_effort > ORDER_EFFORT ||
            pst_search_timed_out(&s->x))
            break;
        PST_TRY(raise_one(s, c, last, lowest));
        if (c->bound_ns < lowest) lowest = c->bound_ns;
    }
    return PST_OK;
}

pst_status pst_search_raise_bound(pst_search_state *s, int last) {
    size_t capacity = 1;
    for (uint32_t i = 0; i < s->n_set; i++) capacity += s->set[i].n_config;
    open_config *open = malloc(capacity * sizeof *open);
    if (!open) return pst_fail(PST_ENOMEM, "no memory for the layout search");
    pst_status status = raise_lowest(s, open, last);
    free(open);
    return status;
}

/* Evaluations without improvement after which a search stops: more where each is cheap. */
uint32_t pst_search_patience(const pst_search_state *s) {
    return PATIENCE * (pst_search_effort(&s->x) < PST_SEARCH_HIGH_EFFORT
                           ? (uint32_t)(PST_SEARCH_HIGH_EFFORT / pst_search_effort(&s->x))
                           : 1);
}

/* If memory is short, a cut that leaves some memory free needs less recomputation, which the search
 * for cuts does not consider. Evaluates cuts with 1/32 to 1/4 of the memory reserved. */
static pst_status evaluate_in_less(pst_search_state *s) {
    const pst_search_problem *p = s->x.problem;
    if (!s->x.n_checked || pst_search_is_small(p) || pst_search_effort(&s->x) > LOW_EFFORT)
        return PST_OK;
    for (uint32_t part = 32; part >= 4; part /= 2) {
        for (uint32_t i = 0; i < s->n_set; i++)
            for (uint32_t k = 0; k < s->set[i].n_config; k++) {
                pst_search_config *c = &s->set[i].config[k];
                c->evaluated = 0;
                c->reserve = 0;
                c->cut_reserve = s->x.capacity / part;
            }
        PST_TRY(evaluate_open(s, pst_search_patience(s), 1, by_guess));
    }
    for (uint32_t i = 0; i < s->n_set; i++)
        for (uint32_t k = 0; k < s->set[i].n_config; k++) s->set[i].config[k].cut_reserve = 0;
    return PST_OK;
}

/* In rows where nothing fits yet, evaluates the configuration that needs least memory: it may fit,
 * or shows how much is missing. */
static pst_status evaluate_smallest(pst_search_state *s) {
    if (pst_search_shortest(s) == UINT64_MAX) return PST_OK; /* all of them have been evaluated */
    s->x.want_nearest = 1;
    pst_status status = PST_OK;
    for (uint32_t i = 0; i < s->n_set && i < PST_SEARCH_FULL_ROWS && status == PST_OK &&
                         !pst_search_timed_out(&s->x);
         i++) {
        pst_search_candidates *set = &s->set[i];
        if (!set->row.fits && set->n_config)
            status = pst_search_evaluate(&s->x, set, smallest(set), UINT64_MAX);
    }
    s->x.want_nearest = 0;
    return status;
}

/* First what may well be shorter, then what raises the lower bound. */
pst_status pst_search_evaluate_further(pst_search_state *s) {
    PST_TRY(evaluate_smallest(s));
    PST_TRY(tighten(s));
    PST_TRY(pst_search_raise_bound(s, 0));
    PST_TRY(evaluate_open(s, pst_search_patience(s), 1, by_guess));
    PST_TRY(evaluate_open(s, BOUND_EVALUATIONS, 0, by_bound));
    return evaluate_in_less(s);
}

pst_status pst_search_evaluate_matching(pst_search_state *s, pst_search_candidates *set,
                                        pst_search_filter filter, uint64_t below_ns,
                                        uint64_t limit_ns, uint32_t most) {
    uint32_t since = 0;
    for (uint32_t k = 0; k < set->n_config && since < most && !pst_search_timed_out(&s->x); k++) {
        pst_search_config *c = &set->config[k];
        const uint64_t best = pst_search_step_of(set), below = best < below_ns ? best : below_ns;
        if (c->bound_ns >= below) continue;
        if ((filter.not_evaluated && c->evaluated) ||
            (filter.chunks && pst_search_has_one_chunk(s, c)))
            continue;
        if (filter.schedule != PST_NONE && c->schedule != filter.schedule) continue;
        if (filter.exact && (c->micro_batch != filter.micro_batch || c->zero != filter.zero ||
                             c->sequence != filter.sequence))
            continue;
        PST_TRY(pst_search_evaluate(&s->x, set, c, best < limit_ns ? best : limit_ns));
        since = pst_search_step_of(set) < best ? 0 : since + 1;
    }
    return PST_OK;
}

/* Evaluates everything that may be shorter in the best rows: guesses compare schedules poorly. */
pst_status pst_search_evaluate_best(pst_search_state *s) {
    pst_search_sort(s);
    for (uint32_t i = 0; i < s->n_set && i < PST_SEARCH_REFINED_ROWS && s->set[i].row.fits; i++) {
        const uint64_t best = pst_search_shortest(s);
        const pst_search_filter not_evaluated = {.not_evaluated = 1, .schedule = PST_NONE};
        PST_TRY(pst_search_evaluate_matching(s, &s->set[i], not_evaluated, best, best,
                                             pst_search_patience(s)));
    }
    pst_search_sort(s);
    return PST_OK;
}
