/* The smallest model, and the one to read first: it predicts the next token from the current one alone (a bigram
 * language model), with a small network instead of a table of counts.
 *
 *     tokens -> embedding -> `layers` x (linear + activation) -> linear -> cross_entropy <- targets
 *
 * A model file turns a configuration into a graph, nothing else: parameters first (name, shape, initial values), then
 * operators in execution order. How gradients flow, which rank runs what and where memory lies is decided elsewhere,
 * from this graph alone. Shapes: b micro-batch, T context, C channels, V vocabulary. */
#include "models/model.h"
#include <math.h>
#include <string.h>

static const pst_model_preset presets[] = {{"tiny", 2, 1, 64, 16, 256}};

static pst_status preset(pst_model_config *config) {
    return pst_model_fill(config, presets, sizeof(presets) / sizeof(presets[0]));
}

/* One parameter. Its name is its identity: in checkpoints, in the random stream of its initial values, in hashes.
 * columns = 0 makes it one-dimensional: a bias, which starts at 0 and is not decayed. */
static pst_status add_param(pst_graph *g, const char *name, uint32_t n, uint32_t columns, float std, uint32_t *index) {
    pst_param p = {.n_dim = columns ? 2 : 1,
                   .dim = {n, columns},
                   .init = columns ? PST_INIT_NORMAL : PST_INIT_ZERO,
                   .std = columns ? std : 0,
                   .decay = columns != 0};
    snprintf(p.name, sizeof(p.name), "%s", name);
    return pst_graph_param(g, &p, index);
}

/* x[b,T,K] -> act(x weight^T + bias)[b,T,N]. Every linear layer of penstock stores its weight as [N,K]. */
static pst_status add_linear(pst_graph *g, const char *name, uint32_t n, uint32_t k, float std, pst_activation act,
                             uint32_t *x) {
    char text[PST_NAME_MAX];
    uint32_t param[2];
    snprintf(text, sizeof(text), "%s.weight", name);
    PST_TRY(add_param(g, text, n, k, std, &param[0]));
    snprintf(text, sizeof(text), "%s.bias", name);
    PST_TRY(add_param(g, text, n, 0, 0, &param[1]));
    pst_attr attr = {.features = n, .activation = act};
    return pst_graph_add(g, "linear", name, &attr, x, 1, param, 2, x);
}

static pst_status fill_graph(pst_graph *g, const pst_model_config *c) {
    /* What the data set fills for every micro-batch: the tokens, and behind each the one that follows it. */
    uint64_t shape[] = {c->micro_batch, c->context};
    uint32_t tokens, targets = PST_NONE, table, x;
    PST_TRY(pst_graph_data(g, "tokens", 2, shape, &tokens));
    if (!c->infer) PST_TRY(pst_graph_data(g, "targets", 2, shape, &targets));

    /* [b,T] -> [b,T,C]: each token becomes its row of a trainable table. */
    PST_TRY(add_param(g, "embedding.weight", c->vocabulary, c->channels, 1.0f, &table));
    PST_TRY(pst_graph_add(g, "embedding", "embedding", NULL, &tokens, 1, &table, 1, &x));

    /* Hidden layers keep the shape. std sqrt(2/C) keeps the variance through a ReLU (He et al. 2015). */
    for (uint32_t i = 0; i < c->layers; i++) {
        char name[PST_NAME_MAX];
        snprintf(name, sizeof(name), "hidden.%u", i);
        float std = (float)sqrt(2.0 / c->channels);
        PST_TRY(add_linear(g, name, c->channels, c->channels, std, c->activation, &x));
    }

    /* [b,T,C] -> [b,T,V]: a score for every possible next token; small at first, so that the loss starts at ln V. */
    PST_TRY(add_linear(g, "output", c->vocabulary, c->channels, 0.02f, PST_ACT_NONE, &x));
    if (c->infer) {
        g->tensor[x].role = PST_TENSOR_OUTPUT;
        return PST_OK;
    }
    /* [b,T]: the loss of each token; the engine averages them. */
    uint32_t in[] = {x, targets};
    return pst_graph_add(g, "cross_entropy", "loss", NULL, in, 2, NULL, 0, &x);
}

static pst_status build(const pst_model_config *config, pst_graph **graph) {
    PST_TRY(pst_model_check(config));
    pst_graph *g;
    PST_TRY(pst_graph_open("mlp", config->micro_batch, &g));
    g->dtype = config->dtype; /* of what flows between operators: F32 or BF16 */
    pst_status status = fill_graph(g, config);
    if (status != PST_OK) {
        pst_graph_close(g);
        return pst_fail_in(status, "model mlp");
    }
    *graph = g;
    return PST_OK;
}

/* Hugging Face knows no such model: no hf_name. */
const pst_model_row pst_model_mlp = {
    .name = "mlp", .presets = presets, .n_preset = sizeof presets / sizeof *presets, .preset = preset, .build = build};
