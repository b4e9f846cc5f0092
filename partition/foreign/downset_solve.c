/* Raises a lower bound: each search below a guess finds the best split or proves the guess to be a
 * bound. */
#include "partition/foreign/downset.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>

/* Limits that keep sets and states within a few hundred MiB. */
static uint32_t affordable(const pst_downset_problem *p, uint32_t most) {
    double states = 1, words = (p->n_item + 63) / 64 + 1;
    for (uint32_t k = 0; k < p->n_kind; k++) states *= p->kind[k].count + 1.0;
    double limit = fmin((1 << 24) / states, (1 << 25) / words);
    return limit < most ? (uint32_t)limit : most;
}

/* --- the guess -------------------------------------------------------------------------------- */

/* No load is larger. */
static double ceiling(const pst_downset_problem *p) {
    double most = 0;
    for (uint32_t k = 0; k < p->n_kind; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < p->n_item; i++) {
            double time = p->time[(size_t)k * p->n_item + i];
            sum += (isfinite(time) ? time : 0) + p->exchange[i];
        }
        most = fmax(most, sum);
    }
    for (uint32_t i = 0; i < p->n_net; i++) most += p->net_cost[i];
    return most * (1 + 1e-9);
}

/* A split along one order, for others to beat; none: *plan stays empty. */
static pst_status first_plan(const pst_downset_problem *p, pst_downset_range range,
                             pst_downset_plan *plan) {
    pst_downset_list list;
    int found = 0;
    uint32_t *order = malloc(p->n_item * sizeof *order);
    pst_status status =
        order ? pst_downset_order(p->n_item, p->edge, p->n_edge, order)
              : pst_fail(PST_ENOMEM, "no memory for the order of %u items", p->n_item);
    if (status == PST_OK)
        status = pst_downset_list_near(p->n_item, p->edge, p->n_edge,
                                       (pst_downset_window){order, 1, UINT32_MAX / 2}, &list);
    free(order);
    PST_TRY(status);
    double top = range.limit;
    for (double gap = 0.1; status == PST_OK && !found; gap *= 4) {
        range.limit = fmin(top, range.floor > 0 ? range.floor * (1 + gap) : top * gap);
        status = pst_downset_search(p, &list, &range, &found, plan);
        if (range.limit >= top) break;
    }
    pst_downset_list_close(&list);
    return status == PST_BUSY ? PST_OK : status;
}

static pst_status climb(const pst_downset_problem *p, const pst_downset_list *list, int complete,
                        pst_downset_range range, pst_downset_plan *best) {
    double bound = range.floor, top = best->n_part ? best->objective : range.limit;
    int found = 0;
    pst_status status = PST_OK;
    for (double gap = 0.01; !found; gap *= 3) {
        pst_downset_plan plan = {0};
        range.limit = fmin(top, range.floor > 0 ? bound + range.floor * gap : top * gap);
        int last = range.limit >= top;
        status = pst_downset_search(p, list, &range, &found, &plan);
        if (status != PST_OK) break;
        if (found && (!best->n_part || plan.objective < best->objective)) {
            pst_downset_plan_close(best);
            *best = plan;
        } else pst_downset_plan_close(&plan);
        if (complete && (found || last)) bound = best->n_part ? best->objective : INFINITY;
        else if (complete) {
            bound = fmax(bound, range.limit);
            range.floor = bound;
        } else if (!found)
            range.floor = fmax(range.floor, range.limit); /* of these downsets only */
        if (last) break;
    }
    best->lower_bound = complete ? bound : range.floor;
    if (status == PST_OK && !best->n_part)
        best->lower_bound = INFINITY; /* none among those searched */
    return status == PST_BUSY ? PST_OK : status;
}

static pst_status check(const pst_downset_problem *p) {
    if (p->n_item < 1 || p->n_item > PST_DOWNSET_ITEMS)
        return pst_fail(PST_EINPUT, "the graph has %u items; expected 1 to %d", p->n_item,
                        PST_DOWNSET_ITEMS);
    if (p->n_kind < 1 || p->n_kind > PST_DOWNSET_KINDS)
        return pst_fail(PST_EINPUT, "there are %u kinds of devices; expected 1 to %d", p->n_kind,
                        PST_DOWNSET_KINDS);
    return PST_OK;
}

/* --- many devices ----------------------------------------------------------------------------- */

enum {
    CELLS = 1 << 22,
    MANY_STATES = 1 << 17,
    STATES = 1 << 16,
    NEAR = 1 << 12,
    WORDS = 1 << 25,
    BLOCKS = 256
};

/* Many devices: all combinations of their numbers, for every downset, would be too many. */
static int is_many(const pst_downset_problem *p) {
    double states = p->n_item + 1.0, options = 0;
    for (uint32_t k = 0; k < p->n_kind; k++) {
        states *= p->kind[k].count + 1.0;
        options += p->kind[k].count < p->kind[k].replicas ? p->kind[k].count : p->kind[k].replicas;
    }
    return states * (options > 16 ? options / 16 : 1) > MANY_STATES;
}

typedef struct {
    const pst_downset_problem *p;
    const pst_downset_list *list;
    pst_downset_range range;
    pst_downset_grid grid;
    double top;    /* no load is larger */
    double failed; /* nothing was found at this limit */
    pst_downset_plan best;
} narrowing;

static pst_status attempt(narrowing *n, double limit, int *found) {
    pst_downset_plan plan = {0};
    n->range.limit = limit;
    PST_TRY(pst_downset_fewest(n->p, n->list, &n->range, &n->grid, found, &plan));
    if (!*found) n->failed = fmax(n->failed, limit);
    else if (!n->best.n_part || plan.objective < n->best.objective) {
        pst_downset_plan_close(&n->best);
        n->best = plan;
    } else pst_downset_plan_close(&plan);
    return PST_OK;
}

/* Raises the limit from the floor until there is a plan, then bisects. near: the gap that may
 * remain. */
static pst_status narrow(narrowing *n, double top, double near) {
    int found = 0;
    double floor = n->range.floor;
    for (double gap = 1e-9; !n->best.n_part; gap = gap < 1e-3 ? 5e-3 : gap * 3) {
        double limit = fmin(top, floor > 0 ? floor * (1 + gap) : top * gap);
        PST_TRY(attempt(n, limit, &found));
        if (limit >= top) break;
    }
    if (!n->best.n_part) return PST_OK;
    n->failed = fmax(n->failed, floor);
    for (int turn = 0; n->best.objective - n->failed > near * n->best.objective; turn++) {
        double half = n->failed + (n->best.objective - n->failed) / 2,
               last = n->best.objective * (1 - near / 2);
        PST_TRY(attempt(n, near < 1e-6 && turn % 2 ? fmax(last, half) : half, &found));
    }
    return PST_OK;
}

/* The best split in which blocks of consecutive items stay together; none: *plan stays. */
static pst_status solve_blocks(const pst_downset_problem *p, const uint32_t *order,
                               uint32_t *block_of, pst_downset_plan *plan) {
    pst_downset_problem blocks = {0};
    pst_downset_plan found = {0};
    for (uint32_t i = 0; i < p->n_item; i++)
        block_of[order[i]] = (uint32_t)((uint64_t)i * BLOCKS / p->n_item);
    pst_status status = pst_downset_blocks(p, block_of, BLOCKS, &blocks);
    if (status == PST_OK) status = pst_downset_solve(&blocks, PST_DOWNSET_MOST, 0, &found);
    if (status == PST_OK && found.n_part) {
        for (uint32_t i = 0; i < p->n_item; i++) block_of[i] = found.part_of[block_of[i]];
        free(found.part_of);
        found.part_of = block_of;
        *plan = found;
    } else {
        pst_downset_plan_close(&found);
        free(block_of);
    }
    pst_downset_problem_close(&blocks);
    return status;
}

static pst_status try_blocks(const pst_downset_problem *p, const uint32_t *order,
                             pst_downset_plan *plan) {
    uint32_t *block_of = malloc(((size_t)p->n_item + 1) * sizeof *block_of);
    if (!block_of) return pst_fail(PST_ENOMEM, "no memory for a coarse partition");
    return solve_blocks(p, order, block_of, plan);
}

/* Along one order of the items: in blocks if they are many, then item by item. */
static pst_status along_one_order(narrowing *n, uint32_t *order) {
    const pst_downset_problem *p = n->p;
    pst_downset_list chain = {0};
    PST_TRY(pst_downset_order(p->n_item, p->edge, p->n_edge, order));
    if (p->n_item > 2 * BLOCKS) PST_TRY(try_blocks(p, order, &n->best));
    n->best.complete = 0; /* only the best of blocks */
    PST_TRY(pst_downset_list_near(p->n_item, p->edge, p->n_edge,
                                  (pst_downset_window){order, 1, UINT32_MAX / 2}, &chain));
    n->list = &chain;
    pst_status status = narrow(n, n->top, 4e-3);
    n->best.n_downset = chain.n;
    pst_downset_list_close(&chain);
    return status;
}

/* Searches over at most `most` downsets, those near one order of the items. */
static pst_status over_many(narrowing *n, uint32_t most) {
    const pst_downset_problem *p = n->p;
    pst_downset_list list = {0};
    int complete = 0;
    if (most > CELLS / n->grid.n_state) most = CELLS / n->grid.n_state;
    if (most > WORDS / (p->n_item / 64 + 2)) most = WORDS / (p->n_item / 64 + 2);
    PST_TRY(pst_downset_list_open(p->n_item, p->edge, p->n_edge, most, &list));
    int all = list.n > 0;
    if (!all)
        PST_TRY(pst_downset_list_choose(p->n_item, p->edge, p->n_edge, most < NEAR ? most : NEAR,
                                        &list, &complete));
    n->list = &list;
    n->failed = n->range.floor;
    pst_status status = PST_OK;
    if (all || list.n > p->n_item + 1) status = narrow(n, n->top, all ? 1e-9 : 2e-3);
    n->best.n_downset = list.n;
    n->best.complete = all && n->grid.exact;
    pst_downset_list_close(&list);
    return status;
}

static pst_status solve_many(const pst_downset_problem *p, uint32_t most, pst_downset_range range,
                             pst_downset_plan *plan) {
    narrowing n = {.p = p, .range = range, .top = range.limit};
    pst_downset_grid_of(p, STATES / (p->n_item + 1) + 16, &n.grid);
    uint32_t *order = malloc(((size_t)p->n_item + 1) * sizeof *order);
    pst_status status =
        order ? along_one_order(&n, order)
              : pst_fail(PST_ENOMEM, "no memory for the order of %u items", p->n_item);
    free(order);
    if (status == PST_OK) status = over_many(&n, most);
    n.best.lower_bound = n.best.complete ? n.failed : range.floor;
    if (status == PST_OK && !n.best.n_part) n.best.lower_bound = INFINITY;
    if (status == PST_OK || status == PST_BUSY) *plan = n.best;
    else pst_downset_plan_close(&n.best);
    return status == PST_BUSY ? PST_OK : status;
}

pst_status pst_downset_solve(const pst_downset_problem *p, uint32_t most, double seconds,
                             pst_downset_plan *plan) {
    double weight[PST_DOWNSET_KINDS];
    pst_downset_list list = {0};
    pst_downset_plan best = {0};
    int complete = 0;
    PST_TRY(check(p));
    uint64_t now = pst_monotonic_ns();
    pst_downset_range range = {
        .floor = pst_downset_bound(p, weight), .limit = ceiling(p), .weight = weight};
    range.until_ns = seconds > 0 && seconds < 1e9 ? now + (uint64_t)(seconds * 1e9) : UINT64_MAX;
    if (is_many(p)) return solve_many(p, most, range, plan);
    double floor = range.floor;
    pst_status status = first_plan(p, range, &best);
    if (status == PST_OK)
        status = pst_downset_list_choose(p->n_item, p->edge, p->n_edge, affordable(p, most), &list,
                                         &complete);
    if (status == PST_OK) status = climb(p, &list, complete, range, &best);
    best.n_downset = list.n;
    best.complete = complete;
    if (!complete && isfinite(best.lower_bound)) best.lower_bound = floor;
    pst_downset_list_close(&list);
    if (status == PST_OK) *plan = best;
    else pst_downset_plan_close(&best);
    return status;
}
