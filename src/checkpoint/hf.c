/* Reads weights of Hugging Face folders by name. */
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/hf_parts.h"
#include "checkpoint/llmc.h"
#include "checkpoint/parts.h"
#include "graph/initial.h"
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
    if (!pst_hf_is_folder(source)) return ends_with(source, ".safetensors") || pst_llmc_is(source);
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

/* The tensors of a parameter, each in one of the files. */
typedef struct {
    const pst_safetensors_file *file[PST_HF_PARTS];
    const pst_safetensors_entry *entry[PST_HF_PARTS];
    uint32_t n;
    int transposed;
    int is_new; /* 1: of a head that the files lack: it gets initial values */
    int cut;    /* 1: the file has more positions than the model */
} found;

const char *pst_hf_part_name(const pst_model_row *model, const pst_param *param, uint32_t part,
                             char buffer[PST_NAME_MAX], int *transposed) {
    *transposed = 0;
    if (model->hf_part) return model->hf_part(param, part, buffer);
    return part ? NULL : model->hf_name(param, buffer, transposed);
}

uint32_t pst_hf_count_parts(const pst_model_row *model, const pst_param *param) {
    char buffer[PST_NAME_MAX];
    int transposed;
    uint32_t n = 0;
    while (n < PST_HF_PARTS && pst_hf_part_name(model, param, n, buffer, &transposed)) n++;
    return n;
}

/* Index of the parameter with this Hugging Face name (without prefix), and which part of it has the
 * name; PST_NONE if there is none. */
static uint32_t param_of(const pst_model_row *model, const pst_graph *g, const char *name,
                         uint32_t *part) {
    char buffer[PST_NAME_MAX];
    int transposed;
    for (uint32_t i = 0; i < g->n_param; i++)
        for (*part = 0; *part < PST_HF_PARTS; ++*part) {
            const char *own = pst_hf_part_name(model, &g->param[i], *part, buffer, &transposed);
            if (!own) break;
            if (!strcmp(own, name)) return i;
        }
    return PST_NONE;
}

static const char *without_prefix(const pst_model_row *model, const char *name) {
    const size_t n = strlen(model->hf_prefix);
    return strncmp(name, model->hf_prefix, n) ? name : name + n;
}

static int begins(const char *name, const char *with) { return !strncmp(name, with, strlen(with)); }

/* BERT's authors named the parameters of layer norms gamma and beta. BertModel, without a head, has
 * names without "bert.". */
static const char *modern(const pst_model_row *model, const char *name, char buffer[PST_NAME_MAX]) {
    const char *last = strrchr(name, '.'), *own = last ? last + 1 : "", *before = "";
    if (!model->masked || !last) return name;
    if (!strcmp(last, ".gamma")) own = "weight";
    if (!strcmp(last, ".beta")) own = "bias";
    if (begins(name, "embeddings.") || begins(name, "encoder.") || begins(name, "pooler."))
        before = "bert.";
    snprintf(buffer, PST_NAME_MAX, "%s%.*s.%s", before, (int)(last - name), name, own);
    return buffer;
}

/* Whether the graph gives samples labels. */
static int classifies(const pst_graph *g) {
    return pst_graph_find_param(g, "classifier.weight") != PST_NONE;
}

/* What old versions stored; the output layer, if it is tied to the embedding; and BERT's heads that
 * the model does not have. */
static int is_passed_over(const pst_model_row *model, const pst_graph *g, const char *name) {
    static const char *const bert[] = {
        "bert.embeddings.position_ids", "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias", "bert.pooler.dense.weight",
        "bert.pooler.dense.bias",       "cls.seq_relationship.weight",
        "cls.seq_relationship.bias"};
    for (size_t i = 0; model->masked && i < sizeof bert / sizeof *bert; i++)
        if (!strcmp(name, bert[i])) return 1;
    if (model->masked && classifies(g) && begins(name, "cls.")) return 1;
    return !model->masked &&
           (ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias") ||
            ends_with(name, ".rotary_emb.inv_freq") || !strcmp(name, "lm_head.weight"));
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

/* Only the embedding of positions has a row for each position. */
static int has_more_positions(const pst_safetensors_entry *e, const pst_param *p) {
    return !strcmp(p->name, "wpe.weight") && e->n_dim == 2 && e->dim[1] == p->dim[1] &&
           e->dim[0] > p->dim[0];
}

static void check_shape(found *f, uint32_t part, const pst_param *p, complaints *all) {
    const pst_safetensors_entry *e = f->entry[part];
    uint64_t wanted[PST_MAX_DIM];
    char is[128], should[128];
    memcpy(wanted, p->dim, sizeof wanted);
    if (f->transposed) {
        wanted[0] = p->dim[1];
        wanted[1] = p->dim[0];
    }
    wanted[0] /= f->n;
    if (e->n_dim == p->n_dim && !memcmp(e->dim, wanted, p->n_dim * sizeof *wanted)) return;
    f->cut = has_more_positions(e, p);
    if (f->cut) return;
    shape_text(e->n_dim, e->dim, is);
    shape_text(p->n_dim, wanted, should);
    complain(all, "tensor %.95s has shape %s, but the model needs %s", e->name, is, should);
}

static void match_file(const pst_safetensors_file *file, const pst_model_row *model,
                       const pst_graph *g, found *of, complaints *all) {
    char buffer[PST_NAME_MAX];
    for (uint32_t k = 0; k < file->n_entry; k++) {
        const char *name = modern(model, without_prefix(model, file->entry[k].name), buffer);
        uint32_t part, i = param_of(model, g, name, &part);
        if (i == PST_NONE && is_passed_over(model, g, name)) continue;
        if (i == PST_NONE) {
            complain(all, "tensor %.95s is not part of the model", file->entry[k].name);
        } else if (of[i].entry[part] && model->masked) {
            complain(all, "tensor %.95s occurs twice, also under its old name", name);
        } else if (of[i].entry[part]) {
            complain(all, "tensor %.95s occurs twice, with and without the prefix '%s'", name,
                     model->hf_prefix);
        } else {
            of[i].file[part] = file;
            of[i].entry[part] = &file->entry[k];
        }
    }
}

/* Whether the file of a tensor that was found has names with the prefix. */
static int has_prefix(const pst_model_row *model, const pst_graph *g, const found *of) {
    for (uint32_t i = 0; i < g->n_param; i++)
        for (uint32_t k = 0; k < PST_HF_PARTS; k++)
            if (of[i].entry[k] &&
                without_prefix(model, of[i].entry[k]->name) != of[i].entry[k]->name)
                return 1;
    return 0;
}

/* Whether the files may lack the parameter: a model that classifies may start from one that does
 * not. */
static int may_be_new(const pst_param *p) {
    return begins(p->name, "classifier.") || begins(p->name, "pooler.");
}

/* prefix: of names in messages; fresh: the model's head may be new. */
typedef struct {
    const char *prefix;
    int fresh;
} matching;
static pst_status match_param(const pst_model_row *model, const pst_param *p, const matching *how,
                              found *of, complaints *all) {
    char buffer[PST_NAME_MAX];
    of->n = pst_hf_count_parts(model, p);
    if (p->cache || p->adapter) return PST_OK;
    if (!of->n) return BAD("parameter %s has no Hugging Face name", p->name);
    of->is_new = how->fresh && may_be_new(p) && !of->entry[0];
    if (of->is_new) return PST_OK;
    for (uint32_t k = 0; k < of->n; k++) {
        const char *name = pst_hf_part_name(model, p, k, buffer, &of->transposed);
        if (of->entry[k]) check_shape(of, k, p, all);
        else
            complain(all, "tensor %.16s%.95s is missing",
                     strcmp(name, "lm_head.weight") ? how->prefix : "", name);
    }
    return PST_OK;
}

/* *fresh: 1: the graph classifies, but the model at `source` does not. */
static pst_status is_fresh(const char *source, const pst_graph *g, int *fresh) {
    pst_model_config c = {0};
    *fresh = 0;
    if (!classifies(g)) return PST_OK;
    PST_TRY(pst_hf_has_config(source, fresh));
    if (*fresh) PST_TRY(pst_hf_config(source, &c));
    *fresh = !c.bert.labels;
    return PST_OK;
}

/* Finds the tensors of every parameter; EINPUT names all that do not fit. */
static pst_status match(const shards *s, const pst_model_row *model, const pst_graph *g,
                        found *of) {
    complaints all = {0};
    matching how = {.prefix = ""};
    PST_TRY(is_fresh(s->source, g, &how.fresh));
    for (uint32_t k = 0; k < s->n; k++) match_file(s->file[k], model, g, of, &all);
    if (has_prefix(model, g, of)) how.prefix = model->hf_prefix;
    for (uint32_t i = 0; i < g->n_param; i++)
        PST_TRY(match_param(model, &g->param[i], &how, &of[i], &all));
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

/* A tensor with weights of its own would be lost, so it must equal the one that it is tied to. */
static pst_status check_equal(const shards *s, const char *tied, const char *prefix,
                              const char *to) {
    const pst_safetensors_file *f, *with;
    const pst_safetensors_entry *own = find_in(s, "", tied, &f),
                                *other = find_in(s, prefix, to, &with);
    if (!own || !other) return PST_OK;
    int same = own->bytes == other->bytes && !strcmp(own->dtype, other->dtype);
    uint8_t *a = malloc(2 * CHUNK);
    pst_status status = a ? PST_OK : pst_fail(PST_ENOMEM, "%s: out of memory", f->path);
    for (uint64_t at = 0; same && status == PST_OK && at < other->bytes; at += CHUNK) {
        uint64_t n = other->bytes - at < CHUNK ? other->bytes - at : CHUNK;
        status = pst_safetensors_read_bytes(f, own, at, a, n);
        if (status == PST_OK) status = pst_safetensors_read_bytes(with, other, at, a + CHUNK, n);
        if (status == PST_OK) same = !memcmp(a, a + CHUNK, n);
    }
    free(a);
    if (status == PST_OK && !same)
        return BAD("%s: %s differs from %s, but the model ties the two", f->path, tied, to);
    return status;
}

static pst_status check_tied(const shards *s, const pst_model_row *model, const pst_graph *g) {
    static const struct {
        const char *kind, *tied, *to;
    } ties[] = {
        {"gpt", "lm_head.weight", "wte.weight"},
        {"llama", "lm_head.weight", "embed_tokens.weight"},
        {"bert", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"},
        {"bert", "cls.predictions.decoder.bias", "cls.predictions.bias"}};
    if (pst_graph_find_param(g, "lm_head.weight") != PST_NONE) return PST_OK;
    for (size_t i = 0; i < sizeof ties / sizeof *ties; i++)
        if (!strcmp(ties[i].kind, model->name))
            PST_TRY(check_equal(s, ties[i].tied, model->hf_prefix, ties[i].to));
    return PST_OK;
}

/* Activations of the model's MLPs; that of BERT's pooler is always the same. */
static int differs(const pst_attr *a, const pst_model_config *c) {
    return a->activation != PST_ACT_NONE && a->activation != PST_ACT_TANH &&
           a->activation != c->activation;
}

/* Checks of one operator what shapes do not show. The scaling of rotary positions may be another
 * one: model.rope_scaling stretches those of trained weights. */
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
    if (!strcmp(node->op->name, "rotary") && a->rope.theta != l->rope.theta)
        return BAD("%s: rope_theta is %g, but the model has model.rope_theta %g", path,
                   (double)l->rope.theta, (double)a->rope.theta);
    if (!strcmp(node->op->name, "layer_norm") && !strcmp(c->kind, "bert") &&
        a->eps != c->bert.norm_eps)
        return BAD("%s: layer_norm_eps is %g, but the model has model.norm_eps %g", path,
                   (double)c->bert.norm_eps, (double)a->eps);
    if (differs(a, c))
        return BAD("%s: activation_function differs from the activation of the model", path);
    return PST_OK;
}

/* Checks what shapes do not show: heads, activation, rotary positions. */
static pst_status check_config(const char *source, const pst_model_row *model, const pst_graph *g) {
    pst_model_config c;
    int there;
    PST_TRY(pst_hf_has_config(source, &there));
    if (!there) return PST_OK;
    char *path = pst_llmc_is(source) ? strdup(source) : pst_hf_path(source, "config.json");
    pst_status status = path ? pst_hf_config(source, &c) : pst_no_memory("to check a model");
    if (status == PST_OK && strcmp(c.kind, model->name))
        status = BAD("%s: a model of kind %s, but model.kind is %s", path, c.kind, model->name);
    for (uint32_t i = 0; status == PST_OK && i < g->n_node; i++)
        status = check_node(path, &g->node[i], &c);
    free(path);
    return status;
}

/* The first n elements of the tensor of positions. */
static pst_status read_first(const found *of, float *out, uint64_t n) {
    const pst_safetensors_entry *e = of->entry[0];
    const uint64_t all = e->dim[0] * e->dim[1];
    float *whole = malloc(all * sizeof *whole);
    if (!whole) return pst_fail(PST_ENOMEM, "%s: out of memory", of->file[0]->path);
    pst_status status = pst_safetensors_read_f32(of->file[0], e, whole, all, 0);
    if (status == PST_OK) memcpy(out, whole, n * sizeof *out);
    free(whole);
    return status;
}

/* Reads the whole parameter of n elements. */
static pst_status read_whole(const found *of, float *out, uint64_t n) {
    const uint64_t each = n / of->n;
    if (of->cut) return read_first(of, out, n);
    for (uint32_t k = 0; k < of->n; k++)
        PST_TRY(pst_safetensors_read_f32(of->file[k], of->entry[k], out + k * each, each,
                                         of->transposed));
    return PST_OK;
}

/* Reads elements [from, to) of the held part of parameter i. */
static pst_status read_held(const found *of, const pst_hf_weights *w, uint32_t i) {
    const pst_param *held = w->held->param + i;
    float *out = w->weight[i];
    uint64_t dim[PST_MAX_DIM], n = pst_slice_whole(held, dim), here = pst_param_elements(held);
    uint64_t from = w->from ? w->from[i] : 0, to = w->to ? w->to[i] : here;
    if (of->is_new) {
        pst_param_initial(held, w->seed, from, to, NULL, out);
        return PST_OK;
    }
    if (from == 0 && to == n) return read_whole(of, out, n);
    int sliced = held->slice.held == PST_HELD_PART;
    float *whole = malloc((n + here) * sizeof *whole);
    pst_status status = whole ? read_whole(of, whole, n)
                              : pst_fail(PST_ENOMEM, "%s: out of memory", of->file[0]->path);
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
        return BAD(
            "%s: a model of kind %s cannot use Hugging Face weights; only gpt, llama and bert "
            "can",
            source, model->name);
    PST_TRY(pst_hf_refuse_gguf(source));
    PST_TRY(check_config(source, model, g));
    if (pst_llmc_is(source)) return pst_llmc_import(source, g, weights);
    PST_TRY(open_files(source, &s));
    pst_status status = import_from(&s, model, g, weights);
    close_shards(&s);
    return status;
}

static void log_cut(const char *source, const found *of, const pst_param *p) {
    pst_log(PST_LOG_INFO,
            "%s has %llu positions; the first %llu are taken, as many as model.context", source,
            (unsigned long long)of->entry[0]->dim[0], (unsigned long long)p->dim[0]);
}

static void log_new(const char *source, const pst_graph *g, const found *of) {
    char list[4 * PST_NAME_MAX] = "";
    for (uint32_t i = 0; i < g->n_param; i++) {
        const size_t used = strlen(list);
        if (of[i].is_new)
            snprintf(list + used, sizeof list - used, "%s%.60s", used ? ", " : "",
                     g->param[i].name);
    }
    if (*list)
        pst_log(PST_LOG_INFO, "%s has no weights for %s; they begin as train.seed says", source,
                list);
}

pst_status pst_hf_log_parts(const char *source, const pst_model_row *model, const pst_graph *g) {
    shards s;
    if (!model->hf_name || pst_llmc_is(source)) return PST_OK;
    PST_TRY(open_files(source, &s));
    found *of = calloc(g->n_param + (size_t)1, sizeof *of);
    pst_status status = of ? match(&s, model, g, of) : pst_no_memory("for a list of tensors");
    for (uint32_t i = 0; status == PST_OK && i < g->n_param; i++)
        if (of[i].cut) log_cut(source, &of[i], &g->param[i]);
    if (status == PST_OK) log_new(source, g, of);
    free(of);
    close_shards(&s);
    return status;
}

/* --- identity --------------------------------------------------------------------------------- */

enum { SAMPLE = 4096 };

/* Up to SAMPLE bytes of a tensor from byte `from` on. */
static pst_status hash_sample(const pst_safetensors_file *f, const pst_safetensors_entry *e,
                              uint64_t from, uint64_t *h) {
    uint8_t bytes[SAMPLE];
    const uint64_t n = e->bytes - from < SAMPLE ? e->bytes - from : SAMPLE;
    PST_TRY(pst_safetensors_read_bytes(f, e, from, bytes, n));
    *h = pst_hash64(bytes, n, *h);
    return PST_OK;
}

static pst_status hash_file(const pst_safetensors_file *f, uint64_t *h) {
    for (uint32_t i = 0; i < f->n_entry; i++) {
        const pst_safetensors_entry *e = &f->entry[i];
        *h = pst_hash64(e->name, strlen(e->name) + 1, *h);
        *h = pst_hash64(e->dtype, strlen(e->dtype) + 1, *h);
        *h = pst_hash64(e->dim, e->n_dim * sizeof *e->dim, *h);
        PST_TRY(hash_sample(f, e, 0, h));
        PST_TRY(hash_sample(f, e, e->bytes / 2, h));
        PST_TRY(hash_sample(f, e, e->bytes > SAMPLE ? e->bytes - SAMPLE : 0, h));
    }
    return PST_OK;
}

pst_status pst_hf_hash(const char *source, uint64_t *hash) {
    shards s;
    uint64_t h = 0;
    PST_TRY(open_files(source, &s));
    pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < s.n; i++) status = hash_file(s.file[i], &h);
    close_shards(&s);
    if (status == PST_OK) *hash = h;
    return status;
}
