/* Graphs of the model for the degrees of the search. planning/planning.h declares it. */
#include "graph/split.h"
#include "planning/planning.h"
#include "prepare/prepare.h"
#include <stdlib.h>
#include <string.h>

/* The unsplit model with this number of layers and this micro-batch size, cached. */
static pst_status build_whole(pst_planning *x, uint32_t layers, uint32_t micro_batch,
                              const pst_graph **whole) {
    for (uint32_t i = 0; i < x->n_model; i++)
        if (x->models[i].layers == layers && x->models[i].graph->micro_batch == micro_batch) {
            *whole = x->models[i].graph;
            return PST_OK;
        }
    pst_planning_model *more = realloc(x->models, (x->n_model + 1) * sizeof *more);
    if (!more) return pst_no_memory("to plan");
    x->models = more;
    pst_model_config model = x->model;
    model.layers = layers;
    model.micro_batch = micro_batch;
    more[x->n_model].layers = layers;
    PST_TRY(x->row->build(&model, &more[x->n_model].graph));
    x->n_model++;
    PST_TRY(pst_prepare_tuned(x->config, &more[x->n_model - 1].graph));
    *whole = more[x->n_model - 1].graph;
    return PST_OK;
}

/* The first operator that uses a parameter of an earlier one; n_node: none. */
static uint32_t find_tied(const pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++)
        for (uint32_t k = 0; k < g->node[i].n_param; k++)
            for (uint32_t j = 0; j < i; j++)
                for (uint32_t l = 0; l < g->node[j].n_param; l++)
                    if (g->node[j].param[l] == g->node[i].param[k]) return i;
    return g->n_node;
}

/* untied: the last use of a tied parameter, and all operators after it, are on stages with another
 * number of tensor ranks than the first use; so neither they nor the parameter are split. */
static pst_status split(const pst_graph *whole, pst_split_options o, uint32_t untied,
                        pst_graph **part) {
    uint32_t tied = untied ? find_tied(whole) : whole->n_node,
             *parts = malloc(whole->n_node * sizeof *parts);
    if (!parts) return pst_no_memory("to plan");
    for (uint32_t i = 0; i < whole->n_node; i++) parts[i] = i < tied ? o.parts : 1;
    if (tied < whole->n_node) {
        o.parts_of_node = parts;
        o.blocks = 0; /* not supported, see pst_prepare_graph */
    }
    pst_status status =
        o.parts > 1 || o.blocks ? pst_graph_split(whole, &o, part) : pst_graph_copy(whole, part);
    free(parts);
    return status;
}

pst_status pst_planning_part_of(pst_planning *x, const pst_planning_part_key *key,
                                pst_planning_part **part) {
    const pst_graph *whole = NULL;
    for (uint32_t i = 0; i < x->n_part; i++) {
        pst_planning_part *k = &x->part[i];
        if (memcmp(&k->key, key, sizeof *key)) continue;
        *part = k;
        return k->status == PST_OK ? PST_OK : pst_fail(k->status, "%s", k->why);
    }
    pst_planning_part *more = realloc(x->part, (x->n_part + 1) * sizeof *more), *k;
    if (!more) return pst_no_memory("to plan");
    x->part = more;
    k = &more[x->n_part];
    *k = (pst_planning_part){.key = *key};
    if (!(k->table = calloc(x->cluster->n_kind ? x->cluster->n_kind : 1, sizeof(pst_cost_table *))))
        return pst_no_memory("to plan");
    x->n_part++;
    const pst_split_options o = {.parts = key->tensor,
                                 .blocks = (uint32_t)x->config->parallel.reproducible_tensor,
                                 .sequence = (int)key->sequence};
    k->status = build_whole(x, key->layers, key->micro_batch, &whole);
    if (k->status == PST_OK) k->status = split(whole, o, key->untied, &k->graph);
    if (k->status == PST_OK) {
        pst_prepare_fit_graph(x->config, x->device, k->graph);
        k->status = pst_planning_fold_nodes(whole, k->graph, &k->first);
        if (k->status == PST_OK) k->n = pst_planning_group_layers(x, k->first, whole->n_node);
    }
    if (k->status != PST_OK) snprintf(k->why, sizeof k->why, "%s", pst_error());
    *part = k;
    return k->status;
}

pst_status pst_planning_graph(pst_planning *x, uint32_t tensor, uint32_t sequence,
                              uint32_t micro_batch, pst_planning_part **part) {
    const pst_planning_part_key key = {x->model.layers, tensor, sequence, 0, micro_batch};
    return pst_planning_part_of(x, &key, part);
}

pst_status pst_planning_graph_of(pst_planning *x, const pst_layout *l, pst_planning_part **part) {
    uint32_t tensor = l->tensor_before ? 1 : l->tensor;
    return pst_planning_graph(x, tensor, tensor > 1 && l->sequence, l->micro_batch, part);
}

/* --- models of fewer layers ------------------------------------------------------------------- */

/* Layers of the short model; one more if the model's number of layers is odd, because tensor ranks
 * split layers in pairs. */
enum { FEW = 6 };

static int is_alike(const pst_graph *g, const pst_node *a, const pst_graph *h, const pst_node *b) {
    int alike =
        a->op == b->op && a->n_in == b->n_in && a->n_out == b->n_out && a->n_param == b->n_param;
    for (uint32_t k = 0; alike && k < a->n_out; k++)
        alike = pst_tensor_bytes(g->tensor + a->out[k]) == pst_tensor_bytes(h->tensor + b->out[k]);
    for (uint32_t k = 0; alike && k < a->n_param; k++)
        alike = pst_param_elements(g->param + a->param[k]) ==
                    pst_param_elements(h->param + b->param[k]) &&
                g->param[a->param[k]].frozen == h->param[b->param[k]].frozen;
    return alike && a->attr.heads == b->attr.heads &&
           a->attr.bidirectional == b->attr.bidirectional &&
           a->attr.activation == b->attr.activation;
}

/* The items in the middle of the short model that repeat. */
uint32_t pst_planning_repeated(const pst_planning *x, uint32_t n, uint32_t *period) {
    *period = 2 * (x->problem.n_item - n) / (x->model.layers - x->layers);
    return (n - *period) / 2;
}

/* A model is deep if it has more operators than DEEP_ITEMS, and every device has at least
 * LAYERS_EACH layers: then stages are even enough if layers are not divided. */
enum { DEEP_ITEMS = 8192, LAYERS_EACH = 16 };

/* Bytes of the tensors that operators from `at` on use and earlier ones make. */
static uint64_t crossing_bytes(const pst_graph *g, uint32_t at) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < at; i++)
        for (uint32_t k = 0; k < g->node[i].n_out; k++) {
            int used = 0;
            for (uint32_t j = at; j < g->n_node && !used; j++)
                for (uint32_t l = 0; l < g->node[j].n_in; l++)
                    used |= g->node[j].in[l] == g->node[i].out[k];
            if (used) bytes += pst_tensor_bytes(g->tensor + g->node[i].out[k]);
        }
    return bytes;
}

/* Groups the operators of a deep model by layers, from the first border on where the fewest bytes
 * cross. */
static void group_deep(pst_planning *x, const pst_graph *few, uint32_t period) {
    const uint32_t layer = period / 2;
    uint64_t least = UINT64_MAX;
    if (x->problem.n_item <= DEEP_ITEMS || !layer ||
        x->model.layers / LAYERS_EACH < x->cluster->n_device)
        return;
    for (uint32_t at = few->n_node - (x->layers - 1) * layer; at-- > 1;) {
        const uint64_t bytes = crossing_bytes(few, at + layer);
        if (bytes > least) continue;
        least = bytes;
        x->before_layers = at;
    }
    x->layer = layer;
    for (uint32_t i = 0; i < x->n_part; i++)
        if (x->part[i].status == PST_OK)
            x->part[i].n = pst_planning_group_layers(x, x->part[i].first, x->part[i].n);
}

pst_status pst_planning_shorten(pst_planning *x) {
    const pst_graph *whole, *few;
    uint32_t micro = (uint32_t)x->config->train.micro_batch, layers = x->model.layers, period;
    x->layers = layers;
    if (layers < 2 * FEW || !x->row->repeats || pst_prepare_names_layers(x->config)) return PST_OK;
    PST_TRY(build_whole(x, layers, micro, &whole));
    PST_TRY(build_whole(x, FEW + layers % 2, micro, &few));
    x->layers = FEW + layers % 2;
    uint32_t from = pst_planning_repeated(x, few->n_node, &period),
             more = whole->n_node - few->n_node;
    int alike = whole->n_node > few->n_node && period && more % period == 0;
    for (uint32_t i = 0; alike && i < whole->n_node; i++) {
        uint32_t j = i;
        if (i >= from + period) j = from + (i - from) % period;
        if (i >= from + period + more) j = i - more;
        alike = is_alike(whole, whole->node + i, few, few->node + j);
    }
    if (!alike) x->layers = layers;
    else group_deep(x, few, period);
    return PST_OK;
}
