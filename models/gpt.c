/* GPT-2 (Radford et al. 2019) and larger models of its kind: layer norm before attention and before
 * the MLP, learned positions, the output layer tied to the token embedding. Parameter names are
 * Hugging Face's. Shapes: b micro-batch, T context, C channels, V vocabulary.
 *
 * Dropout follows the embedding and precedes both residual additions; dropout of attention's
 * probabilities has a rate of its own. */
#include "models/block.h"
#include <math.h>
#include <string.h>

static const pst_model_preset presets[] = {
    {"nano", 4, 4, 128, 64, 256, NULL}, /* bytes as tokens */
    {"gpt2", 12, 12, 768, 1024, 50257, NULL},
    {"gpt2-medium", 24, 16, 1024, 1024, 50257, NULL},
    {"gpt2-large", 36, 20, 1280, 1024, 50257, NULL},
    {"gpt2-xl", 48, 25, 1600, 1024, 50257, NULL},
    {"gpt3-13b", 40, 40, 5120, 2048, 50257, NULL},
    {"gpt3-175b", 96, 96, 12288, 2048, 50257, NULL},
};

static pst_status preset(pst_model_config *config) {
    return pst_model_fill(config, presets, sizeof(presets) / sizeof(presets[0]),
                          "layers, heads, channels and context");
}

static pst_status add_attention(pst_block *m, uint32_t starts, const char *name) {
    const uint32_t heads = m->c->heads;
    if (m->c->cache)
        return pst_block_attend_cached(m, &(pst_block_heads){.name = name,
                                                             .heads = heads,
                                                             .kv_heads = heads,
                                                             .size = m->c->channels / heads,
                                                             .k = PST_NONE,
                                                             .v = PST_NONE});
    return pst_block_attend(m, name, starts, 0);
}

/* x + proj(attention(qkv(ln_1(x)))), then x + proj(gelu(fc(ln_2(x)))). starts: PST_NONE: attention
 * reaches the whole sample. */
static pst_status add_block(pst_block *m, uint32_t starts, uint32_t i) {
    char text[PST_NAME_MAX];
    uint64_t C = m->c->channels;
    float residual_std = (float)(0.02 / sqrt(2.0 * m->c->layers)); /* keeps the residual stream's
                                                                      variance from growing */
    uint32_t residual = m->x;
    PST_TRY(pst_block_layer_norm(m, pst_block_name(text, "h.%u.ln_1", i), 1e-5f));
    PST_TRY(pst_block_dense(m, pst_block_name(text, "h.%u.attn.c_attn", i), 3 * C, 0.02f,
                            PST_ACT_NONE));
    PST_TRY(add_attention(m, starts, pst_block_name(text, "h.%u.attn", i)));
    PST_TRY(pst_block_dense(m, pst_block_name(text, "h.%u.attn.c_proj", i), C, residual_std,
                            PST_ACT_NONE));
    PST_TRY(pst_block_dropout(m, pst_block_name(text, "h.%u.attn.drop", i)));
    PST_TRY(pst_block_residual(m, pst_block_name(text, "h.%u.attn.add", i), residual));
    residual = m->x;
    PST_TRY(pst_block_layer_norm(m, pst_block_name(text, "h.%u.ln_2", i), 1e-5f));
    PST_TRY(pst_block_dense(m, pst_block_name(text, "h.%u.mlp.c_fc", i), 4 * C, 0.02f,
                            m->c->activation));
    PST_TRY(pst_block_dense(m, pst_block_name(text, "h.%u.mlp.c_proj", i), C, residual_std,
                            PST_ACT_NONE));
    PST_TRY(pst_block_dropout(m, pst_block_name(text, "h.%u.mlp.drop", i)));
    return pst_block_residual(m, pst_block_name(text, "h.%u.mlp.add", i), residual);
}

static pst_status fill_graph(pst_block *m) {
    const pst_model_config *c = m->c;
    uint64_t shape[] = {c->micro_batch, m->positions};
    uint32_t tokens, targets = PST_NONE, starts = PST_NONE, table[2];
    PST_TRY(pst_graph_data(m->g, "tokens", 2, shape, &tokens));
    const int loss = pst_model_has_loss(c);
    if (loss) PST_TRY(pst_graph_data(m->g, "targets", 2, shape, &targets));
    if (c->isolate && loss) PST_TRY(pst_graph_data(m->g, "starts", 2, shape, &starts));
    PST_TRY(pst_block_past(m));
    PST_TRY(pst_block_embed(m, tokens, starts, table));
    PST_TRY(pst_block_dropout(m, "drop"));
    for (uint32_t i = 0; i < c->layers; i++) PST_TRY(add_block(m, starts, i));
    PST_TRY(pst_block_last(m));
    PST_TRY(pst_block_layer_norm(m, "ln_f", 1e-5f));
    pst_attr attr = {.features = c->vocabulary};
    /* [b,T,V], or with a cache [b,1,V]; tied to wte */
    PST_TRY(pst_graph_add(m->g, &(pst_new_node){"linear", "lm_head", &attr, &m->x, 1, table, 1},
                          &m->x));
    if (!loss) {
        m->g->tensor[m->x].role = PST_TENSOR_OUTPUT;
        return PST_OK;
    }
    uint32_t in[] = {m->x, targets};
    return pst_graph_add(m->g, &(pst_new_node){"cross_entropy", "loss", NULL, in, 2, NULL, 0},
                         &m->x); /* [b,T] */
}

static pst_status build(const pst_model_config *config, pst_graph **graph) {
    PST_TRY(pst_block_check(config));
    pst_block m;
    PST_TRY(pst_block_open(config, "gpt", &m));
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

/* Same names; Hugging Face stores the four linear weights of a block as Conv1D: [in,out]. */
static const char *hf_name(const pst_param *param, char buffer[PST_NAME_MAX], int *transposed) {
    *transposed = ends_with(param->name, ".c_attn.weight") ||
                  ends_with(param->name, ".c_proj.weight") ||
                  ends_with(param->name, ".c_fc.weight");
    return pst_block_name(buffer, "%s", param->name);
}

const pst_model_row pst_model_gpt = {.name = "gpt",
                                     .presets = presets,
                                     .n_preset = sizeof presets / sizeof *presets,
                                     .preset = preset,
                                     .build = build,
                                     .hf_name = hf_name,
                                     .hf_prefix = "transformer.",
                                     .isolates = 1,
                                     .continues = 1,
                                     .caches = 1,
                                     .repeats = 1};
