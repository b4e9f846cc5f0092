/* What the search asks for: costs of the model's operators with degrees that it tries, and exact
 * predictions of a layout, prepared as a run would be. planning/planning.h declares it. */
#include "graph/exchange.h"
#include "backends/machine.h"
#include "prepare/profile_use.h"
#include "graph/split.h"
#include "planning/planning.h"
#include <stdlib.h>
#include <string.h>

/* --- graphs and tables ------------------------------------------------------------------------ */

static pst_status no_memory(void) { return pst_fail(PST_ENOMEM, "no memory to plan"); }

/* The whole model with so many layers for this micro-batch, kept. */
static pst_status build_whole(pst_planning *x, uint32_t layers, uint32_t micro_batch,
                              const pst_graph **whole) {
    for (uint32_t i = 0; i < x->n_whole; i++)
        if (x->whole[i].layers == layers && x->whole[i].graph->micro_batch == micro_batch) {
            *whole = x->whole[i].graph;
            return PST_OK;
        }
    pst_planning_whole *more = realloc(x->whole, (x->n_whole + 1) * sizeof *more);
    if (!more) return no_memory();
    x->whole = more;
    pst_model_config model = x->model;
    model.layers = layers;
    model.micro_batch = micro_batch;
    more[x->n_whole].layers = layers;
    PST_TRY(x->row->build(&model, &more[x->n_whole].graph));
    *whole = more[x->n_whole++].graph;
    return PST_OK;
}

/* The first operator that uses a parameter of an earlier one; n_node: none does. */
static uint32_t find_tied(const pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_param; k++)
            for (uint32_t j = 0; j < i; j++)
                for (uint32_t l = 0; l < g->node[j].n_param; l++)
                    if (g->node[j].param[l] == g->node[i].param[k]) return i;
    return g->n_node;
}

/* untied: operators from the last use of a tied parameter on are on stages of another number of
 * tensor ranks, so that neither they nor the parameter are split. */
static pst_status shard(const pst_graph *whole, pst_split_options o, uint32_t untied,
                        pst_graph **part) {
    uint32_t tied = untied ? find_tied(whole) : whole->n_node,
             *parts = malloc(whole->n_node * sizeof *parts);
    if (!parts) return no_memory();
    for (uint32_t i = 0; i < whole->n_node; i++) parts[i] = i < tied ? o.parts : 1;
    if (tied < whole->n_node) o.parts_of_node = parts;
    pst_status status =
        o.parts > 1 ? pst_graph_split(whole, &o, part) : pst_graph_copy(whole, part);
    free(parts);
    return status;
}

static pst_status part_of(pst_planning *x, uint32_t layers, uint32_t tensor, uint32_t sequence,
                          uint32_t untied, uint32_t micro_batch, pst_planning_part **part) {
    const pst_graph *whole = NULL;
    for (uint32_t i = 0; i < x->n_part; i++) {
        pst_planning_part *k = &x->part[i];
        if (k->layers == layers && k->tensor == tensor && k->sequence == sequence &&
            k->untied == untied && k->micro_batch == micro_batch)
            return k->status == PST_OK ? (*part = k, PST_OK)
                                       : pst_fail(k->status, "no %u tensor ranks", tensor);
    }
    pst_planning_part *more = realloc(x->part, (x->n_part + 1) * sizeof *more), *k;
    if (!more) return no_memory();
    x->part = more;
    k = &more[x->n_part];
    *k = (pst_planning_part){layers, .tensor = tensor, .sequence = sequence, .untied = untied,
                             .micro_batch = micro_batch};
    if (!(k->table = calloc(x->cluster->n_kind ? x->cluster->n_kind : 1, sizeof(pst_cost_table *))))
        return no_memory();
    x->n_part++;
    const pst_split_options o = {.parts = tensor, .sequence = (int)sequence};
    k->status = build_whole(x, layers, micro_batch, &whole);
    if (k->status == PST_OK) k->status = shard(whole, o, untied, &k->graph);
    if (k->status == PST_OK) {
        k->status = pst_planning_fold_nodes(whole, k->graph, &k->first);
        k->n = whole->n_node;
    }
    *part = k;
    return k->status;
}

pst_status pst_planning_graph(pst_planning *x, uint32_t tensor, uint32_t sequence,
                              uint32_t micro_batch, pst_planning_part **part) {
    return part_of(x, x->model.layers, tensor, sequence, 0, micro_batch, part);
}

pst_status pst_planning_graph_of(pst_planning *x, const pst_layout *l, pst_planning_part **part) {
    uint32_t tensor = l->before ? 1 : l->tensor;
    return pst_planning_graph(x, tensor, tensor > 1 && l->sequence, l->micro_batch, part);
}

/* --- models of fewer layers ------------------------------------------------------------------- */

/* Layers, or one more where they are odd: tensor ranks share them out by twos. */
enum { FEW = 6 };

static int is_alike(const pst_graph *g, const pst_node *a, const pst_graph *h, const pst_node *b) {
    int alike =
        a->op == b->op && a->n_in == b->n_in && a->n_out == b->n_out && a->n_param == b->n_param;
    for (uint32_t k = 0; alike && k < a->n_out; k++)
        alike = pst_tensor_bytes(g->tensor + a->out[k]) == pst_tensor_bytes(h->tensor + b->out[k]);
    for (uint32_t k = 0; alike && k < a->n_param; k++)
        alike = pst_param_elements(g->param + a->param[k]) ==
                pst_param_elements(h->param + b->param[k]);
    return alike && a->attr.heads == b->attr.heads &&
           a->attr.bidirectional == b->attr.bidirectional &&
           a->attr.activation == b->attr.activation;
}

/* Which items of a model of fewer layers come again: some in its middle. */
static uint32_t repeated(const pst_planning *x, uint32_t n, uint32_t *period) {
    *period = 2 * (x->problem.n_item - n) / (x->model.layers - x->layers);
    return (n - *period) / 2;
}

pst_status pst_planning_shorten(pst_planning *x) {
    const pst_graph *whole, *few;
    uint32_t micro = (uint32_t)x->config->train.micro_batch, layers = x->model.layers, period;
    x->layers = layers;
    if (layers < 2 * FEW || !x->row->repeats) return PST_OK;
    PST_TRY(build_whole(x, layers, micro, &whole));
    PST_TRY(build_whole(x, FEW + layers % 2, micro, &few));
    x->layers = FEW + layers % 2;
    uint32_t from = repeated(x, few->n_node, &period), more = whole->n_node - few->n_node;
    int alike = whole->n_node > few->n_node && period && more % period == 0;
    for (uint32_t i = 0; alike && i < whole->n_node; i++) {
        uint32_t j = i < from + period          ? i
                     : i < from + period + more ? from + (i - from) % period
                                                : i - more;
        alike = is_alike(whole, whole->node + i, few, few->node + j);
    }
    if (!alike) x->layers = layers;
    return PST_OK;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Between the devices of a node that has this kind; of ranks that do not fit in one, between
 * nodes. */
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

/* What the kernels of a rank need; nobody knows yet those of other machines, which are taken to be
 * as these. */
static pst_status choose(void *arg, const pst_graph *g, const pst_node *node, int extra,
                         pst_pass pass, uint32_t *kernel, uint64_t *scratch) {
    const pst_device *device = arg;
    int far = device->ops && device->ops->flags & PST_DEVICE_FAR;
    *kernel = 0;
    *scratch = (far ? pst_far_exchange_scratch : pst_exchange_scratch)(g, node, pass);
    if (pst_node_exchange(node, extra, pass)) return PST_OK;
    PST_TRY(pst_registry_choose_kernel(g, node, extra, pass, device, kernel));
    const pst_kernel_row *row = pst_registry_kernel(*kernel);
    *scratch = row->scratch ? row->scratch(g, node, device->threads) : 0;
    return PST_OK;
}

/* Other machines are taken to have what a precision needs. */
static uint32_t isa_of(const pst_planning *x) {
    if (!x->nominal) return UINT32_MAX;
    uint32_t isa = pst_prepare_isa_to_look(x->config);
    return pst_registry_is_host(x->device) ? isa & ~(uint32_t)PST_ISA_CUDA : isa;
}

uint32_t pst_planning_threads(const pst_planning *x, uint32_t ranks) {
    if (x->config->parallel.threads) return (uint32_t)x->config->parallel.threads;
    return x->nominal ? pst_machine_threads(ranks) : 1;
}

pst_status pst_planning_profile(pst_planning *x, const pst_graph *graph) {
    const char *path = x->config->parallel.profile;
    uint32_t n = x->cluster->n_device, k = 0;
    if (!*path) return PST_OK;
    pst_status status = pst_profile_load(path, &x->profile);
    if (status != PST_OK) return pst_fail_in(status, "parallel.profile");
    while (!x->nominal && k < x->cluster->n_kind &&
           !pst_costs_profiled(&x->cluster->kind[k], x->profile))
        k++;
    if (!x->nominal && k == x->cluster->n_kind) {
        const pst_profile_head *head = pst_profile_head_of(x->profile);
        return pst_fail(
            PST_EINPUT,
            "parallel.profile: %s: the profile is of %s '%s', and the cluster has none; "
            "leave it out",
            path, *head->device ? "device" : "processor", *head->device ? head->model : head->cpu);
    }
    const pst_device_kind *kind = x->nominal ? NULL : &x->cluster->kind[k];
    const pst_profile_purpose purpose = {x->config, kind, pst_planning_threads(x, n), x->processors,
                                         0};
    PST_TRY(pst_profile_suits(x->profile, &purpose, graph));
    pst_profile_warn(x->profile, x->config, n, pst_planning_threads(x, n));
    return PST_OK;
}

static pst_costs costs_of(const pst_planning *x, uint32_t kind) {
    uint32_t n = x->cluster->n_device,
             most = x->profile ? pst_profile_head_of(x->profile)->ranks : 1;
    return (pst_costs){.kind = x->nominal ? x->datasheet : &x->cluster->kind[kind],
                       .profile = x->profile,
                       .busy = n < most ? n : most};
}

/* The table of all layers from that of x->layers, which is the callee's from now on. */
static pst_status lengthen(const pst_planning *x, pst_cost_table *few, pst_cost_table **table) {
    if (few->n == x->problem.n_item) {
        *table = few;
        return PST_OK;
    }
    uint32_t period, from = repeated(x, few->n, &period);
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
    PST_TRY(part_of(x, x->layers, tensor, key->sequence, key->untied, key->micro_batch, &part));
    if (!part->table[kind]) {
        pst_costs costs = costs_of(x, kind);
        pst_device device = {.ops = x->device,
                             .isa = isa_of(x),
                             .threads = pst_planning_threads(x, x->cluster->n_device)};
        pst_chooser chooser = {.arg = &device, .choose = choose};
        pst_cost_table *few;
        if (tensor > 1) PST_TRY(tensor_link(x, kind, tensor, &link));
        PST_TRY(
            pst_cost_table_build(part->graph, &costs, tensor > 1 ? &link : NULL, &chooser, &few));
        pst_planning_fold_table(few, part->first, part->n);
        PST_TRY(lengthen(x, few, &part->table[kind]));
    }
    *table = part->table[kind];
    return PST_OK;
}

/* --- exact ------------------------------------------------------------------------------------ */

static void take_exact(const pst_prepared *p, pst_layout *l) {
    l->step_ns = p->timing->step_ns;
    l->flush_ns = p->timing->flush_ns;
    l->bubble = p->timing->bubble;
    l->bound_ns = pst_simulate_bound(p->job) + l->flush_ns;
    memset(l->in_flight, 0, l->pipeline * sizeof *l->in_flight);
    for (uint32_t r = pst_job_gathers(p->job); r < p->job->n_rank; r = pst_job_next(p->job, r)) {
        uint32_t *most = &l->in_flight[pst_job_stage(p->job, r)];
        if (p->timing->peak_stash[r] > *most) *most = p->timing->peak_stash[r];
    }
    memcpy(l->peak_bytes, p->plan->peak_bytes, l->pipeline * sizeof *l->peak_bytes);
    l->exact = 1;
    l->solved = !strcmp(p->plan->schedule, "solved");
}

static pst_status set_cluster(const pst_planning *x, pst_config *c) {
    char *text = strdup(x->cluster_text);
    if (!text) return no_memory();
    free(c->parallel.cluster);
    c->parallel.cluster = text;
    return PST_OK;
}

/* As a run of this layout would be prepared. */
pst_status pst_planning_prepare(pst_planning *x, const pst_layout *l, pst_prepared **p) {
    pst_plan *plan = NULL;
    const uint32_t n_rank = pst_grid_size(pst_search_grid(l));
    pst_prepare_options o = {.n_rank = n_rank,
                             .threads = pst_planning_threads(x, n_rank),
                             .isa = isa_of(x),
                             .device = x->device,
                             .processors = x->processors,
                             .n_eval_micro = l->n_micro};
    pst_config_close(x->settled);
    x->settled = NULL;
    PST_TRY(pst_planning_plan(x, l, &plan));
    pst_status status = pst_config_copy(x->config, &x->settled);
    if (status == PST_OK) pst_config_forget(x->settled, "parallel", x->open);
    if (status == PST_OK) pst_config_forget(x->settled, "train", x->open);
    if (status == PST_OK) status = set_cluster(x, x->settled);
    if (status == PST_OK) status = pst_planned_settle(x->settled, plan, "found");
    o.quiet = 1;
    o.score = 1;
    o.plan = plan;
    if (status == PST_OK) status = pst_prepare(x->settled, &o, p);
    pst_plan_close(plan);
    return status;
}

pst_status pst_planning_verify(void *arg, pst_layout *l) {
    pst_planning *x = arg;
    pst_prepared *p;
    PST_TRY(pst_planning_prepare(x, l, &p));
    take_exact(p, l);
    pst_prepared_close(p);
    return PST_OK;
}
