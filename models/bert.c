/* BERT (Devlin et al. 2019), trained to fill in masked tokens: each position attends to all others
 * of its sample except padding, and a layer norm follows each residual addition. The head is a
 * dense layer, a layer norm, and the output layer, which is tied to the token embedding. Shapes: b
 * micro-batch, T context, C channels, V vocabulary.
 *
 * Left out: segments and next-sentence prediction, which later work found to be of no use (Liu et
 * al. 2019), the output layer's own bias, and dropout of attention probabilities, which are never
 * stored. */
#include "models/block.h"

#define EPS 1e-12f
#define STD 0.02f

static const pst_model_preset presets[] = {
    {"tiny", 2, 2, 128, 64, 257, NULL}, /* tokens: the 256 bytes and the mask */
    {"base", 12, 12, 768, 512, 30522, NULL},
    {"large", 24, 16, 1024, 512, 30522, NULL},
};

static pst_status preset(pst_model_config *config) {
    return pst_model_fill(config, presets, sizeof presets / sizeof *presets,
                          "layers, heads, channels and context");
}

/* x = ln_1(x + proj(attention(qkv(x)))), then ln_2(x + proj(gelu(fc(x)))). */
static pst_status add_block(pst_block *b, uint32_t lengths, uint32_t i) {
    char text[PST_NAME_MAX];
    uint64_t C = b->c->channels;
    uint32_t residual = b->x;
    PST_TRY(pst_block_narrow(b, pst_block_name(text, "h.%u.attn.in", i)));
    PST_TRY(
        pst_block_dense(b, pst_block_name(text, "h.%u.attn.c_attn", i), 3 * C, STD, PST_ACT_NONE));
    PST_TRY(pst_graph_add_masked_attention(b->g, pst_block_name(text, "h.%u.attn", i), b->x,
                                           lengths, b->c->heads, 1, &b->x));
    PST_TRY(pst_block_dense(b, pst_block_name(text, "h.%u.attn.c_proj", i), C, STD, PST_ACT_NONE));
    PST_TRY(pst_block_dropout(b, pst_block_name(text, "h.%u.attn.drop", i)));
    PST_TRY(pst_block_residual(b, pst_block_name(text, "h.%u.attn.add", i), residual));
    PST_TRY(pst_block_stream_norm(b, pst_block_name(text, "h.%u.ln_1", i), EPS));
    residual = b->x;
    PST_TRY(pst_block_narrow(b, pst_block_name(text, "h.%u.mlp.in", i)));
    PST_TRY(
        pst_block_dense(b, pst_block_name(text, "h.%u.mlp.c_fc", i), 4 * C, STD, PST_ACT_GELU_ERF));
    PST_TRY(pst_block_dense(b, pst_block_name(text, "h.%u.mlp.c_proj", i), C, STD, PST_ACT_NONE));
    PST_TRY(pst_block_dropout(b, pst_block_name(text, "h.%u.mlp.drop", i)));
    PST_TRY(pst_block_residual(b, pst_block_name(text, "h.%u.mlp.add", i), residual));
    return pst_block_stream_norm(b, pst_block_name(text, "h.%u.ln_2", i), EPS);
}

static pst_status fill_graph(pst_block *b) {
    const pst_model_config *c = b->c;
    uint64_t shape[] = {c->micro_batch, c->context};
    uint32_t tokens, targets, lengths, table[2];
    PST_TRY(pst_graph_data(b->g, "tokens", 2, shape, &tokens));
    PST_TRY(pst_graph_data(b->g, "targets", 2, shape, &targets));
    PST_TRY(pst_graph_data(b->g, "lengths", 1, shape, &lengths));
    PST_TRY(pst_block_embed(b, tokens, PST_NONE, table));
    PST_TRY(pst_block_stream_norm(b, "ln_e", EPS));
    PST_TRY(pst_block_dropout(b, "drop"));
    for (uint32_t i = 0; i < c->layers; i++) PST_TRY(add_block(b, lengths, i));
    PST_TRY(pst_block_narrow(b, "head.in"));
    PST_TRY(pst_block_dense(b, "head", c->channels, STD, PST_ACT_GELU_ERF));
    PST_TRY(pst_block_layer_norm(b, "ln_f", EPS));
    pst_attr attr = {.features = c->vocabulary};
    /* [b,T,V] */
    PST_TRY(pst_graph_add(b->g, &(pst_new_node){"linear", "lm_head", &attr, &b->x, 1, table, 1},
                          &b->x));
    uint32_t in[] = {b->x, targets};
    return pst_graph_add(b->g, &(pst_new_node){"cross_entropy", "loss", NULL, in, 2, NULL, 0},
                         &b->x); /* [b,T] */
}

static pst_status build(const pst_model_config *config, pst_graph **graph) {
    PST_TRY(pst_block_check(config));
    if (!pst_model_has_loss(config))
        return pst_fail(PST_EINPUT, "model bert fills in masked tokens; it does not generate text");
    if (config->activation == PST_ACT_RELU)
        return pst_fail(
            PST_EINPUT,
            "model.activation is relu, but model bert always uses gelu_erf; remove the key");
    pst_block b;
    PST_TRY(pst_block_open(config, "bert", &b));
    pst_status status = fill_graph(&b);
    if (status != PST_OK) {
        pst_graph_close(b.g);
        return pst_fail_in(status, "model bert");
    }
    *graph = b.g;
    return PST_OK;
}

const pst_model_row pst_model_bert = {.name = "bert",
                                      .presets = presets,
                                      .n_preset = sizeof presets / sizeof *presets,
                                      .preset = preset,
                                      .build = build,
                                      .masked = 1,
                                      .repeats = 1};
