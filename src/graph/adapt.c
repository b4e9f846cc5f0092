/* See adapt.h. */
#include "graph/adapt.h"
#include "graph/op.h"
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

/* Groups of layers, by patterns of the names that the models give them. */
static const struct {
    const char *name, *pattern;
} groups[] = {{"attention", "*attn.*"}, {"mlp", "*mlp.*"}};

/* The name of a weight without its last part. */
static int stem_of(const char *weight) {
    const char *dot = strrchr(weight, '.');
    return dot && !strcmp(dot, ".weight") ? (int)(dot - weight) : (int)strlen(weight);
}

pst_status pst_adapter_name(const char *weight, int which, char out[PST_NAME_MAX]) {
    const int n = snprintf(out, PST_NAME_MAX, "%.*s.lora_%c.weight", stem_of(weight), weight,
                           which == PST_ADAPTER_DOWN ? 'A' : 'B');
    if (n < PST_NAME_MAX) return PST_OK;
    return pst_fail(PST_EINPUT, "the name of parameter %s is too long for an adapter", weight);
}

/* --- which linears ---------------------------------------------------------------------------- */

/* A linear whose weight nothing else uses, such as a tied embedding. */
static int can_adapt(const pst_graph *g, const pst_node *d) {
    return !strcmp(d->op->name, "linear") && g->param[d->param[0]].n_use == 1 &&
           !g->param[d->param[0]].adapter;
}

static int matches(const pst_graph *g, const pst_node *d, const char *on) {
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (!strcmp(on, groups[i].name)) on = groups[i].pattern;
    return can_adapt(g, d) && !fnmatch(on, g->param[d->param[0]].name, 0);
}

static int is_chosen(const pst_graph *g, const pst_node *d, const pst_adapt *a) {
    for (uint32_t k = 0; k < a->n_on; k++)
        if (matches(g, d, a->on[k])) return 1;
    return 0;
}

/* A name with * in place of its numbers, so that the layers of a kind have one name. */
static void generalize(const char *name, char out[PST_NAME_MAX]) {
    size_t n = 0;
    for (const char *c = name; *c; c++) {
        const int digit = *c >= '0' && *c <= '9', part = c == name || c[-1] == '.' || digit;
        if (!digit || !part) out[n++] = *c;
        else if (!n || out[n - 1] != '*') out[n++] = '*';
    }
    out[n] = 0;
}

/* The kinds of linears, for a message. */
static void list_kinds(const pst_graph *g, char *text, size_t bytes) {
    char kind[PST_NAME_MAX], item[PST_NAME_MAX + 2];
    *text = 0;
    for (uint32_t i = 0; i < g->n_node; i++) {
        if (!can_adapt(g, g->node + i)) continue;
        generalize(g->param[g->node[i].param[0]].name, kind);
        snprintf(item, sizeof item, "%s%s", *text ? ", " : "", kind);
        if (!strstr(text, kind) && strlen(text) + strlen(item) < bytes) strcat(text, item);
    }
}

static pst_status check_on(const pst_graph *g, const char *on) {
    char text[600];
    for (uint32_t i = 0; i < g->n_node; i++)
        if (matches(g, g->node + i, on)) return PST_OK;
    list_kinds(g, text, sizeof text);
    return pst_fail(PST_EINPUT,
                    "'%.60s' names no linear layer; the model has %s; expected attention, mlp or "
                    "patterns of these names",
                    on, *text ? text : "none that can be adapted");
}

static pst_status check_rank(const pst_param *weight, uint32_t rank) {
    const uint64_t n = weight->dim[0], k = weight->dim[1];
    if (rank && rank <= n && rank <= k) return PST_OK;
    return pst_fail(
        PST_EINPUT, "the rank is %u, but %s is a matrix of %lu by %lu; expected 1 to %lu", rank,
        weight->name, (unsigned long)n, (unsigned long)k, (unsigned long)(n < k ? n : k));
}

/* --- the copy --------------------------------------------------------------------------------- */

typedef struct {
    const pst_graph *from;
    const pst_adapt *adapt;
    pst_graph *g;
    uint32_t *mapped; /* [n_tensor of `from`] the tensor of the copy that stands for it */
} adapter_builder;

/* Adds an operator with one input and at most one parameter, named after d. */
typedef struct {
    const char *op, *suffix;
    pst_attr attr;
    uint32_t param; /* PST_NONE: none */
} part;

static pst_status add_part(adapter_builder *b, const pst_node *d, const part *p, uint32_t *x) {
    char name[2 * PST_NAME_MAX]; /* too long a name is found out, not cut */
    snprintf(name, sizeof name, "%s.%s", d->name, p->suffix);
    return pst_graph_add(
        b->g, &(pst_new_node){p->op, name, &p->attr, x, 1, &p->param, p->param == PST_NONE ? 0 : 1},
        x);
}

static pst_status add_matrix(adapter_builder *b, const pst_param *weight, int which,
                             uint32_t *param) {
    const int down = which == PST_ADAPTER_DOWN;
    const uint64_t rank = b->adapt->rank;
    pst_param p = {.n_dim = 2,
                   .dim = {down ? rank : weight->dim[0], down ? weight->dim[1] : rank},
                   .init = down ? PST_INIT_NORMAL : PST_INIT_ZERO,
                   .std = down ? (float)sqrt(1.0 / (3.0 * (double)weight->dim[1])) : 0,
                   .decay = 1,
                   .adapter = which};
    PST_TRY(pst_adapter_name(weight->name, which, p.name));
    return pst_graph_param(b->g, &p, param);
}

/* The adapter of linear d, whose copy without activation computes `sum`; *sum becomes the output.
 */
static pst_status add_adapter(adapter_builder *b, const pst_node *d, uint32_t *sum) {
    const pst_param *weight = b->from->param + d->param[0];
    part down = {"linear", "lora_A", {0}, 0}, up = {"linear", "lora_B", {0}, 0},
         scale = {"scale", "lora_scale", {0}, PST_NONE}, act = {"activation", "act", {0}, PST_NONE};
    uint32_t x = b->mapped[d->in[0]];
    char name[2 * PST_NAME_MAX];
    scale.attr.factor = b->adapt->alpha / (float)b->adapt->rank;
    act.attr.activation = d->attr.activation;
    PST_TRY(check_rank(weight, b->adapt->rank));
    PST_TRY(add_matrix(b, weight, PST_ADAPTER_DOWN, &down.param));
    PST_TRY(add_matrix(b, weight, PST_ADAPTER_UP, &up.param));
    PST_TRY(add_part(b, d, &down, &x));
    if (scale.attr.factor != 1) PST_TRY(add_part(b, d, &scale, &x));
    PST_TRY(add_part(b, d, &up, &x));
    snprintf(name, sizeof name, "%s.lora_add", d->name);
    const uint32_t in[] = {*sum, x};
    PST_TRY(pst_graph_add(b->g, &(pst_new_node){"add", name, NULL, in, 2, NULL, 0}, sum));
    return act.attr.activation == PST_ACT_NONE ? PST_OK : add_part(b, d, &act, sum);
}

static pst_status copy_node(adapter_builder *b, const pst_node *d) {
    const int adapts = is_chosen(b->from, d, b->adapt);
    uint32_t in[PST_MAX_IN], out;
    pst_attr attr = d->attr;
    if (adapts) attr.activation = PST_ACT_NONE;
    for (uint32_t i = 0; i < d->n_in; i++) in[i] = b->mapped[d->in[i]];
    PST_TRY(pst_graph_add(
        b->g, &(pst_new_node){d->op->name, d->name, &attr, in, d->n_in, d->param, d->n_param},
        &out));
    for (uint32_t i = 0; i < d->n_out; i++)
        b->mapped[d->out[i]] = b->g->node[b->g->n_node - 1].out[i];
    if (adapts) PST_TRY(add_adapter(b, d, &b->mapped[d->out[0]]));
    b->g->tensor[b->mapped[d->out[0]]].role = b->from->tensor[d->out[0]].role;
    return PST_OK;
}

static pst_status copy_data(adapter_builder *b) {
    for (uint32_t t = 0; t < b->from->n_tensor; t++) {
        const pst_tensor *x = b->from->tensor + t;
        if (x->role == PST_TENSOR_DATA)
            PST_TRY(pst_graph_data(b->g, x->name, x->n_dim, x->dim, &b->mapped[t]));
    }
    return PST_OK;
}

static pst_status copy_all(adapter_builder *b) {
    const pst_graph *from = b->from;
    uint32_t index;
    PST_TRY(pst_graph_open(from->name, from->micro_batch, &b->g));
    pst_graph_compute(b->g, pst_graph_factors(from));
    for (uint32_t i = 0; i < from->n_param; i++)
        PST_TRY(pst_graph_param(b->g, from->param + i, &index));
    PST_TRY(copy_data(b));
    for (uint32_t i = 0; i < from->n_node; i++) PST_TRY(copy_node(b, from->node + i));
    return PST_OK;
}

pst_status pst_graph_adapt(const pst_graph *graph, const pst_adapt *adapt, pst_graph **adapted) {
    adapter_builder b = {.from = graph, .adapt = adapt};
    for (uint32_t k = 0; k < adapt->n_on; k++) PST_TRY(check_on(graph, adapt->on[k]));
    b.mapped = calloc(graph->n_tensor + (size_t)1, sizeof *b.mapped);
    pst_status status =
        b.mapped ? copy_all(&b) : pst_fail(PST_ENOMEM, "no memory to adapt graph %s", graph->name);
    free(b.mapped);
    if (status == PST_OK) *adapted = b.g;
    else pst_graph_close(b.g);
    return status;
}

/* --- queries ---------------------------------------------------------------------------------- */

static const pst_node *producer_of(const pst_graph *g, uint32_t tensor) {
    const uint32_t i = g->tensor[tensor].producer;
    return i == PST_NONE ? NULL : g->node + i;
}

static int matrix_of(const pst_graph *g, const pst_node *node) {
    return node && node->n_param ? g->param[node->param[0]].adapter : 0;
}

pst_adapt_role pst_adapt_role_of(const pst_graph *g, const pst_node *node) {
    if (matrix_of(g, node) == PST_ADAPTER_DOWN) return PST_ADAPT_DOWN;
    if (matrix_of(g, node) == PST_ADAPTER_UP) return PST_ADAPT_UP;
    if (!strcmp(node->op->name, "scale"))
        return matrix_of(g, producer_of(g, node->in[0])) ? PST_ADAPT_SCALE : PST_ADAPT_NONE;
    if (!strcmp(node->op->name, "add"))
        return matrix_of(g, producer_of(g, node->in[1])) == PST_ADAPTER_UP ? PST_ADAPT_ADD
                                                                           : PST_ADAPT_NONE;
    return PST_ADAPT_NONE;
}

const pst_node *pst_adapt_base(const pst_graph *g, const pst_node *node) {
    if (pst_adapt_role_of(g, node) == PST_ADAPT_ADD) return producer_of(g, node->in[0]);
    while (pst_adapt_role_of(g, node) != PST_ADAPT_DOWN) node = producer_of(g, node->in[0]);
    return node - 1;
}

/* --- merging ---------------------------------------------------------------------------------- */

void pst_adapter_merge(const pst_adapter *a, uint64_t at, uint64_t n, float *weight) {
    for (uint64_t i = 0; i < n;) {
        const uint64_t row = (at + i) / a->columns, column = (at + i) % a->columns;
        const uint64_t left = a->columns - column, count = left < n - i ? left : n - i;
        for (uint64_t c = 0; c < count; c++) {
            float sum = 0;
            for (uint32_t r = 0; r < a->rank; r++)
                sum += a->up[row * a->rank + r] * a->down[r * a->columns + column + c];
            weight[i + c] += a->scale * sum;
        }
        i += count;
    }
}
