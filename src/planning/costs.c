/* Costs of the model's operators with the degrees of the search (planning/planning.h). */
#include "backends/machine.h"
#include "planning/planning.h"
#include "prepare/profile_use.h"

/* The link between devices of this kind in one node; the link between nodes if no node has enough
 * devices. */
static pst_status tensor_link(const pst_planning *x, uint32_t kind, uint32_t tensor,
                              pst_cluster_link *link) {
    const pst_cluster *c = x->cluster;
    for (uint32_t i = 0; i + tensor <= c->n_device; i++) {
        uint32_t last = i + tensor - 1;
        int in_node = c->device[last].node == c->device[i].node;
        if (c->device[i].kind == kind && (in_node || x->problem.tensor_across_nodes))
            return pst_cluster_between(c, i, last, link);
    }
    return pst_fail(PST_EINPUT, "no node has %u devices of kind %s", tensor, c->kind[kind].name);
}

/* Other machines are assumed to support every precision. */
uint32_t pst_planning_isa(const pst_planning *x) {
    if (!x->local) return UINT32_MAX;
    uint32_t isa = pst_prepare_isa_to_inspect(x->config);
    return pst_registry_is_host(x->device) ? isa & ~(uint32_t)PST_ISA_CUDA : isa;
}

uint32_t pst_planning_threads(const pst_planning *x, uint32_t ranks) {
    if (x->config->parallel.threads) return (uint32_t)x->config->parallel.threads;
    return x->local ? pst_machine_threads(ranks) : 1;
}

pst_status pst_planning_profile(pst_planning *x, const pst_graph *graph) {
    const char *path = x->config->parallel.profile;
    uint32_t n = x->cluster->n_device, k = 0;
    if (!*path) return PST_OK;
    pst_status status = pst_profile_load(path, &x->profile);
    if (status != PST_OK) return pst_fail_in(status, "parallel.profile");
    while (!x->local && k < x->cluster->n_kind &&
           !pst_costs_profiled(&x->cluster->kind[k], x->profile))
        k++;
    if (!x->local && k == x->cluster->n_kind) {
        const pst_profile_head *head = pst_profile_head_of(x->profile);
        return pst_fail(PST_EINPUT,
                        "parallel.profile: %s was measured on %s '%s', which the cluster does not "
                        "have; omit parallel.profile",
                        path, *head->device ? "device" : "processor",
                        *head->device ? head->model : head->cpu);
    }
    const pst_device_kind *kind = x->local ? NULL : &x->cluster->kind[k];
    const pst_profile_purpose purpose = {x->config, kind, pst_planning_threads(x, n), x->processors,
                                         0};
    PST_TRY(pst_profile_suits(x->profile, &purpose, graph));
    pst_profile_warn(x->profile, x->config, n, pst_planning_threads(x, n));
    return PST_OK;
}

static pst_costs costs_of(const pst_planning *x, uint32_t kind) {
    uint32_t n = x->cluster->n_device,
             most = x->profile ? pst_profile_head_of(x->profile)->ranks : 1;
    return (pst_costs){.kind = x->local ? x->datasheet : &x->cluster->kind[kind],
                       .profile = x->profile,
                       .program = &x->program,
                       .factor = x->factor,
                       .busy = n < most ? n : most,
                       .narrow_state = x->optim->state == PST_BF16};
}

/* Extends the table for x->layers layers, which is freed, to all layers. */
static pst_status repeat_layers(const pst_planning *x, pst_cost_table *few,
                                pst_cost_table **table) {
    if (few->n == x->problem.n_item) {
        *table = few;
        return PST_OK;
    }
    uint32_t period, from = pst_planning_repeated(x, few->n, &period);
    pst_status status =
        pst_cost_table_repeat(few, from, period, (x->problem.n_item - few->n) / period, table);
    pst_cost_table_close(few);
    return status;
}

pst_status pst_planning_table(void *arg, const pst_search_key *key, const pst_cost_table **table) {
    const uint32_t kind = key->kind, tensor = key->tensor;
    pst_planning *x = arg;
    pst_planning_part *part;
    pst_cluster_link link;
    const pst_planning_part_key of = {x->layers, tensor, key->sequence, key->untied,
                                      key->micro_batch};
    PST_TRY(pst_planning_part_of(x, &of, &part));
    if (!part->table[kind]) {
        pst_costs costs = costs_of(x, kind);
        pst_device device = {.ops = x->device,
                             .isa = pst_planning_isa(x),
                             .threads = pst_planning_threads(x, x->cluster->n_device)};
        /* Other machines are assumed to have the same kernels. */
        pst_chooser chooser = {.arg = &device, .choose = pst_prepare_choose};
        pst_cost_table *few;
        if (tensor > 1) PST_TRY(tensor_link(x, kind, tensor, &link));
        PST_TRY(
            pst_cost_table_build(part->graph, &costs, tensor > 1 ? &link : NULL, &chooser, &few));
        pst_planning_fold_table(few, part->first, part->n);
        PST_TRY(repeat_layers(x, few, &part->table[kind]));
    }
    *table = part->table[kind];
    return PST_OK;
}
