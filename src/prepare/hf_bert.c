/* BERT's config.json, as transformers writes it for BertForPreTraining and BertForMaskedLM. */
#include "prepare/hf_parts.h"
#include <math.h>
#include <string.h>

#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

static pst_status text_must_be(const json_t *root, const char *file, const char *key,
                               const char *wanted) {
    const json_t *value = json_object_get(root, key);
    const char *text = json_string_value(value);
    if (!value || json_is_null(value) || (text && !strcmp(text, wanted))) return PST_OK;
    return BAD("%s: %s is %.40s; only %s is supported", file, key, text ? text : "not a text",
               wanted);
}

/* Whether the head that predicts the next sentence is there. */
static int is_for_pretraining(const json_t *root) {
    const json_t *list = json_object_get(root, "architectures");
    const char *first = json_string_value(json_array_get(list, 0));
    return first && !strcmp(first, "BertForPreTraining");
}

static pst_status parse_sizes(const json_t *root, const char *file, pst_model_config *c) {
    uint32_t inner;
    PST_TRY(pst_hf_size_of(root, file, "num_hidden_layers", &c->layers));
    PST_TRY(pst_hf_size_of(root, file, "num_attention_heads", &c->heads));
    PST_TRY(pst_hf_size_of(root, file, "hidden_size", &c->channels));
    PST_TRY(pst_hf_size_of(root, file, "max_position_embeddings", &c->context));
    PST_TRY(pst_hf_size_of(root, file, "vocab_size", &c->vocabulary));
    PST_TRY(pst_hf_size_of(root, file, "type_vocab_size", &c->bert.token_types));
    PST_TRY(pst_hf_size_of(root, file, "intermediate_size", &inner));
    if (c->channels % c->heads)
        return BAD("%s: num_attention_heads %u does not divide hidden_size %u", file, c->heads,
                   c->channels);
    if (inner != 4 * (uint64_t)c->channels)
        return BAD("%s: intermediate_size must be 4 * hidden_size", file);
    return PST_OK;
}

pst_status pst_hf_parse_bert(const json_t *root, const char *file, pst_model_config *out) {
    pst_model_config c = {.kind = "bert", .activation = PST_ACT_GELU_ERF};
    const json_t *eps = json_object_get(root, "layer_norm_eps");
    PST_TRY(parse_sizes(root, file, &c));
    PST_TRY(text_must_be(root, file, "hidden_act", "gelu"));
    PST_TRY(text_must_be(root, file, "position_embedding_type", "absolute"));
    PST_TRY(pst_hf_must_be(root, file, "is_decoder", 0));
    PST_TRY(pst_hf_must_be(root, file, "add_cross_attention", 0));
    PST_TRY(pst_hf_must_be(root, file, "tie_word_embeddings", 1));
    if (eps && !(fabs(json_number_value(eps) - 1e-12) <= 1e-18))
        return BAD("%s: layer_norm_eps must be 1e-12", file);
    PST_TRY(pst_hf_rate_of(root, file, "hidden_dropout_prob", &c.dropout));
    PST_TRY(pst_hf_rate_of(root, file, "attention_probs_dropout_prob", &c.attention_dropout));
    c.bert.next_sentence = is_for_pretraining(root);
    *out = c;
    return PST_OK;
}

json_t *pst_hf_bert_json(const pst_model_config *c) {
    const char *architecture = c->bert.next_sentence ? "BertForPreTraining" : "BertForMaskedLM";
    return json_pack(
        "{s:[s], s:f, s:s, s:f, s:i, s:f, s:i, s:f, s:i, s:s, s:i, s:i, s:i, s:s, "
        "s:b, s:s, s:i, s:i}",
        "architectures", architecture, "attention_probs_dropout_prob", (double)c->attention_dropout,
        "hidden_act", "gelu", "hidden_dropout_prob", (double)c->dropout, "hidden_size",
        (int)c->channels, "initializer_range", 0.02, "intermediate_size", 4 * (int)c->channels,
        "layer_norm_eps", 1e-12, "max_position_embeddings", (int)c->context, "model_type", "bert",
        "num_attention_heads", (int)c->heads, "num_hidden_layers", (int)c->layers, "pad_token_id",
        0, "position_embedding_type", "absolute", "tie_word_embeddings", 1, "torch_dtype",
        "float32", "type_vocab_size", (int)c->bert.token_types, "vocab_size", (int)c->vocabulary);
}
