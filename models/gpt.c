/* GPT-2 (Radford et al. 2019) and its larger kin: layer norm in front of each part, learned positions, the output
 * layer tied to the token embedding. Parameter names are Hugging Face's. Shapes: b micro-batch, T context, C channels,
 * V vocabulary.
 *
 * Dropout sits behind the embedding and in front of both residual additions. Dropout of attention probabilities is
 * left out: attention is one operator that never stores its scores. */
#include "models/model.h"
#include <math.h>
#include <stdarg.h>
#include <string.h>

static const pst_model_preset presets[] = {
    {"nano", 4, 4, 128, 64, 256}, /* bytes as tokens */
    {"gpt2", 12, 12, 768, 1024, 50257},
    {"gpt2-medium", 24, 16, 1024, 1024, 50257},
    {"gpt2-large", 36, 20, 1280, 1024, 50257},
    {"gpt2-xl", 48, 25, 1600, 1024, 50257},
    {"gpt3-13b", 40, 40, 5120, 2048, 50257},
    {"gpt3-175b", 96, 96, 12288, 2048, 50257},
};

static pst_status preset(pst_model_config *config) {
    return pst_model_fill(config, presets, sizeof(presets) / sizeof(presets[0]));
}

/* The model under construction: the graph, its sizes, and the tensor that the next operator reads. */
typedef struct {
    pst_graph *g;
    const pst_model_config *c;
    uint32_t x;
} model;

/* "h.3.attn" and the like: formats into buffer, for use as an argument. */
__attribute__((format(printf, 2, 3))) static const char *name_of(char buffer[PST_NAME_MAX], const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(buffer, PST_NAME_MAX, fmt, args);
    va_end(args);
    return buffer;
}

/* Weights (two dimensions): normal, decayed. columns = 0: a vector that starts at `init` and is not decayed. */
static pst_status add_param(model *m, const char *name, uint64_t n, uint64_t columns, float std, pst_init init,
                            uint32_t *index) {
    pst_param p = {.n_dim = columns ? 2 : 1, .dim = {n, columns}, .init = init, .std = std, .decay = columns != 0};
    name_of(p.name, "%s", name);
    return pst_graph_param(m->g, &p, index);
}

/* x -> layer_norm(x) as a new tensor. */
static pst_status add_layer_norm(model *m, const char *name) {
    char text[PST_NAME_MAX];
    uint32_t param[2];
    PST_TRY(add_param(m, name_of(text, "%s.weight", name), m->c->channels, 0, 0, PST_INIT_ONE, &param[0]));
    PST_TRY(add_param(m, name_of(text, "%s.bias", name), m->c->channels, 0, 0, PST_INIT_ZERO, &param[1]));
    pst_attr attr = {.eps = 1e-5f};
    return pst_graph_add(m->g, "layer_norm", name, &attr, &m->x, 1, param, 2, &m->x);
}

/* x[b,T,k] -> act(x weight^T + bias)[b,T,n]. */
static pst_status add_dense(model *m, const char *name, uint64_t n, float std, pst_activation activation) {
    return pst_graph_add_dense(m->g, name, m->x, n, std, activation, &m->x);
}

static pst_status add_dropout(model *m, const char *name) {
    if (!(m->c->dropout > 0) || m->c->infer) return PST_OK;
    pst_attr attr = {.rate = m->c->dropout};
    return pst_graph_add(m->g, "dropout", name, &attr, &m->x, 1, NULL, 0, &m->x);
}

/* residual + x */
static pst_status add_residual(model *m, const char *name, uint32_t residual) {
    uint32_t in[] = {residual, m->x};
    return pst_graph_add(m->g, "add", name, NULL, in, 2, NULL, 0, &m->x);
}

/* x + proj(attention(qkv(ln_1(x)))), then x + proj(gelu(fc(ln_2(x)))). */
static pst_status add_block(model *m, uint32_t i) {
    char text[PST_NAME_MAX];
    uint64_t C = m->c->channels;
    float residual_std = (float)(0.02 / sqrt(2.0 * m->c->layers)); /* so that the stream's variance does not grow */
    uint32_t residual = m->x;
    PST_TRY(add_layer_norm(m, name_of(text, "h.%u.ln_1", i)));
    PST_TRY(add_dense(m, name_of(text, "h.%u.attn.c_attn", i), 3 * C, 0.02f, PST_ACT_NONE));
    pst_attr attr = {.heads = m->c->heads};
    PST_TRY(pst_graph_add(m->g, "attention", name_of(text, "h.%u.attn", i), &attr, &m->x, 1, NULL, 0, &m->x));
    PST_TRY(add_dense(m, name_of(text, "h.%u.attn.c_proj", i), C, residual_std, PST_ACT_NONE));
    PST_TRY(add_dropout(m, name_of(text, "h.%u.attn.drop", i)));
    PST_TRY(add_residual(m, name_of(text, "h.%u.attn.add", i), residual));
    residual = m->x;
    PST_TRY(add_layer_norm(m, name_of(text, "h.%u.ln_2", i)));
    PST_TRY(add_dense(m, name_of(text, "h.%u.mlp.c_fc", i), 4 * C, 0.02f, m->c->activation));
    PST_TRY(add_dense(m, name_of(text, "h.%u.mlp.c_proj", i), C, residual_std, PST_ACT_NONE));
    PST_TRY(add_dropout(m, name_of(text, "h.%u.mlp.drop", i)));
    return add_residual(m, name_of(text, "h.%u.mlp.add", i), residual);
}

static pst_status fill_graph(model *m) {
    const pst_model_config *c = m->c;
    uint64_t shape[] = {c->micro_batch, c->context};
    uint32_t tokens, targets = PST_NONE, table[2];
    PST_TRY(pst_graph_data(m->g, "tokens", 2, shape, &tokens));
    if (!c->infer) PST_TRY(pst_graph_data(m->g, "targets", 2, shape, &targets));
    PST_TRY(add_param(m, "wte.weight", c->vocabulary, c->channels, 0.02f, PST_INIT_NORMAL, &table[0]));
    PST_TRY(add_param(m, "wpe.weight", c->context, c->channels, 0.02f, PST_INIT_NORMAL, &table[1]));
    PST_TRY(pst_graph_add(m->g, "embedding", "embedding", NULL, &tokens, 1, table, 2, &m->x)); /* [b,T,C] */
    PST_TRY(add_dropout(m, "drop"));
    for (uint32_t i = 0; i < c->layers; i++) PST_TRY(add_block(m, i));
    PST_TRY(add_layer_norm(m, "ln_f"));
    pst_attr attr = {.features = c->vocabulary};
    PST_TRY(pst_graph_add(m->g, "linear", "lm_head", &attr, &m->x, 1, table, 1, &m->x)); /* [b,T,V], tied to wte */
    if (c->infer) {
        m->g->tensor[m->x].role = PST_TENSOR_OUTPUT;
        return PST_OK;
    }
    uint32_t in[] = {m->x, targets};
    return pst_graph_add(m->g, "cross_entropy", "loss", NULL, in, 2, NULL, 0, &m->x); /* [b,T] */
}

static pst_status build(const pst_model_config *config, pst_graph **graph) {
    PST_TRY(pst_model_check(config));
    if (config->heads == 0 || config->channels % config->heads)
        return pst_fail(PST_EINPUT, "model.heads is %u, which does not divide model.channels %u", config->heads,
                        config->channels);
    model m = {.c = config};
    PST_TRY(pst_graph_open("gpt", config->micro_batch, &m.g));
    pst_graph_compute(m.g, config->dtype);
    pst_status status = fill_graph(&m);
    if (status != PST_OK) {
        pst_graph_close(m.g);
        return pst_fail_in(status, "model gpt");
    }
    *graph = m.g;
    return PST_OK;
}

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

/* Same names; the four linear weights of a block are Conv1D there, stored [in,out]. */
static const char *hf_name(const pst_param *param, char buffer[PST_NAME_MAX], int *transposed) {
    *transposed = ends_with(param->name, ".c_attn.weight") || ends_with(param->name, ".c_proj.weight") ||
                  ends_with(param->name, ".c_fc.weight");
    return name_of(buffer, "%s", param->name);
}

const pst_model_row pst_model_gpt = {.name = "gpt",
                                     .presets = presets,
                                     .n_preset = sizeof presets / sizeof *presets,
                                     .preset = preset,
                                     .build = build,
                                     .hf_name = hf_name,
                                     .continues = 1,
                                     .repeats = 1};
