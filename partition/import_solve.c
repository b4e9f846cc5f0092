/* The best plan of a workload: contracted, solved, told apart into nodes again and judged. See import.h. */
#include "partition/import.h"
#include "base/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void pst_import_plan_close(pst_import_plan *plan) {
    free(plan->part_of);
    free(plan->kind);
    free(plan->devices);
    free(plan->load);
    *plan = (pst_import_plan){0};
}

static pst_status no_memory(void) { return pst_fail(PST_ENOMEM, "no memory for the plan of a graph"); }

static pst_status take(const pst_import *im, const uint32_t *item_of, const pst_downset_plan *found, pst_import_plan *plan) {
    size_t n = found->n_part;
    *plan = (pst_import_plan){.n_part = found->n_part, .lower_bound = found->lower_bound, .n_downset = found->n_downset,
                              .whole = found->whole};
    plan->part_of = malloc(im->n_node * sizeof *plan->part_of);
    plan->kind = malloc(n * sizeof *plan->kind);
    plan->devices = malloc(n * sizeof *plan->devices);
    plan->load = malloc(n * sizeof *plan->load);
    if (!plan->part_of || !plan->kind || !plan->devices || !plan->load) return no_memory();
    for (uint32_t v = 0; v < im->n_node; v++) plan->part_of[v] = found->part_of[item_of[v]];
    memcpy(plan->kind, found->kind, n * sizeof *plan->kind);
    memcpy(plan->devices, found->devices, n * sizeof *plan->devices);
    return PST_OK;
}

/* The judge and the solver have to agree, to rounding. */
static pst_status judge(const pst_import *im, double objective, pst_import_plan *plan) {
    PST_TRY(pst_import_judge(im, plan));
    if (fabs(plan->objective - objective) > 1e-9 * fmax(objective, plan->objective))
        return pst_fail(PST_EINTERNAL, "the plan's objective is %.17g, not %.17g as the solver says", plan->objective,
                        objective);
    plan->lower_bound = fmin(plan->lower_bound, plan->objective);
    return PST_OK;
}

/* --- no plan: what would do ------------------------------------------------------------------------------------- */

static pst_status say_kinds(const pst_import *im, char *text, size_t bytes) {
    size_t used = 0;
    for (uint32_t k = 0; k < im->n_kind && used < bytes; k++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%u %s%s", k ? " and " : "", im->kind[k].count,
                                 im->kind[k].name, im->kind[k].count == 1 ? "" : "s");
    return PST_OK;
}

static pst_status check_places(const pst_import *im) {
    for (uint32_t v = 0; v < im->n_node; v++) {
        int somewhere = 0;
        for (uint32_t k = 0; k < im->n_kind; k++)
            somewhere |= im->kind[k].count && isfinite(im->time[(size_t)k * im->n_node + v]);
        if (!somewhere)
            return pst_fail(PST_EINPUT, "node %lld cannot be on any of the devices", (long long)im->id[v]);
    }
    return PST_OK;
}

/* The same problem with bytes for times has the smallest memory as its answer. */
static pst_status smallest_memory(pst_downset_problem *p, double seconds, double *memory) {
    for (uint32_t k = 0; k < p->n_kind; k++) {
        for (uint32_t i = 0; i < p->n_item; i++) {
            double *time = &p->time[(size_t)k * p->n_item + i];
            if (isfinite(*time)) *time = isfinite(p->kind[k].memory) ? p->size[i] : 0;
        }
        p->kind[k].memory = INFINITY, p->kind[k].pays = 0, p->kind[k].replicas = 1;
    }
    pst_downset_plan plan;
    PST_TRY(pst_downset_solve(p, PST_DOWNSET_MOST, seconds, &plan));
    *memory = plan.n_part ? plan.objective : INFINITY;
    pst_downset_plan_close(&plan);
    return PST_OK;
}

static pst_status no_plan(const pst_import *im, pst_downset_problem *p, const pst_downset_plan *found, double seconds) {
    char devices[128];
    double memory = INFINITY;
    PST_TRY(check_places(im));
    say_kinds(im, devices, sizeof devices);
    if (found->whole && isfinite(found->lower_bound))
        return pst_fail(PST_EINPUT, "no plan for %s was found in %g s: allow more time", devices, seconds);
    PST_TRY(smallest_memory(p, seconds, &memory));
    if (isfinite(memory))
        return pst_fail(PST_EINPUT, "no plan for %s fits into %.10g bytes each; %.10g would do", devices, im->kind[0].memory,
                        ceil(memory));
    return pst_fail(PST_EINPUT, "there is no plan for %s: some nodes fit on no kind of them together with their class",
                    devices);
}

/* ---------------------------------------------------------------------------------------------------------------- */

static pst_status solve(const pst_import *im, pst_downset_problem *p, const uint32_t *item_of, double seconds,
                        pst_import_plan *plan) {
    pst_downset_plan found;
    PST_TRY(pst_downset_solve(p, PST_DOWNSET_MOST, seconds, &found));
    pst_status status = found.n_part ? take(im, item_of, &found, plan) : no_plan(im, p, &found, seconds);
    if (status == PST_OK) status = judge(im, found.objective, plan);
    plan->n_item = p->n_item;
    pst_downset_plan_close(&found);
    return status;
}

pst_status pst_import_solve(const pst_import *im, double seconds, pst_import_plan *plan) {
    pst_downset_problem p = {0};
    pst_import_plan made = {0};
    uint64_t start = pst_monotonic_ns();
    uint32_t *item_of = malloc(((size_t)im->n_node + 1) * sizeof *item_of);
    pst_status status = item_of ? pst_import_contract(im, &p, item_of) : no_memory();
    if (status == PST_OK) status = solve(im, &p, item_of, seconds, &made);
    made.seconds = (double)(pst_monotonic_ns() - start) * 1e-9;
    pst_downset_problem_close(&p);
    free(item_of);
    if (status == PST_OK) *plan = made;
    else pst_import_plan_close(&made);
    return status;
}
