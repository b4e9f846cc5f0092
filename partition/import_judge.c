/* What a plan costs under the other planner's own model, from the nodes and edges of its file alone. See import.h. */
#include "partition/import.h"
#include <math.h>
#include <stdlib.h>

#define NO_PLAN(...) pst_fail(PST_EINTERNAL, "the plan is none: " __VA_ARGS__)

static pst_status check_order(const pst_import *im, const pst_import_plan *plan) {
    for (uint32_t v = 0; v < im->n_node; v++)
        if (plan->part_of[v] >= plan->n_part) return NO_PLAN("node %lld is in no part", (long long)im->id[v]);
    for (uint32_t i = 0; i < im->n_edge; i++) {
        const pst_import_edge *e = &im->edge[i];
        if (!im->backward[e->to] && plan->part_of[e->from] > plan->part_of[e->to])
            return NO_PLAN("the edge from %lld to %lld runs back", (long long)im->id[e->from],
                           (long long)im->id[e->to]);
    }
    uint32_t *first = malloc(((size_t)im->n_class + 1) * sizeof *first);
    if (!first) return pst_fail(PST_ENOMEM, "no memory to judge a plan");
    for (uint32_t c = 0; c < im->n_class; c++) first[c] = UINT32_MAX;
    pst_status status = PST_OK;
    for (uint32_t v = 0; v < im->n_node; v++) {
        uint32_t *of = &first[im->class_of[v]];
        if (*of == UINT32_MAX) *of = plan->part_of[v];
        if (*of != plan->part_of[v]) status = NO_PLAN("node %lld is not with its class", (long long)im->id[v]);
    }
    free(first);
    return status;
}

static pst_status check_devices(const pst_import *im, const pst_import_plan *plan) {
    for (uint32_t k = 0; k < im->n_kind; k++) {
        uint64_t used = 0;
        for (uint32_t s = 0; s < plan->n_part; s++) {
            double size = 0;
            if (plan->kind[s] != k) continue;
            used += plan->devices[s];
            for (uint32_t v = 0; v < im->n_node; v++)
                if (plan->part_of[v] == s) size += im->size[v];
            if (size > im->kind[k].memory * (1 + 1e-9)) return NO_PLAN("part %u has %g bytes", s, size);
        }
        if (used > im->kind[k].count) return NO_PLAN("%llu devices are used", (unsigned long long)used);
    }
    return PST_OK;
}

/* A node's output leaves its part once, and comes into every other part that takes it once. next: the edges of each
 * node follow each other, by first; mark: [n_part]. */
static void add_transfers(const pst_import *im, pst_import_plan *plan, const uint32_t *first, const uint32_t *to,
                          uint32_t *mark) {
    for (uint32_t v = 0; v < im->n_node; v++) {
        uint32_t home = plan->part_of[v];
        int leaves = 0;
        for (uint32_t e = first[v]; e < first[v + 1]; e++) {
            uint32_t part = plan->part_of[to[e]];
            if (part == home || mark[part] == v + 1) continue;
            mark[part] = v + 1;
            leaves = 1;
            if (im->kind[plan->kind[part]].pays) plan->load[part] += im->transfer[v];
        }
        if (leaves && im->kind[plan->kind[home]].pays) plan->load[home] += im->transfer[v];
    }
}

static pst_status transfers(const pst_import *im, pst_import_plan *plan) {
    uint32_t *first = calloc((size_t)im->n_node + 2, sizeof *first), *to = calloc((size_t)im->n_edge + 1, sizeof *to);
    uint32_t *mark = calloc((size_t)plan->n_part + 1, sizeof *mark);
    int ok = first && to && mark;
    for (uint32_t i = 0; ok && i < im->n_edge; i++) first[im->edge[i].from + 2]++;
    for (uint32_t v = 0; ok && v < im->n_node; v++) first[v + 2] += first[v + 1];
    for (uint32_t i = 0; ok && i < im->n_edge; i++) to[first[im->edge[i].from + 1]++] = im->edge[i].to;
    if (ok) add_transfers(im, plan, first, to, mark);
    free(first);
    free(to);
    free(mark);
    return ok ? PST_OK : pst_fail(PST_ENOMEM, "no memory to judge a plan");
}

/* PipeDream: m replicas share the time and exchange their parameters by way of servers. */
static pst_status replication(const pst_import *im, pst_import_plan *plan) {
    for (uint32_t s = 0; s < plan->n_part; s++) {
        double m = plan->devices[s], parameters = 0;
        for (uint32_t v = 0; v < im->n_node; v++)
            if (plan->part_of[v] == s) parameters += im->parameters[v];
        plan->load[s] = (plan->load[s] + 4 * (m - 1) * parameters / (im->bandwidth * m)) / m;
    }
    return PST_OK;
}

static pst_status judge_tensor(const pst_import *im, pst_import_plan *plan) {
    pst_tensor_plan stages = {.n_part = plan->n_part,
                              .part_of = plan->part_of,
                              .way = plan->way,
                              .degree = plan->tensor,
                              .data = plan->devices};
    PST_TRY(pst_tensor_judge(im->tensor, &stages, plan->load));
    plan->objective = stages.objective;
    return PST_OK;
}

pst_status pst_import_judge(const pst_import *im, pst_import_plan *plan) {
    if (im->tensor) return judge_tensor(im, plan);
    PST_TRY(check_order(im, plan));
    PST_TRY(check_devices(im, plan));
    for (uint32_t s = 0; s < plan->n_part; s++) plan->load[s] = 0;
    for (uint32_t v = 0; v < im->n_node; v++) {
        double time = im->time[(size_t)plan->kind[plan->part_of[v]] * im->n_node + v];
        if (!isfinite(time)) return NO_PLAN("node %lld cannot be where it is", (long long)im->id[v]);
        plan->load[plan->part_of[v]] += time;
    }
    PST_TRY(im->format == PST_IMPORT_PIPEDREAM ? replication(im, plan) : transfers(im, plan));
    plan->objective = 0;
    for (uint32_t s = 0; s < plan->n_part; s++) plan->objective = fmax(plan->objective, plan->load[s]);
    return PST_OK;
}
