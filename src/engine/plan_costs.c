/* What the search asks for: costs of the model's operators with degrees that it tries, and exact predictions of a layout,
 * prepared as a run would be. plan_run.h declares it. */
#include "engine/exchange.h"
#include "engine/machine.h"
#include "engine/plan_run.h"
#include "engine/profile.h"
#include "graph/shard.h"
#include <stdlib.h>
#include <string.h>

enum { WHOLE_RANKS = 64 }; /* jobs up to this are prepared in full to verify a layout, of larger ones one pipeline */

/* --- graphs and tables ------------------------------------------------------------------------------------------- */

static pst_status no_memory(void) { return pst_fail(PST_ENOMEM, "no memory to plan"); }

/* The whole model for this micro-batch, kept. */
static pst_status build_whole(pst_planning *x, uint32_t micro_batch, const pst_graph **whole) {
    for (uint32_t i = 0; i < x->n_whole; i++)
        if (x->whole[i]->micro_batch == micro_batch) return *whole = x->whole[i], PST_OK;
    pst_graph **more = realloc(x->whole, (x->n_whole + 1) * sizeof *more);
    if (!more) return no_memory();
    x->whole = more;
    pst_model_config model = x->model;
    model.micro_batch = micro_batch;
    PST_TRY(x->row->build(&model, &x->whole[x->n_whole]));
    *whole = x->whole[x->n_whole++];
    return PST_OK;
}

pst_status pst_planning_graph(pst_planning *x, uint32_t tensor, uint32_t sequence, uint32_t micro_batch,
                              pst_planning_part **part) {
    const pst_graph *whole = NULL;
    for (uint32_t i = 0; i < x->n_part; i++) {
        pst_planning_part *k = &x->part[i];
        if (k->tensor == tensor && k->sequence == sequence && k->micro_batch == micro_batch) return *part = k, PST_OK;
    }
    pst_planning_part *more = realloc(x->part, (x->n_part + 1) * sizeof *more), *k;
    if (!more) return no_memory();
    x->part = more, k = &more[x->n_part];
    *k = (pst_planning_part){.tensor = tensor, .sequence = sequence, .micro_batch = micro_batch};
    if (!(k->table = calloc(x->cluster->n_kind ? x->cluster->n_kind : 1, sizeof(pst_cost_table *)))) return no_memory();
    x->n_part++;
    pst_shard_options shard = {.parts = tensor, .sequence = (int)sequence};
    k->status = build_whole(x, micro_batch, &whole);
    if (k->status == PST_OK)
        k->status = tensor > 1 ? pst_graph_shard(whole, &shard, &k->graph) : pst_graph_copy(whole, &k->graph);
    if (k->status == PST_OK) k->status = pst_planning_fold_nodes(whole, k->graph, &k->first);
    *part = k;
    return k->status;
}

/* Between the devices of a node that has this kind; of ranks that do not fit in one, between nodes. */
static pst_status tensor_link(const pst_planning *x, uint32_t kind, uint32_t tensor, pst_cluster_link *link) {
    const pst_cluster *c = x->cluster;
    for (uint32_t i = 0; i + tensor <= c->n_device; i++) {
        uint32_t last = i + tensor - 1;
        int in_node = c->device[last].node == c->device[i].node;
        if (c->device[i].kind == kind && (in_node || x->problem.tensor_across_nodes))
            return pst_cluster_between(c, i, last, link);
    }
    return pst_fail(PST_EINPUT, "no node has %u devices of kind %s", tensor, c->kind[kind].name);
}

/* What the kernels of a rank need; nobody knows yet those of other machines, which are taken to be as these. */
static pst_status choose(void *arg, const pst_graph *g, const pst_node *node, int extra, pst_pass pass,
                         uint32_t *kernel, uint64_t *scratch) {
    const pst_device *device = arg;
    *kernel = 0, *scratch = pst_exchange_scratch(g, node, pass);
    if (pst_node_exchange(node, extra, pass)) return PST_OK;
    PST_TRY(pst_registry_choose_kernel(g, node, extra, pass, device, kernel));
    const pst_kernel_row *row = pst_registry_kernel(*kernel);
    *scratch = row->scratch ? row->scratch(g, node, device->threads) : 0;
    return PST_OK;
}

/* Other machines are taken to have what a precision needs. */
static uint32_t isa_of(const pst_planning *x) { return x->nominal ? pst_cpu_isa() : UINT32_MAX; }

/* Of a rank, as a run would have it. */
static uint32_t threads_of(const pst_planning *x, uint32_t ranks) {
    if (x->config->parallel.threads) return (uint32_t)x->config->parallel.threads;
    return x->nominal ? pst_machine_threads(ranks) : 1;
}

pst_status pst_planning_profile(pst_planning *x, const pst_graph *graph) {
    const char *path = x->config->parallel.profile;
    if (!*path) return PST_OK;
    pst_status status = pst_profile_load(path, &x->profile);
    if (status != PST_OK) return pst_fail_in(status, "parallel.profile");
    return pst_profile_suits(x->profile, x->config, threads_of(x, x->cluster->n_device), graph);
}

static pst_costs costs_of(const pst_planning *x, uint32_t kind) {
    uint32_t n = x->cluster->n_device, most = x->profile ? pst_profile_head_of(x->profile)->ranks : 1;
    return (pst_costs){.kind = x->nominal ? NULL : &x->cluster->kind[kind],
                       .profile = x->profile,
                       .busy = n < most ? n : most};
}

pst_status pst_planning_table(void *arg, uint32_t kind, uint32_t tensor, uint32_t sequence, uint32_t micro_batch,
                              const pst_cost_table **table) {
    pst_planning *x = arg;
    pst_planning_part *part;
    pst_cluster_link link;
    PST_TRY(pst_planning_graph(x, tensor, sequence, micro_batch, &part));
    if (!part->table[kind]) {
        pst_costs costs = costs_of(x, kind);
        pst_device device = {.isa = isa_of(x), .threads = threads_of(x, x->cluster->n_device)};
        pst_chooser chooser = {.arg = &device, .choose = choose};
        if (tensor > 1) PST_TRY(tensor_link(x, kind, tensor, &link));
        PST_TRY(pst_cost_table_build(part->graph, &costs, tensor > 1 ? &link : NULL, &chooser, &part->table[kind]));
        pst_planning_fold_table(part->table[kind], part->first, x->problem.n_item);
    }
    *table = part->table[kind];
    return PST_OK;
}

/* --- exact -------------------------------------------------------------------------------------------------------- */

static void take_exact(const pst_prepared *p, uint64_t reserve, pst_search_layout *l) {
    l->step_ns = p->timing->step_ns, l->flush_ns = p->timing->flush_ns, l->bubble = p->timing->bubble;
    for (uint32_t s = 0; s < l->pipeline; s++) /* the search sees less room, by the reserve */
        l->peak_bytes[s] = p->plan->peak_bytes[s] > reserve ? p->plan->peak_bytes[s] - reserve : 0;
    l->exact = 1;
}

static pst_status set_cluster(const pst_planning *x, pst_config *c) {
    char *text = strdup(x->cluster_text);
    if (!text) return no_memory();
    free(c->parallel.cluster);
    c->parallel.cluster = text;
    return PST_OK;
}

/* As a run of this layout would be prepared. */
pst_status pst_planning_prepare(pst_planning *x, const pst_search_layout *l, pst_prepared **p) {
    pst_plan *plan = NULL;
    pst_prepare_options o = {.n_rank = l->pipeline * l->data * l->tensor,
                             .threads = threads_of(x, l->pipeline * l->data * l->tensor),
                             .isa = isa_of(x),
                             .n_eval_micro = l->n_micro,
                             .vocabulary = x->model.vocabulary};
    pst_config_close(x->settled), x->settled = NULL;
    PST_TRY(pst_planning_plan(x, l, &plan));
    pst_status status = pst_config_copy(x->config, &x->settled);
    if (status == PST_OK) pst_config_forget(x->settled, "parallel", x->open);
    if (status == PST_OK) pst_config_forget(x->settled, "train", x->open);
    if (status == PST_OK) status = set_cluster(x, x->settled);
    if (status == PST_OK) status = pst_planned_settle(x->settled, plan, "found");
    o.plan = plan, o.lane = o.n_rank > WHOLE_RANKS;
    if (status == PST_OK) status = pst_prepare(x->settled, &o, p);
    pst_plan_close(plan);
    return status;
}

pst_status pst_planning_verify(void *arg, pst_search_layout *l) {
    pst_planning *x = arg;
    pst_prepared *p;
    PST_TRY(pst_planning_prepare(x, l, &p));
    take_exact(p, x->reserve, l);
    pst_prepared_close(p);
    return PST_OK;
}
