/* Reads weights of Hugging Face folders by name. */
#include "checkpoint/hf.h"
#include "checkpoint/parts.h"
#include "graph/op.h"
#include "graph/slice.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INDEX = 64 << 20, CHUNK = 1 << 18 };
#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

static int ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
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

/* --- files ------------------------------------------------------------------------------------ */

/* The files of a model: one, or the shards that an index names. */
typedef struct {
    const char *source;
    uint32_t n;
    pst_safetensors_file **file;
} shards;

static void close_shards(shards *s) {
    for (uint32_t i = 0; i < s->n; i++) pst_safetensors_close(s->file[i]);
    free(s->file);
}

static pst_status open_shard(shards *s, const char *path) {
    for (uint32_t i = 0; i < s->n; i++)
        if (!strcmp(s->file[i]->path, path)) return PST_OK;
    pst_safetensors_file **more = realloc(s->file, (s->n + 1) * sizeof *more);
    if (!more) return pst_fail(PST_ENOMEM, "%s: out of memory", path);
    s->file = more;
    PST_TRY(pst_safetensors_open(path, &s->file[s->n]));
    s->n++;
    return PST_OK;
}

/* {"weight_map": {"tensor": "file in the same folder"}} */
static pst_status open_listed(shards *s, const char *index, const json_t *root) {
    const json_t *map = json_object_get(root, "weight_map");
    const char *tensor;
    json_t *value;
    if (!json_is_object(map) || !json_object_size(map))
        return BAD("%s: weight_map is missing or empty", index);
    json_object_foreach((json_t *)map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || !*name || strchr(name, '/'))
            return BAD("%s: the file of tensor %.80s is not a name in the same folder", index,
                       tensor);
        char *path = pst_hf_path(s->source, name);
        pst_status status = path ? open_shard(s, path) : PST_ENOMEM;
        free(path);
        PST_TRY(status);
    }
    return PST_OK;
}

static pst_status open_index(shards *s, const char *index) {
    json_error_t error;
    char *text = NULL;
    size_t bytes;
    PST_TRY(pst_ckpt_text(index, MAX_INDEX, &text, &bytes));
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!root) return BAD("%s:%d:%d: not JSON: %s", index, error.line, error.column, error.text);
    pst_status status = open_listed(s, index, root);
    json_decref(root);
    return status;
}

static pst_status open_folder(const char *source, shards *s) {
    char *index = pst_hf_path(source, "model.safetensors.index.json"),
         *whole = pst_hf_path(source, "model.safetensors");
    pst_status status = index && whole ? PST_OK : PST_ENOMEM;
    const int sharded = status == PST_OK && access(whole, F_OK) && !access(index, F_OK);
    if (status == PST_OK) status = sharded ? open_index(s, index) : open_shard(s, whole);
    free(index);
    free(whole);
    return status;
}

static pst_status open_files(const char *source, shards *s) {
    *s = (shards){.source = source};
    pst_status status = pst_hf_is_folder(source) ? open_folder(source, s) : open_shard(s, source);
    if (status != PST_OK) close_shards(s);
    return status;
}

/* --- weights ---------------------------------------------------------------------------------- */

/* A tensor in one of the files. */
typedef struct {
    const pst_safetensors_file *file;
    const pst_safetensors_entry *entry;
    int transposed;
} found;

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

static const char *without_prefix(const pst_model_row *model, const char *name) {
    const size_t n = strlen(model->hf_prefix);
    return strncmp(name, model->hf_prefix, n) ? name : name + n;
}

/* What old versions stored, and the output layer, if it is tied to the embedding. */
static int is_passed_over(const char *name) {
    return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias") ||
           ends_with(name, ".rotary_emb.inv_freq") || !strcmp(name, "lm_head.weight");
}

static void shape_text(uint32_t n, const uint64_t *dim, char out[128]) {
    size_t at = (size_t)snprintf(out, 128, "[");
    for (uint32_t i = 0; i < n && at < 100; i++)
        at += (size_t)snprintf(out + at, 128 - at, "%s%llu", i ? "," : "",
                               (unsigned long long)dim[i]);
    snprintf(out + at, 128 - at, "]");
}

/* What does not fit, for one message. */
typedef struct {
    uint32_t n, shown;
    char text[3072];
} complaints;

__attribute__((format(printf, 2, 3))) static void complain(complaints *c, const char *fmt, ...) {
    const size_t used = strlen(c->text), room = sizeof c->text - used;
    va_list args;
    c->n++;
    if (room < 240) return; /* the message says how many there are */
    c->shown++;
    va_start(args, fmt);
    if (used) strcpy(c->text + used, "; ");
    vsnprintf(c->text + strlen(c->text), room - 2, fmt, args);
    va_end(args);
}

static void check_shape(const found *f, const pst_param *p, complaints *all) {
    const pst_safetensors_entry *e = f->entry;
    uint64_t wanted[PST_MAX_DIM];
    char is[128], should[128];
    memcpy(wanted, p->dim, sizeof wanted);
    if (f->transposed) {
        wanted[0] = p->dim[1];
        wanted[1] = p->dim[0];
    }
    if (e->n_dim == p->n_dim && !memcmp(e->dim, wanted, p->n_dim * sizeof *wanted)) return;
    shape_text(e->n_dim, e->dim, is);
    shape_text(p->n_dim, wanted, should);
    complain(all, "tensor %.95s has shape %s, but the model needs %s", e->name, is, should);
}

static void match_file(const pst_safetensors_file *file, const pst_model_row *model,
                       const pst_graph *g, found *of, complaints *all) {
    for (uint32_t k = 0; k < file->n_entry; k++) {
        const char *name = without_prefix(model, file->entry[k].name);
        uint32_t i = param_of(model, g, name);
        if (i == PST_NONE && is_passed_over(name)) continue;
        if (i == PST_NONE)
            complain(all, "tensor %.95s is not part of the model", file->entry[k].name);
        else if (of[i].entry)
            complain(all, "tensor %.95s occurs twice, with and without the prefix '%s'", name,
                     model->hf_prefix);
        else of[i] = (found){file, &file->entry[k], 0};
    }
}

/* Sets of[i] of every parameter; EINPUT names all tensors that do not fit. */
static pst_status match(const shards *s, const pst_model_row *model, const pst_graph *g,
                        found *of) {
    char buffer[PST_NAME_MAX];
    complaints all = {0};
    for (uint32_t k = 0; k < s->n; k++) match_file(s->file[k], model, g, of, &all);
    for (uint32_t i = 0; i < g->n_param; i++) {
        const char *name = model->hf_name(&g->param[i], buffer, &of[i].transposed);
        if (g->param[i].cache) continue;
        if (!name) return BAD("parameter %s has no Hugging Face name", g->param[i].name);
        if (of[i].entry) check_shape(&of[i], &g->param[i], &all);
        else complain(&all, "tensor %.95s is missing", name);
    }
    if (!all.n) return PST_OK;
    const char *path = s->n == 1 ? s->file[0]->path : s->source;
    if (all.n == 1) return BAD("%s: %s", path, all.text);
    char more[40] = "";
    if (all.shown < all.n) snprintf(more, sizeof more, "; and %u more", all.n - all.shown);
    return BAD("%s: %u tensors do not fit: %s%s", path, all.n, all.text, more);
}

static const pst_safetensors_entry *find_in(const shards *s, const char *prefix, const char *name,
                                            const pst_safetensors_file **file) {
    char text[PST_NAME_MAX];
    snprintf(text, sizeof text, "%s%s", prefix, name);
    for (uint32_t i = 0; i < s->n; i++) {
        const pst_safetensors_entry *e = pst_safetensors_find(s->file[i], name);
        if (!e) e = pst_safetensors_find(s->file[i], text);
        *file = s->file[i];
        if (e) return e;
    }
    return NULL;
}

/* An output layer with weights of its own would be lost, so it must equal the embedding. */
static pst_status check_tied(const shards *s, const pst_model_row *model, const pst_graph *g) {
    const pst_safetensors_file *f, *with;
    const char *table = strcmp(model->name, "gpt") ? "embed_tokens.weight" : "wte.weight";
    const pst_safetensors_entry *head = find_in(s, "", "lm_head.weight", &f),
                                *wte = find_in(s, model->hf_prefix, table, &with);
    if (!head || !wte || pst_graph_find_param(g, "lm_head.weight") != PST_NONE) return PST_OK;
    int same = head->bytes == wte->bytes && !strcmp(head->dtype, wte->dtype);
    uint8_t *a = malloc(2 * CHUNK);
    pst_status status = a ? PST_OK : pst_fail(PST_ENOMEM, "%s: out of memory", f->path);
    for (uint64_t at = 0; same && status == PST_OK && at < wte->bytes; at += CHUNK) {
        uint64_t n = wte->bytes - at < CHUNK ? wte->bytes - at : CHUNK;
        status = pst_safetensors_read_bytes(f, head, at, a, n);
        if (status == PST_OK) status = pst_safetensors_read_bytes(with, wte, at, a + CHUNK, n);
        if (status == PST_OK) same = !memcmp(a, a + CHUNK, n);
    }
    free(a);
    if (status == PST_OK && !same)
        return BAD("%s: lm_head.weight differs from %s, but the model ties the two", f->path,
                   table);
    return status;
}

static int same_rope(const pst_rope *a, const pst_rope *b) {
    return a->theta == b->theta && a->scaling == b->scaling && a->factor == b->factor &&
           a->low == b->low && a->high == b->high && a->context == b->context &&
           a->attention == b->attention;
}

/* Checks of one operator what shapes do not show. */
static pst_status check_node(const char *path, const pst_node *node, const pst_model_config *c) {
    const pst_attr *a = &node->attr;
    const pst_llama *l = &c->llama;
    const int attends = !strcmp(node->op->name, "attention");
    if (attends && a->heads != c->heads)
        return BAD("%s: %s is %u, but the model has %u heads", path,
                   strcmp(c->kind, "gpt") ? "num_attention_heads" : "n_head", c->heads, a->heads);
    if (attends && a->window != l->window)
        return BAD("%s: sliding_window is %u, but the model has model.window %u", path, l->window,
                   a->window);
    if (!strcmp(node->op->name, "rms_norm") && a->eps != l->norm_eps)
        return BAD("%s: rms_norm_eps is %g, but the model has model.norm_eps %g", path,
                   (double)l->norm_eps, (double)a->eps);
    if (!strcmp(node->op->name, "rotary") && !same_rope(&a->rope, &l->rope))
        return BAD("%s: rope_theta or the scaling of rotary positions differs from the model's "
                   "(model.rope_*)",
                   path);
    if (a->activation != PST_ACT_NONE && a->activation != c->activation)
        return BAD("%s: activation_function differs from the activation of the model", path);
    return PST_OK;
}

/* Checks what shapes do not show: heads, activation, rotary positions. */
static pst_status check_config(const char *source, const pst_model_row *model, const pst_graph *g) {
    pst_model_config c;
    int there;
    PST_TRY(pst_hf_has_config(source, &there));
    if (!there) return PST_OK;
    char *path = pst_hf_path(source, "config.json");
    pst_status status = path ? pst_hf_config(source, &c) : PST_ENOMEM;
    if (status == PST_OK && strcmp(c.kind, model->name))
        status = BAD("%s: a model of kind %s, but model.kind is %s", path, c.kind, model->name);
    for (uint32_t i = 0; status == PST_OK && i < g->n_node; i++)
        status = check_node(path, &g->node[i], &c);
    free(path);
    return status;
}

/* Reads elements [from, to) of the held part of parameter i. */
static pst_status read_held(const found *of, const pst_hf_weights *w, uint32_t i) {
    const pst_safetensors_file *f = of->file;
    const pst_safetensors_entry *e = of->entry;
    const int transposed = of->transposed;
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

static pst_status import_from(const shards *s, const pst_model_row *model, const pst_graph *g,
                              const pst_hf_weights *w) {
    found *of = calloc(g->n_param + (size_t)1, sizeof *of);
    pst_status status = of ? PST_OK : pst_fail(PST_ENOMEM, "%s: out of memory", s->source);
    if (status == PST_OK) status = match(s, model, g, of);
    if (status == PST_OK) status = check_tied(s, model, g);
    for (uint32_t i = 0; status == PST_OK && i < g->n_param; i++)
        if (w->weight[i]) status = read_held(&of[i], w, i);
    free(of);
    return status;
}

pst_status pst_hf_import(const char *source, const pst_model_row *model, const pst_graph *g,
                         const pst_hf_weights *weights) {
    shards s;
    if (!model->hf_name)
        return BAD("%s: a model of kind %s cannot use Hugging Face weights; only gpt and llama can",
                   source, model->name);
    PST_TRY(check_config(source, model, g));
    PST_TRY(open_files(source, &s));
    pst_status status = import_from(&s, model, g, weights);
    close_shards(&s);
    return status;
}
