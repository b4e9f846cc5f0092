/* The smallest limit with a plan: raises a lower bound until there is a plan, then bisects. */
#include "partition/foreign/tensor.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>

/* Lower bound: work spread over all devices; and a node as a whole on replicas of one degree. */
static double bound_of(const pst_tensor_problem *p) {
    double work = 0, most = 0;
    for (uint32_t v = 0; v < p->n_node; v++) {
        double least = INFINITY;
        for (uint32_t t = 0; t < p->n_degree; t++)
            for (uint32_t w = 0; w < PST_TENSOR_WAYS; w++) {
                const pst_tensor_way *way = pst_tensor_way_of(p, v, t, w);
                uint32_t replicas = p->devices / p->degree[t];
                if (replicas > p->micro_batches) replicas = p->micro_batches;
                if (way->name[0] && replicas) least = fmin(least, way->time / replicas);
            }
        if (isfinite(least)) most = fmax(most, least);
        work += pst_tensor_work(p, v);
    }
    return fmax(work / p->devices, most) * (1 - 1e-12);
}

typedef struct {
    const pst_tensor_problem *p;
    const pst_downset_list *list;
    pst_tensor_range range;
    double *load;
    double bound;  /* no plan is faster */
    double failed; /* nothing was found at this limit, perhaps because a choice was given up */
    pst_tensor_plan best; /* n_part 0: none yet */
} climb;

/* One search; a better plan replaces the best. */
static pst_status attempt(climb *c, double limit, int *found) {
    pst_tensor_plan plan = {0};
    int doubt = 0;
    *found = 0;
    c->range.limit = limit;
    PST_TRY(pst_tensor_search(c->p, c->list, &c->range, found, &doubt, &plan));
    if (!*found) {
        c->failed = fmax(c->failed, limit);
        if (!doubt) c->bound = fmax(c->bound, limit);
        return PST_OK;
    }
    pst_status status = pst_tensor_evaluate(c->p, &plan, c->load);
    if (status == PST_OK && plan.objective > limit * (1 + 1e-9))
        status = pst_fail(
            PST_EINTERNAL,
            "the evaluated time of a stage is %.17g s, but the search computed at most %.17g s",
            plan.objective, limit);
    if (status == PST_OK && (!c->best.n_part || plan.objective < c->best.objective)) {
        pst_tensor_plan_close(&c->best);
        c->best = plan;
    } else pst_tensor_plan_close(&plan);
    return status;
}

/* Bisects between a limit that failed and the best, and tries in turn to improve the best. */
static pst_status close_in(climb *c) {
    const double near = 5e-10;
    int found = 0;
    for (int turn = 0; c->best.objective - c->failed > 2 * near * c->best.objective; turn++) {
        double last = c->best.objective * (1 - near),
               half = c->failed + (c->best.objective - c->failed) / 2;
        PST_TRY(attempt(c, turn % 2 ? last : half, &found));
    }
    return PST_OK;
}

static pst_status solve(climb *c) {
    int found = 0;
    PST_TRY(attempt(c, 1e100, &found)); /* any plan */
    if (!found) return PST_OK;
    double floor = c->bound;
    for (double gap = 0.01; c->bound < c->best.objective; gap *= 2) {
        double limit = floor * (1 + gap);
        if (!(limit < c->best.objective) || floor <= 0) break;
        PST_TRY(attempt(c, limit, &found));
        if (found) break;
    }
    return close_in(c);
}

/* Downsets of the reversed graph: the last stages come first. */
static pst_status list_of(const pst_tensor_problem *p, uint32_t most, pst_downset_list *list,
                          int *complete) {
    size_t sums = (size_t)(p->micro_batches < p->devices ? p->micro_batches : p->devices) + 1;
    pst_downset_edge *edge = calloc((size_t)p->n_edge + 1, sizeof *edge);
    if (!edge) return pst_fail(PST_ENOMEM, "no memory for a graph of %u nodes", p->n_node);
    for (uint32_t i = 0; i < p->n_edge; i++)
        edge[i] = (pst_downset_edge){p->edge[i].to, p->edge[i].from};
    if (most > (1 << 24) / sums) most = (uint32_t)((1 << 24) / sums);
    pst_status status = pst_downset_list_choose(p->n_node, edge, p->n_edge, most, list, complete);
    free(edge);
    return status;
}

static uint64_t end_of(double seconds) {
    return seconds > 0 && seconds < 1e9 ? pst_monotonic_ns() + (uint64_t)(seconds * 1e9)
                                        : UINT64_MAX;
}

pst_status pst_tensor_solve(const pst_tensor_problem *p, uint32_t most, double seconds,
                            pst_tensor_plan *plan) {
    pst_downset_list list = {0};
    int complete = 0;
    climb c = {.p = p, .list = &list, .range.until_ns = end_of(seconds), .bound = bound_of(p)};
    double floor = c.failed = c.bound;
    c.load = calloc((size_t)p->n_node + 1, sizeof *c.load);
    pst_status status = c.load
                            ? list_of(p, most, &list, &complete)
                            : pst_fail(PST_ENOMEM, "no memory for a graph of %u nodes", p->n_node);
    if (status == PST_OK) status = solve(&c);
    if (status == PST_BUSY) status = PST_OK;
    c.best.n_downset = list.n;
    c.best.complete = complete;
    c.best.lower_bound = complete ? c.bound : floor;
    pst_downset_list_close(&list);
    free(c.load);
    if (status == PST_OK) *plan = c.best;
    else pst_tensor_plan_close(&c.best);
    return status;
}

pst_status pst_tensor_least_memory(const pst_tensor_problem *problem, double seconds,
                                   double *memory) {
    pst_tensor_problem p = *problem;
    pst_tensor_range range = {.limit = 1e100, .until_ns = end_of(seconds)};
    pst_downset_list list = {0};
    int complete, found = 0, doubt;
    double least = 0, most = 0;
    PST_TRY(list_of(&p, PST_DOWNSET_MOST, &list, &complete));
    pst_status status = PST_OK;
    while (status == PST_OK && (!found || most - least > 1e-6 * most)) {
        pst_tensor_plan plan = {0};
        p.memory = most > 0 ? least + (most - least) / 2 : fmax(2 * p.memory, 1);
        if (p.memory > 1e40) break;
        int fits = 0;
        status = pst_tensor_search(&p, &list, &range, &fits, &doubt, &plan);
        pst_tensor_plan_close(&plan);
        if (status == PST_OK && fits) {
            found = 1;
            most = p.memory;
        } else if (status == PST_OK) least = p.memory;
    }
    pst_downset_list_close(&list);
    if (status != PST_OK && status != PST_BUSY) return status;
    *memory = found ? most : INFINITY;
    return PST_OK;
}
