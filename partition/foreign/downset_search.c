/* Dynamic programming over pairs of downsets. From every downset that some devices can process in
 * time, depth first over the items that can be added, while the growing part can still end below
 * the limit. See downset.h. */
#include "partition/foreign/downset_part.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A number of devices of one kind for one part. */
typedef struct {
    uint32_t kind, devices, step; /* step: in the state number */
} option;

typedef struct {
    const pst_downset_problem *p;
    const pst_downset_list *list;
    const pst_downset_range *range;
    uint32_t n_state, n_option, stride[PST_DOWNSET_KINDS];
    option *option;
    double *best;   /* [downset][state] smallest largest load on the devices of the state; at least
                       the floor */
    uint32_t *from; /* [downset][state] the downset before the last part, */
    uint32_t *how;  /* and the last part's option */
    uint32_t *used; /* [state][kind] devices */
    double *done;   /* [downset] its work */
    double *left;   /* [state] work that the remaining devices can do */
    uint32_t *active, n_active; /* states of the root to continue from */
    double *lowest;             /* [state] */
    pst_downset_parts parts;
} search;

/* --- tables ----------------------------------------------------------------------------------- */

static pst_status states(search *s) {
    const pst_downset_problem *p = s->p;
    double n = 1;
    for (uint32_t k = 0; k < p->n_kind; k++) {
        s->stride[k] = (uint32_t)n;
        n *= p->kind[k].count + 1.0;
        s->n_option += pst_downset_most(&p->kind[k]);
        if (n * s->list->n > 1 << 25)
            return pst_fail(PST_ENOMEM,
                            "%u downsets times the possible numbers of devices exceed %d search "
                            "states; use fewer devices",
                            s->list->n, 1 << 25);
    }
    s->n_state = (uint32_t)n;
    return PST_OK;
}

static void fill(search *s) {
    const pst_downset_problem *p = s->p;
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->n_kind; k++)
        for (uint32_t m = 1; m <= p->kind[k].count && m <= p->kind[k].replicas; m++)
            s->option[n++] = (option){k, m, m * s->stride[k]};
    for (uint32_t state = 0; state < s->n_state; state++)
        for (uint32_t k = 0; k < p->n_kind; k++) {
            uint32_t used = state / s->stride[k] % (p->kind[k].count + 1);
            s->used[state * p->n_kind + k] = used;
            s->left[state] += (p->kind[k].count - used) * s->range->weight[k] * s->range->limit;
        }
    for (uint32_t d = 1; d < s->list->n; d++)
        s->done[d] =
            s->done[s->list->parent[d]] + pst_downset_work(p, s->range->weight, s->list->last[d]);
    for (size_t i = 0; i < (size_t)s->list->n * s->n_state; i++) s->best[i] = INFINITY;
    s->best[0] = s->range->floor;
}

static void search_close(search *s) {
    void *all[] = {s->option, s->best, s->from,   s->how,   s->used,
                   s->done,   s->left, s->active, s->lowest};
    pst_downset_parts_close(&s->parts);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static pst_status search_open(search *s) {
    const pst_downset_problem *p = s->p;
    PST_TRY(states(s));
    size_t n = s->list->n, cells = n * s->n_state;
    if (!(s->option = calloc(s->n_option + 1, sizeof *s->option)) ||
        !(s->best = malloc(cells * sizeof *s->best)) ||
        !(s->from = malloc(cells * sizeof *s->from)) ||
        !(s->how = malloc(cells * sizeof *s->how)) ||
        !(s->used = calloc((size_t)s->n_state * p->n_kind, sizeof *s->used)) ||
        !(s->done = calloc(n, sizeof *s->done)) ||
        !(s->left = calloc(s->n_state, sizeof *s->left)) ||
        !(s->active = calloc(s->n_state, sizeof *s->active)) ||
        !(s->lowest = calloc(s->n_state, sizeof *s->lowest)))
        return pst_no_memory("to search the partitions of a graph");
    fill(s);
    return pst_downset_parts_open(p, s->list, &s->parts);
}

/* --- a part ----------------------------------------------------------------------------------- */

static void offer(search *s, uint32_t root, const pst_downset_part *f, uint32_t number,
                  double load) {
    const option *o = &s->option[number];
    const pst_downset_problem *p = s->p;
    const double *before = s->best + (size_t)root * s->n_state;
    size_t after = (size_t)f->downset * s->n_state;
    double rest = s->done[s->list->n - 1] - s->done[f->downset];
    for (uint32_t i = 0; i < s->n_active; i++) {
        uint32_t state = s->active[i];
        if (s->used[state * p->n_kind + o->kind] + o->devices > p->kind[o->kind].count) continue;
        size_t to = after + state + o->step;
        double most = fmax(before[state], load);
        if (!(most < s->best[to]) || rest > s->left[state + o->step] * (1 + 1e-9)) continue;
        s->best[to] = most;
        s->from[to] = root;
        s->how[to] = number;
    }
}

static void offer_all(void *arg, uint32_t root, const pst_downset_part *f) {
    search *s = arg;
    uint32_t enough = UINT32_MAX; /* fewer devices of this kind are enough */
    for (uint32_t i = 0; i < s->n_option; i++) {
        const option *o = &s->option[i];
        if (o->kind == enough || f->on[o->kind].forbidden || f->size > s->p->kind[o->kind].memory)
            continue;
        double load = pst_downset_load(s->p, f, o->kind, o->devices);
        if (load <= s->range->limit) offer(s, root, f, i, load);
        if (load <= s->range->floor) enough = o->kind;
    }
}

/* --- the pass --------------------------------------------------------------------------------- */

/* States that no other state dominates with fewer devices. */
static void find_active(search *s, uint32_t root) {
    const double *best = s->best + (size_t)root * s->n_state;
    s->n_active = 0;
    for (uint32_t state = 0; state < s->n_state; state++) {
        double fewer = INFINITY;
        for (uint32_t k = 0; k < s->p->n_kind; k++)
            if (s->used[state * s->p->n_kind + k])
                fewer = fmin(fewer, s->lowest[state - s->stride[k]]);
        if (best[state] < fewer) s->active[s->n_active++] = state;
        s->lowest[state] = fmin(fewer, best[state]);
    }
}

/* --- the plan --------------------------------------------------------------------------------- */

static pst_status plan_of(const search *s, uint32_t state, pst_downset_plan *plan) {
    const pst_downset_list *l = s->list;
    uint32_t n = 0, full = l->n - 1;
    pst_downset_plan made = {.objective = s->best[(size_t)full * s->n_state + state],
                             .n_downset = l->n};
    for (uint32_t d = full, at = state; d; n++) {
        size_t cell = (size_t)d * s->n_state + at;
        at -= s->option[s->how[cell]].step;
        d = s->from[cell];
    }
    made.n_part = n;
    made.part_of = malloc((s->p->n_item + 1) * sizeof *made.part_of);
    made.kind = malloc((n + 1) * sizeof *made.kind);
    made.devices = malloc((n + 1) * sizeof *made.devices);
    if (!made.part_of || !made.kind || !made.devices) {
        pst_downset_plan_close(&made);
        return pst_no_memory("to search the partitions of a graph");
    }
    for (uint32_t d = full, at = state; d;) { /* later parts come first; earlier ones overwrite what
                                                 they hold */
        size_t cell = (size_t)d * s->n_state + at;
        const option *o = &s->option[s->how[cell]];
        n--;
        made.kind[n] = o->kind;
        made.devices[n] = o->devices;
        for (uint32_t e = d; e; e = l->parent[e]) made.part_of[l->last[e]] = n;
        at -= o->step;
        d = s->from[cell];
    }
    *plan = made;
    return PST_OK;
}

static pst_status run(search *s, int *found, pst_downset_plan *plan) {
    for (uint32_t root = 0; root + 1 < s->list->n; root++) {
        if (root % 16 == 0 && pst_monotonic_ns() > s->range->until_ns) return PST_BUSY;
        find_active(s, root);
        if (s->n_active) pst_downset_parts_from(&s->parts, root, s->range->limit, offer_all, s);
    }
    const double *best = s->best + (size_t)(s->list->n - 1) * s->n_state;
    uint32_t state = 0;
    for (uint32_t i = 1; i < s->n_state; i++)
        if (best[i] < best[state]) state = i;
    *found = isfinite(best[state]);
    return *found ? plan_of(s, state, plan) : PST_OK;
}

pst_status pst_downset_search(const pst_downset_problem *problem, const pst_downset_list *list,
                              const pst_downset_range *range, int *found, pst_downset_plan *plan) {
    search s = {.p = problem, .list = list, .range = range};
    pst_status status = search_open(&s);
    if (status == PST_OK) status = run(&s, found, plan);
    search_close(&s);
    return status;
}
