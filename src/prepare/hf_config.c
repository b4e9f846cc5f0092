/* See hf_config.h. Reading; hf_config_text.c writes. */
#include "prepare/hf_config.h"
#include "base/file.h"
#include "penstock/option.h"
#include "prepare/hf_parts.h"
#include "prepare/llmc.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CONFIG = 16 << 20 };
#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

int pst_hf_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *pst_hf_path(const char *source, const char *name) {
    const char *slash = strrchr(source, '/');
    char *path = NULL;
    int n = (int)strlen(source), made;
    if (!pst_hf_is_folder(source)) n = slash ? (int)(slash - source) : 0;
    if (slash == source && !pst_hf_is_folder(source)) n = 1;
    if (n) made = asprintf(&path, "%.*s/%s", n, source, name);
    else made = asprintf(&path, "./%s", name);
    if (made >= 0) return path;
    pst_fail(PST_ENOMEM, "%s: out of memory", source);
    return NULL;
}

/* The first row of each activation has the name that is written. */
static const struct {
    const char *name;
    pst_activation activation;
} activations[] = {{"gelu_new", PST_ACT_GELU_TANH},
                   {"gelu_pytorch_tanh", PST_ACT_GELU_TANH},
                   {"gelu_fast", PST_ACT_GELU_TANH},
                   {"gelu", PST_ACT_GELU_ERF},
                   {"relu", PST_ACT_RELU}};
enum { N_ACTIVATION = sizeof activations / sizeof *activations };

const char *pst_hf_activation_name(pst_activation activation) {
    int i = 0;
    while (i + 1 < N_ACTIVATION && activations[i].activation != activation) i++;
    return activations[i].name;
}

static pst_status parse_activation(const json_t *root, const char *file, pst_activation *out) {
    const json_t *value = json_object_get(root, "activation_function");
    const char *name = value ? json_string_value(value) : "gelu_new";
    for (int i = 0; name && i < N_ACTIVATION; i++)
        if (!strcmp(name, activations[i].name)) {
            *out = activations[i].activation;
            return PST_OK;
        }
    return BAD("%s: activation_function %.40s is unknown; expected gelu_new, gelu or relu", file,
               name ? name : "(none)");
}

static pst_status parse_gpt2(const json_t *root, const char *file, pst_model_config *out) {
    pst_model_config c = {.kind = "gpt"};
    const json_t *inner = json_object_get(root, "n_inner"),
                 *eps = json_object_get(root, "layer_norm_epsilon");
    PST_TRY(pst_hf_size_of(root, file, "n_layer", &c.layers));
    PST_TRY(pst_hf_size_of(root, file, "n_head", &c.heads));
    PST_TRY(pst_hf_size_of(root, file, "n_embd", &c.channels));
    PST_TRY(pst_hf_size_of(root, file, "n_positions", &c.context));
    PST_TRY(pst_hf_size_of(root, file, "vocab_size", &c.vocabulary));
    PST_TRY(parse_activation(root, file, &c.activation));
    PST_TRY(pst_hf_must_be(root, file, "scale_attn_weights", 1));
    PST_TRY(pst_hf_must_be(root, file, "scale_attn_by_inverse_layer_idx", 0));
    PST_TRY(pst_hf_must_be(root, file, "add_cross_attention", 0));
    PST_TRY(pst_hf_must_be(root, file, "tie_word_embeddings", 1));
    if (c.channels % c.heads)
        return BAD("%s: n_head %u does not divide n_embd %u", file, c.heads, c.channels);
    if (inner && !json_is_null(inner) && json_integer_value(inner) != 4 * (json_int_t)c.channels)
        return BAD("%s: n_inner must be null or 4 * n_embd", file);
    if (eps && !(fabs(json_number_value(eps) - 1e-5) <= 1e-12))
        return BAD("%s: layer_norm_epsilon must be 1e-05", file);
    PST_TRY(pst_hf_rate_of(root, file, "resid_pdrop", &c.dropout));
    PST_TRY(pst_hf_rate_of(root, file, "attn_pdrop", &c.attention_dropout));
    *out = c;
    return PST_OK;
}

/* --- llama ------------------------------------------------------------------------------------ */

static pst_status check_llama(const json_t *root, const char *file, const pst_model_config *c) {
    const char *act = json_string_value(json_object_get(root, "hidden_act"));
    const json_t *partial = json_object_get(root, "partial_rotary_factor");
    uint32_t head;
    PST_TRY(pst_hf_must_be(root, file, "attention_bias", 0));
    PST_TRY(pst_hf_must_be(root, file, "mlp_bias", 0));
    PST_TRY(pst_hf_must_be(root, file, "use_sliding_window", 0));
    if (!act && json_object_get(root, "hidden_act"))
        return BAD("%s: hidden_act must be a string; only silu is supported", file);
    if (json_is_object(json_object_get(root, "quantization_config")))
        return BAD("%s: quantization_config: quantized weights are not supported", file);
    if (act && strcmp(act, "silu"))
        return BAD("%s: hidden_act is %.40s; only silu is supported", file, act);
    if (partial && !(json_number_value(partial) == 1))
        return BAD("%s: partial_rotary_factor must be 1", file);
    if (c->channels % c->heads)
        return BAD("%s: num_attention_heads %u does not divide hidden_size %u", file, c->heads,
                   c->channels);
    if (c->heads % c->llama.kv_heads)
        return BAD("%s: num_key_value_heads %u does not divide num_attention_heads %u", file,
                   c->llama.kv_heads, c->heads);
    PST_TRY(pst_hf_optional_size(root, file, "head_dim", c->channels / c->heads, &head));
    if (head != c->channels / c->heads)
        return BAD("%s: head_dim is %u; only hidden_size / num_attention_heads, %u, is supported",
                   file, head, c->channels / c->heads);
    return PST_OK;
}

static pst_status parse_llama(const json_t *root, const char *file, pst_model_config *out) {
    pst_model_config c = {.kind = "llama"};
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const int mistral = !strcmp(type, "mistral");
    pst_llama *l = &c.llama;
    PST_TRY(pst_hf_size_of(root, file, "num_hidden_layers", &c.layers));
    PST_TRY(pst_hf_size_of(root, file, "num_attention_heads", &c.heads));
    PST_TRY(pst_hf_size_of(root, file, "hidden_size", &c.channels));
    PST_TRY(pst_hf_size_of(root, file, "intermediate_size", &l->intermediate));
    PST_TRY(pst_hf_size_of(root, file, "vocab_size", &c.vocabulary));
    PST_TRY(pst_hf_size_of(root, file, "max_position_embeddings", &c.context));
    PST_TRY(pst_hf_optional_size(root, file, "num_key_value_heads", mistral ? 8 : c.heads,
                                 &l->kv_heads));
    if (mistral) PST_TRY(pst_hf_optional_size(root, file, "sliding_window", 0, &l->window));
    if (mistral && !json_object_get(root, "sliding_window")) l->window = 4096; /* transformers */
    PST_TRY(pst_hf_number_of(root, file, "rms_norm_eps", 1e-6, &l->norm_eps));
    if (!(l->norm_eps > 0)) return BAD("%s: rms_norm_eps must be above 0", file);
    PST_TRY(pst_hf_parse_rope(root, file, c.context, &l->rope));
    l->tied = json_is_true(json_object_get(root, "tie_word_embeddings")) ? PST_YES : PST_NO;
    l->bias = strcmp(type, "qwen2") ? PST_NO : PST_YES;
    l->trained = c.context;
    PST_TRY(check_llama(root, file, &c));
    *out = c;
    return PST_OK;
}

/* --- all models ------------------------------------------------------------------------------- */

static const struct {
    const char *type; /* model_type */
    pst_status (*parse)(const json_t *root, const char *file, pst_model_config *out);
} types[] = {
    {"gpt2", parse_gpt2},     {"llama", parse_llama},      {"qwen2", parse_llama},
    {"mistral", parse_llama}, {"bert", pst_hf_parse_bert},
};
enum { N_TYPE = sizeof types / sizeof *types };

/* Names what is near: "qwen3" is unknown, but "qwen2" is not. */
static pst_status refuse_type(const json_t *root, const char *file, const char *type) {
    const char *names[N_TYPE],
        *near = NULL,
        *class = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    for (int i = 0; i < N_TYPE; i++) names[i] = types[i].type;
    if (type) near = pst_did_you_mean(type, names, N_TYPE);
    return BAD(
        "%s: model_type is %.40s%s%.60s%s; supported are gpt2, llama, qwen2, mistral and bert"
        "%s%s",
        file, type ? type : "missing", class ? " (" : "", class ? class : "", class ? ")" : "",
        near ? "; did you mean " : "", near ? near : "");
}

static pst_status parse_config(const json_t *root, const char *file, pst_model_config *out) {
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const char *tokenizer = json_string_value(json_object_get(root, "penstock_tokenizer"));
    int i = 0;
    while (i < N_TYPE && (!type || strcmp(type, types[i].type))) i++;
    if (i == N_TYPE) return refuse_type(root, file, type);
    PST_TRY(types[i].parse(root, file, out));
    if (tokenizer) snprintf(out->tokenizer, sizeof out->tokenizer, "%s", tokenizer);
    return PST_OK;
}

pst_status pst_hf_parse_config(const char *text, size_t bytes, const char *file,
                               pst_model_config *config) {
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && json_error_code(&error) == json_error_out_of_memory)
        return pst_fail(PST_ENOMEM, "%s: out of memory", file);
    if (!root) return BAD("%s:%d:%d: not JSON: %s", file, error.line, error.column, error.text);
    pst_status status = parse_config(root, file, config);
    json_decref(root);
    return status;
}

static pst_status parse_into(const char *text, size_t bytes, const char *path, void *what) {
    return pst_hf_parse_config(text, bytes, path, what);
}

pst_status pst_hf_config(const char *source, pst_model_config *config) {
    if (pst_llmc_is(source)) return pst_llmc_config(source, config);
    char *path = pst_hf_path(source, "config.json");
    pst_status status = path ? pst_file_parse(path, MAX_CONFIG, parse_into, config) : PST_ENOMEM;
    free(path);
    return status;
}

static pst_status warn_in(const char *text, size_t bytes, const char *path, void *unused) {
    (void)unused;
    json_t *root = json_loadb(text, bytes, 0, NULL);
    pst_hf_warn_of_rope_in(root, path);
    json_decref(root);
    return PST_OK;
}

pst_status pst_hf_warn_of_rope(const char *source) {
    if (pst_llmc_is(source)) return PST_OK;
    char *path = pst_hf_path(source, "config.json");
    pst_status status = path ? pst_file_parse(path, MAX_CONFIG, warn_in, NULL) : PST_ENOMEM;
    free(path);
    return status;
}

pst_status pst_hf_refuse_gguf(const char *source) {
    const size_t n = strlen(source);
    char magic[4] = "";
    errno = 0;
    FILE *f = pst_hf_is_folder(source) ? NULL : fopen(source, "re");
    if (!f && errno == ENOMEM) return pst_no_memory("to open a file");
    const int read = f && fread(magic, sizeof magic, 1, f) == 1;
    if (f) fclose(f);
    if (!f || (strcasecmp(n > 5 ? source + n - 5 : "", ".gguf") != 0 &&
               !(read && !memcmp(magic, "GGUF", sizeof magic))))
        return PST_OK;
    return BAD("%s is a GGUF file: penstock convert writes such files, but none are read; use the "
               "model's Hugging Face folder or safetensors file",
               source);
}

pst_status pst_hf_has_config(const char *source, int *there) {
    if (pst_llmc_is(source)) {
        *there = 1;
        return PST_OK;
    }
    char *path = pst_hf_path(source, "config.json");
    if (!path) return PST_ENOMEM;
    *there = access(path, F_OK) == 0;
    free(path);
    return PST_OK;
}
