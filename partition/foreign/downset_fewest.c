/* Whether all items fit into parts with loads of at most a limit, on many devices. As the search of
 * downset_search.c, but a part takes the fewest devices of each kind that are fast enough, and for
 * every downset only the cheapest state is kept for each number of devices of all kinds but one.
 * Exact, unless these states are too many and nearby numbers are merged. See downset.h. */
#include "partition/foreign/downset_part.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    /* price of the devices in use, INFINITY: none found; load of the last part */
    double cost, load;
    uint32_t from, state;   /* the downset before the last part, and its state */
    uint16_t kind, devices; /* kind and devices of the last part */
    uint16_t used[PST_DOWNSET_KINDS];
} cell;

typedef struct {
    const pst_downset_problem *p;
    const pst_downset_list *list;
    const pst_downset_range *range;
    pst_downset_grid grid;
    double price[PST_DOWNSET_KINDS]; /* work that a device can do within the limit */
    double all;                      /* price of all devices */
    cell *cells;                     /* [downset][state] */
    double *done;                    /* [downset] its work */
    double *lowest;                  /* [state] */
    uint32_t *active, n_active;      /* states of the root */
    pst_downset_parts parts;
} fewest;

/* --- states ----------------------------------------------------------------------------------- */

static uint32_t steps_of(const pst_downset_problem *p, const pst_downset_grid *g, uint32_t k) {
    return p->kind[k].count / g->grain[k] + 1;
}

void pst_downset_grid_of(const pst_downset_problem *p, uint32_t most, pst_downset_grid *g) {
    uint32_t counted = 0;
    *g = (pst_downset_grid){.exact = 1};
    for (uint32_t k = 0; k < p->n_kind; k++)
        if (p->kind[k].count > p->kind[counted].count) counted = k;
    for (uint32_t k = 0; k < p->n_kind; k++) g->grain[k] = 1;
    for (;;) {
        uint32_t finest = counted;
        double n = 1;
        for (uint32_t k = 0; k < p->n_kind; k++) {
            if (k == counted) continue;
            n *= steps_of(p, g, k);
            if (finest == counted || steps_of(p, g, k) > steps_of(p, g, finest)) finest = k;
        }
        if (n <= most || finest == counted || steps_of(p, g, finest) == 1) break;
        g->grain[finest] *= 2;
        g->exact = 0;
    }
    g->n_state = 1;
    for (uint32_t k = 0; k < p->n_kind; k++)
        if (k != counted) {
            g->stride[k] = g->n_state;
            g->n_state *= steps_of(p, g, k);
        }
}

static void fill(fewest *s) {
    const pst_downset_problem *p = s->p;
    for (uint32_t d = 1; d < s->list->n; d++)
        s->done[d] =
            s->done[s->list->parent[d]] + pst_downset_work(p, s->range->weight, s->list->last[d]);
    for (uint32_t k = 0; k < p->n_kind; k++) {
        /* a device of a kind without price still counts */
        s->price[k] = s->range->weight[k] * s->range->limit * (1 + 1e-9);
        s->price[k] = fmax(s->price[k], 1e-9 * s->done[s->list->n - 1] + 1e-100);
        s->all += s->price[k] * p->kind[k].count * (1 + 1e-9);
    }
    for (size_t i = 0; i < (size_t)s->list->n * s->grid.n_state; i++) s->cells[i].cost = INFINITY;
    s->cells[0] = (cell){.cost = 0};
}

static void fewest_close(fewest *s) {
    void *all[] = {s->cells, s->lowest, s->done, s->active};
    pst_downset_parts_close(&s->parts);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static pst_status fewest_open(fewest *s) {
    size_t n = s->list->n, states = s->grid.n_state;
    s->cells = malloc(n * states * sizeof *s->cells);
    s->lowest = calloc(states, sizeof *s->lowest);
    s->done = calloc(n, sizeof *s->done);
    s->active = calloc(states, sizeof *s->active);
    if (!s->cells || !s->lowest || !s->done || !s->active)
        return pst_no_memory("to search the partitions of a graph");
    fill(s);
    return pst_downset_parts_open(s->p, s->list, &s->parts);
}

/* --- a part ----------------------------------------------------------------------------------- */

/* The fewest devices of a kind on which the part's load is at most the limit; 0: none. One, or the
 * larger root of limit m^2 - (a + x) m + x, rounded up. */
static uint32_t fewest_of(const fewest *s, const pst_downset_part *f, uint32_t k) {
    const pst_downset_kind *kind = &s->p->kind[k];
    uint32_t most = pst_downset_most(kind);
    double limit = s->range->limit, x = f->exchange;
    if (!most || f->on[k].forbidden || f->size > kind->memory) return 0;
    double a = pst_downset_load(s->p, f, k, 1);
    if (a <= limit) return 1;
    double b = a + x, root = b * b - 4 * limit * x,
           least = floor((b + sqrt(fmax(root, 0))) / (2 * limit));
    if (least > most) return 0;
    uint32_t m = least < 2 ? 2 : (uint32_t)least;
    while (m <= most && pst_downset_load(s->p, f, k, m) > limit) m++;
    return m <= most ? m : 0;
}

static void offer(fewest *s, uint32_t root, const pst_downset_part *f, uint32_t k, uint32_t m) {
    const pst_downset_grid *g = &s->grid;
    const cell *before = s->cells + (size_t)root * g->n_state;
    cell *after = s->cells + (size_t)f->downset * g->n_state;
    double rest = s->done[s->list->n - 1] - s->done[f->downset],
           load = pst_downset_load(s->p, f, k, m);
    double most = s->all - m * s->price[k] - rest;
    uint32_t capacity = s->p->kind[k].count - m;
    for (uint32_t i = 0; i < s->n_active; i++) {
        const cell *from = &before[s->active[i]];
        uint32_t has = from->used[k];
        if (has > capacity || from->cost > most) continue;
        uint32_t state =
            s->active[i] + ((has + m) / g->grain[k] - has / g->grain[k]) * g->stride[k];
        double cost = from->cost + m * s->price[k];
        cell *to = &after[state];
        if (!(cost < to->cost)) continue;
        *to = *from;
        to->cost = cost;
        to->load = load;
        to->from = root;
        to->state = s->active[i];
        to->kind = (uint16_t)k;
        to->devices = (uint16_t)m;
        to->used[k] = (uint16_t)(has + m);
    }
}

static void offer_all(void *arg, uint32_t root, const pst_downset_part *f) {
    fewest *s = arg;
    for (uint32_t k = 0; k < s->p->n_kind; k++) {
        uint32_t m = fewest_of(s, f, k);
        if (m) offer(s, root, f, k, m);
    }
}

/* States that no other state dominates with fewer devices. */
static void find_active(fewest *s, uint32_t root) {
    const pst_downset_grid *g = &s->grid;
    const cell *at = s->cells + (size_t)root * g->n_state;
    double least = 0; /* price of one device */
    for (uint32_t k = 0; k < s->p->n_kind; k++)
        if (!g->stride[k]) least = s->price[k] / 2;
    s->n_active = 0;
    for (uint32_t state = 0; state < g->n_state; state++) {
        double fewer = INFINITY, counted = at[state].cost;
        for (uint32_t k = 0, rest = state; k < s->p->n_kind; k++) {
            uint32_t steps = steps_of(s->p, g, k);
            if (!g->stride[k]) continue;
            if (rest % steps) fewer = fmin(fewer, s->lowest[state - g->stride[k]]);
            if (isfinite(counted)) counted -= at[state].used[k] * s->price[k];
            rest /= steps;
        }
        if (counted < fewer - least || (isfinite(counted) && isinf(fewer)))
            s->active[s->n_active++] = state;
        s->lowest[state] = fmin(fewer, counted);
    }
}

/* --- the plan --------------------------------------------------------------------------------- */

static pst_status plan_of(const fewest *s, uint32_t last, pst_downset_plan *plan) {
    const pst_downset_list *l = s->list;
    const cell *end = &s->cells[(size_t)(l->n - 1) * s->grid.n_state + last], *c = end;
    uint32_t n = 0;
    for (uint32_t d = l->n - 1; d; n++) {
        d = c->from;
        c = &s->cells[(size_t)d * s->grid.n_state + c->state];
    }
    *plan = (pst_downset_plan){.n_part = n, .n_downset = l->n};
    plan->part_of = malloc(((size_t)s->p->n_item + 1) * sizeof *plan->part_of);
    plan->kind = malloc(((size_t)n + 1) * sizeof *plan->kind);
    plan->devices = malloc(((size_t)n + 1) * sizeof *plan->devices);
    if (!plan->part_of || !plan->kind || !plan->devices) {
        pst_downset_plan_close(plan);
        return pst_no_memory("to search the partitions of a graph");
    }
    c = end;
    for (uint32_t d = l->n - 1; d;) { /* a part that is written later replaces items of an earlier
                                         one */
        plan->kind[--n] = c->kind;
        plan->devices[n] = c->devices;
        plan->objective = fmax(plan->objective, c->load);
        for (uint32_t e = d; e; e = l->parent[e]) plan->part_of[l->last[e]] = n;
        d = c->from;
        c = &s->cells[(size_t)d * s->grid.n_state + c->state];
    }
    return PST_OK;
}

static pst_status run(fewest *s, int *found, pst_downset_plan *plan) {
    for (uint32_t root = 0; root + 1 < s->list->n; root++) {
        if (pst_monotonic_ns() > s->range->until_ns) return PST_BUSY;
        find_active(s, root);
        if (s->n_active) pst_downset_parts_from(&s->parts, root, s->range->limit, offer_all, s);
    }
    const cell *last = s->cells + (size_t)(s->list->n - 1) * s->grid.n_state;
    uint32_t state = 0;
    for (uint32_t i = 1; i < s->grid.n_state; i++)
        if (last[i].cost < last[state].cost) state = i;
    *found = isfinite(last[state].cost);
    return *found ? plan_of(s, state, plan) : PST_OK;
}

pst_status pst_downset_fewest(const pst_downset_problem *problem, const pst_downset_list *list,
                              const pst_downset_range *range, const pst_downset_grid *grid,
                              int *found, pst_downset_plan *plan) {
    fewest s = {.p = problem, .list = list, .range = range, .grid = *grid};
    pst_status status = fewest_open(&s);
    if (status == PST_OK) status = run(&s, found, plan);
    fewest_close(&s);
    return status;
}
