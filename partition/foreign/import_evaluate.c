/* The cost of a plan under the other planner's own model, from the nodes and edges of its file
 * alone. See import.h. */
#include "partition/foreign/import.h"
#include <math.h>
#include <stdlib.h>

#define NO_PLAN(...) pst_fail(PST_EINTERNAL, "invalid plan: " __VA_ARGS__)

static pst_status check_order(const pst_import *im, const pst_import_plan *plan) {
    for (uint32_t v = 0; v < im->n_node; v++)
        if (plan->part_of[v] >= plan->n_part)
            return NO_PLAN("node %lld is in no part", (long long)im->id[v]);
    for (uint32_t i = 0; i < im->n_edge; i++) {
        const pst_import_edge *e = &im->edge[i];
        if (!plan->not_contiguous && !im->backward[e->to] &&
            plan->part_of[e->from] > plan->part_of[e->to])
            return NO_PLAN("the edge from node %lld to node %lld leads to an earlier part",
                           (long long)im->id[e->from], (long long)im->id[e->to]);
    }
    uint32_t *first = malloc(((size_t)im->n_class + 1) * sizeof *first);
    if (!first) return pst_fail(PST_ENOMEM, "no memory to evaluate a plan");
    for (uint32_t c = 0; c < im->n_class; c++) first[c] = UINT32_MAX;
    pst_status status = PST_OK;
    for (uint32_t v = 0; v < im->n_node; v++) {
        uint32_t *of = &first[im->class_of[v]];
        if (*of == UINT32_MAX) *of = plan->part_of[v];
        if (*of != plan->part_of[v])
            status =
                NO_PLAN("node %lld is not in the same part as the other nodes of its colour class",
                        (long long)im->id[v]);
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
            if (size > im->kind[k].memory * (1 + 1e-9))
                return NO_PLAN("part %u needs %g bytes, but the device has %g", s, size,
                               im->kind[k].memory);
        }
        if (!plan->group && used > im->kind[k].count)
            return NO_PLAN("%llu devices of kind %s are used, but only %u exist",
                           (unsigned long long)used, im->kind[k].name, im->kind[k].count);
    }
    return PST_OK;
}

/* A node's output leaves its part once, and enters every other part that uses it once. first, next:
 * successors of each node; mark: [n_part]. */
static void add_transfers(const pst_import *im, pst_import_plan *plan, const uint32_t *first,
                          const uint32_t *to, uint32_t *mark) {
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
    uint32_t *first = calloc((size_t)im->n_node + 2, sizeof *first),
             *to = calloc((size_t)im->n_edge + 1, sizeof *to);
    uint32_t *mark = calloc((size_t)plan->n_part + 1, sizeof *mark);
    int ok = first && to && mark;
    for (uint32_t i = 0; ok && i < im->n_edge; i++) first[im->edge[i].from + 2]++;
    for (uint32_t v = 0; ok && v < im->n_node; v++) first[v + 2] += first[v + 1];
    for (uint32_t i = 0; ok && i < im->n_edge; i++)
        to[first[im->edge[i].from + 1]++] = im->edge[i].to;
    if (ok) add_transfers(im, plan, first, to, mark);
    free(first);
    free(to);
    free(mark);
    return ok ? PST_OK : pst_fail(PST_ENOMEM, "no memory to evaluate a plan");
}

/* Time of the messages across the cut before part s, activations and gradients. */
static double crossing(const pst_import *im, const pst_import_plan *plan, uint32_t s,
                       uint8_t *leaves) {
    double bytes = 0;
    for (uint32_t v = 0; v < im->n_node; v++) leaves[v] = 0;
    for (uint32_t i = 0; i < im->n_edge; i++)
        if (plan->part_of[im->edge[i].to] >= s) leaves[im->edge[i].from] = 1;
    for (uint32_t v = 0; v < im->n_node; v++)
        if (plan->part_of[v] < s && leaves[v]) bytes += im->size[v] - im->parameters[v];
    return 2 * bytes / im->compression;
}

/* PipeDream: m replicas share the time and exchange their parameters over parameter servers. Each
 * has its own links for activations, which are not charged to the first part. */
static pst_status replication(const pst_import *im, pst_import_plan *plan, const double *cross) {
    for (uint32_t s = 0; s < plan->n_part; s++) {
        double m = plan->devices[s], parameters = 0;
        int first = s == 0 || (plan->group && plan->group[s] != plan->group[s - 1]);
        for (uint32_t v = 0; v < im->n_node; v++)
            if (plan->part_of[v] == s) parameters += im->parameters[v];
        plan->load[s] = (plan->load[s] + 4 * (m - 1) * parameters / (im->bandwidth * m)) / m;
        if (!first)
            plan->load[s] = fmax(plan->load[s], fmax(cross[s], cross[s + 1]) / (im->bandwidth * m));
    }
    return PST_OK;
}

/* Each group fits on a machine, and all copies together on the machines. */
static pst_status check_machines(const pst_import *im, const pst_import_plan *plan) {
    uint64_t machines = 0, devices = 0;
    for (uint32_t s = 0; s < plan->n_part; s++) {
        int first = s == 0 || plan->group[s] != plan->group[s - 1];
        if (first && plan->group[s] != (s ? plan->group[s - 1] + 1 : 0))
            return NO_PLAN("group %u: expected groups numbered from 0 in the order of the stages",
                           plan->group[s]);
        if (!first && plan->copies[s] != plan->copies[s - 1])
            return NO_PLAN("group %u: the stages have different numbers of machines",
                           plan->group[s]);
        if (first) {
            machines += plan->copies[s];
            devices = 0;
        }
        if ((devices += plan->devices[s]) > im->kind[0].count || plan->copies[s] < 1)
            return NO_PLAN("group %u needs %llu devices of each machine, but a machine has %u",
                           plan->group[s], (unsigned long long)devices, im->kind[0].count);
    }
    return machines <= im->machines ? PST_OK
                                    : NO_PLAN("%llu machines are used, but only %u exist",
                                              (unsigned long long)machines, im->machines);
}

/* Copies of a group also exchange its parameters between machines; those of the first group use a
 * link per device. */
static pst_status copies(const pst_import *im, pst_import_plan *plan, const double *cross) {
    PST_TRY(check_machines(im, plan));
    for (uint32_t s = 0; s < plan->n_part; s++) {
        double c = plan->copies[s], parameters = 0, links = plan->group[s] ? 1 : im->kind[0].count;
        uint32_t from = s, to = s + 1;
        while (from && plan->group[from - 1] == plan->group[s]) from--;
        while (to < plan->n_part && plan->group[to] == plan->group[s]) to++;
        for (uint32_t v = 0; v < im->n_node; v++)
            if (plan->group[plan->part_of[v]] == plan->group[s]) parameters += im->parameters[v];
        plan->load[s] = (plan->load[s] + 4 * (c - 1) * parameters / (im->between * c * links)) / c;
        if (plan->group[s])
            plan->load[s] = fmax(plan->load[s], fmax(cross[from], cross[to]) / (im->between * c));
    }
    return PST_OK;
}

static pst_status stages(const pst_import *im, pst_import_plan *plan) {
    double *cross = calloc((size_t)plan->n_part + 1, sizeof *cross);
    uint8_t *leaves = calloc((size_t)im->n_node + 1, 1);
    pst_status status =
        cross && leaves ? PST_OK : pst_fail(PST_ENOMEM, "no memory to evaluate a plan");
    for (uint32_t s = 1; status == PST_OK && im->compression > 0 && s < plan->n_part; s++)
        cross[s] = crossing(im, plan, s, leaves);
    if (status == PST_OK) status = replication(im, plan, cross);
    if (status == PST_OK && plan->group) status = copies(im, plan, cross);
    free(cross);
    free(leaves);
    return status;
}

static pst_status evaluate_tensor(const pst_import *im, pst_import_plan *plan) {
    pst_tensor_plan stages = {.n_part = plan->n_part,
                              .part_of = plan->part_of,
                              .way = plan->way,
                              .degree = plan->tensor,
                              .data = plan->devices};
    PST_TRY(pst_tensor_evaluate(im->tensor, &stages, plan->load));
    plan->objective = stages.objective;
    return PST_OK;
}

pst_status pst_import_evaluate(const pst_import *im, pst_import_plan *plan) {
    if (im->tensor) return evaluate_tensor(im, plan);
    PST_TRY(check_order(im, plan));
    PST_TRY(check_devices(im, plan));
    for (uint32_t s = 0; s < plan->n_part; s++) plan->load[s] = 0;
    for (uint32_t v = 0; v < im->n_node; v++) {
        double time = im->time[(size_t)plan->kind[plan->part_of[v]] * im->n_node + v];
        if (!isfinite(time))
            return NO_PLAN("node %lld is not allowed on the kind of device that the plan gives it",
                           (long long)im->id[v]);
        plan->load[plan->part_of[v]] += time;
    }
    PST_TRY(im->format == PST_IMPORT_PIPEDREAM ? stages(im, plan) : transfers(im, plan));
    plan->objective = 0;
    for (uint32_t s = 0; s < plan->n_part; s++)
        plan->objective = fmax(plan->objective, plan->load[s]);
    return PST_OK;
}
