/* What a graph consists of besides operators: tensors and parameters, their names and sizes. */
#include "graph/elements.h"
#include "base/grow.h"
#include "graph/op.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger arrays are refused, so that no product of sizes overflows 64 bits (see the cost
 * functions). */
#define MAX_ELEMENTS (UINT64_C(1) << 40)
#define MAX_DIM_SIZE INT32_MAX

/* Names are used in text forms, file names and keys of random streams: no spaces, and no
 * punctuation that has a meaning there. */
pst_status pst_graph_check_name(const char *what, const char *name, size_t limit) {
    size_t length = strnlen(name, PST_NAME_MAX);
    if (length == 0 || length > limit)
        return pst_fail(PST_EINPUT, "the name of a %s must have 1 to %zu characters", what, limit);
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)name[i]) || strchr(",[]=#\"\\", name[i]))
            return pst_fail(PST_EINPUT,
                            "the name of a %s contains a space or one of ,[]=#\"\\ at position %zu",
                            what, i + 1);
    return PST_OK;
}

static pst_status check_shape(const char *name, uint32_t n_dim, const uint64_t *dim) {
    if (n_dim < 1 || n_dim > PST_MAX_DIM)
        return pst_fail(PST_EINPUT, "%s has %u dimensions; it must have 1 to %d", name, n_dim,
                        PST_MAX_DIM);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < n_dim; i++) {
        if (dim[i] == 0 || dim[i] > MAX_DIM_SIZE)
            return pst_fail(PST_EINPUT, "dimension %u of %s is %lu; it must be 1 to %d", i, name,
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

uint32_t pst_graph_find_tensor(const pst_graph *g, const char *name) {
    return pst_names_find(&g->tensor_names, tensors(g), name);
}

uint32_t pst_graph_find_param(const pst_graph *g, const char *name) {
    return pst_names_find(&g->param_names, params(g), name);
}

static pst_status add_tensor(pst_graph *g, const pst_tensor *t) {
    PST_TRY(pst_graph_check_name("tensor", t->name, PST_NAME_MAX - 1));
    PST_TRY(check_shape(t->name, t->n_dim, t->dim));
    if (t->dim[0] != g->micro_batch)
        return pst_fail(PST_EINPUT,
                        "the first dimension of %s is %lu; it must be the micro-batch size, %u",
                        t->name, (unsigned long)t->dim[0], g->micro_batch);
    if (pst_graph_find_tensor(g, t->name) != PST_NONE)
        return pst_fail(PST_EINPUT, "two tensors are named %s", t->name);
    PST_TRY(
        pst_grow(&g->tensor, sizeof *g->tensor, g->n_tensor, &g->cap_tensor, "for graph elements"));
    PST_TRY(pst_names_reserve(&g->tensor_names, tensors(g)));
    g->tensor[g->n_tensor++] = *t;
    pst_names_add(&g->tensor_names, tensors(g));
    return PST_OK;
}

pst_status pst_graph_data(pst_graph *g, const char *name, uint32_t n_dim, const uint64_t *dim,
                          uint32_t *tensor) {
    pst_tensor t = {
        .role = PST_TENSOR_DATA, .dtype = PST_I32, .n_dim = n_dim, .producer = PST_NONE};
    PST_TRY(pst_graph_check_name("data tensor", name, PST_NAME_MAX - 1));
    PST_TRY(check_shape(name, n_dim, dim));
    strcpy(t.name, name);
    memcpy(t.dim, dim, n_dim * sizeof(dim[0]));
    PST_TRY(add_tensor(g, &t));
    *tensor = g->n_tensor - 1;
    return PST_OK;
}

pst_status pst_graph_param(pst_graph *g, const pst_param *param, uint32_t *index) {
    PST_TRY(pst_graph_check_name("parameter", param->name, PST_NAME_MAX - 1));
    PST_TRY(check_shape(param->name, param->n_dim, param->dim));
    if ((uint32_t)param->init > PST_INIT_NORMAL || !isfinite(param->std) || signbit(param->std))
        return pst_fail(PST_EINPUT, "the initial values of %s need a known kind and std >= 0",
                        param->name);
    if (param->decay && param->statistic)
        return pst_fail(PST_EINPUT, "%s is a statistic; weight decay cannot apply to it",
                        param->name);
    if (param->frozen && (param->decay || param->statistic || param->cache))
        return pst_fail(PST_EINPUT, "%s is frozen; weight decay and running means change it",
                        param->name);
    if (param->cache && (param->decay || param->statistic || param->init != PST_INIT_ZERO))
        return pst_fail(PST_EINPUT, "%s is a cache; it is zero at first and not trained",
                        param->name);
    if (pst_graph_find_param(g, param->name) != PST_NONE)
        return pst_fail(PST_EINPUT, "two parameters are named %s", param->name);
    PST_TRY(pst_grow(&g->param, sizeof *g->param, g->n_param, &g->cap_param, "for graph elements"));
    PST_TRY(pst_names_reserve(&g->param_names, params(g)));
    pst_param *p = &g->param[g->n_param];
    *p = (pst_param){.n_dim = param->n_dim,
                     .init = param->init,
                     .std = param->std,
                     .decay = param->decay != 0,
                     .statistic = param->statistic != 0,
                     .whole = param->whole != 0,
                     .matrix = param->matrix != 0,
                     .cache = param->cache != 0,
                     .frozen = param->frozen != 0,
                     .adapter = param->adapter,
                     .slice = param->slice};
    strcpy(p->name, param->name);
    memcpy(p->dim, param->dim, p->n_dim * sizeof(p->dim[0]));
    *index = g->n_param++;
    pst_names_add(&g->param_names, params(g));
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
    /* a copy: `dim` may point into the array that grows now */
    memcpy(t.dim, dim, n_dim * sizeof(dim[0]));
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
    uint64_t elements = pst_tensor_elements(t);
    if (t->pitch) elements = elements / t->dim[t->n_dim - 1] * t->pitch;
    return elements * pst_dtype_bytes(t->dtype);
}
uint64_t pst_param_elements(const pst_param *p) { return product(p->dim, p->n_dim); }
uint64_t pst_param_sums(const pst_param *p) {
    return pst_param_elements(p) * (p->slice.blocks ? p->slice.blocks : 1);
}
pst_dtype pst_tensor_grad(const pst_graph *g, const pst_tensor *t) {
    if (t->grad == PST_GRAD_WIDE) return PST_F32;
    return t->grad == PST_GRAD_NARROW ? g->dtype : t->dtype;
}
uint64_t pst_param_bytes(const pst_graph *g, const pst_param *p) {
    return pst_param_elements(p) * pst_dtype_bytes(g->dtype);
}
uint64_t pst_param_pad_bytes(const pst_graph *g, const pst_param *p) {
    return p->pad * pst_dtype_bytes(g->dtype);
}
