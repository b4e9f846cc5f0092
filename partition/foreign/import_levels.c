/* PipeDream's two levels: a group of stages runs on one machine or, as copies, on several; within a
 * machine stages and their replicas share its devices. A group's time is that of its slowest stage,
 * and its copies exchange its parameters between machines, as replicas of a stage do within one. If
 * the downsets are few, exact over all of them: for every nested pair of downsets the best stages
 * on one machine, then the best groups of those. See import.h. */
#include "partition/foreign/import.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const pst_downset_problem *p;
    const pst_import_levels *to;
    const pst_downset_list *list;
    uint64_t until_ns;
    uint32_t n, *downset;    /* [n] sets at which a stage may end, ascending */
    double *time, *exchange; /* [n] totals over a set */
    double *leaves;          /* [n] bytes that nodes in the set send to nodes outside */
    uint8_t *within;         /* [n][n] whether the first is a subset of the second */
    double *inner; /* [n][n] objective of the best stages between two sets, on one machine */
    /* [n][count + 1] objective of the best stages between the start and a set, on at most k devices
     * (or machines) */
    double *best;
    /* [n][count + 1] the set at which the last of these stages begins, and the number of devices of
     * that stage */
    uint32_t *from, *how;
    double *load; /* [count + 1] load of one part on at most k devices */
    uint32_t *on; /* [count + 1] number of devices with which this load is reached */
} levels;
typedef enum { WITHIN, BETWEEN } level;

/* The first group spreads its exchange over the devices of a machine, the others use one of them.
 * The first part of all, or of a group, is not charged for its messages, as in the reference. */
static void loads(levels *l, level at, uint32_t count, uint32_t start, uint32_t k, uint32_t j) {
    double time = at == WITHIN ? l->time[j] - l->time[k] : l->inner[(size_t)k * l->n + j];
    double exchange = l->exchange[j] - l->exchange[k];
    if (at == BETWEEN) exchange *= l->to->ratio / (k ? 1 : l->to->devices);
    double bytes = k == start ? 0 : fmax(l->leaves[k], l->leaves[j]);
    double least = bytes * (at == WITHIN ? l->to->transfer : l->to->transfer * l->to->ratio);
    l->load[1] = fmax(time, least);
    l->on[1] = 1;
    for (uint32_t m = 2; m <= count; m++) {
        double load = l->to->straight ? INFINITY : fmax(time + exchange * (m - 1) / m, least) / m;
        l->on[m] = load < l->load[m - 1] ? m : l->on[m - 1];
        l->load[m] = fmin(load, l->load[m - 1]);
    }
}

/* Everything up to k, then a part from k to j. With more devices, the part's load falls and the
 * load before it rises. */
static void append(levels *l, uint32_t count, uint32_t k, uint32_t j) {
    const double *before = l->best + (size_t)k * (count + 1);
    size_t to = (size_t)j * (count + 1);
    uint32_t q = 1;
    for (uint32_t m = 1; m <= count; m++) {
        while (q < m && l->load[q] > before[m - q]) q++;
        for (uint32_t x = q > 1 ? q - 1 : q; x <= q; x++) {
            double most = fmax(l->load[x], before[m - x]);
            if (!(most < l->best[to + m])) continue;
            l->best[to + m] = most;
            l->from[to + m] = k;
            l->how[to + m] = l->on[x];
        }
    }
}

/* Sets best, from and how for all supersets of `start`. */
static void parts_from(levels *l, level at, uint32_t start) {
    uint32_t count = at == WITHIN ? l->to->devices : l->to->machines;
    const uint8_t *reach = l->within + (size_t)start * l->n;
    for (uint32_t m = 0; m <= count; m++) l->best[(size_t)start * (count + 1) + m] = 0;
    for (uint32_t j = start + 1; j < l->n; j++) {
        if (!reach[j]) continue;
        for (uint32_t m = 0; m <= count; m++) l->best[(size_t)j * (count + 1) + m] = INFINITY;
        for (uint32_t k = start; k < j; k++) {
            if (!(k == start || reach[k]) || !l->within[(size_t)k * l->n + j]) continue;
            loads(l, at, count, start, k, j);
            append(l, count, k, j);
        }
    }
}

static pst_status all_machines(levels *l) {
    uint32_t starts = l->to->machines > 1 ? l->n - 1 : 1;
    for (uint32_t start = 0; start < starts; start++) {
        if (pst_monotonic_ns() > l->until_ns) return PST_BUSY;
        parts_from(l, WITHIN, start);
        for (uint32_t j = start + 1; j < l->n; j++)
            l->inner[(size_t)start * l->n + j] =
                l->best[(size_t)j * (l->to->devices + 1) + l->to->devices];
    }
    return PST_OK;
}

/* --- sets ------------------------------------------------------------------------------------- */

/* The full set sends nothing. */
static pst_status find_leaves(levels *l) {
    const pst_downset_problem *p = l->p;
    uint8_t *in = malloc((size_t)p->n_item + 1), *out = malloc((size_t)p->n_item + 1);
    for (uint32_t i = 0; in && out && i < l->n; i++) {
        memset(in, 0, p->n_item);
        memset(out, 0, p->n_item);
        for (uint32_t d = l->downset[i]; d; d = l->list->parent[d]) in[l->list->last[d]] = 1;
        for (uint32_t e = 0; e < p->n_edge; e++) out[p->edge[e].from] |= !in[p->edge[e].to];
        for (uint32_t v = 0; v < p->n_item; v++)
            if (in[v] && out[v]) l->leaves[i] += l->to->bytes[v];
    }
    pst_status status = in && out ? PST_OK : pst_no_memory("for the plan of two levels");
    free(in);
    free(out);
    return status;
}

/* Which sets contain which, along the edges of the list; in a thinned chain, all later ones. */
static pst_status relate(levels *l) {
    const pst_downset_list *d = l->list;
    if (l->n < d->n) {
        for (uint32_t a = 0; a < l->n; a++)
            memset(l->within + (size_t)a * l->n + a + 1, 1, l->n - a - 1);
        return PST_OK;
    }
    for (uint32_t a = d->n; a-- > 0;)
        for (uint32_t e = d->first[a]; e < d->first[a + 1]; e++) {
            uint8_t *row = l->within + (size_t)a * l->n,
                    *next = l->within + (size_t)d->next[e] * l->n;
            row[d->next[e]] = 1;
            for (uint32_t b = d->next[e] + 1; b < l->n; b++) row[b] |= next[b];
        }
    return PST_OK;
}

static void close_levels(levels *l) {
    void *all[] = {l->downset, l->time, l->exchange, l->leaves, l->within, l->inner,
                   l->best,    l->from, l->how,      l->load,   l->on};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static pst_status open_levels(levels *l, uint32_t most) {
    uint32_t all = l->list->n,
             counts = l->to->devices > l->to->machines ? l->to->devices : l->to->machines;
    l->n = all < most ? all : most;
    size_t n = l->n, pairs = n * n, cells = n * (counts + 1);
    double *time = calloc(all, sizeof *time), *exchange = calloc(all, sizeof *exchange);
    l->downset = calloc(n, sizeof *l->downset);
    l->time = calloc(n, sizeof *l->time);
    l->exchange = calloc(n, sizeof *l->exchange);
    l->leaves = calloc(n, sizeof *l->leaves);

    l->within = calloc(pairs, 1);
    l->inner = calloc(pairs, sizeof *l->inner);
    l->best = calloc(cells, sizeof *l->best);
    l->from = calloc(cells, sizeof *l->from);
    l->how = calloc(cells, sizeof *l->how);
    l->load = calloc(counts + 1, sizeof *l->load);
    l->on = calloc(counts + 1, sizeof *l->on);
    int ok = time && exchange && l->downset && l->time && l->exchange && l->leaves && l->within &&
             l->inner && l->best && l->from && l->how && l->load && l->on;
    for (uint32_t d = 1; ok && d < all; d++) {
        uint32_t before = l->list->parent[d], item = l->list->last[d];
        time[d] = time[before] + l->p->time[item];
        exchange[d] = exchange[before] + l->p->exchange[item];
    }
    for (uint32_t i = 0; ok && i < l->n; i++) {
        uint32_t d = l->downset[i] = (uint32_t)((uint64_t)i * (all - 1) / (l->n - 1));
        l->time[i] = time[d];
        l->exchange[i] = exchange[d];
    }
    free(time);
    free(exchange);
    if (!ok) return pst_no_memory("for the plan of two levels");
    if (l->to->transfer > 0) PST_TRY(find_leaves(l));
    return relate(l);
}

/* --- the plan --------------------------------------------------------------------------------- */

typedef struct {
    uint32_t from, to, how;
} piece;

/* The parts of the best split up to `end`, the last one first. */
static uint32_t trace(const levels *l, uint32_t count, uint32_t start, uint32_t end,
                      piece *pieces) {
    uint32_t n = 0, left = count;
    while (end != start) {
        size_t cell = (size_t)end * (count + 1) + left;
        pieces[n++] = (piece){l->from[cell], end, l->how[cell]};
        end = l->from[cell];
        left -= l->how[cell];
    }
    return n;
}

static void stages_of(levels *l, uint32_t group, const piece *of, piece *stages,
                      pst_downset_plan *plan) {
    parts_from(l, WITHIN, of->from);
    uint32_t n = trace(l, l->to->devices, of->from, of->to, stages), first = plan->n_part;
    for (uint32_t i = 0; i < n; i++) { /* overwrites items of an earlier part */
        uint32_t part = first + n - 1 - i;
        plan->devices[part] = stages[i].how;
        l->to->group[part] = group;
        l->to->copies[part] = of->how;
        for (uint32_t d = l->downset[stages[i].to]; d; d = l->list->parent[d])
            if (plan->part_of[l->list->last[d]] == UINT32_MAX ||
                plan->part_of[l->list->last[d]] >= first)
                plan->part_of[l->list->last[d]] = part;
    }
    plan->n_part += n;
}

static pst_status plan_of(levels *l, pst_downset_plan *plan) {
    uint32_t n = l->p->n_item;
    piece *groups = calloc((size_t)n + 1, sizeof *groups),
          *stages = calloc((size_t)n + 1, sizeof *stages);
    *plan = (pst_downset_plan){.part_of = malloc(((size_t)n + 1) * sizeof *plan->part_of),
                               .kind = calloc((size_t)n + 1, sizeof *plan->kind),
                               .devices = calloc((size_t)n + 1, sizeof *plan->devices),
                               .n_downset = l->n};
    int ok = groups && stages && plan->part_of && plan->kind && plan->devices;
    if (ok) {
        memset(plan->part_of, 0xff, n * sizeof *plan->part_of);
        plan->objective = l->best[(size_t)(l->n - 1) * (l->to->machines + 1) + l->to->machines];
        uint32_t n_group = trace(l, l->to->machines, 0, l->n - 1, groups);
        for (uint32_t i = n_group; i-- > 0;)
            stages_of(l, n_group - 1 - i, &groups[i], stages, plan);
    }
    free(groups);
    free(stages);
    if (ok) return PST_OK;
    pst_downset_plan_close(plan);
    return pst_no_memory("for the plan of two levels");
}

/* Over at most `most` sets. BUSY: time was over. */
static pst_status attempt(levels l, uint32_t most, pst_downset_plan *plan) {
    pst_status status = open_levels(&l, most);
    if (status == PST_OK) status = all_machines(&l);
    if (status == PST_OK) {
        parts_from(&l, BETWEEN, 0);
        status = plan_of(&l, plan);
    }
    close_levels(&l);
    return status;
}

/* Returns the number of sets for which the search takes seconds: it visits every nested triple of
 * sets for all numbers of devices. */
static uint32_t affordable(const pst_import_levels *to) {
    return (uint32_t)cbrt(6e9 / (to->devices + 2));
}

/* Lower bound of the objective: the work divided by all devices, and the largest item divided by
 * the devices that may replicate it. */
static double bound_of(const pst_downset_problem *p, const pst_import_levels *to) {
    double work = 0, most = 0, all = (double)to->devices * to->machines;
    for (uint32_t i = 0; i < p->n_item; i++) {
        work += p->time[i];
        most = fmax(most, p->time[i]);
    }
    return fmax(work / all, to->straight ? most : most / all) * (1 - 1e-12);
}

/* Along one order of the items, which takes no time. */
static pst_status fall_back(levels l, pst_downset_plan *plan) {
    enum { SETS = 160 };
    const pst_downset_problem *p = l.p;
    pst_downset_list chain = {0};
    uint32_t *order = malloc(((size_t)p->n_item + 1) * sizeof *order);
    pst_status status = order ? pst_downset_order(p->n_item, p->edge, p->n_edge, order)
                              : pst_no_memory("for the plan of two levels");
    if (status == PST_OK)
        status = pst_downset_list_near(p->n_item, p->edge, p->n_edge,
                                       (pst_downset_window){order, 1, UINT32_MAX / 2}, &chain);
    l.list = &chain;
    l.until_ns = UINT64_MAX;
    if (status == PST_OK) status = attempt(l, SETS, plan);
    pst_downset_list_close(&chain);
    free(order);
    return status;
}

pst_status pst_import_levels_solve(const pst_downset_problem *p, const pst_import_levels *to,
                                   double seconds, pst_downset_plan *plan) {
    pst_downset_list list = {0};
    int complete = 0;
    levels l = {.p = p, .to = to, .list = &list, .until_ns = UINT64_MAX};
    if (seconds > 0 && seconds < 1e9) l.until_ns = pst_monotonic_ns() + (uint64_t)(seconds * 1e9);
    PST_TRY(
        pst_downset_list_choose(p->n_item, p->edge, p->n_edge, affordable(to), &list, &complete));
    pst_status status = attempt(l, affordable(to), plan);
    pst_downset_list_close(&list);
    if (status == PST_BUSY) {
        complete = 0;
        status = fall_back(l, plan);
    }
    PST_TRY(status);
    plan->complete = complete;
    plan->lower_bound = complete ? plan->objective : bound_of(p, to);
    return PST_OK;
}
