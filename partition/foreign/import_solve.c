/* The best plan of a workload: contracts the graph, solves, expands items to nodes and evaluates.
 * See import.h. */
#include "partition/foreign/import.h"
#include "base/clock.h"
#include "base/plural.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pst_import_plan_close(pst_import_plan *plan) {
    free(plan->part_of);
    free(plan->kind);
    free(plan->devices);
    free(plan->tensor);
    free(plan->group);
    free(plan->copies);
    free(plan->way);
    free(plan->load);
    *plan = (pst_import_plan){0};
}

static pst_status take(const pst_import *im, const uint32_t *item_of, const pst_downset_plan *found,
                       pst_import_plan *plan) {
    size_t n = found->n_part;
    *plan = (pst_import_plan){.n_part = found->n_part,
                              .lower_bound = found->lower_bound,
                              .n_downset = found->n_downset,
                              .complete = found->complete};
    plan->part_of = malloc(im->n_node * sizeof *plan->part_of);
    plan->kind = malloc(n * sizeof *plan->kind);
    plan->devices = malloc(n * sizeof *plan->devices);
    plan->tensor = malloc(n * sizeof *plan->tensor);
    plan->load = malloc(n * sizeof *plan->load);
    if (!plan->part_of || !plan->kind || !plan->devices || !plan->tensor || !plan->load)
        return pst_no_memory("for the plan of a graph");
    for (uint32_t s = 0; s < found->n_part; s++) plan->tensor[s] = 1;
    for (uint32_t v = 0; v < im->n_node; v++) plan->part_of[v] = found->part_of[item_of[v]];
    memcpy(plan->kind, found->kind, n * sizeof *plan->kind);
    memcpy(plan->devices, found->devices, n * sizeof *plan->devices);
    return PST_OK;
}

/* The evaluation and the solver must agree, except for rounding. */
static pst_status evaluate(const pst_import *im, double objective, pst_import_plan *plan) {
    PST_TRY(pst_import_evaluate(im, plan));
    if (fabs(plan->objective - objective) > 1e-9 * fmax(objective, plan->objective))
        return pst_fail(
            PST_EINTERNAL,
            "the evaluated objective of the plan is %.17g, but the solver computed %.17g",
            plan->objective, objective);
    plan->lower_bound = fmin(plan->lower_bound, plan->objective);
    return PST_OK;
}

/* --- no plan: what would be enough ------------------------------------------------------------ */

static pst_status say_kinds(const pst_import *im, char *text, size_t bytes) {
    size_t used = 0;
    for (uint32_t k = 0; k < im->n_kind && used < bytes; k++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s%u %s%s", k ? " and " : "",
                             im->kind[k].count, im->kind[k].name, pst_plural(im->kind[k].count));
    return PST_OK;
}

static pst_status check_places(const pst_import *im) {
    for (uint32_t v = 0; v < im->n_node; v++) {
        int somewhere = 0;
        for (uint32_t k = 0; k < im->n_kind; k++)
            somewhere |= im->kind[k].count && isfinite(im->time[(size_t)k * im->n_node + v]);
        if (!somewhere)
            return pst_fail(PST_EINPUT, "node %lld is not allowed on any of the devices",
                            (long long)im->id[v]);
    }
    return PST_OK;
}

/* With bytes in place of times, the same problem gives the smallest memory. */
static pst_status smallest_memory(pst_downset_problem *p, double seconds, double *memory) {
    for (uint32_t k = 0; k < p->n_kind; k++) {
        for (uint32_t i = 0; i < p->n_item; i++) {
            double *time = &p->time[(size_t)k * p->n_item + i];
            if (isfinite(*time)) *time = isfinite(p->kind[k].memory) ? p->size[i] : 0;
        }
        p->kind[k].memory = INFINITY;
        p->kind[k].pays = 0;
        p->kind[k].replicas = 1;
    }
    pst_downset_plan plan;
    PST_TRY(pst_downset_solve(p, PST_DOWNSET_MOST, seconds, &plan));
    *memory = plan.n_part ? plan.objective : INFINITY;
    pst_downset_plan_close(&plan);
    return PST_OK;
}

/* " (1 GiB)", or "" below that. Returns text. */
static const char *gibibytes(double bytes, char text[32]) {
    *text = 0;
    if (bytes >= 0x1p30) snprintf(text, 32, " (%.4g GiB)", bytes * 0x1p-30);
    return text;
}

static pst_status no_plan(const pst_import *im, pst_downset_problem *p,
                          const pst_downset_plan *found, double seconds) {
    char devices[256], needs[32], has[32];
    double memory = INFINITY;
    PST_TRY(check_places(im));
    say_kinds(im, devices, sizeof devices);
    if (isfinite(found->lower_bound))
        return pst_fail(PST_EINPUT, "no plan for %s was found in %g s; increase --time-limit",
                        devices, seconds);
    PST_TRY(smallest_memory(p, seconds, &memory));
    if (isfinite(memory) && im->n_kind > 1 && isfinite(im->kind[1].memory))
        return pst_fail(
            PST_ENOMEM,
            "no plan for %s fits in device memory; %.10g bytes%s per device would be enough",
            devices, ceil(memory), gibibytes(memory, needs));
    if (isfinite(memory))
        return pst_fail(
            PST_ENOMEM,
            "no plan for %s fits in %.10g bytes%s per device; %.10g bytes%s would be enough",
            devices, im->kind[0].memory, gibibytes(im->kind[0].memory, has), ceil(memory),
            gibibytes(memory, needs));
    return pst_fail(PST_EINPUT,
                    "no plan for %s is feasible: the nodes of a colour class are not all allowed "
                    "on one kind of device",
                    devices);
}

/* --- stages with tensor degrees --------------------------------------------------------------- */

/* Takes ownership of the arrays of `found`. */
static pst_status take_tensor(const pst_import *im, pst_tensor_plan *found, pst_import_plan *plan) {
    *plan = (pst_import_plan){.n_part = found->n_part,
                              .part_of = found->part_of,
                              .way = found->way,
                              .tensor = found->degree,
                              .devices = found->data,
                              .lower_bound = found->lower_bound,
                              .n_downset = found->n_downset,
                              .complete = found->complete,
                              .n_item = im->n_node};
    found->part_of = NULL;
    found->way = NULL;
    found->degree = NULL;
    found->data = NULL;
    plan->kind = calloc(plan->n_part + 1, sizeof *plan->kind);
    plan->load = calloc(plan->n_part + 1, sizeof *plan->load);
    return plan->kind && plan->load ? pst_import_evaluate(im, plan)
                                    : pst_no_memory("for the plan of a graph");
}

static pst_status no_tensor_plan(const pst_tensor_problem *p, const pst_tensor_plan *found,
                                 double seconds) {
    if (found->complete && found->lower_bound < 1e99)
        return pst_fail(PST_EINPUT,
                        "no plan for %u devices was found in %g s; increase --time-limit",
                        p->devices, seconds);
    char needs[32], has[32];
    double memory = INFINITY;
    PST_TRY(pst_tensor_least_memory(p, seconds, &memory));
    if (isfinite(memory))
        return pst_fail(
            PST_ENOMEM,
            "no plan for %u devices fits in %.10g bytes%s per device; %.0f bytes%s would be enough",
            p->devices, p->memory, gibibytes(p->memory, has), ceil(memory),
            gibibytes(memory, needs));
    return pst_fail(PST_EINPUT,
                    "no plan for %u devices is feasible with any memory: every tensor degree needs "
                    "more devices",
                    p->devices);
}

static pst_status solve_tensor(const pst_import *im, double seconds, pst_import_plan *plan) {
    pst_tensor_plan found;
    PST_TRY(pst_tensor_solve(im->tensor, PST_DOWNSET_MOST, seconds, &found));
    pst_status status =
        found.n_part ? take_tensor(im, &found, plan) : no_tensor_plan(im->tensor, &found, seconds);
    if (status == PST_OK) plan->lower_bound = fmin(plan->lower_bound, plan->objective);
    pst_tensor_plan_close(&found);
    return status;
}

/* With two levels or compression every item is one node. */
static pst_status solve_levels(const pst_import *im, const pst_downset_problem *p,
                               const uint32_t *item_of, double seconds, pst_import_plan *plan) {
    pst_downset_plan found = {0};
    double *bytes = calloc((size_t)im->n_node + 1, sizeof *bytes);
    pst_import_levels levels = {.devices = im->kind[0].count,
                                .machines = im->machines,
                                .straight = im->straight,
                                .ratio = im->bandwidth / im->between,
                                .transfer =
                                    im->compression > 0 ? 2 / im->bandwidth / im->compression : 0,
                                .bytes = bytes,
                                .group = calloc((size_t)p->n_item + 1, sizeof *levels.group),
                                .copies = calloc((size_t)p->n_item + 1, sizeof *levels.copies)};
    for (uint32_t v = 0; bytes && v < im->n_node; v++)
        bytes[item_of[v]] = im->size[v] - im->parameters[v];
    pst_status status = bytes && levels.group && levels.copies
                            ? pst_import_levels_solve(p, &levels, seconds, &found)
                            : pst_no_memory("for the plan of a graph");
    if (status == PST_OK) status = take(im, item_of, &found, plan);
    plan->group = levels.group;
    plan->copies = levels.copies;
    if (status == PST_OK) status = evaluate(im, found.objective, plan);
    plan->n_item = p->n_item;
    pst_downset_plan_close(&found);
    free(bytes);
    return status;
}

static pst_status solve_parts(const pst_import *im, pst_downset_problem *p, const uint32_t *item_of,
                              double seconds, pst_import_plan *plan) {
    pst_downset_plan found;
    if (im->machines > 1 || im->compression > 0) return solve_levels(im, p, item_of, seconds, plan);
    PST_TRY(pst_downset_solve(p, PST_DOWNSET_MOST, seconds, &found));
    pst_status status =
        found.n_part ? take(im, item_of, &found, plan) : no_plan(im, p, &found, seconds);
    if (status == PST_OK) status = evaluate(im, found.objective, plan);
    plan->n_item = p->n_item;
    pst_downset_plan_close(&found);
    return status;
}

static pst_status contract_and_solve(const pst_import *im, double seconds, pst_import_plan *plan) {
    pst_downset_problem p = {0};
    uint32_t *item_of = malloc(((size_t)im->n_node + 1) * sizeof *item_of);
    pst_status status =
        item_of ? pst_import_contract(im, &p, item_of) : pst_no_memory("for the plan of a graph");
    if (status == PST_OK) status = solve_parts(im, &p, item_of, seconds, plan);
    pst_downset_problem_close(&p);
    free(item_of);
    return status;
}

pst_status pst_import_solve(const pst_import *im, double seconds, pst_import_plan *plan) {
    pst_import_plan made = {0};
    uint64_t start = pst_monotonic_ns();
    pst_status status =
        im->tensor ? solve_tensor(im, seconds, &made) : contract_and_solve(im, seconds, &made);
    made.seconds = (double)(pst_monotonic_ns() - start) * 1e-9;
    if (status == PST_OK) *plan = made;
    else pst_import_plan_close(&made);
    return status;
}
