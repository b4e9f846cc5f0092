/* The public functions that build a graph (penstock/graph.h): each checks its arguments, then calls
 * one of the building blocks that models/ use. */
#include "graph/graph.h"
#include "graph/op_list.h"
#include <string.h>

/* EINPUT when one of the arguments is NULL; `where` is the function's name. */
static pst_status expect(const char *where, const pst_graph *g, const void *name, const void *out) {
    if (g && name && out) return PST_OK;
    const char *missing = name ? "result" : "name or shape";
    return pst_fail(PST_EINPUT, "%s: the %s is NULL", where, g ? missing : "graph");
}
#define EXPECT(g, name, out) PST_TRY(expect(__func__, g, name, out))

pst_status pst_graph_set_precision(pst_graph *g, const char *precision) {
    if (!g || !precision)
        return pst_fail(PST_EINPUT, "%s: the %s is NULL", __func__, g ? "precision" : "graph");
    pst_dtype dtype = pst_dtype_of_precision(precision);
    if (dtype == PST_DTYPE_COUNT)
        return pst_fail(PST_EINPUT,
                        "unknown precision '%.40s' (possible: fp32, tf32, bf16, fp16, fp8)",
                        precision);
    if (g->n_node)
        return pst_fail(PST_EINPUT,
                        "graph %s already has operators; set its precision before the first one",
                        g->name);
    pst_graph_compute(g, dtype);
    return PST_OK;
}

pst_status pst_graph_add_data(pst_graph *g, const char *name, uint32_t n_dim, const uint64_t *dim,
                              uint32_t *tensor) {
    EXPECT(g, name && dim ? name : NULL, tensor);
    return pst_graph_data(g, name, n_dim, dim, tensor);
}

pst_status pst_graph_add_param(pst_graph *g, const char *name, uint32_t n_dim, const uint64_t *dim,
                               pst_init init, float std, int decay, uint32_t *param) {
    EXPECT(g, name && dim ? name : NULL, param);
    if (n_dim < 1 || n_dim > PST_MAX_DIM)
        return pst_fail(PST_EINPUT, "%.95s has %u dimensions; it must have 1 to %d", name, n_dim,
                        PST_MAX_DIM);
    pst_param p = {
        .n_dim = n_dim, .init = init, .std = init == PST_INIT_NORMAL ? std : 0, .decay = decay};
    if (strlen(name) >= sizeof p.name)
        return pst_fail(PST_EINPUT, "the name of a parameter must have 1 to %d characters",
                        PST_NAME_MAX - 1);
    strcpy(p.name, name);
    memcpy(p.dim, dim, n_dim * sizeof *dim);
    return pst_graph_param(g, &p, param);
}

/* Leaves out the parameters that are PST_NONE at the end of the list. */
static pst_status add(pst_graph *g, pst_new_node n, uint32_t *out) {
    while (n.n_param && n.param[n.n_param - 1] == PST_NONE) n.n_param--;
    return pst_graph_add(g, &n, out);
}

pst_status pst_graph_add_embedding(pst_graph *g, const char *name, uint32_t tokens, uint32_t table,
                                   uint32_t positions, uint32_t *out) {
    EXPECT(g, name, out);
    return add(
        g, (pst_new_node){"embedding", name, NULL, &tokens, 1, (uint32_t[]){table, positions}, 2},
        out);
}

pst_status pst_graph_add_linear(pst_graph *g, const char *name, uint32_t x, uint32_t weight,
                                uint32_t bias, pst_activation activation, uint32_t *out) {
    EXPECT(g, name, out);
    pst_attr attr = {.activation = activation};
    return add(g, (pst_new_node){"linear", name, &attr, &x, 1, (uint32_t[]){weight, bias}, 2}, out);
}

/* Parameters of a dense operator, named after it. */
static pst_status add_weight(pst_graph *g, const char *name, const uint64_t dim[2], float std,
                             uint32_t *param) {
    char text[2 * PST_NAME_MAX]; /* longer than a name: one that is too long is refused, not cut */
    snprintf(text, sizeof text, "%s.weight", name);
    return pst_graph_add_param(g, text, 2, dim, PST_INIT_NORMAL, std, 1, param);
}

static pst_status add_bias(pst_graph *g, const char *name, uint64_t n, uint32_t *param) {
    char text[2 * PST_NAME_MAX];
    snprintf(text, sizeof text, "%s.bias", name);
    return pst_graph_add_param(g, text, 1, &n, PST_INIT_ZERO, 0, 0, param);
}

pst_status pst_graph_add_dense(pst_graph *g, const char *name, uint32_t x, uint64_t n, float std,
                               pst_activation activation, uint32_t *out) {
    uint32_t weight, bias;
    EXPECT(g, name, out);
    if (x >= g->n_tensor)
        return pst_fail(PST_EINPUT, "%s reads tensor %u, but the graph has only %u tensors", name,
                        x, g->n_tensor);
    const uint64_t dim[] = {n, pst_tensor_columns(&g->tensor[x])};
    PST_TRY(add_weight(g, name, dim, std, &weight));
    PST_TRY(add_bias(g, name, n, &bias));
    return pst_graph_add_linear(g, name, x, weight, bias, activation, out);
}

pst_status pst_graph_add_layer_norm(pst_graph *g, const char *name, uint32_t x, uint32_t weight,
                                    uint32_t bias, float eps, uint32_t *out) {
    EXPECT(g, name, out);
    pst_attr attr = {.eps = eps};
    return add(g, (pst_new_node){"layer_norm", name, &attr, &x, 1, (uint32_t[]){weight, bias}, 2},
               out);
}

pst_status pst_graph_add_attention(pst_graph *g, const char *name, uint32_t qkv, uint32_t heads,
                                   uint32_t *out) {
    EXPECT(g, name, out);
    pst_attr attr = {.heads = heads};
    return add(g, (pst_new_node){"attention", name, &attr, &qkv, 1, NULL, 0}, out);
}

pst_status pst_graph_add_masked_attention(pst_graph *g, const char *name, uint32_t qkv,
                                          uint32_t lengths, uint32_t heads, int bidirectional,
                                          uint32_t *out) {
    EXPECT(g, name, out);
    if (lengths != PST_NONE && lengths < g->n_tensor && g->tensor[lengths].n_dim != 1)
        return pst_fail(PST_EINPUT, "%s: %s has %u dimensions; lengths have 1", name,
                        g->tensor[lengths].name, g->tensor[lengths].n_dim);
    pst_attr attr = {.heads = heads, .bidirectional = bidirectional != 0};
    uint32_t n_in = lengths == PST_NONE ? 1 : 2;
    return add(g,
               (pst_new_node){"attention", name, &attr, (uint32_t[]){qkv, lengths}, n_in, NULL, 0},
               out);
}

pst_status pst_graph_add_pixels(pst_graph *g, const char *name, uint32_t bytes, uint32_t *out) {
    EXPECT(g, name, out);
    return add(g, (pst_new_node){"pixels", name, NULL, &bytes, 1, NULL, 0}, out);
}

pst_status pst_graph_add_convolution(pst_graph *g, const char *name, uint32_t x, uint32_t weight,
                                     uint32_t bias, uint32_t stride, uint32_t padding,
                                     uint32_t *out) {
    EXPECT(g, name, out);
    pst_attr attr = {.stride = stride, .padding = padding};
    return add(g, (pst_new_node){"convolution", name, &attr, &x, 1, (uint32_t[]){weight, bias}, 2},
               out);
}

/* The parameters [channels] of a batch norm. */
static pst_status add_channels(pst_graph *g, const char *name, uint64_t channels,
                               uint32_t param[4]) {
    static const struct {
        const char *suffix;
        pst_init init;
        int statistic;
    } own[] = {{"weight", PST_INIT_ONE, 0},
               {"bias", PST_INIT_ZERO, 0},
               {"running_mean", PST_INIT_ZERO, 1},
               {"running_var", PST_INIT_ONE, 1}};
    for (int i = 0; i < 4; i++) {
        pst_param p = {
            .n_dim = 1, .dim = {channels}, .init = own[i].init, .statistic = own[i].statistic};
        if (snprintf(p.name, sizeof p.name, "%s.%s", name, own[i].suffix) >= PST_NAME_MAX)
            return pst_fail(PST_EINPUT, "the name of a parameter must have 1 to %d characters",
                            PST_NAME_MAX - 1);
        PST_TRY(pst_graph_param(g, &p, &param[i]));
    }
    return PST_OK;
}

pst_status pst_graph_add_batch_norm(pst_graph *g, const char *name, uint32_t x, uint32_t z,
                                    pst_activation activation, float eps, uint32_t *out) {
    uint32_t param[4];
    EXPECT(g, name, out);
    if (x >= g->n_tensor)
        return pst_fail(PST_EINPUT, "%s reads tensor %u, but the graph has only %u tensors", name,
                        x, g->n_tensor);
    uint64_t channels = pst_tensor_columns(&g->tensor[x]);
    PST_TRY(add_channels(g, name, channels, param));
    pst_attr attr = {.activation = activation, .eps = eps};
    return add(g,
               (pst_new_node){"batch_norm", name, &attr, (uint32_t[]){x, z}, z == PST_NONE ? 1 : 2,
                              param, 4},
               out);
}

pst_status pst_graph_add_max_pool(pst_graph *g, const char *name, uint32_t x, uint32_t window,
                                  uint32_t stride, uint32_t padding, uint32_t *out) {
    EXPECT(g, name, out);
    pst_attr attr = {.window = window, .stride = stride, .padding = padding};
    return add(g, (pst_new_node){"max_pool", name, &attr, &x, 1, NULL, 0}, out);
}

pst_status pst_graph_add_average_pool(pst_graph *g, const char *name, uint32_t x, uint32_t *out) {
    EXPECT(g, name, out);
    return add(g, (pst_new_node){"average_pool", name, NULL, &x, 1, NULL, 0}, out);
}

pst_status pst_graph_add_dropout(pst_graph *g, const char *name, uint32_t x, float rate,
                                 uint32_t *out) {
    EXPECT(g, name, out);
    pst_attr attr = {.rate = rate};
    return add(g, (pst_new_node){"dropout", name, &attr, &x, 1, NULL, 0}, out);
}

pst_status pst_graph_add_residual(pst_graph *g, const char *name, uint32_t a, uint32_t b,
                                  uint32_t *out) {
    EXPECT(g, name, out);
    return add(g, (pst_new_node){"add", name, NULL, (uint32_t[]){a, b}, 2, NULL, 0}, out);
}

pst_status pst_graph_add_cross_entropy(pst_graph *g, const char *name, uint32_t logits,
                                       uint32_t targets, uint32_t *losses) {
    EXPECT(g, name, losses);
    return add(
        g, (pst_new_node){"cross_entropy", name, NULL, (uint32_t[]){logits, targets}, 2, NULL, 0},
        losses);
}

pst_status pst_graph_shape(const pst_graph *g, uint32_t tensor, uint32_t *n_dim, uint64_t *dim) {
    EXPECT(g, dim, n_dim);
    if (tensor >= g->n_tensor)
        return pst_fail(PST_EINPUT, "graph %s has no tensor %u, only %u tensors", g->name, tensor,
                        g->n_tensor);
    const pst_tensor *t = &g->tensor[tensor];
    memcpy(dim, t->dim, t->n_dim * sizeof *dim);
    *n_dim = t->n_dim;
    return PST_OK;
}

int pst_graph_param_at(const pst_graph *g, uint32_t i, const char **name, uint32_t *n_dim,
                       uint64_t *dim) {
    if (!g || !name || !n_dim || !dim || i >= g->n_param) return 0;
    const pst_param *p = &g->param[i];
    *name = p->name;
    *n_dim = p->n_dim;
    memcpy(dim, p->dim, p->n_dim * sizeof *dim);
    return 1;
}

int pst_graph_data_at(const pst_graph *g, uint32_t i, const char **name, uint32_t *n_dim,
                      uint64_t *dim) {
    if (!g || !name || !n_dim || !dim) return 0;
    for (uint32_t t = 0; t < g->n_tensor; t++) {
        if (g->tensor[t].role != PST_TENSOR_DATA || i--) continue;
        *name = g->tensor[t].name;
        *n_dim = g->tensor[t].n_dim;
        memcpy(dim, g->tensor[t].dim, *n_dim * sizeof *dim);
        return 1;
    }
    return 0;
}

uint64_t pst_graph_weights(const pst_graph *g) {
    uint64_t n = 0;
    for (uint32_t i = 0; g && i < g->n_param; i++)
        n += g->param[i].statistic ? 0 : pst_param_elements(&g->param[i]);
    return n;
}
