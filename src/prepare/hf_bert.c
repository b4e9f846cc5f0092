/* BERT's config.json, as transformers writes it for BertForPreTraining, BertForMaskedLM and
 * BertForSequenceClassification. */
#include "prepare/hf_parts.h"
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

static int is_class(const json_t *root, const char *name) {
    const json_t *list = json_object_get(root, "architectures");
    const char *first = json_string_value(json_array_get(list, 0));
    return first && !strcmp(first, name);
}

/* Which head is there. */
static pst_status parse_head(const json_t *root, const char *file, pst_model_config *c) {
    const char *problem = json_string_value(json_object_get(root, "problem_type"));
    c->bert.next_sentence = is_class(root, "BertForPreTraining");
    if (!is_class(root, "BertForSequenceClassification")) return PST_OK;
    if (problem && strcmp(problem, "single_label_classification") != 0)
        return BAD("%s: problem_type is %.40s; only single_label_classification is supported", file,
                   problem);
    return pst_hf_count_labels(root, file, &c->bert.labels);
}

static pst_status parse_sizes(const json_t *root, const char *file, pst_model_config *c) {
    PST_TRY(pst_hf_size_of(root, file, "num_hidden_layers", &c->layers));
    PST_TRY(pst_hf_size_of(root, file, "num_attention_heads", &c->heads));
    PST_TRY(pst_hf_size_of(root, file, "hidden_size", &c->channels));
    PST_TRY(pst_hf_size_of(root, file, "max_position_embeddings", &c->context));
    PST_TRY(pst_hf_size_of(root, file, "vocab_size", &c->vocabulary));
    PST_TRY(pst_hf_size_of(root, file, "type_vocab_size", &c->bert.token_types));
    PST_TRY(pst_hf_size_of(root, file, "intermediate_size", &c->bert.intermediate));
    PST_TRY(pst_hf_number_of(root, file, "layer_norm_eps", 1e-12, &c->bert.norm_eps));
    if (c->channels % c->heads)
        return BAD("%s: num_attention_heads %u does not divide hidden_size %u", file, c->heads,
                   c->channels);
    if (!(c->bert.norm_eps > 0)) return BAD("%s: layer_norm_eps must be above 0", file);
    return PST_OK;
}

pst_status pst_hf_parse_bert(const json_t *root, const char *file, pst_model_config *out) {
    pst_model_config c = {.kind = "bert", .activation = PST_ACT_GELU_ERF};
    PST_TRY(parse_sizes(root, file, &c));
    PST_TRY(text_must_be(root, file, "hidden_act", "gelu"));
    PST_TRY(text_must_be(root, file, "position_embedding_type", "absolute"));
    PST_TRY(pst_hf_must_be(root, file, "is_decoder", 0));
    PST_TRY(pst_hf_must_be(root, file, "add_cross_attention", 0));
    PST_TRY(pst_hf_must_be(root, file, "tie_word_embeddings", 1));
    PST_TRY(pst_hf_rate_of(root, file, "hidden_dropout_prob", &c.dropout));
    PST_TRY(pst_hf_rate_of(root, file, "attention_probs_dropout_prob", &c.attention_dropout));
    PST_TRY(parse_head(root, file, &c));
    *out = c;
    return PST_OK;
}

static const char *architecture_of(const pst_bert *b) {
    if (b->labels) return "BertForSequenceClassification";
    return b->next_sentence ? "BertForPreTraining" : "BertForMaskedLM";
}

json_t *pst_hf_bert_json(const pst_model_config *c) {
    const pst_bert *b = &c->bert;
    json_t *root = json_pack(
        "{s:[s], s:f, s:s, s:f, s:i, s:f, s:i, s:f, s:i, s:s, s:i, s:i, s:i, s:s, "
        "s:b, s:s, s:i, s:i}",
        "architectures", architecture_of(b), "attention_probs_dropout_prob",
        (double)c->attention_dropout, "hidden_act", "gelu", "hidden_dropout_prob",
        (double)c->dropout, "hidden_size", (int)c->channels, "initializer_range", 0.02,
        "intermediate_size", (int)b->intermediate, "layer_norm_eps", pst_hf_shortest(b->norm_eps),
        "max_position_embeddings", (int)c->context, "model_type", "bert", "num_attention_heads",
        (int)c->heads, "num_hidden_layers", (int)c->layers, "pad_token_id", 0,
        "position_embedding_type", "absolute", "tie_word_embeddings", 1, "torch_dtype", "float32",
        "type_vocab_size", (int)b->token_types, "vocab_size", (int)c->vocabulary);
    if (!root || !b->labels || pst_hf_add_labels(root, b) == PST_OK) return root;
    json_decref(root);
    return NULL;
}
