/* Whether parts whose loads are at most a limit can have all items, on many devices: as the search of downset_search.c,
 * but of the devices of one kind only how many are used at least is kept for every downset and every number of the
 * others; and a part takes the fewest of each kind that are fast enough, for what it leaves over is of use. Exact where
 * only one kind is counted like that; of several, the cheapest sum of them is kept. See downset.h. */
#include "partition/downset_part.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double cost, load;        /* price of the devices that are counted, INFINITY: none found; load of the last part, */
    uint32_t from;            /* the downset before it, */
    uint16_t kind, devices;   /* and where it is */
    uint16_t counted[PST_DOWNSET_KINDS];
} cell;

typedef struct {
    const pst_downset_problem *p;
    const pst_downset_list *list;
    const pst_downset_range *range;
    uint32_t n_state, stride[PST_DOWNSET_KINDS]; /* stride 0: this kind is counted */
    double price[PST_DOWNSET_KINDS];             /* work that a device takes within the limit */
    cell *cells;     /* [downset][state] */
    uint16_t *used;  /* [state][kind] devices */
    double *left;    /* [state] work that the other devices of these kinds can take */
    double *done;    /* [downset] its work */
    double *lowest;  /* [state] */
    double counted_left;
    uint32_t *active, n_active; /* states of the root */
    pst_downset_parts parts;
} fewest;

static pst_status no_memory(void) { return pst_fail(PST_ENOMEM, "no memory to search the splits of a graph"); }

/* --- states ------------------------------------------------------------------------------------------------------- */

/* The kind that has the most devices is counted, and others until so many states are left. */
uint32_t pst_downset_fewest_states(const pst_downset_problem *p, uint32_t most, uint32_t *stride) {
    uint32_t counted = 0;
    double n = 1;
    for (uint32_t k = 0; k < p->n_kind; k++) stride[k] = 1, n *= p->kind[k].count + 1.0;
    do {
        uint32_t largest = PST_DOWNSET_KINDS;
        for (uint32_t k = 0; k < p->n_kind; k++)
            if (stride[k] && (largest == PST_DOWNSET_KINDS || p->kind[k].count > p->kind[largest].count)) largest = k;
        stride[largest] = 0, counted++;
        n /= p->kind[largest].count + 1.0;
    } while (n > most && counted < p->n_kind);
    uint32_t state = 1;
    for (uint32_t k = 0; k < p->n_kind; k++)
        if (stride[k]) stride[k] = state, state *= p->kind[k].count + 1;
    return counted;
}

static void fill(fewest *s) {
    const pst_downset_problem *p = s->p;
    for (uint32_t d = 1; d < s->list->n; d++)
        s->done[d] = s->done[s->list->parent[d]] + pst_downset_work(p, s->range->weight, s->list->last[d]);
    for (uint32_t k = 0; k < p->n_kind; k++) { /* one that is worth nothing has a price, too, to be counted with */
        s->price[k] = s->range->weight[k] * s->range->limit * (1 + 1e-9);
        s->price[k] = fmax(s->price[k], 1e-9 * s->done[s->list->n - 1] + 1e-100);
        if (!s->stride[k]) s->counted_left += p->kind[k].count * s->price[k];
    }
    for (uint32_t state = 0; state < s->n_state; state++)
        for (uint32_t k = 0; k < p->n_kind; k++) {
            if (!s->stride[k]) continue;
            uint32_t used = state / s->stride[k] % (p->kind[k].count + 1);
            s->used[(size_t)state * p->n_kind + k] = (uint16_t)used;
            s->left[state] += (p->kind[k].count - used) * s->price[k];
        }
    for (size_t i = 0; i < (size_t)s->list->n * s->n_state; i++) s->cells[i].cost = INFINITY;
    s->cells[0] = (cell){.cost = 0};
}

static void fewest_close(fewest *s) {
    void *all[] = {s->cells, s->used, s->left, s->lowest, s->done, s->active};
    pst_downset_parts_close(&s->parts);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static pst_status fewest_open(fewest *s, uint32_t states) {
    const pst_downset_problem *p = s->p;
    pst_downset_fewest_states(p, states, s->stride);
    s->n_state = 1;
    for (uint32_t k = 0; k < p->n_kind; k++)
        if (s->stride[k]) s->n_state *= p->kind[k].count + 1;
    size_t n = s->list->n;
    s->cells = malloc(n * s->n_state * sizeof *s->cells);
    s->used = calloc((size_t)s->n_state * p->n_kind, sizeof *s->used);
    s->left = calloc(s->n_state, sizeof *s->left);
    s->lowest = calloc(s->n_state, sizeof *s->lowest);
    s->done = calloc(n, sizeof *s->done);
    s->active = calloc(s->n_state, sizeof *s->active);
    if (!s->cells || !s->used || !s->left || !s->lowest || !s->done || !s->active) return no_memory();
    fill(s);
    return pst_downset_parts_open(p, s->list, &s->parts);
}

/* --- a part ------------------------------------------------------------------------------------------------------- */

/* The fewest devices of a kind on which the part takes at most the limit; 0: none. One, or at least the larger root of
 * limit m^2 - (a + x) m + x. */
static uint32_t fewest_of(const fewest *s, const pst_downset_part *f, uint32_t k) {
    const pst_downset_kind *kind = &s->p->kind[k];
    uint32_t most = pst_downset_most(kind);
    double limit = s->range->limit, x = f->exchange;
    if (!most || f->on[k].forbidden || f->size > kind->memory) return 0;
    double a = pst_downset_load(s->p, f, k, 1);
    if (a <= limit) return 1;
    double b = a + x, root = b * b - 4 * limit * x, least = floor((b + sqrt(fmax(root, 0))) / (2 * limit));
    if (least > most) return 0;
    uint32_t m = least < 2 ? 2 : (uint32_t)least;
    while (m <= most && pst_downset_load(s->p, f, k, m) > limit) m++;
    return m <= most ? m : 0;
}

static void offer(fewest *s, uint32_t root, const pst_downset_part *f, uint32_t k, uint32_t m) {
    const pst_downset_problem *p = s->p;
    const cell *before = s->cells + (size_t)root * s->n_state;
    cell *after = s->cells + (size_t)f->downset * s->n_state;
    double todo = s->done[s->list->n - 1] - s->done[f->downset], load = pst_downset_load(p, f, k, m);
    uint32_t step = m * s->stride[k];
    double more = step ? 0 : m * s->price[k];
    for (uint32_t i = 0; i < s->n_active; i++) {
        uint32_t state = s->active[i];
        const cell *from = &before[state];
        double cost = from->cost + more;
        uint32_t has = step ? s->used[(size_t)state * p->n_kind + k] : from->counted[k];
        if (has + m > p->kind[k].count || !(cost < after[state + step].cost)) continue;
        if (todo > s->left[state + step] + s->counted_left - cost) continue;
        cell *to = &after[state + step];
        *to = *from;
        to->cost = cost, to->load = load, to->from = root;
        to->kind = (uint16_t)k, to->devices = (uint16_t)m;
        if (!step) to->counted[k] = (uint16_t)(has + m);
    }
}

static void offer_all(void *arg, uint32_t root, const pst_downset_part *f) {
    fewest *s = arg;
    for (uint32_t k = 0; k < s->p->n_kind; k++) {
        uint32_t m = fewest_of(s, f, k);
        if (m) offer(s, root, f, k, m);
    }
}

/* States that no other state beats with fewer devices. */
static void find_active(fewest *s, uint32_t root) {
    const cell *at = s->cells + (size_t)root * s->n_state;
    s->n_active = 0;
    for (uint32_t state = 0; state < s->n_state; state++) {
        double fewer = INFINITY;
        for (uint32_t k = 0; k < s->p->n_kind; k++)
            if (s->stride[k] && s->used[(size_t)state * s->p->n_kind + k])
                fewer = fmin(fewer, s->lowest[state - s->stride[k]]);
        if (at[state].cost < fewer) s->active[s->n_active++] = state;
        s->lowest[state] = fmin(fewer, at[state].cost);
    }
}

/* --- the plan --------------------------------------------------------------------------------------------------- */

static pst_status plan_of(const fewest *s, uint32_t state, pst_downset_plan *plan) {
    const pst_downset_list *l = s->list;
    uint32_t n = 0;
    for (uint32_t d = l->n - 1, at = state; d; n++) {
        const cell *c = &s->cells[(size_t)d * s->n_state + at];
        d = c->from, at -= c->devices * s->stride[c->kind];
    }
    *plan = (pst_downset_plan){.n_part = n, .n_downset = l->n};
    plan->part_of = malloc(((size_t)s->p->n_item + 1) * sizeof *plan->part_of);
    plan->kind = malloc(((size_t)n + 1) * sizeof *plan->kind);
    plan->devices = malloc(((size_t)n + 1) * sizeof *plan->devices);
    if (!plan->part_of || !plan->kind || !plan->devices) {
        pst_downset_plan_close(plan);
        return no_memory();
    }
    for (uint32_t d = l->n - 1, at = state; d;) { /* what an earlier part holds is overwritten */
        const cell *c = &s->cells[(size_t)d * s->n_state + at];
        plan->kind[--n] = c->kind, plan->devices[n] = c->devices;
        plan->objective = fmax(plan->objective, c->load);
        for (uint32_t e = d; e; e = l->parent[e]) plan->part_of[l->last[e]] = n;
        d = c->from, at -= c->devices * s->stride[c->kind];
    }
    return PST_OK;
}

static pst_status run(fewest *s, int *found, pst_downset_plan *plan) {
    for (uint32_t root = 0; root + 1 < s->list->n; root++) {
        if (pst_monotonic_ns() > s->range->until_ns) return PST_BUSY;
        find_active(s, root);
        if (s->n_active) pst_downset_parts_from(&s->parts, root, s->range->limit, offer_all, s);
    }
    const cell *last = s->cells + (size_t)(s->list->n - 1) * s->n_state;
    uint32_t state = 0;
    for (uint32_t i = 1; i < s->n_state; i++)
        if (last[i].cost < last[state].cost) state = i;
    *found = isfinite(last[state].cost);
    return *found ? plan_of(s, state, plan) : PST_OK;
}

pst_status pst_downset_fewest(const pst_downset_problem *problem, const pst_downset_list *list,
                              const pst_downset_range *range, uint32_t states, int *found, pst_downset_plan *plan) {
    fewest s = {.p = problem, .list = list, .range = range};
    pst_status status = fewest_open(&s, states);
    if (status == PST_OK) status = run(&s, found, plan);
    fewest_close(&s);
    return status;
}
