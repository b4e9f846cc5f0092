/* BERT (Devlin et al. 2019), trained to fill in masked tokens and, with model.next_sentence, to say
 * whether segment B of a sample follows segment A; or to give a sample one of some labels: each
 * position attends to all others of its sample except padding, and a layer norm follows each
 * residual addition. The head for masked tokens is a dense layer, a layer norm, and the output
 * layer, which is tied to the token embedding and has its own bias; it computes the masked
 * positions alone. The heads for segments and labels are a dense layer of [CLS] with tanh (the
 * pooler), and an output layer. Shapes: b micro-batch, T context, P predictions, C channels, V
 * vocabulary, N labels. */
#include "models/block.h"
#include <string.h>

#define EPS 1e-12f /* as published */
#define STD 0.02f

static const pst_model_preset presets[] = {
    {"tiny", 2, 2, 128, 64, 257, NULL}, /* tokens: the 256 bytes and the mask */
    {"base", 12, 12, 768, 512, 30522, NULL},
    {"large", 24, 16, 1024, 512, 30522, NULL},
};

/* 15 % of the positions, as many as are masked; as published, samples of 128 tokens have 20. */
static uint32_t predictions_of(const pst_model_config *c) {
    const uint32_t masked = (uint32_t)(((uint64_t)c->context * 15 + 99) / 100),
                   n = c->bert.predictions ? c->bert.predictions : masked;
    return n < c->context ? n : 0;
}

/* Sizes that no preset has. */
static void fill_sizes(pst_model_config *c) {
    if (!c->bert.intermediate) c->bert.intermediate = 4 * c->channels;
    if (c->bert.norm_eps == 0) c->bert.norm_eps = EPS;
}

static pst_status preset(pst_model_config *config) {
    PST_TRY(pst_model_fill(config, presets, sizeof presets / sizeof *presets,
                           "layers, heads, channels and context"));
    const int published = !strcmp(config->preset, "base") || !strcmp(config->preset, "large");
    pst_bert *b = &config->bert;
    if (b->next_sentence < 0) b->next_sentence = published;
    b->predictions = predictions_of(config);
    if (b->labels) b->next_sentence = 0;
    if (b->labels) b->predictions = 0;
    fill_sizes(config);
    return PST_OK;
}

/* x = ln_1(x + proj(attention(qkv(x)))), then ln_2(x + proj(gelu(fc(x)))). */
static pst_status add_block(pst_block *b, uint32_t lengths, uint32_t i) {
    char text[PST_NAME_MAX];
    const uint64_t C = b->c->channels, F = b->c->bert.intermediate;
    const float eps = b->c->bert.norm_eps;
    uint32_t residual = b->x;
    PST_TRY(pst_block_narrow(b, pst_block_name(text, "h.%u.attn.in", i)));
    PST_TRY(
        pst_block_dense(b, pst_block_name(text, "h.%u.attn.c_attn", i), 3 * C, STD, PST_ACT_NONE));
    PST_TRY(pst_block_attend(b, pst_block_name(text, "h.%u.attn", i), lengths, 1));
    PST_TRY(pst_block_dense(b, pst_block_name(text, "h.%u.attn.c_proj", i), C, STD, PST_ACT_NONE));
    PST_TRY(pst_block_dropout(b, pst_block_name(text, "h.%u.attn.drop", i)));
    PST_TRY(pst_block_residual(b, pst_block_name(text, "h.%u.attn.add", i), residual));
    PST_TRY(pst_block_stream_norm(b, pst_block_name(text, "h.%u.ln_1", i), eps));
    residual = b->x;
    PST_TRY(pst_block_narrow(b, pst_block_name(text, "h.%u.mlp.in", i)));
    PST_TRY(pst_block_dense(b, pst_block_name(text, "h.%u.mlp.c_fc", i), F, STD, PST_ACT_GELU_ERF));
    PST_TRY(pst_block_dense(b, pst_block_name(text, "h.%u.mlp.c_proj", i), C, STD, PST_ACT_NONE));
    PST_TRY(pst_block_dropout(b, pst_block_name(text, "h.%u.mlp.drop", i)));
    PST_TRY(pst_block_residual(b, pst_block_name(text, "h.%u.mlp.add", i), residual));
    return pst_block_stream_norm(b, pst_block_name(text, "h.%u.ln_2", i), eps);
}

/* Data tensors, and the tied table; PST_NONE: the model does not read it. */
typedef struct {
    uint32_t tokens, targets, lengths, types, positions, next, table;
} inputs;

static pst_status add_inputs(pst_block *b, inputs *in) {
    const pst_model_config *c = b->c;
    if (c->bert.token_types == 1 && c->bert.next_sentence)
        return pst_fail(PST_EINPUT, "model.token_types is 1, but model.next_sentence has segments "
                                    "of two types; set 2, or 0 for none");
    uint64_t n = c->bert.predictions ? c->bert.predictions : c->context;
    if (c->bert.labels) n = 1;
    const uint64_t shape[] = {c->micro_batch, c->context}, masked[] = {c->micro_batch, n},
                   one[] = {c->micro_batch, 1};
    *in = (inputs){PST_NONE, PST_NONE, PST_NONE, PST_NONE, PST_NONE, PST_NONE, PST_NONE};
    PST_TRY(pst_graph_data(b->g, "tokens", 2, shape, &in->tokens));
    if (pst_model_has_loss(c)) PST_TRY(pst_graph_data(b->g, "targets", 2, masked, &in->targets));
    PST_TRY(pst_graph_data(b->g, "lengths", 1, shape, &in->lengths));
    if (c->bert.token_types) PST_TRY(pst_graph_data(b->g, "types", 2, shape, &in->types));
    if (!pst_model_has_loss(c)) return PST_OK;
    if (c->bert.predictions) PST_TRY(pst_graph_data(b->g, "positions", 2, masked, &in->positions));
    return c->bert.next_sentence ? pst_graph_data(b->g, "next_sentence", 2, one, &in->next)
                                 : PST_OK;
}

/* The sum of the embeddings of tokens, positions and types. */
static pst_status add_embedding(pst_block *b, inputs *in) {
    const pst_model_config *c = b->c;
    uint32_t table[3], n = c->bert.token_types ? 3 : 2, data[] = {in->tokens, in->types};
    pst_attr attr = {.wide = b->wide};
    PST_TRY(pst_block_table(b, "wte.weight", c->vocabulary, &table[0]));
    PST_TRY(pst_block_table(b, "wpe.weight", c->context, &table[1]));
    if (n > 2) PST_TRY(pst_block_table(b, "wtt.weight", c->bert.token_types, &table[2]));
    in->table = table[0];
    return pst_graph_add(
        b->g, &(pst_new_node){"embedding", "embedding", &attr, data, n - 1, table, n}, &b->x);
}

static pst_status gather(pst_block *b, const char *name, uint32_t positions) {
    uint32_t in[] = {b->x, positions}, n = positions == PST_NONE ? 1 : 2;
    return pst_graph_add(b->g, &(pst_new_node){"gather_rows", name, NULL, in, n, NULL, 0}, &b->x);
}

/* Without a loss, the logits are the result. */
static pst_status add_loss(pst_block *b, const char *name, uint32_t targets, pst_attr attr) {
    uint32_t in[] = {b->x, targets};
    if (!pst_model_has_loss(b->c)) {
        b->g->tensor[b->x].role = PST_TENSOR_OUTPUT;
        return PST_OK;
    }
    return pst_graph_add(b->g, &(pst_new_node){"cross_entropy", name, &attr, in, 2, NULL, 0},
                         &b->x);
}

/* [b,T,C] -> [b,1,C] */
static pst_status add_pooler(pst_block *b) {
    PST_TRY(gather(b, "pooler.row", PST_NONE));
    PST_TRY(pst_block_narrow(b, "pooler.in"));
    return pst_block_dense(b, "pooler", b->c->channels, STD, PST_ACT_TANH);
}

/* Two classes for each sample: 0, segment B follows segment A; 1, it does not. */
static pst_status add_next_sentence(pst_block *b, const inputs *in) {
    const uint32_t x = b->x;
    PST_TRY(add_pooler(b));
    PST_TRY(pst_block_dense(b, "nsp", 2, STD, PST_ACT_NONE));
    PST_TRY(add_loss(b, "nsp_loss", in->next, (pst_attr){.per_sample = 1, .hits = 1}));
    b->x = x;
    return PST_OK;
}

static pst_status add_classifier(pst_block *b, const inputs *in) {
    PST_TRY(add_pooler(b));
    PST_TRY(pst_block_dropout(b, "pooler.drop"));
    PST_TRY(pst_block_dense(b, "classifier", b->c->bert.labels, STD, PST_ACT_NONE)); /* [b,1,N] */
    return add_loss(b, "loss", in->targets, (pst_attr){.hits = 1});
}

static pst_status add_masked(pst_block *b, const inputs *in) {
    const pst_param bias = {.name = "lm_head.bias", .n_dim = 1, .dim = {b->c->vocabulary}};
    uint32_t param[2] = {in->table};
    if (in->positions != PST_NONE) PST_TRY(gather(b, "head.rows", in->positions)); /* [b,P,C] */
    PST_TRY(pst_block_narrow(b, "head.in"));
    PST_TRY(pst_block_dense(b, "head", b->c->channels, STD, PST_ACT_GELU_ERF));
    PST_TRY(pst_block_layer_norm(b, "ln_f", b->c->bert.norm_eps));
    PST_TRY(pst_graph_param(b->g, &bias, &param[1]));
    PST_TRY(pst_graph_add_linear(b->g, "lm_head", b->x, param[0], param[1], PST_ACT_NONE,
                                 &b->x)); /* [b,P,V] */
    return add_loss(b, "loss", in->targets, (pst_attr){0});
}

static pst_status fill_graph(pst_block *b) {
    inputs in;
    PST_TRY(add_inputs(b, &in));
    PST_TRY(add_embedding(b, &in));
    PST_TRY(pst_block_stream_norm(b, "ln_e", b->c->bert.norm_eps));
    PST_TRY(pst_block_dropout(b, "drop"));
    for (uint32_t i = 0; i < b->c->layers; i++) PST_TRY(add_block(b, in.lengths, i));
    if (b->c->bert.labels) return add_classifier(b, &in);
    if (b->c->bert.next_sentence) PST_TRY(add_next_sentence(b, &in));
    return add_masked(b, &in);
}

static pst_status build(const pst_model_config *config, pst_graph **graph) {
    PST_TRY(pst_block_check(config));
    if (config->activation == PST_ACT_RELU)
        return pst_fail(
            PST_EINPUT,
            "model.activation is relu, but model bert always uses gelu_erf; remove the key");
    pst_model_config c = *config;
    pst_block b;
    fill_sizes(&c);
    PST_TRY(pst_block_open(&c, "bert", &b));
    pst_status status = fill_graph(&b);
    if (status != PST_OK) {
        pst_graph_close(b.g);
        return pst_fail_in(status, "model bert");
    }
    *graph = b.g;
    return PST_OK;
}

/* Parts of names there. */
static const char *const outside[][2] = {{"wte.", "bert.embeddings.word_embeddings."},
                                         {"wpe.", "bert.embeddings.position_embeddings."},
                                         {"wtt.", "bert.embeddings.token_type_embeddings."},
                                         {"ln_e.", "bert.embeddings.LayerNorm."},
                                         {"pooler.", "bert.pooler.dense."},
                                         {"nsp.", "cls.seq_relationship."},
                                         {"classifier.", "classifier."},
                                         {"head.", "cls.predictions.transform.dense."},
                                         {"ln_f.", "cls.predictions.transform.LayerNorm."},
                                         {"lm_head.", "cls.predictions."}};
static const char *const inside[][2] = {{"attn.c_proj.", "attention.output.dense."},
                                        {"ln_1.", "attention.output.LayerNorm."},
                                        {"mlp.c_fc.", "intermediate.dense."},
                                        {"mlp.c_proj.", "output.dense."},
                                        {"ln_2.", "output.LayerNorm."}};

static const char *translated(const char *const table[][2], size_t n, const char *before,
                              const char *name, char buffer[PST_NAME_MAX]) {
    for (size_t i = 0; i < n; i++) {
        const size_t k = strlen(table[i][0]);
        if (!strncmp(name, table[i][0], k))
            return pst_block_name(buffer, "%s%s%s", before, table[i][1], name + k);
    }
    return NULL;
}

/* The names of BertForPreTraining and BertForSequenceClassification, which have queries, keys and
 * values one by one. */
static const char *hf_part(const pst_param *param, uint32_t part, char buffer[PST_NAME_MAX]) {
    static const char fused[] = "attn.c_attn.", *const parts[] = {"query", "key", "value"};
    char before[64];
    unsigned layer;
    int end = 0;
    if (sscanf(param->name, "h.%u.%n", &layer, &end) != 1 || !end)
        return part
                   ? NULL
                   : translated(outside, sizeof outside / sizeof *outside, "", param->name, buffer);
    const char *name = param->name + end;
    snprintf(before, sizeof before, "bert.encoder.layer.%u.", layer);
    if (strncmp(name, fused, strlen(fused)) != 0)
        return part ? NULL
                    : translated(inside, sizeof inside / sizeof *inside, before, name, buffer);
    if (part >= sizeof parts / sizeof *parts) return NULL;
    return pst_block_name(buffer, "%sattention.self.%s.%s", before, parts[part],
                          name + strlen(fused));
}

static const char *hf_name(const pst_param *param, char buffer[PST_NAME_MAX], int *transposed) {
    *transposed = 0;
    return hf_part(param, 0, buffer);
}

const pst_model_row pst_model_bert = {.name = "bert",
                                      .presets = presets,
                                      .n_preset = sizeof presets / sizeof *presets,
                                      .preset = preset,
                                      .build = build,
                                      .hf_name = hf_name,
                                      .hf_prefix = "",
                                      .hf_part = hf_part,
                                      .masked = 1,
                                      .repeats = 1};
