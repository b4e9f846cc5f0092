/* pst_graph_check: builds the graph a second time from its own parameters, data and nodes, through
 * the same functions that models/ use, and compares. So every rule that building enforces is an
 * invariant of the finished graph. */
#include "graph/op.h"
#include <stdlib.h>
#include <string.h>

static int terminated(const char name[PST_NAME_MAX]) {
    return memchr(name, 0, PST_NAME_MAX) != NULL;
}

/* What the rebuild itself relies on: arrays present, names terminated, counts within the fixed
 * arrays. */
static pst_status check_bounds(const pst_graph *g) {
    if (!terminated(g->name))
        return pst_fail(PST_EINPUT, "the graph's name is not terminated by a zero byte");
    if (g->dtype != PST_F32 && !pst_dtype_is_half(g->dtype))
        return pst_fail(PST_EINPUT, "the graph's dtype is %s; it must be F32, BF16 or F16",
                        pst_dtype_name(g->dtype));
    if (pst_dtype_stored(pst_graph_factors(g)) != g->dtype)
        return pst_fail(PST_EINPUT, "a graph of dtype %s cannot multiply matrices in %s",
                        pst_dtype_name(g->dtype), pst_dtype_name(g->factors));
    for (uint32_t i = 0; i < g->n_tensor; i++)
        if (!terminated(g->tensor[i].name) || g->tensor[i].n_dim > PST_MAX_DIM)
            return pst_fail(PST_EINPUT, "tensor %u: invalid name or number of dimensions", i);
    for (uint32_t i = 0; i < g->n_param; i++)
        if (!terminated(g->param[i].name) || g->param[i].n_dim > PST_MAX_DIM)
            return pst_fail(PST_EINPUT, "parameter %u: invalid name or number of dimensions", i);
    for (uint32_t i = 0; i < g->n_node; i++) {
        const pst_node *d = &g->node[i];
        if (!terminated(d->name) || !d->op || pst_op_find(d->op->name) != d->op)
            return pst_fail(PST_EINPUT, "node %u: invalid name or operator", i);
        if (d->n_in > PST_MAX_IN || d->n_out < 1 || d->n_out > PST_MAX_OUT ||
            d->n_param > PST_MAX_PARAM || d->n_saved > PST_MAX_SAVED)
            return pst_fail(PST_EINPUT, "node %s: too many or too few operands", d->name);
        if (d->out[0] >= g->n_tensor)
            return pst_fail(PST_EINPUT, "node %s: its output is not a tensor of the graph",
                            d->name);
    }
    return PST_OK;
}

static pst_status compare_tensor(const pst_tensor *a, const pst_tensor *b) {
    /* A model may declare an activation to be an output. */
    int role_ok =
        a->role == b->role || (a->role == PST_TENSOR_OUTPUT && b->role == PST_TENSOR_ACTIVATION);
    if (strcmp(a->name, b->name) != 0 || a->producer != b->producer || a->dtype != b->dtype ||
        !role_ok)
        return pst_fail(PST_EINPUT,
                        "tensor %s: name, producer, dtype or role does not match its operator",
                        a->name);
    if (a->n_dim != b->n_dim || memcmp(a->dim, b->dim, a->n_dim * sizeof(a->dim[0])) != 0)
        return pst_fail(PST_EINPUT, "tensor %s: its shape does not match its operator", a->name);
    return PST_OK;
}

static pst_status compare_node(const pst_node *a, const pst_node *b) {
    int same = a->n_out == b->n_out && memcmp(a->out, b->out, a->n_out * sizeof(a->out[0])) == 0 &&
               memcmp(a->use, b->use, a->n_param * sizeof(a->use[0])) == 0 &&
               a->n_saved == b->n_saved && a->attr.features == b->attr.features;
    for (uint32_t i = 0; same && i < a->n_saved; i++)
        same =
            a->saved[i].elements == b->saved[i].elements && a->saved[i].dtype == b->saved[i].dtype;
    return same ? PST_OK
                : pst_fail(PST_EINPUT,
                           "node %s: outputs, uses or saved arrays do not match its operator",
                           a->name);
}

/* Appends to `copy` the data tensors of `g` up to (not including) tensor `end`. */
static pst_status copy_data(const pst_graph *g, uint32_t end, pst_graph *copy) {
    while (copy->n_tensor < end && copy->n_tensor < g->n_tensor) {
        const pst_tensor *t = &g->tensor[copy->n_tensor];
        uint32_t index;
        if (t->role != PST_TENSOR_DATA)
            return pst_fail(PST_EINPUT, "tensor %s is not data, but no operator produces it",
                            t->name);
        PST_TRY(pst_graph_data(copy, t->name, t->n_dim, t->dim, &index));
    }
    return PST_OK;
}

static pst_status rebuild(const pst_graph *g, pst_graph *copy) {
    uint32_t index;
    for (uint32_t i = 0; i < g->n_param; i++) PST_TRY(pst_graph_param(copy, &g->param[i], &index));
    for (uint32_t i = 0; i < g->n_node; i++) {
        const pst_node *d = &g->node[i];
        PST_TRY(copy_data(g, d->out[0], copy));
        PST_TRY(pst_graph_add(
            copy,
            &(pst_new_node){d->op->name, d->name, &d->attr, d->in, d->n_in, d->param, d->n_param},
            &index));
        PST_TRY(compare_node(d, &copy->node[i]));
    }
    PST_TRY(copy_data(g, g->n_tensor, copy));
    if (copy->n_tensor != g->n_tensor)
        return pst_fail(PST_EINPUT, "the operators produce more tensors than the graph has");
    for (uint32_t i = 0; i < g->n_tensor; i++)
        PST_TRY(compare_tensor(&g->tensor[i], &copy->tensor[i]));
    for (uint32_t i = 0; i < g->n_param; i++)
        if (g->param[i].n_use != copy->param[i].n_use)
            return pst_fail(PST_EINPUT, "parameter %s: n_use is %u, but operators use it %u times",
                            g->param[i].name, g->param[i].n_use, copy->param[i].n_use);
    return PST_OK;
}

pst_status pst_graph_check(const pst_graph *g) {
    pst_graph *copy = NULL;
    pst_status status = check_bounds(g);
    if (status == PST_OK) status = pst_graph_open(g->name, g->micro_batch, &copy);
    if (status == PST_OK) pst_graph_compute(copy, pst_graph_factors(g));
    if (status == PST_OK) status = rebuild(g, copy);
    pst_graph_close(copy);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "graph check");
}
