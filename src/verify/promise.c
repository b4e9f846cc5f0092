/* See promise.h. */
#include "verify/promise.h"
#include "base/dtype.h"
#include "backends/registry.h"
#include "graph/op.h"
#include <string.h>

/* Sums of up to a few thousand products in another order, through a few layers; 16-bit numbers are
 * rounded once per operator. */
static const double fp32_tolerance = 1e-4, half_tolerance = 6e-2, kink_tolerance = 0.4;
/* Rounding to bf16's 8 significant bits changes a number by at most 2^-9 of it. Numbers that cancel
 * when replicas are added are larger than their sum: each is taken to be at most twice its largest
 * element. */
static const double bf16_tolerance = 2 * 0x1p-9;
/* Each batch norm of few values amplifies the differences that reach it: 50 layers, to 4e-4. */
static const double batch_norm_tolerance = 2e-3;
/* of gradients that nearly cancel */
static const double cancelled_tolerance = 1e-3, cancelled_operator = 1e-4;
static const double fp32_operator = 1e-5, half_operator = 1e-2;
/* Gradients of queries and keys are small differences of large terms. Next to those of values in
 * one tensor they do not show; in tensors of their own they differ by up to 1.2e-5. */
static const double fp32_attention = 5e-5;

static void deny(pst_promise *p, const char *why) {
    if (p->exact) snprintf(p->why, sizeof p->why, "%s", why);
    p->exact = 0;
}

static int has_own_keys(const pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++)
        if (g->node[i].attr.kv_heads) return 1;
    return 0;
}

static int is_power_of_two(uint32_t n) { return n && !(n & (n - 1)); }

/* A GPU chooses algorithms by measuring, so that another layout may get others. */
static int computes_on_gpu(const pst_config *c) {
    const pst_device_config config = {.threads = 1};
    const pst_device_ops *ops;
    if (pst_registry_device(c->parallel.device, &config, &ops) != PST_OK) {
        pst_error_clear();
        return 0;
    }
    return (ops->flags & PST_DEVICE_GPU) != 0;
}

/* In any of the run's batch sizes. */
static int is_unequal(const pst_prepared *p) {
    for (uint32_t k = 1; k < p->grid.data; k++)
        if (p->micro[k + 1] - p->micro[k] != p->micro[1]) return 1;
    for (uint32_t i = 0; i < p->n_smaller; i++)
        if (is_unequal(p->smaller[i])) return 1;
    return 0;
}

/* Whether one rank can add as the replicas do: as a tree over equal parts. */
static void promise_replicas(const pst_prepared *small, const pst_shape *s, pst_promise *p) {
    const pst_config *c = small->config;
    int unequal = is_unequal(small);
    p->parts = c->parallel.reproducible > 1 ? (uint32_t)c->parallel.reproducible : s->data;
    if (s->data > 1 && !is_power_of_two(s->data))
        deny(p, "the number of replicas is not a power of 2");
    if (unequal) deny(p, "replicas have unequal numbers of micro-batches");
    if (s->data > 1 && c->parallel.zero == 2 && s->n_micro != s->data)
        deny(p, "parallel.zero 2 sums over replicas before it sums over micro-batches");
    if (s->data > 1 && strcmp(c->parallel.gradients, "fp32")) {
        deny(p, "parallel.gradients bf16 rounds the sum of each replica to 8 bits");
        p->sums = s->data * bf16_tolerance;
    }
    if (s->data > 1 && small->job->down.kind != PST_CODEC_NONE)
        deny(p, "parallel.compress.down rounds the changes of the weights that operators read");
    if (s->data > 1 && small->job->up.kind != PST_CODEC_NONE) {
        deny(p, "parallel.compress rounds the sum of each replica");
        p->sums = s->data / (double)pst_codec_most(small->job->up.kind);
    }
    if (!is_power_of_two(p->parts) || s->n_micro % p->parts || unequal) p->parts = 1;
}

/* A loss of few classes for each sample, whose gradients begin as large numbers of both signs:
 * those of samples of different classes nearly cancel. */
static int has_loss_of_samples(const pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++)
        if (g->node[i].attr.per_sample) return 1;
    return 0;
}

static int has_kinks(const pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++)
        if (g->node[i].attr.activation == PST_ACT_RELU || !strcmp(g->node[i].op->name, "max_pool"))
            return 1;
    return 0;
}

double pst_promise_gradients(const pst_graph *g, double tolerance) {
    if (has_loss_of_samples(g) && tolerance < cancelled_tolerance) return cancelled_tolerance;
    return has_kinks(g) ? kink_tolerance : tolerance;
}

static int has_batch_norm(const pst_graph *g) {
    for (uint32_t i = 0; i < g->n_node; i++)
        if (!strcmp(g->node[i].op->name, "batch_norm")) return 1;
    return 0;
}

void pst_promise_of(const pst_prepared *small, const pst_shape *s, pst_promise *p) {
    const pst_config *c = small->config;
    pst_dtype factors = pst_dtype_of_precision(c->train.precision);
    *p = (pst_promise){.parts = 1, .exact = 1, .alone = c->parallel.n_tensors < 2, .resumes = 1};
    p->tolerance = pst_dtype_is_half(pst_dtype_stored(factors)) ? half_tolerance : fp32_tolerance;
    p->operators = pst_dtype_is_half(pst_dtype_stored(factors)) ? half_operator : fp32_operator;
    if (has_own_keys(small->whole) && p->operators < fp32_attention) p->operators = fp32_attention;
    if (has_loss_of_samples(small->whole) && p->operators < cancelled_operator)
        p->operators = cancelled_operator;
    p->gpu = computes_on_gpu(c);
    if (has_batch_norm(small->whole) && p->tolerance < batch_norm_tolerance)
        p->tolerance = batch_norm_tolerance;
    p->gradients = pst_promise_gradients(small->whole, p->tolerance);
    p->kinks = has_kinks(small->whole);
    promise_replicas(small, s, p);
    if (p->sums < p->gradients) p->sums = p->gradients;
    if (!p->alone) deny(p, "stages have different numbers of tensor ranks");
    if (factors == PST_F8) {
        deny(p, "fp8");
        p->parts = 1;
        p->resumes = 0;
        snprintf(p->why_resumes, sizeof p->why_resumes, "fp8");
    }
    if (!strcmp(c->parallel.deterministic, "false")) {
        deny(p, "parallel.deterministic false");
        p->parts = 1;
        p->resumes = 0;
        snprintf(p->why_resumes, sizeof p->why_resumes, "parallel.deterministic false");
    }
    if (p->gpu) deny(p, "GPU algorithms are chosen by measurement");
}

pst_compare_options pst_promise_near(const pst_promise *p, int configured) {
    return (pst_compare_options){.tolerance = p->tolerance,
                                 .gradients = p->gradients,
                                 .kinks = p->kinks,
                                 .sums = configured ? p->sums : p->gradients,
                                 .end_step = UINT64_MAX};
}
