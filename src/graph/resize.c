/* pst_graph_resize: the operators are added again, to data of another size. */
#include "graph/op.h"
#include <string.h>

static pst_status add_data(const pst_tensor *t, pst_graph *g) {
    uint64_t dim[PST_MAX_DIM];
    uint32_t index;
    memcpy(dim, t->dim, t->n_dim * sizeof *dim);
    dim[0] = g->micro_batch;
    return pst_graph_data(g, t->name, t->n_dim, dim, &index);
}

/* Adds the data tensors before tensor `end`, so that all tensors keep their indices. */
static pst_status add_data_until(const pst_graph *from, uint32_t end, pst_graph *g) {
    while (g->n_tensor < end) PST_TRY(add_data(from->tensor + g->n_tensor, g));
    return PST_OK;
}

static pst_status add_node(const pst_graph *from, const pst_node *d, pst_graph *g) {
    const pst_new_node node = {.op = d->op->name,
                               .name = d->name,
                               .attr = &d->attr,
                               .in = d->in,
                               .n_in = d->n_in,
                               .param = d->param,
                               .n_param = d->n_param};
    uint32_t index;
    PST_TRY(add_data_until(from, d->out[0], g));
    return pst_graph_add(g, &node, &index);
}

static pst_status add_all(const pst_graph *from, pst_graph *g) {
    uint32_t index;
    pst_graph_compute(g, pst_graph_factors(from));
    for (uint32_t i = 0; i < from->n_param; i++)
        PST_TRY(pst_graph_param(g, from->param + i, &index));
    for (uint32_t i = 0; i < from->n_node; i++) PST_TRY(add_node(from, from->node + i, g));
    return add_data_until(from, from->n_tensor, g);
}

pst_status pst_graph_resize(const pst_graph *graph, uint32_t micro_batch, pst_graph **resized) {
    pst_graph *g;
    PST_TRY(pst_graph_open(graph->name, micro_batch, &g));
    pst_status status = add_all(graph, g);
    if (status == PST_OK) *resized = g;
    else pst_graph_close(g);
    return status;
}
