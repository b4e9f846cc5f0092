/* The smallest model, and the one to read first: it predicts the next token from the current one
 * alone (a bigram language model), with a small network instead of a table of counts.
 *
 *     tokens -> embedding -> `layers` x (linear + activation) -> linear -> cross_entropy <- targets
 *
 * A model file turns a configuration into a graph, nothing else: parameters first (name, shape,
 * initial values), then operators in execution order. How gradients flow, which rank runs what and
 * where memory lies is decided elsewhere, from this graph alone. Shapes: b micro-batch, T context,
 * C channels, V vocabulary. */
#include "models/model.h"
#include <math.h>
#include <string.h>

static const pst_model_preset presets[] = {{"tiny", 2, 1, 64, 16, 256, NULL}};

static pst_status preset(pst_model_config *config) {
    return pst_model_fill(config, presets, sizeof(presets) / sizeof(presets[0]),
                          "layers, channels and context");
}

static pst_status fill_graph(pst_graph *g, const pst_model_config *c) {
    /* The data set fills these for every micro-batch: the tokens, and for each one the token that
     * follows it. */
    uint64_t shape[] = {c->micro_batch, pst_model_positions(c)};
    uint32_t tokens, targets = PST_NONE, table, x;
    PST_TRY(pst_graph_data(g, "tokens", 2, shape, &tokens));
    if (pst_model_has_loss(c)) PST_TRY(pst_graph_data(g, "targets", 2, shape, &targets));

    /* [b,T] -> [b,T,C]: each token becomes its row of a trainable table. */
    uint64_t rows[] = {c->vocabulary, c->channels};
    PST_TRY(pst_graph_add_param(g, "embedding.weight", 2, rows, PST_INIT_NORMAL, 1.0f, 1, &table));
    PST_TRY(pst_graph_add(g, &(pst_new_node){"embedding", "embedding", NULL, &tokens, 1, &table, 1},
                          &x));

    /* Hidden layers keep the shape. std sqrt(2/C) keeps the variance through a ReLU (He et al.
     * 2015). */
    for (uint32_t i = 0; i < c->layers; i++) {
        char name[PST_NAME_MAX];
        snprintf(name, sizeof(name), "hidden.%u", i);
        float std = (float)sqrt(2.0 / c->channels);
        PST_TRY(pst_graph_add_dense(g, name, x, c->channels, std, c->activation, &x));
    }

    /* [b,T,C] -> [b,T,V]: a score for every possible next token; small at first, so that the loss
     * starts at ln V. */
    PST_TRY(pst_graph_add_dense(g, "output", x, c->vocabulary, 0.02f, PST_ACT_NONE, &x));
    if (!pst_model_has_loss(c)) {
        g->tensor[x].role = PST_TENSOR_OUTPUT;
        return PST_OK;
    }
    /* [b,T]: the loss of each token; the engine averages them. */
    uint32_t in[] = {x, targets};
    return pst_graph_add(g, &(pst_new_node){"cross_entropy", "loss", NULL, in, 2, NULL, 0}, &x);
}

static pst_status build(const pst_model_config *config, pst_graph **graph) {
    PST_TRY(pst_model_check(config));
    pst_graph *g;
    PST_TRY(pst_graph_open("mlp", config->micro_batch, &g));
    pst_graph_compute(g, config->dtype); /* dtype of activations and of matrix products */
    pst_status status = fill_graph(g, config);
    if (status != PST_OK) {
        pst_graph_close(g);
        return pst_fail_in(status, "model mlp");
    }
    *graph = g;
    return PST_OK;
}

/* No hf_name: Hugging Face has no such model. */
const pst_model_row pst_model_mlp = {.name = "mlp",
                                     .presets = presets,
                                     .n_preset = sizeof presets / sizeof *presets,
                                     .preset = preset,
                                     .build = build,
                                     .continues = 1,
                                     .repeats = 1};
