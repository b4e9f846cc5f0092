/* Writes config.json and generation_config.json as transformers reads them. */
#include "prepare/hf_config.h"
#include "prepare/hf_parts.h"
#include "prepare/json_text.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *of_gpt2(const pst_model_config *c, int32_t end) {
    double dropout = (double)c->dropout;
    (void)end;
    return json_pack(
        "{s:s, s:[s], s:f, s:n, s:f, s:n, s:f, s:f, s:s, s:i, s:i, s:n, s:i, s:i, s:s*, s:f, s:b, "
        "s:b, s:s, s:i}",
        "activation_function", pst_hf_activation_name(c->activation), "architectures",
        "GPT2LMHeadModel", "attn_pdrop", (double)c->attention_dropout, "bos_token_id", "embd_pdrop",
        dropout, "eos_token_id", "initializer_range", 0.02, "layer_norm_epsilon", 1e-5,
        "model_type", "gpt2", "n_embd", (int)c->channels, "n_head", (int)c->heads, "n_inner",
        "n_layer", (int)c->layers, "n_positions", (int)c->context, "penstock_tokenizer",
        *c->tokenizer ? c->tokenizer : NULL, "resid_pdrop", dropout, "scale_attn_weights", 1,
        "tie_word_embeddings", 1, "torch_dtype", "float32", "vocab_size", (int)c->vocabulary);
}

static json_t *scaling_of(const pst_rope *r) {
    const double factor = pst_hf_shortest(r->factor), low = pst_hf_shortest(r->low),
                 high = pst_hf_shortest(r->high);
    const int context = (int)r->context;
    if (r->scaling == PST_ROPE_LINEAR)
        return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", factor);
    if (r->scaling == PST_ROPE_LLAMA3)
        return json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", factor,
                         "low_freq_factor", low, "high_freq_factor", high,
                         "original_max_position_embeddings", context);
    if (r->scaling != PST_ROPE_YARN) return json_null();
    json_t *all =
        json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "yarn", "factor", factor, "beta_slow",
                  low, "beta_fast", high, "original_max_position_embeddings", context);
    if (all && r->attention > 0)
        json_object_set_new(all, "attention_factor", json_real(pst_hf_shortest(r->attention)));
    return all;
}

/* Qwen 2 has biases, Mistral a window. */
typedef struct {
    const char *type, *class;
} architecture;
static architecture architecture_of(const pst_llama *l) {
    if (l->bias == PST_YES) return (architecture){"qwen2", "Qwen2ForCausalLM"};
    if (l->window) return (architecture){"mistral", "MistralForCausalLM"};
    return (architecture){"llama", "LlamaForCausalLM"};
}

static json_t *of_llama(const pst_model_config *c, int32_t end) {
    const pst_llama *l = &c->llama;
    const architecture is = architecture_of(l);
    json_t *root = json_pack(
        "{s:[s], s:f, s:n, s:s, s:i, s:f, s:i, s:i, s:s, s:i, s:i, s:i, s:f, s:o, s:f, s:b, s:s, "
        "s:b, s:i}",
        "architectures", is.class, "attention_dropout", 0.0, "bos_token_id", "hidden_act", "silu",
        "hidden_size", (int)c->channels, "initializer_range", 0.02, "intermediate_size",
        (int)l->intermediate, "max_position_embeddings", (int)c->context, "model_type", is.type,
        "num_attention_heads", (int)c->heads, "num_hidden_layers", (int)c->layers,
        "num_key_value_heads", (int)l->kv_heads, "rms_norm_eps", pst_hf_shortest(l->norm_eps),
        "rope_scaling", scaling_of(&l->rope), "rope_theta", pst_hf_shortest(l->rope.theta),
        "tie_word_embeddings", l->tied == PST_YES, "torch_dtype", "float32", "use_cache", 1,
        "vocab_size", (int)c->vocabulary);
    if (!root) return NULL;
    int bad = json_object_set_new(root, "eos_token_id", end < 0 ? json_null() : json_integer(end));
    if (!strcmp(is.type, "mistral"))
        bad |= json_object_set_new(root, "sliding_window",
                                   l->window ? json_integer(l->window) : json_null());
    if (*c->tokenizer)
        bad |= json_object_set_new(root, "penstock_tokenizer", json_string(c->tokenizer));
    if (!bad) return root;
    json_decref(root);
    return NULL;
}

static json_t *of_bert(const pst_model_config *c) {
    json_t *root = pst_hf_bert_json(c);
    if (!root || !*c->tokenizer) return root;
    if (!json_object_set_new(root, "penstock_tokenizer", json_string(c->tokenizer))) return root;
    json_decref(root);
    return NULL;
}

/* Takes the object. */
static pst_status as_text(json_t *root, char **text) {
    const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(7) | JSON_SORT_KEYS;
    char *out = root ? pst_json_text(root, flags) : NULL;
    json_decref(root);
    if (!out) return pst_no_memory("to export weights");
    *text = out;
    return PST_OK;
}

pst_status pst_hf_config_text(const pst_model_config *c, int32_t end, char **text) {
    if (!strcmp(c->kind, "bert")) return as_text(of_bert(c), text);
    const int gpt = !strcmp(c->kind, "gpt");
    if (!gpt && c->llama.bias == PST_YES && c->llama.window)
        return pst_fail(PST_EINPUT,
                        "no Hugging Face model has both biases (model.bias) and a window "
                        "(model.window) as this llama");
    return as_text(gpt ? of_gpt2(c, end) : of_llama(c, end), text);
}

pst_status pst_hf_generation_text(const pst_model_config *c, int32_t end, char **text) {
    *text = NULL;
    if (strcmp(c->kind, "llama") != 0) return PST_OK;
    json_t *root = json_pack("{s:b}", "_from_model_config", 1);
    if (root && end >= 0 && json_object_set_new(root, "eos_token_id", json_integer(end))) {
        json_decref(root);
        root = NULL;
    }
    return as_text(root, text);
}
