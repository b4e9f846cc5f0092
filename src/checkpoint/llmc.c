/* See llmc.h. */
#include "checkpoint/llmc.h"
#include "base/file.h"
#include "graph/slice.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 13 }; /* elements of 16 bits that are read at once */
#define BAD(...) pst_fail(PST_EINPUT, __VA_ARGS__)

/* The kinds of tensors in the order of the file; in each block: 1, else one for the model. Sizes
 * are multiples of the channels; 0: rows of a table. */
typedef struct {
    const char *name;
    int in_block;
    uint32_t rows, columns;
} tensor_kind;
static const tensor_kind kinds[] = {
    {"wte.weight", 0, 0, 1},         {"wpe.weight", 0, 0, 1},         {"ln_1.weight", 1, 1, 0},
    {"ln_1.bias", 1, 1, 0},          {"attn.c_attn.weight", 1, 3, 1}, {"attn.c_attn.bias", 1, 3, 0},
    {"attn.c_proj.weight", 1, 1, 1}, {"attn.c_proj.bias", 1, 1, 0},   {"ln_2.weight", 1, 1, 0},
    {"ln_2.bias", 1, 1, 0},          {"mlp.c_fc.weight", 1, 4, 1},    {"mlp.c_fc.bias", 1, 4, 0},
    {"mlp.c_proj.weight", 1, 1, 4},  {"mlp.c_proj.bias", 1, 1, 0},    {"ln_f.weight", 0, 1, 0},
    {"ln_f.bias", 0, 1, 0},
};
enum { N_KIND = sizeof kinds / sizeof *kinds, WTE = 0 };

/* The shape of a tensor in the file; n_dim 1: dim[1] is 1. */
static void shape_of(const pst_llmc *h, int kind, uint64_t dim[2]) {
    const tensor_kind *k = &kinds[kind];
    dim[0] = (uint64_t)k->rows * h->channels;
    if (!k->rows) dim[0] = kind == WTE ? h->rows : h->context;
    dim[1] = k->columns ? (uint64_t)k->columns * h->channels : 1;
}

static uint64_t elements_of(const pst_llmc *h, int kind) {
    uint64_t dim[2];
    shape_of(h, kind, dim);
    return dim[0] * dim[1];
}

/* The first element of the tensor in the file. */
static uint64_t place_of(const pst_llmc *h, int kind, uint32_t layer) {
    uint64_t at = layer * elements_of(h, kind);
    for (int k = 0; k < kind; k++) at += elements_of(h, k) * (kinds[k].in_block ? h->layers : 1);
    return at;
}

/* The kind of a parameter, and its layer; -1: none. */
static int kind_of(const char *name, uint32_t *layer) {
    int n = 0;
    const int in_block = sscanf(name, "h.%u.%n", layer, &n) == 1 && n;
    if (!in_block) *layer = 0;
    for (int k = 0; k < N_KIND; k++)
        if (kinds[k].in_block == in_block && !strcmp(kinds[k].name, name + (in_block ? n : 0)))
            return k;
    return -1;
}

/* --- import ----------------------------------------------------------------------------------- */

static pst_status check_param(const char *path, const pst_llmc *h, const pst_param *p) {
    uint32_t layer;
    uint64_t dim[2];
    const int kind = kind_of(p->name, &layer);
    if (kind < 0 || layer >= h->layers)
        return BAD("%s has no tensor for parameter %s of the model", path, p->name);
    shape_of(h, kind, dim);
    if (kind == WTE) dim[0] = h->vocabulary;
    const uint64_t columns = p->n_dim == 2 ? p->dim[1] : 1;
    if (p->dim[0] == dim[0] && columns == dim[1]) return PST_OK;
    return BAD("%s: the tensor of %s has shape [%" PRIu64 ",%" PRIu64
               "], but the model needs [%" PRIu64 ",%" PRIu64 "]",
               path, p->name, dim[0], dim[1], p->dim[0], columns);
}

static pst_status check(const char *path, const pst_llmc *h, const pst_graph *g) {
    uint32_t n = 0;
    uint64_t expected = 0;
    for (int k = 0; k < N_KIND; k++) expected += kinds[k].in_block ? h->layers : 1;
    for (uint32_t i = 0; i < g->n_param; i++) {
        if (g->param[i].cache) continue;
        PST_TRY(check_param(path, h, &g->param[i]));
        n++;
    }
    if (n == expected) return PST_OK;
    return BAD("%s has %u layers, but the model has fewer", path, h->layers);
}

/* An open file. */
typedef struct {
    const char *path;
    FILE *f;
    pst_llmc h;
} source;

/* Reads n elements from element `from` of the file on. */
static pst_status read_at(const source *s, uint64_t from, uint64_t n, float *out) {
    const uint64_t size = pst_dtype_bytes(s->h.type);
    uint16_t half[CHUNK];
    int ok = fseeko(s->f, (off_t)(PST_LLMC_HEADER + from * size), SEEK_SET) == 0;
    if (ok && s->h.type == PST_F32) ok = fread(out, size, n, s->f) == n;
    for (uint64_t at = 0; ok && s->h.type != PST_F32 && at < n; at += CHUNK) {
        const uint64_t part = n - at < CHUNK ? n - at : CHUNK;
        ok = fread(half, size, part, s->f) == part;
        for (uint64_t i = 0; ok && i < part; i++) out[at + i] = pst_f32_from_bf16(half[i]);
    }
    if (ok) return PST_OK;
    return BAD("%s cannot be read: %s", s->path, ferror(s->f) ? strerror(errno) : "it has ended");
}

/* Reads elements [from, to) of the held part of parameter i. */
static pst_status read_held(const source *s, const pst_hf_weights *w, uint32_t i) {
    const pst_param *held = w->held->param + i;
    uint32_t layer;
    uint64_t dim[PST_MAX_DIM];
    const int kind = kind_of(held->name, &layer);
    const uint64_t at = place_of(&s->h, kind, layer);
    const uint64_t n = pst_slice_whole(held, dim), here = pst_param_elements(held);
    const uint64_t from = w->from ? w->from[i] : 0;
    const uint64_t to = w->to ? w->to[i] : here;
    if (held->slice.held != PST_HELD_PART) return read_at(s, at + from, to - from, w->weight[i]);
    float *whole = malloc((n + here) * sizeof *whole);
    pst_status status = whole ? read_at(s, at, n, whole) : pst_no_memory("to read weights");
    if (status == PST_OK) {
        pst_slice_take(held, whole, whole + n);
        memcpy(w->weight[i], whole + n + from, (to - from) * sizeof *whole);
    }
    free(whole);
    return status;
}

pst_status pst_llmc_import(const char *path, const pst_graph *g, const pst_hf_weights *w) {
    source s = {.path = path};
    PST_TRY(pst_llmc_read(path, &s.h));
    PST_TRY(check(path, &s.h, g));
    if (!(s.f = fopen(path, "re")))
        return pst_fail(pst_status_of_errno(errno), "%s: %s", path, strerror(errno));
    pst_status status = PST_OK;
    for (uint32_t i = 0; status == PST_OK && i < g->n_param; i++)
        if (w->weight[i]) status = read_held(&s, w, i);
    fclose(s.f);
    return status;
}

/* --- export ----------------------------------------------------------------------------------- */

typedef struct {
    const pst_export *e;
    pst_llmc h;
    float *weight; /* room for the largest tensor */
} export_job;

static void write_header(const pst_llmc *h, FILE *out) {
    const uint32_t number[] = {PST_LLMC_MAGIC, h->type == PST_F32 ? PST_LLMC_F32 : PST_LLMC_BF16,
                               h->context,     h->vocabulary,
                               h->layers,      h->heads,
                               h->channels,    h->rows};
    uint8_t header[PST_LLMC_HEADER] = {0};
    for (size_t i = 0; i < sizeof number; i++) header[i] = (uint8_t)(number[i / 4] >> 8 * (i % 4));
    fwrite(header, 1, sizeof header, out);
}

static pst_status write_tensor(const export_job *j, int kind, uint32_t layer, FILE *out) {
    const pst_graph *g = j->e->model.graph;
    const uint64_t n = elements_of(&j->h, kind);
    char name[PST_NAME_MAX];
    if (kinds[kind].in_block) snprintf(name, sizeof name, "h.%u.%s", layer, kinds[kind].name);
    else snprintf(name, sizeof name, "%s", kinds[kind].name);
    const uint32_t i = pst_graph_find_param(g, name);
    if (i == PST_NONE) return pst_fail(PST_EINTERNAL, "the model has no parameter %s", name);
    memset(j->weight, 0, n * sizeof *j->weight); /* the padding */
    PST_TRY(j->e->read(j->e->arg, &g->param[i], j->weight));
    if (j->h.type == PST_BF16) pst_bf16_pack(j->weight, n);
    fwrite(j->weight, pst_dtype_bytes(j->h.type), n, out);
    return PST_OK;
}

static pst_status print(const void *what, FILE *out) {
    const export_job *j = what;
    write_header(&j->h, out);
    for (int k = 0; k < N_KIND; k++)
        for (uint32_t layer = 0; layer < (kinds[k].in_block ? j->h.layers : 1); layer++)
            PST_TRY(write_tensor(j, k, layer, out));
    return PST_OK;
}

static pst_status check_export(const pst_model_config *c, const pst_export_to *to) {
    if (strcmp(c->kind, "gpt"))
        return BAD("%s: model.kind is %s; checkpoints of llm.c are of gpt", to->path, c->kind);
    if (c->activation != PST_ACT_GELU_TANH)
        return BAD("%s: model.activation is %s; llm.c has gelu_tanh only", to->path,
                   pst_activation_name(c->activation));
    if (to->type == PST_F16)
        return BAD("%s: --type f16: checkpoints of llm.c have f32 or bf16", to->path);
    return PST_OK;
}

pst_status pst_llmc_export(const pst_export *e, const void *to) {
    const pst_export_to *file = to;
    const pst_model_config *c = e->model.config;
    PST_TRY(check_export(c, file));
    export_job j = {.e = e,
                    .h = {.context = c->context,
                          .vocabulary = c->vocabulary,
                          .layers = c->layers,
                          .heads = c->heads,
                          .channels = c->channels,
                          .type = file->type}};
    j.h.rows = (c->vocabulary + PST_LLMC_PADDED - 1) / PST_LLMC_PADDED * PST_LLMC_PADDED;
    uint64_t n = 0;
    for (int k = 0; k < N_KIND; k++)
        if (elements_of(&j.h, k) > n) n = elements_of(&j.h, k);
    if (!(j.weight = malloc(n * sizeof *j.weight))) return pst_no_memory("to export weights");
    pst_status status = pst_file_replace(file->path, print, &j);
    free(j.weight);
    return status;
}
