/* Building a graph and asking it simple questions. Additions are all or nothing: a failed one
 * leaves the graph as it was. The proof that a finished graph is sound is in check.c, its text form
 * in text.c. */
#include "graph/graph.h"
#include "base/hash.h"
#include "graph/op.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Larger arrays are refused, so that no product of sizes overflows 64 bits (see the cost
 * functions). */
#define MAX_ELEMENTS (UINT64_C(1) << 40)
#define MAX_DIM_SIZE INT32_MAX

/* Makes room for one more element. */
static pst_status grow(void **array, uint32_t n, uint32_t *cap, size_t size) {
    if (n < *cap) return PST_OK;
    uint32_t want = *cap ? 2 * *cap : 16;
    void *bigger = realloc(*array, want * size);
    if (!bigger) return pst_fail(PST_ENOMEM, "no memory for %u graph elements", want);
    *array = bigger;
    *cap = want;
    return PST_OK;
}

/* Names stand in text forms, file names and stream keys: no blanks, no punctuation that those give
 * a meaning to. */
static pst_status check_name(const char *what, const char *name, size_t limit) {
    size_t length = strnlen(name, PST_NAME_MAX);
    if (length == 0 || length > limit)
        return pst_fail(PST_EINPUT, "the name of a %s needs 1 to %zu characters", what, limit);
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)name[i]) || strchr(",[]=#\"\\", name[i]))
            return pst_fail(PST_EINPUT,
                            "the name of a %s has a blank or one of ,[]=#\"\\ at position %zu",
                            what, i + 1);
    return PST_OK;
}

pst_status pst_graph_open(const char *name, uint32_t micro_batch, pst_graph **graph) {
    if (!name || !graph)
        return pst_fail(PST_EINPUT, "pst_graph_open: %s is NULL", name ? "graph" : "name");
    PST_TRY(check_name("graph", name, PST_NAME_MAX - 1));
    if (micro_batch == 0) return pst_fail(PST_EINPUT, "graph %s needs micro_batch >= 1", name);
    pst_graph *g = calloc(1, sizeof(*g));
    if (!g) return pst_fail(PST_ENOMEM, "no memory for a graph");
    strcpy(g->name, name);
    g->micro_batch = micro_batch;
    *graph = g;
    return PST_OK;
}

void pst_graph_close(pst_graph *graph) {
    if (!graph) return;
    free(graph->tensor);
    free(graph->param);
    free(graph->node);
    free(graph->tensor_names.slot);
    free(graph->param_names.slot);
    free(graph->node_names.slot);
    free(graph);
}

/* Room for at least one, so that no memory and nothing to copy differ. */
static void *copy_of(const void *array, uint32_t n, size_t size) {
    void *copy = calloc(n + (size_t)1, size);
    return copy && n ? memcpy(copy, array, n * size) : copy;
}

static int copy_names(pst_names *x, const pst_names *from) {
    *x = *from;
    x->slot = copy_of(from->slot, from->n_slot, sizeof *x->slot);
    return x->slot != NULL;
}

pst_status pst_graph_copy(const pst_graph *graph, pst_graph **copy) {
    pst_graph *g = malloc(sizeof *g);
    if (!g) return pst_fail(PST_ENOMEM, "no memory for a graph");
    *g = *graph;
    g->tensor = copy_of(graph->tensor, graph->n_tensor, sizeof *g->tensor);
    g->param = copy_of(graph->param, graph->n_param, sizeof *g->param);
    g->node = copy_of(graph->node, graph->n_node, sizeof *g->node);
    g->cap_tensor = g->n_tensor;
    g->cap_param = g->n_param;
    g->cap_node = g->n_node;
    int named = copy_names(&g->tensor_names, &graph->tensor_names);
    named &= copy_names(&g->param_names, &graph->param_names);
    named &= copy_names(&g->node_names, &graph->node_names);
    if (g->tensor && g->param && g->node && named) {
        *copy = g;
        return PST_OK;
    }
    pst_graph_close(g);
    return pst_fail(PST_ENOMEM, "no memory for a graph");
}

static pst_status check_shape(const char *name, uint32_t n_dim, const uint64_t *dim) {
    if (n_dim < 1 || n_dim > PST_MAX_DIM)
        return pst_fail(PST_EINPUT, "%s has %u dimensions; 1 to %d are possible", name, n_dim,
                        PST_MAX_DIM);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < n_dim; i++) {
        if (dim[i] == 0 || dim[i] > MAX_DIM_SIZE)
            return pst_fail(PST_EINPUT, "dimension %u of %s is %lu; 1 to %d are possible", i, name,
                            (unsigned long)dim[i], MAX_DIM_SIZE);
        elements *= dim[i]; /* at most 2^40 * 2^31: no overflow */
        if (elements > MAX_ELEMENTS)
            return pst_fail(PST_EINPUT, "%s has more than 2^40 elements", name);
    }
    return PST_OK;
}

static pst_named tensors(const pst_graph *g) {
    return (pst_named){g->tensor, sizeof *g->tensor, g->n_tensor};
}
static pst_named params(const pst_graph *g) {
    return (pst_named){g->param, sizeof *g->param, g->n_param};
}
static pst_named nodes(const pst_graph *g) {
    return (pst_named){g->node, sizeof *g->node, g->n_node};
}

uint32_t pst_graph_find_tensor(const pst_graph *g, const char *name) {
    return pst_names_find(&g->tensor_names, tensors(g), name);
}

uint32_t pst_graph_find_param(const pst_graph *g, const char *name) {
    return pst_names_find(&g->param_names, params(g), name);
}

static pst_status add_tensor(pst_graph *g, const pst_tensor *t) {
    PST_TRY(check_name("tensor", t->name, PST_NAME_MAX - 1));
    PST_TRY(check_shape(t->name, t->n_dim, t->dim));
    if (t->dim[0] != g->micro_batch)
        return pst_fail(PST_EINPUT, "the first dimension of %s is %lu, not the micro-batch of %u",
                        t->name, (unsigned long)t->dim[0], g->micro_batch);
    if (pst_graph_find_tensor(g, t->name) != PST_NONE)
        return pst_fail(PST_EINPUT, "two tensors are named %s", t->name);
    PST_TRY(grow((void **)&g->tensor, g->n_tensor, &g->cap_tensor, sizeof(*g->tensor)));
    PST_TRY(pst_names_reserve(&g->tensor_names, tensors(g)));
    g->tensor[g->n_tensor++] = *t;
    pst_names_add(&g->tensor_names, tensors(g));
    return PST_OK;
}

pst_status pst_graph_data(pst_graph *g, const char *name, uint32_t n_dim, const uint64_t *dim,
                          uint32_t *tensor) {
    pst_tensor t = {
        .role = PST_TENSOR_DATA, .dtype = PST_I32, .n_dim = n_dim, .producer = PST_NONE};
    PST_TRY(check_name("data tensor", name, PST_NAME_MAX - 1));
    PST_TRY(check_shape(name, n_dim, dim));
    strcpy(t.name, name);
    memcpy(t.dim, dim, n_dim * sizeof(dim[0]));
    PST_TRY(add_tensor(g, &t));
    *tensor = g->n_tensor - 1;
    return PST_OK;
}

pst_status pst_graph_param(pst_graph *g, const pst_param *param, uint32_t *index) {
    PST_TRY(check_name("parameter", param->name, PST_NAME_MAX - 1));
    PST_TRY(check_shape(param->name, param->n_dim, param->dim));
    if ((uint32_t)param->init > PST_INIT_NORMAL || !isfinite(param->std) || signbit(param->std))
        return pst_fail(PST_EINPUT, "the initial values of %s need a known kind and std >= 0",
                        param->name);
    if (param->decay && param->statistic)
        return pst_fail(PST_EINPUT, "%s cannot be a statistic and decay", param->name);
    if (pst_graph_find_param(g, param->name) != PST_NONE)
        return pst_fail(PST_EINPUT, "two parameters are named %s", param->name);
    PST_TRY(grow((void **)&g->param, g->n_param, &g->cap_param, sizeof(*g->param)));
    PST_TRY(pst_names_reserve(&g->param_names, params(g)));
    pst_param *p = &g->param[g->n_param];
    *p = (pst_param){.n_dim = param->n_dim,
                     .init = param->init,
                     .std = param->std,
                     .decay = param->decay != 0,
                     .statistic = param->statistic != 0,
                     .slice = param->slice};
    strcpy(p->name, param->name);
    memcpy(p->dim, param->dim, p->n_dim * sizeof(p->dim[0]));
    *index = g->n_param++;
    pst_names_add(&g->param_names, params(g));
    return PST_OK;
}

static const char *const activations[] = {"none", "gelu_tanh", "gelu_erf", "relu"};
enum { N_ACTIVATION = sizeof activations / sizeof *activations };

const char *pst_activation_name(pst_activation activation) {
    return (uint32_t)activation < N_ACTIVATION ? activations[activation] : "unknown";
}

pst_status pst_activation_find(const char *name, pst_activation *activation) {
    for (int i = 0; i < N_ACTIVATION; i++)
        if (!strcmp(name, activations[i])) {
            *activation = (pst_activation)i;
            return PST_OK;
        }
    return pst_fail(PST_EINPUT,
                    "unknown activation '%.40s' (there are: none, gelu_tanh, gelu_erf, relu)",
                    name);
}

static pst_status check_attr(const pst_attr *a) {
    if ((uint32_t)a->activation > PST_ACT_RELU)
        return pst_fail(PST_EINPUT, "unknown activation %d", (int)a->activation);
    if (!isfinite(a->eps) || signbit(a->eps) || !isfinite(a->rate) || signbit(a->rate))
        return pst_fail(PST_EINPUT, "eps and rate need to be finite and >= 0");
    return PST_OK;
}

/* Its accumulator is no gradient, and one operator alone fills it. */
static pst_status check_statistic(const pst_op_row *op, uint32_t i, const pst_param *p) {
    int wanted = op->statistics >> i & 1;
    if (p->statistic != wanted)
        return pst_fail(PST_EINPUT, "parameter %u of %s is %s, but %s is %s", i, op->name,
                        wanted ? "a statistic" : "trained", p->name,
                        wanted ? "trained" : "a statistic");
    return p->statistic && p->n_use
               ? pst_fail(PST_EINPUT, "the statistic %s is used twice", p->name)
               : PST_OK;
}

/* Copies operands into `node` after checking their number and range. */
static pst_status set_operands(const pst_graph *g, pst_node *node, const uint32_t *in,
                               uint32_t n_in, const uint32_t *param, uint32_t n_param) {
    const pst_op_row *op = node->op;
    if (n_in < op->min_in || n_in > op->max_in || n_param < op->min_param ||
        n_param > op->max_param)
        return pst_fail(PST_EINPUT,
                        "%s takes %u to %u inputs and %u to %u parameters, not %u and %u", op->name,
                        op->min_in, op->max_in, op->min_param, op->max_param, n_in, n_param);
    for (uint32_t i = 0; i < n_in; i++) {
        if (in[i] >= g->n_tensor)
            return pst_fail(PST_EINPUT, "input %u is no tensor defined so far", i);
        node->in[i] = in[i];
    }
    for (uint32_t i = 0; i < n_param; i++) {
        if (param[i] >= g->n_param) return pst_fail(PST_EINPUT, "parameter %u does not exist", i);
        node->param[i] = param[i];
        node->use[i] = g->param[param[i]].n_use;
        PST_TRY(check_statistic(op, i, &g->param[param[i]]));
        for (uint32_t j = 0; j < i; j++) node->use[i] += param[j] == param[i];
    }
    node->n_in = n_in;
    node->n_param = n_param;
    return PST_OK;
}

static pst_status add_node(pst_graph *g, pst_node *node) {
    if (pst_names_find(&g->node_names, nodes(g), node->name) != PST_NONE)
        return pst_fail(PST_EINPUT, "two operators have this name");
    PST_TRY(check_attr(&node->attr));
    PST_TRY(grow((void **)&g->node, g->n_node, &g->cap_node, sizeof(*g->node)));
    PST_TRY(pst_names_reserve(&g->node_names, nodes(g)));
    PST_TRY(node->op->infer(g, node));
    g->node[g->n_node++] = *node;
    pst_names_add(&g->node_names, nodes(g));
    for (uint32_t i = 0; i < node->n_param; i++) g->param[node->param[i]].n_use++;
    return PST_OK;
}

pst_status pst_graph_add(pst_graph *g, const char *op, const char *name, const pst_attr *attr,
                         const uint32_t *in, uint32_t n_in, const uint32_t *param, uint32_t n_param,
                         uint32_t *out) {
    PST_TRY(check_name("operator", name, PST_NAME_MAX - 1 - strlen(".out1")));
    pst_node node = {.op = pst_op_find(op)};
    if (!node.op) return pst_fail(PST_EINPUT, "%s: there is no operator \"%.40s\"", name, op);
    strcpy(node.name, name);
    if (attr) node.attr = *attr;
    uint32_t n_tensor = g->n_tensor;
    pst_status status = set_operands(g, &node, in, n_in, param, n_param);
    if (status == PST_OK) status = add_node(g, &node);
    if (status != PST_OK) {
        g->n_tensor = n_tensor;
        return pst_fail_in(status, "%s", name);
    }
    *out = node.out[0];
    return PST_OK;
}

pst_status pst_graph_out(pst_graph *g, pst_node *node, pst_tensor_role role, uint32_t n_dim,
                         const uint64_t *dim) {
    if (node->n_out >= PST_MAX_OUT)
        return pst_fail(PST_EINTERNAL, "%s has too many outputs", node->op->name);
    pst_tensor t = {.role = role, .dtype = g->dtype, .n_dim = n_dim, .producer = g->n_node};
    if (role == PST_TENSOR_OUTPUT) t.dtype = PST_F32;
    snprintf(t.name, sizeof(t.name), node->n_out ? "%.90s.out%u" : "%.90s.out", node->name,
             node->n_out);
    PST_TRY(check_shape(t.name, n_dim, dim));
    memcpy(t.dim, dim, n_dim * sizeof(dim[0])); /* a copy: `dim` may point into the array that grows
                                                   now */
    PST_TRY(add_tensor(g, &t));
    node->out[node->n_out++] = g->n_tensor - 1;
    return PST_OK;
}

static uint64_t product(const uint64_t *dim, uint32_t n_dim) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < n_dim; i++) n *= dim[i];
    return n;
}
uint64_t pst_tensor_elements(const pst_tensor *t) { return product(t->dim, t->n_dim); }
uint64_t pst_tensor_bytes(const pst_tensor *t) {
    return pst_tensor_elements(t) * pst_dtype_bytes(t->dtype);
}
uint64_t pst_param_elements(const pst_param *p) { return product(p->dim, p->n_dim); }
uint64_t pst_param_bytes(const pst_graph *g, const pst_param *p) {
    return pst_param_elements(p) * pst_dtype_bytes(g->dtype);
}

static int by_name(const void *a, const void *b, void *graph) {
    const pst_graph *g = graph;
    return strcmp(g->param[*(const uint32_t *)a].name, g->param[*(const uint32_t *)b].name);
}
void pst_graph_param_order(const pst_graph *g, uint32_t *out) {
    for (uint32_t i = 0; i < g->n_param; i++) out[i] = i;
    qsort_r(out, g->n_param, sizeof(out[0]), by_name, (void *)(uintptr_t)g);
}

/* The hash is a chain of XXH64 over the fields, never over padding. */
static uint64_t hash_text(const char *text, uint64_t h) {
    return pst_hash64(text, strlen(text) + 1, h);
}
static uint64_t hash_u64(const uint64_t *value, uint32_t n, uint64_t h) {
    return pst_hash64(value, n * sizeof(*value), h);
}
static uint64_t hash_u32(const uint32_t *value, uint32_t n, uint64_t h) {
    return pst_hash64(value, n * sizeof(*value), h);
}

static uint64_t hash_node(const pst_node *d, uint64_t h) {
    uint32_t float_bits[2];
    memcpy(&float_bits[0], &d->attr.eps, sizeof(float));
    memcpy(&float_bits[1], &d->attr.rate, sizeof(float));
    uint32_t head[] = {d->attr.heads, d->attr.features, (uint32_t)d->attr.activation,
                       float_bits[0], float_bits[1],    d->n_in,
                       d->n_out,      d->n_param,       d->n_saved};
    h = hash_u32(head, sizeof(head) / sizeof(head[0]),
                 hash_text(d->op->name, hash_text(d->name, h)));
    uint64_t shard[] = {d->attr.parts, d->attr.part, d->attr.length, d->attr.first, d->attr.total};
    if (d->attr.bidirectional) h = hash_u32(&d->attr.bidirectional, 1, h);
    uint32_t image[] = {d->attr.stride, d->attr.padding, d->attr.window};
    if (d->op->image) h = hash_u32(image, sizeof image / sizeof *image, h);
    if (d->attr.parts) h = hash_u64(shard, sizeof shard / sizeof *shard, h);
    h = hash_u32(d->out, d->n_out, hash_u32(d->in, d->n_in, h));
    h = hash_u32(d->use, d->n_param, hash_u32(d->param, d->n_param, h));
    for (uint32_t i = 0; i < d->n_saved; i++) {
        uint64_t saved[] = {d->saved[i].elements, d->saved[i].dtype};
        h = hash_u64(saved, 2, h);
    }
    return h;
}

pst_dtype pst_node_factors(const pst_graph *g, const pst_node *node) {
    const pst_tensor *x = &g->tensor[node->in[0]];
    const uint64_t *weight = g->param[node->param[0]].dim;
    uint64_t rows = pst_tensor_elements(x) / x->dim[x->n_dim - 1];
    return g->factors == PST_F8 && (rows | weight[0] | weight[1]) % 16 ? g->dtype
                                                                       : pst_graph_factors(g);
}

uint64_t pst_graph_hash(const pst_graph *g) {
    uint32_t head[] = {g->micro_batch, (uint32_t)pst_graph_factors(g), g->n_tensor, g->n_param,
                       g->n_node};
    uint64_t h = hash_u32(head, 5, hash_text(g->name, 0));
    for (uint32_t i = 0; i < g->n_tensor; i++) {
        const pst_tensor *t = &g->tensor[i];
        uint32_t field[] = {(uint32_t)t->role, (uint32_t)t->dtype, t->n_dim, t->producer};
        h = hash_u64(t->dim, t->n_dim, hash_u32(field, 4, hash_text(t->name, h)));
    }
    for (uint32_t i = 0; i < g->n_param; i++) {
        const pst_param *p = &g->param[i];
        uint32_t std_bits;
        memcpy(&std_bits, &p->std, sizeof(std_bits));
        uint32_t kind = p->statistic ? 2 : p->decay != 0;
        uint32_t field[] = {p->n_dim, (uint32_t)p->init, std_bits, kind, p->n_use};
        h = hash_u64(p->dim, p->n_dim, hash_u32(field, 5, hash_text(p->name, h)));
    }
    for (uint32_t i = 0; i < g->n_node; i++) h = hash_node(&g->node[i], h);
    return h;
}
