/* Reads Hugging Face GPT-2: config.json, and weights by name. */
#include "checkpoint/hf.h"
#include "checkpoint/parts.h"
#include "graph/slice.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_CONFIG = 16 << 20, CHUNK = 1 << 18 };
#define PREFIX "transformer."
#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

int pst_hf_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *pst_hf_path(const char *source, const char *name) {
    if (pst_hf_is_folder(source)) return pst_ckpt_join(source, name);
    const char *slash = strrchr(source, '/');
    size_t n = slash && slash != source ? (size_t)(slash - source) : 1;
    char *folder = slash ? strndup(source, n) : strdup(".");
    char *path = folder ? pst_ckpt_join(folder, name) : NULL;
    if (!folder) pst_fail(PST_ENOMEM, "%s: out of memory", source);
    free(folder);
    return path;
}

static int lies_in(const char *folder, const char *name) {
    char path[4096];
    int used = snprintf(path, sizeof path, "%s/%s", folder, name);
    return used < (int)sizeof path && access(path, F_OK) == 0;
}

int pst_hf_is(const char *source) {
    if (!pst_hf_is_folder(source)) return ends_with(source, ".safetensors");
    return lies_in(source, "config.json") && !lies_in(source, "index.json");
}

/* --- config.json ------------------------------------------------------------------------------ */

static pst_status size_of(const json_t *root, const char *file, const char *key, uint32_t *out) {
    const json_t *value = json_object_get(root, key);
    if (!json_is_integer(value) || json_integer_value(value) < 1 ||
        json_integer_value(value) > INT32_MAX)
        return BAD("%s: %s is missing or not an integer from 1 to 2^31 - 1", file, key);
    *out = (uint32_t)json_integer_value(value);
    return PST_OK;
}

/* Checks a switch that must have the value that our GPT implements. */
static pst_status must_be(const json_t *root, const char *file, const char *key, int wanted) {
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value) || (json_is_boolean(value) && json_is_true(value) == wanted))
        return PST_OK;
    return BAD("%s: %s must be %s; other values are not supported", file, key,
               wanted ? "true" : "false");
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

static pst_status parse_config(const json_t *root, const char *file, pst_model_config *out) {
    pst_model_config c = {.kind = "gpt"};
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const json_t *inner = json_object_get(root, "n_inner"),
                 *eps = json_object_get(root, "layer_norm_epsilon");
    const json_t *dropout = json_object_get(root, "resid_pdrop");
    const char *tokenizer = json_string_value(json_object_get(root, "penstock_tokenizer"));
    if (!type || strcmp(type, "gpt2"))
        return BAD("%s: model_type is %.40s; only gpt2 is supported", file,
                   type ? type : "missing");
    PST_TRY(size_of(root, file, "n_layer", &c.layers));
    PST_TRY(size_of(root, file, "n_head", &c.heads));
    PST_TRY(size_of(root, file, "n_embd", &c.channels));
    PST_TRY(size_of(root, file, "n_positions", &c.context));
    PST_TRY(size_of(root, file, "vocab_size", &c.vocabulary));
    PST_TRY(parse_activation(root, file, &c.activation));
    PST_TRY(must_be(root, file, "scale_attn_weights", 1));
    PST_TRY(must_be(root, file, "scale_attn_by_inverse_layer_idx", 0));
    PST_TRY(must_be(root, file, "add_cross_attention", 0));
    PST_TRY(must_be(root, file, "tie_word_embeddings", 1));
    if (c.channels % c.heads)
        return BAD("%s: n_head %u does not divide n_embd %u", file, c.heads, c.channels);
    if (inner && !json_is_null(inner) && json_integer_value(inner) != 4 * (json_int_t)c.channels)
        return BAD("%s: n_inner must be null or 4 * n_embd", file);
    if (eps && !(fabs(json_number_value(eps) - 1e-5) <= 1e-12))
        return BAD("%s: layer_norm_epsilon must be 1e-05", file);
    c.dropout = dropout ? (float)json_number_value(dropout) : 0.1f;
    if (!(c.dropout >= 0 && c.dropout < 1))
        return BAD("%s: resid_pdrop must be at least 0 and below 1", file);
    if (tokenizer) snprintf(c.tokenizer, sizeof c.tokenizer, "%s", tokenizer);
    *out = c;
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

pst_status pst_hf_config(const char *source, pst_model_config *config) {
    char *text = NULL, *path = pst_hf_path(source, "config.json");
    size_t bytes;
    pst_status status = path ? pst_ckpt_text(path, MAX_CONFIG, &text, &bytes) : PST_ENOMEM;
    if (status == PST_OK) status = pst_hf_parse_config(text, bytes, path, config);
    free(text);
    free(path);
    return status;
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Index of the parameter with this Hugging Face name (without prefix), PST_NONE if there is
 * none. */
static uint32_t param_of(const pst_model_row *model, const pst_graph *g, const char *name) {
    char buffer[PST_NAME_MAX];
    int transposed;
    for (uint32_t i = 0; i < g->n_param; i++) {
        const char *own = model->hf_name(&g->param[i], buffer, &transposed);
        if (own && !strcmp(own, name)) return i;
    }
    return PST_NONE;
}

static const char *without_prefix(const char *name) {
    return strncmp(name, PREFIX, strlen(PREFIX)) ? name : name + strlen(PREFIX);
}

/* Masks that old versions stored, and the output layer, which is tied to the embedding. */
static int is_passed_over(const char *name) {
    return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias") ||
           !strcmp(name, "lm_head.weight");
}

static void shape_text(uint32_t n, const uint64_t *dim, char out[128]) {
    size_t at = (size_t)snprintf(out, 128, "[");
    for (uint32_t i = 0; i < n && at < 100; i++)
        at += (size_t)snprintf(out + at, 128 - at, "%s%llu", i ? "," : "",
                               (unsigned long long)dim[i]);
    snprintf(out + at, 128 - at, "]");
}

static pst_status check_shape(const pst_safetensors_file *f, const pst_safetensors_entry *e,
                              const pst_param *p, int transposed) {
    uint64_t wanted[PST_MAX_DIM];
    char is[128], should[128];
    memcpy(wanted, p->dim, sizeof wanted);
    if (transposed) {
        wanted[0] = p->dim[1];
        wanted[1] = p->dim[0];
    }
    if (e->n_dim == p->n_dim && !memcmp(e->dim, wanted, p->n_dim * sizeof *wanted)) return PST_OK;
    shape_text(e->n_dim, e->dim, is);
    shape_text(p->n_dim, wanted, should);
    return BAD("%s: tensor %s has shape %s, but the model needs %s", f->path, e->name, is, should);
}

/* Sets entry[i] and transposed[i] of every parameter; EINPUT if the file has other tensors. */
static pst_status match(const pst_safetensors_file *f, const pst_model_row *model,
                        const pst_graph *g, const pst_safetensors_entry **entry, int *transposed) {
    char buffer[PST_NAME_MAX];
    for (uint32_t k = 0; k < f->n_entry; k++) {
        const char *name = without_prefix(f->entry[k].name);
        uint32_t i = param_of(model, g, name);
        if (i == PST_NONE && is_passed_over(name)) continue;
        if (i == PST_NONE)
            return BAD("%s: tensor %s is not part of the model", f->path, f->entry[k].name);
        if (entry[i])
            return BAD("%s: tensor %s occurs twice, with and without the prefix 'transformer.'",
                       f->path, name);
        entry[i] = &f->entry[k];
    }
    for (uint32_t i = 0; i < g->n_param; i++) {
        const char *name = model->hf_name(&g->param[i], buffer, &transposed[i]);
        if (g->param[i].cache) continue;
        if (!name) return BAD("parameter %s has no Hugging Face name", g->param[i].name);
        if (!entry[i]) return BAD("%s: tensor %s is missing", f->path, name);
        PST_TRY(check_shape(f, entry[i], &g->param[i], transposed[i]));
    }
    return PST_OK;
}

/* An output layer with weights of its own would be lost, so it must equal the embedding. */
static pst_status check_tied(const pst_safetensors_file *f) {
    const pst_safetensors_entry *head = pst_safetensors_find(f, "lm_head.weight"),
                                *wte = pst_safetensors_find(f, "wte.weight");
    if (!wte) wte = pst_safetensors_find(f, PREFIX "wte.weight");
    if (!head || !wte) return PST_OK;
    int same = head->bytes == wte->bytes && !strcmp(head->dtype, wte->dtype);
    uint8_t *a = malloc(2 * CHUNK);
    pst_status status = a ? PST_OK : pst_fail(PST_ENOMEM, "%s: out of memory", f->path);
    for (uint64_t at = 0; same && status == PST_OK && at < wte->bytes; at += CHUNK) {
        uint64_t n = wte->bytes - at < CHUNK ? wte->bytes - at : CHUNK;
        status = pst_safetensors_read_bytes(f, head, at, a, n);
        if (status == PST_OK) status = pst_safetensors_read_bytes(f, wte, at, a + CHUNK, n);
        if (status == PST_OK) same = !memcmp(a, a + CHUNK, n);
    }
    free(a);
    if (status == PST_OK && !same)
        return BAD("%s: lm_head.weight differs from wte.weight, but the model ties the two",
                   f->path);
    return status;
}

/* Checks what shapes do not show: heads and activation. */
static pst_status check_config(const char *source, const pst_graph *g) {
    pst_model_config c;
    char *path = pst_hf_path(source, "config.json");
    int there = path && access(path, F_OK) == 0;
    pst_status status = path ? PST_OK : PST_ENOMEM;
    if (there) status = pst_hf_config(source, &c);
    for (uint32_t i = 0; there && status == PST_OK && i < g->n_node; i++) {
        const pst_attr *a = &g->node[i].attr;
        if (a->heads && a->heads != c.heads)
            status = BAD("%s: n_head is %u, but the model has %u heads", path, c.heads, a->heads);
        else if (a->activation != PST_ACT_NONE && a->activation != c.activation)
            status = BAD("%s: activation_function differs from the activation of the model", path);
    }
    free(path);
    return status;
}

/* Reads elements [from, to) of the held part of parameter i. */
static pst_status read_held(const pst_safetensors_file *f, const pst_safetensors_entry *e,
                            int transposed, const pst_hf_weights *w, uint32_t i) {
    const pst_param *held = w->held->param + i;
    float *out = w->weight[i];
    uint64_t dim[PST_MAX_DIM], n = pst_slice_whole(held, dim), here = pst_param_elements(held);
    uint64_t from = w->from ? w->from[i] : 0, to = w->to ? w->to[i] : here;
    if (from == 0 && to == n) return pst_safetensors_read_f32(f, e, out, n, transposed);
    int sliced = held->slice.held == PST_HELD_PART;
    float *whole = malloc((n + here) * sizeof *whole);
    pst_status status = whole ? pst_safetensors_read_f32(f, e, whole, n, transposed)
                              : pst_fail(PST_ENOMEM, "%s: out of memory", f->path);
    if (status == PST_OK && sliced) pst_slice_take(held, whole, whole + n);
    if (status == PST_OK) memcpy(out, whole + (sliced ? n : 0) + from, (to - from) * sizeof *out);
    free(whole);
    return status;
}

static pst_status import_from(const pst_safetensors_file *f, const pst_model_row *model,
                              const pst_graph *g, const pst_hf_weights *w) {
    const pst_safetensors_entry **entry = calloc(g->n_param + (size_t)1, sizeof *entry);
    int *transposed = calloc(g->n_param + (size_t)1, sizeof *transposed);
    pst_status status =
        entry && transposed ? PST_OK : pst_fail(PST_ENOMEM, "%s: out of memory", f->path);
    if (status == PST_OK) status = match(f, model, g, entry, transposed);
    if (status == PST_OK) status = check_tied(f);
    for (uint32_t i = 0; status == PST_OK && i < g->n_param; i++)
        if (w->weight[i]) status = read_held(f, entry[i], transposed[i], w, i);
    free(entry);
    free(transposed);
    return status;
}

pst_status pst_hf_import(const char *source, const pst_model_row *model, const pst_graph *g,
                         const pst_hf_weights *weights) {
    pst_safetensors_file *f = NULL;
    if (!model->hf_name)
        return BAD("%s: a model of kind %s cannot use Hugging Face weights; only gpt can", source,
                   model->name);
    char *path =
        pst_hf_is_folder(source) ? pst_hf_path(source, "model.safetensors") : strdup(source);
    pst_status status =
        path ? check_config(source, g) : pst_fail(PST_ENOMEM, "%s: out of memory", source);
    if (status == PST_OK) status = pst_safetensors_open(path, &f);
    if (status == PST_OK) status = import_from(f, model, g, weights);
    pst_safetensors_close(f);
    free(path);
    return status;
}
