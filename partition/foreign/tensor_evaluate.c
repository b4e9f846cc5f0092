/* The cost of a plan under Piper's model, from the plan and the workload alone. See tensor.h. */
#include "partition/foreign/tensor.h"
#include <math.h>
#include <stdlib.h>

#define NO_PLAN(...) pst_fail(PST_EINTERNAL, "invalid plan: " __VA_ARGS__)

void pst_tensor_problem_close(pst_tensor_problem *p) {
    free(p->edge);
    free(p->first);
    free(p->at);
    free(p->way);
    free(p->extra);
    *p = (pst_tensor_problem){0};
}

void pst_tensor_plan_close(pst_tensor_plan *plan) {
    free(plan->part_of);
    free(plan->way);
    free(plan->degree);
    free(plan->data);
    *plan = (pst_tensor_plan){0};
}

pst_status pst_tensor_link(pst_tensor_problem *p) {
    size_t n = (size_t)p->n_node + 2, ends = 2 * (size_t)p->n_edge + 1;
    p->first = calloc(n, sizeof *p->first);
    p->at = calloc(ends, sizeof *p->at);
    p->extra = calloc(ends * p->n_degree * PST_TENSOR_WAYS, sizeof *p->extra);
    if (!p->first || !p->at || !p->extra)
        return pst_fail(PST_ENOMEM, "no memory for a graph of %u nodes", p->n_node);
    for (uint32_t i = 0; i < p->n_edge; i++) {
        p->first[p->edge[i].from + 2]++;
        p->first[p->edge[i].to + 2]++;
    }
    for (uint32_t v = 0; v < p->n_node; v++) p->first[v + 2] += p->first[v + 1];
    for (uint32_t i = 0; i < p->n_edge; i++) {
        p->at[p->first[p->edge[i].from + 1]++] = i;
        p->at[p->first[p->edge[i].to + 1]++] = i;
    }
    return PST_OK;
}

static pst_status check(const pst_tensor_problem *p, const pst_tensor_plan *plan,
                        uint64_t *replicas) {
    uint64_t devices = 0;
    for (uint32_t s = 0; s < plan->n_part; s++) {
        if (plan->data[s] < 1 || p->micro_batches % plan->data[s])
            return NO_PLAN(
                "stage %u has %u replicas, which do not divide the number of micro-batches", s,
                plan->data[s]);
        devices += (uint64_t)plan->data[s] * plan->degree[s];
        *replicas += plan->data[s];
    }
    if (devices > p->devices || *replicas > p->micro_batches)
        return NO_PLAN("the stages use more devices than the workload has, or more replicas than "
                       "micro-batches");
    for (uint32_t v = 0; v < p->n_node; v++)
        if (plan->part_of[v] >= plan->n_part) return NO_PLAN("node %u is in no stage", v);
    for (uint32_t i = 0; i < p->n_edge; i++)
        if (plan->part_of[p->edge[i].from] > plan->part_of[p->edge[i].to])
            return NO_PLAN("edge %u leads to an earlier stage", i);
    return PST_OK;
}

static uint32_t number_of(const pst_tensor_problem *p, uint32_t degree) {
    uint32_t t = 0;
    while (t < p->n_degree && p->degree[t] != degree) t++;
    return t;
}

static pst_status evaluate_stage(const pst_tensor_problem *p, const pst_tensor_plan *plan,
                                 uint32_t s, uint64_t replicas, double *load) {
    double time = 0, bytes = 0, parameters = 0, memory = 0, d = plan->data[s],
           in_flight = ceil((double)replicas / d);
    uint32_t t = number_of(p, plan->degree[s]);
    for (uint32_t v = 0; v < p->n_node; v++) {
        if (plan->part_of[v] != s) continue;
        const pst_tensor_way *way =
            t < p->n_degree ? pst_tensor_way_of(p, v, t, plan->way[v]) : NULL;
        if (!way || !way->name[0])
            return NO_PLAN("node %u has no variant for tensor degree %u", v, plan->degree[s]);
        const double *extra = pst_tensor_extra(p, v, t, plan->way[v]);
        time += way->time;
        parameters += way->parameters;
        memory += way->memory_a * in_flight + way->memory_b;
        for (uint32_t i = p->first[v]; i < p->first[v + 1]; i++) {
            const pst_tensor_edge *e = &p->edge[p->at[i]];
            uint32_t other = e->from == v ? e->to : e->from;
            if (plan->part_of[other] != s) bytes += 2 * (e->bytes + extra[i - p->first[v]]);
        }
    }
    if (memory > p->memory * (1 + 1e-9))
        return NO_PLAN("stage %u needs %g bytes per device, more than the device memory", s,
                       memory);
    *load = (bytes / d + 4 * (d - 1) * parameters / d / p->micro_batches) / p->bandwidth + time / d;
    return PST_OK;
}

pst_status pst_tensor_evaluate(const pst_tensor_problem *p, pst_tensor_plan *plan, double *load) {
    uint64_t replicas = 0; /* of this stage and all later ones */
    PST_TRY(check(p, plan, &replicas));
    double most = 0;
    for (uint32_t s = 0; s < plan->n_part; s++) {
        PST_TRY(evaluate_stage(p, plan, s, replicas, &load[s]));
        replicas -= plan->data[s];
        most = fmax(most, load[s]);
    }
    plan->objective = most;
    return PST_OK;
}
