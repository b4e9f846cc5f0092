/* See shape.h. */
#include "verify/shape.h"
#include "backends/registry.h"
#include "graph/op_list.h"
#include "prepare/prepare.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, CONTEXT = 32, MICRO_BATCH = 2, FEW_MICRO_BATCHES = 8, FEW_SIZES = 4 };
/* A batch norm's channel of 2 or 4 values may have a variance near 0, and rounding errors are then
 * amplified up to 1 / sqrt(eps), 316 times. Of resnet18 on 28 x 28 pixels, two kernels differ by
 * 5e-1 (2 values), 6e-4 (4) and 3e-5 (8); of resnet50 by 3e-4 (8). */
enum { BATCH_NORM_VALUES = 8 };
/* Above it, a step on one rank, and its recording, take too long. */
static const uint64_t most_parameters = 200000000;

void pst_shape_add(pst_shape_keys *keys, const char *format, ...) {
    va_list args;
    if (keys->n == PST_SHAPE_KEYS) return;
    va_start(args, format);
    vsnprintf(keys->text[keys->n++], PST_SHAPE_KEY, format, args);
    va_end(args);
}

void pst_shape_alone(pst_shape_keys *keys, uint32_t tensor, uint32_t parts) {
    static const char *const plain[] = {"parallel.pipeline=1",     "parallel.data=1",
                                        "parallel.servers=0",      "parallel.replicas=[]",
                                        "parallel.throttle=[]",    "parallel.devices=[]",
                                        "parallel.cluster=",       "parallel.plan=",
                                        "parallel.profile=",       "parallel.measured=",
                                        "parallel.schedule_file=", "parallel.chunks=0",
                                        "parallel.recompute=none", "parallel.post_validation=false",
                                        "parallel.gradients=fp32", "parallel.compress.up=none",
                                        "parallel.memory=0",       "parallel.zero=1"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) pst_shape_add(keys, "%s", plain[i]);
    pst_shape_add(keys, "parallel.schedule=%s", pst_registry_name("schedule", 0));
    pst_shape_add(keys, "parallel.tensor=%u", tensor);
    if (tensor == 1) pst_shape_add(keys, "parallel.sequence=false");
    pst_shape_add(keys, "parallel.reproducible.data=%u", parts > 1 ? parts : 0);
}

pst_status pst_shape_apply(pst_config *config, const pst_shape_keys *keys) {
    for (uint32_t i = 0; i < keys->n; i++) {
        char text[PST_SHAPE_KEY];
        snprintf(text, sizeof text, "%s", keys->text[i]);
        char *value = strchr(text, '='), *dot;
        if (value) *value = 0;
        if (!value || !(dot = strrchr(text, '.'))) continue; /* the run's name */
        *dot = 0;
        PST_TRY(pst_config_override(config, text, dot + 1, value + 1));
    }
    return PST_OK;
}

/* --- sizes ------------------------------------------------------------------------------------ */

static int has_layers(const pst_config *c) {
    static const char *const kinds[] = {"gpt", "llama", "bert", "mlp"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(c->model.kind, kinds[i])) return 1;
    return 0;
}

/* The layout names operators or numbers of micro-batches of this model. */
static const char *why_fixed(const pst_config *c) {
    if (*c->parallel.plan) return "parallel.plan was made for this model";
    if (*c->model.weights) return "model.weights is for this model";
    if (pst_prepare_names_layers(c)) return "train.freeze or adapt.on names layers of this model";
    return NULL;
}

static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }

static uint64_t common_multiple(uint64_t a, uint64_t b) { return a / divisor(a, b) * b; }

/* Enough micro-batches to fill the pipelines of all replicas, and as the layout needs them. */
static uint32_t few_micros(const pst_config *c, uint32_t stages, uint32_t data) {
    uint64_t all = pst_config_micros(c);
    uint64_t parts = c->parallel.reproducible > 1 ? (uint64_t)c->parallel.reproducible : 1;
    uint64_t lanes = common_multiple(data, parts), few = lanes * stages;
    if (c->parallel.n_replicas || *c->parallel.schedule_file || all <= FEW_MICRO_BATCHES)
        return (uint32_t)all;
    while (few < FEW_MICRO_BATCHES) few *= 2;
    return (uint32_t)(few < all ? few : all);
}

/* Micro-batches of the first steps with train.batch_warmup: few, but as the layout needs them; 0:
 * no smaller number goes. */
static uint32_t first_micros(const pst_config *c, const pst_shape *s) {
    const uint64_t parts = c->parallel.reproducible > 1 ? (uint64_t)c->parallel.reproducible : 1;
    const uint64_t unit = common_multiple(s->data, parts);
    for (uint32_t n = 1; n < s->n_micro; n++)
        if (s->n_micro % n == 0 && n % unit == 0 && s->n_micro / n <= FEW_SIZES) return n;
    return 0;
}

static uint64_t parameters(const pst_prepared *p) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->whole->n_param; i++) n += pst_param_elements(p->whole->param + i);
    return n;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Sets a key of every run, and says so if the value is another one than configured. */
static void change(pst_shape *s, const char *key, int64_t from, int64_t to) {
    size_t used = strlen(s->changed);
    pst_shape_add(&s->small, "%s=%" PRId64, key, to);
    if (from != to)
        snprintf(s->changed + used, sizeof s->changed - used, "%s%s from %" PRId64 " to %" PRId64,
                 used ? ", " : "", key, from, to);
}

static void add_model(const pst_config *c, const pst_model_config *m, uint32_t stages,
                      pst_shape *s) {
    uint32_t chunks = c->parallel.chunks > 1 ? (uint32_t)c->parallel.chunks : 1,
             layers = stages * chunks > 2 ? stages * chunks : 2;
    if (has_layers(c) && m->layers > layers) change(s, "model.layers", m->layers, layers);
    if (has_layers(c) && m->context > CONTEXT) change(s, "model.context", m->context, CONTEXT);
}

/* Samples of a step. If the configured batch has a smaller first micro-batch, so has this one: it
 * lacks a sample; but not with train.batch_warmup, whose sizes divide the batch. */
static int64_t batch_of(const pst_config *c, int64_t micro_batch, const pst_shape *s) {
    const int rest = c->train.batch % c->train.micro_batch && !c->train.batch_warmup.from;
    if (why_fixed(c)) return c->train.batch;
    return micro_batch * s->n_micro - (rest && micro_batch > 1);
}

/* Two steps of the smallest batch, then about one of each size. tokens: of a sample. */
static void add_batch_warmup(const pst_config *c, int64_t micro_batch, uint64_t tokens,
                             pst_shape *s) {
    if (!c->train.batch_warmup.from) return;
    const int64_t batch = batch_of(c, micro_batch, s);
    const int64_t from =
        why_fixed(c) ? c->train.batch_warmup.from : first_micros(c, s) * micro_batch;
    const int64_t over = from ? 2 * from * (batch / from - 1) * (int64_t)tokens : 0;
    change(s, "train.batch_warmup.from", c->train.batch_warmup.from, from);
    change(s, "train.batch_warmup.tokens", c->train.batch_warmup.tokens, over);
}

static void add_steps(const pst_config *c, int64_t micro_batch, pst_shape *s) {
    pst_shape_keys *keys = &s->small;
    pst_shape_add(keys, "name=verify");
    change(s, "train.steps", c->train.steps, (int64_t)s->steps);
    change(s, "train.micro_batch", c->train.micro_batch, micro_batch);
    change(s, "train.batch", c->train.batch, batch_of(c, micro_batch, s));
    pst_shape_add(keys, "train.hang_slack=60");
    pst_shape_add(keys, "eval.every=0");
    pst_shape_add(keys, "eval.tokens=1");
    pst_shape_add(keys, "checkpoint.every=1");
    pst_shape_add(keys, "checkpoint.keep=1000");
    pst_shape_add(keys, "elastic.min=0"); /* no rank is lost, and some runs have one */
    pst_shape_add(keys, "elastic.max=0");
    pst_shape_add(keys, "parallel.graphs=false");
    pst_shape_add(keys, "parallel.compress.moments=owner"); /* gradients can be compared */
    pst_shape_add(keys, "log.level=error");
}

static pst_status too_large(const pst_config *c, uint64_t n, const char *why) {
    char because[160] =
        " after layers and context were shrunk; channels and vocabulary are not shrunk";
    const char *keys =
        has_layers(c) ? "model.channels, model.vocabulary" : "model.layers, model.channels";
    if (why) snprintf(because, sizeof because, ", and cannot be shrunk because %s", why);
    return pst_fail(PST_EINPUT,
                    "the model has %.0f M parameters%s; expected at most %.0f M: set %s for a "
                    "smaller model with the same %s",
                    (double)n / 1e6, because, (double)most_parameters / 1e6, keys,
                    *c->parallel.plan ? "degrees instead of parallel.plan" : "layout");
}

/* The smallest number of samples with which every batch norm has BATCH_NORM_VALUES values per
 * channel; 1: the model has no batch norm. */
static int64_t samples_of_batch_norm(const pst_graph *g, int64_t micro_batch) {
    int64_t samples = 1;
    for (uint32_t i = 0; i < g->n_node; i++) {
        if (strcmp(g->node[i].op->name, "batch_norm") != 0) continue;
        int64_t rows = (int64_t)pst_tensor_rows(g->tensor + g->node[i].in[0]),
                needed = (BATCH_NORM_VALUES * micro_batch + rows - 1) / rows;
        if (needed > samples) samples = needed;
    }
    return samples;
}

/* Checks the size of the model as it will run. *samples: see samples_of_batch_norm; *tokens: of a
 * sample. */
static pst_status check_model(const pst_config *c, const pst_shape_keys *model, const char *why,
                              int64_t *samples, uint64_t *tokens) {
    pst_config *small = NULL;
    pst_prepared *p = NULL;
    pst_prepare_options options = {.n_rank = 1, .threads = 1, .n_eval_micro = 1};
    pst_shape_keys keys = {.n = 0};
    PST_TRY(pst_config_copy(c, &small));
    pst_shape_alone(&keys, 1, 1);
    pst_shape_add(&keys, "train.batch=%" PRId64, c->train.micro_batch);
    pst_status status = pst_shape_apply(small, model);
    if (status == PST_OK) status = pst_shape_apply(small, &keys);
    options.isa = pst_prepare_isa_to_inspect(small);
    if (status == PST_OK) status = pst_prepare(small, &options, &p);
    if (status == PST_OK && parameters(p) > most_parameters)
        status = too_large(c, parameters(p), why);
    if (status == PST_OK) {
        *samples = samples_of_batch_norm(p->whole, c->train.micro_batch);
        *tokens = p->tokens / pst_prepared_batch(p);
    }
    pst_prepared_close(p);
    pst_config_close(small);
    return status;
}

pst_status pst_shape_choose(const pst_config *c, uint32_t n_rank, pst_shape *s) {
    const pst_model_row *row;
    pst_model_config m;
    PST_TRY(pst_prepare_model(c, &row, &m));
    uint32_t lanes = pst_prepare_lanes(c), data = c->parallel.data ? (uint32_t)c->parallel.data : 1,
             ranks = n_rank - pst_prepare_servers(c, n_rank),
             stages = ranks / lanes ? ranks / lanes : 1;
    const char *why = why_fixed(c);
    if (c->parallel.n_tensors > 1) stages = c->parallel.n_tensors;
    *s = (pst_shape){.n_rank = n_rank,
                     .data = data,
                     .tensor = c->parallel.tensor ? (uint32_t)c->parallel.tensor : 1,
                     .steps = STEPS};
    int64_t micro_batch = c->train.micro_batch < MICRO_BATCH ? c->train.micro_batch : MICRO_BATCH,
            samples = 1;
    uint64_t tokens = 1;
    if (why) {
        snprintf(s->note, sizeof s->note, "model and batch are as configured: %s", why);
        micro_batch = c->train.micro_batch;
    } else if (!has_layers(c)) {
        why = "a model of this kind has no layers to omit";
        snprintf(s->note, sizeof s->note,
                 "the model is as configured: model.kind %s has no layers to omit", c->model.kind);
    }
    s->n_micro = why_fixed(c) ? pst_config_micros(c) : few_micros(c, stages, data);
    if (!why_fixed(c)) add_model(c, &m, stages, s);
    PST_TRY(check_model(c, &s->small, why, &samples, &tokens));
    if (!*c->parallel.plan && micro_batch < samples) micro_batch = samples;
    add_steps(c, micro_batch, s);
    add_batch_warmup(c, micro_batch, tokens, s);
    return PST_OK;
}
