/* Writes a folder that transformers loads as GPT2LMHeadModel, LlamaForCausalLM, Qwen2ForCausalLM,
 * MistralForCausalLM, BertForPreTraining or BertForMaskedLM. */
#include "base/file.h"
#include "base/sized.h"
#include "checkpoint/base.h"
#include "checkpoint/durable.h"
#include "checkpoint/export.h"
#include "checkpoint/hf_parts.h"
#include "checkpoint/llmc.h"
#include "checkpoint/parts.h"
#include "config/config.h"
#include "penstock/run.h"
#include "prepare/prepare.h"
#include "tokenizer/tokenizer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes a text that it frees. */
static pst_status write_text(const char *path, char *text) {
    pst_status status = pst_durable_file(path, text, strlen(text));
    free(text);
    return status;
}

static pst_status write_config(const char *path, const pst_hf_model *m) {
    char *text = NULL;
    PST_TRY(pst_hf_config_text(m->config, m->end, &text));
    return write_text(path, text);
}

typedef char hf_text[PST_NAME_MAX + 16];

/* A tensor of the file, in the order in which it is written: part `part` of the `parts` of a
 * parameter. */
typedef struct {
    hf_text name;
    uint32_t param, part, parts;
    int transposed;
} tensor;

static int by_name(const void *a, const void *b) {
    return strcmp(((const tensor *)a)->name, ((const tensor *)b)->name);
}

/* Sets the *n tensors, at most PST_HF_PARTS for each parameter, under the names of the class with
 * an output layer, in the order of names, as transformers writes them. */
static pst_status list_tensors(const pst_hf_model *m, tensor *list, uint32_t *n) {
    char buffer[PST_NAME_MAX];
    *n = 0;
    for (uint32_t i = 0; i < m->graph->n_param; i++) {
        const pst_param *p = &m->graph->param[i];
        const uint32_t parts = m->model->hf_name ? pst_hf_count_parts(m->model, p) : 0;
        if (!parts) return pst_fail(PST_EINPUT, "parameter %s has no Hugging Face name", p->name);
        for (uint32_t k = 0; k < parts; k++) {
            tensor *t = &list[(*n)++];
            *t = (tensor){.param = i, .part = k, .parts = parts};
            const char *name = pst_hf_part_name(m->model, p, k, buffer, &t->transposed);
            const char *prefix = strcmp(name, "lm_head.weight") ? m->model->hf_prefix : "";
            snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
        }
    }
    qsort(list, *n, sizeof *list, by_name);
    return PST_OK;
}

static void declare(const pst_graph *g, const tensor *list, uint32_t n,
                    pst_safetensors_decl *decl) {
    for (uint32_t i = 0; i < n; i++) {
        const pst_param *p = &g->param[list[i].param];
        decl[i] = (pst_safetensors_decl){.name = list[i].name, .dtype = PST_F32, .n_dim = p->n_dim};
        memcpy(decl[i].dim, p->dim, sizeof p->dim);
        if (list[i].transposed) {
            decl[i].dim[0] = p->dim[1];
            decl[i].dim[1] = p->dim[0];
        }
        decl[i].dim[0] /= list[i].parts;
    }
}

static void transpose(const float *from, float *to, uint64_t rows, uint64_t columns) {
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
}

/* The source of weights, and buffers for the largest parameter twice. */
typedef struct {
    pst_hf_read_fn read;
    void *arg;
    float *one, *two;
} source;

static pst_status write_tensor(pst_safetensors_writer *w, const pst_param *p, const tensor *t,
                               const source *s) {
    const uint64_t n = pst_param_elements(p) / t->parts;
    PST_TRY(s->read(s->arg, p, s->one));
    if (t->transposed) transpose(s->one, s->two, p->dim[0], p->dim[1]);
    return pst_safetensors_write(w, (t->transposed ? s->two : s->one) + t->part * n,
                                 n * sizeof *s->one);
}

static pst_status write_weights(const char *path, const pst_hf_model *m, pst_hf_read_fn read,
                                void *arg) {
    static const char *const key[] = {"format"}, *const value[] = {"pt"};
    /* transformers refuses files without it */
    const pst_safetensors_meta_list meta = {key, value, 1};
    const pst_graph *g = m->graph;
    const size_t most = (g->n_param + (size_t)1) * PST_HF_PARTS;
    uint64_t largest = 1;
    uint32_t n = 0;
    pst_safetensors_writer *w = NULL;
    for (uint32_t i = 0; i < g->n_param; i++)
        if (pst_param_elements(&g->param[i]) > largest) largest = pst_param_elements(&g->param[i]);
    pst_safetensors_decl *decl = calloc(most, sizeof *decl);
    tensor *list = calloc(most, sizeof *list);
    source s = {read, arg, calloc(largest, sizeof *s.one), calloc(largest, sizeof *s.two)};
    pst_status status =
        decl && list && s.one && s.two ? PST_OK : pst_no_memory("to export weights");
    if (status == PST_OK) status = list_tensors(m, list, &n);
    if (status == PST_OK) declare(g, list, n, decl);
    if (status == PST_OK) status = pst_safetensors_create(path, decl, n, &meta, &w);
    for (uint32_t i = 0; status == PST_OK && i < n; i++)
        status = write_tensor(w, &g->param[list[i].param], &list[i], &s);
    if (status == PST_OK) status = pst_safetensors_finish(w);
    else pst_safetensors_discard(w);
    free(decl);
    free(list);
    free(s.one);
    free(s.two);
    return status;
}

/* Checks that the folder can be written: EINPUT for a wrong path, ENOMEM for the disk. */
static pst_status make_folder(const char *folder) {
    struct stat st;
    if (mkdir(folder, 0777) == 0) return PST_OK;
    if (errno == EEXIST && stat(folder, &st) == 0 && !S_ISDIR(st.st_mode)) errno = ENOTDIR;
    if (errno == EEXIST && access(folder, W_OK | X_OK) == 0) return PST_OK;
    return pst_fail(pst_status_of_errno(errno), "cannot create folder %s: %s", folder,
                    strerror(errno));
}

/* The files of a folder: names, and names while they are written. */
enum { WEIGHTS, CONFIG, GENERATION, N_FILE };
static const char *const file_name[N_FILE] = {"model.safetensors", "config.json",
                                              "generation_config.json"};
static const char *const new_name[N_FILE] = {".tmp-model", ".tmp-config", ".tmp-generation"};

/* Writes the new files, then renames them. */
static pst_status write_files(char *const path[N_FILE], char *const new_path[N_FILE],
                              const pst_hf_model *m, pst_hf_read_fn read, void *arg) {
    char *generation = NULL;
    pst_status status = write_weights(new_path[WEIGHTS], m, read, arg);
    if (status == PST_OK) status = write_config(new_path[CONFIG], m);
    if (status == PST_OK) status = pst_hf_generation_text(m->config, m->end, &generation);
    const int n = generation ? N_FILE : GENERATION;
    if (status == PST_OK && generation) status = write_text(new_path[GENERATION], generation);
    for (int i = 0; i < n && status == PST_OK; i++)
        status = pst_durable_rename(new_path[i], path[i]);
    return status;
}

pst_status pst_hf_export(const char *folder, const pst_hf_model *m, pst_hf_read_fn read,
                         void *arg) {
    char *path[N_FILE], *new_path[N_FILE];
    pst_status status = PST_OK;
    int made = access(folder, F_OK) != 0;
    for (int i = 0; i < N_FILE; i++) {
        path[i] = pst_ckpt_join(folder, file_name[i]);
        new_path[i] = pst_ckpt_join(folder, new_name[i]);
        if (!path[i] || !new_path[i]) status = PST_ENOMEM;
    }
    if (status == PST_OK) status = make_folder(folder);
    if (status == PST_OK) {
        status = write_files(path, new_path, m, read, arg);
        if (status == PST_OK) status = pst_durable_sync_folder(folder);
        for (int i = 0; status != PST_OK && i < N_FILE; i++) pst_durable_remove(new_path[i]);
        if (status != PST_OK && made) rmdir(folder);
    }
    for (int i = 0; i < N_FILE; i++) {
        free(path[i]);
        free(new_path[i]);
    }
    return status;
}

/* The model in the checkpoint's own configuration. */
static pst_status build(const pst_ckpt *ckpt, const pst_config *config, const pst_model_row **model,
                        pst_model_config *sizes, pst_graph **graph) {
    const pst_ckpt_tensor *wte = pst_ckpt_tensor_find(ckpt, "wte.weight");
    if (!wte) wte = pst_ckpt_tensor_find(ckpt, "embed_tokens.weight");
    PST_TRY(pst_prepare_model(config, model, sizes));
    if (!(*model)->hf_name)
        return pst_fail(
            PST_EINPUT,
            "%s: model.kind is %s; penstock convert supports gpt, which it writes as GPT-2, "
            "llama and bert",
            ckpt->path, (*model)->name);
    if ((*model)->masked && !sizes->bert.token_types)
        return pst_fail(PST_EINPUT,
                        "%s: model.token_types is 0; transformers' BERT has token types, so that "
                        "penstock convert supports only models with them",
                        ckpt->path);
    if (wte && !sizes->vocabulary)
        sizes->vocabulary = (uint32_t)wte->dim[0]; /* a program may have trained on other tokens */
    sizes->micro_batch = 1;
    return (*model)->build(sizes, graph);
}

/* What is written of an opened checkpoint, and where. */
typedef struct {
    pst_export_fn write;
    const void *to;
    const char *path; /* of what is written */
    const char *base; /* as in pst_convert_options */
} target;

/* EINPUT: `path` has the weights that a run with adapters or frozen parameters needs. */
static pst_status check_base(const pst_config *config, const char *path) {
    struct stat base, own;
    const int same = stat(config->model.weights, &base) == 0 && stat(path, &own) == 0 &&
                     base.st_dev == own.st_dev && base.st_ino == own.st_ino;
    if (!same || !pst_ckpt_has_base(config)) return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s has the frozen weights of this run, without which its checkpoints cannot "
                    "be used; write to another place",
                    path);
}

/* tokenizer: NULL if its tokens are bytes or unknown. */
static pst_status export_ckpt(const pst_ckpt *ckpt, const pst_config *config,
                              const pst_tokenizer *tokenizer, const target *t) {
    pst_graph *graph = NULL;
    const pst_model_row *model;
    pst_model_config sizes;
    pst_status status = build(ckpt, config, &model, &sizes, &graph);
    if (status == PST_OK) status = pst_ckpt_base_check(ckpt, config);
    if (status == PST_OK) {
        const pst_hf_model m = {&sizes, model, graph,
                                tokenizer ? pst_tokenizer_end(tokenizer) : -1};
        pst_ckpt_model from = {ckpt, config, model, graph};
        const pst_export e = {m, tokenizer, pst_ckpt_model_read, &from};
        status = t->write(&e, t->to);
    }
    pst_graph_close(graph);
    return status;
}

static pst_status export_found(const pst_ckpt *ckpt, const target *t) {
    pst_config *config = NULL;
    pst_tokenizer *tokenizer = NULL;
    pst_status status = pst_ckpt_config_with_base(ckpt, t->base, NULL, 0, &config);
    if (status == PST_OK) status = check_base(config, t->path);
    if (status == PST_OK && pst_config_has_tokenizer(config))
        status = pst_ckpt_tokenizer_open(config->data.tokenizer, ckpt->path, ckpt->info.tokenizer,
                                         &tokenizer);
    if (status == PST_OK) status = export_ckpt(ckpt, config, tokenizer, t);
    pst_tokenizer_close(tokenizer);
    pst_config_close(config);
    return status;
}

static pst_status export_from(const char *checkpoint, const target *t) {
    char *path = NULL;
    pst_ckpt *ckpt = NULL;
    PST_TRY(pst_ckpt_find(checkpoint, &path));
    pst_status status = pst_ckpt_open(path, &ckpt);
    free(path);
    if (status == PST_OK) status = export_found(ckpt, t);
    pst_ckpt_close(ckpt);
    return status;
}

/* --- folders and files ------------------------------------------------------------------------ */

/* EINPUT if one of the files exists. */
static pst_status check_new(const char *folder) {
    for (int i = 0; i < N_FILE; i++) PST_TRY(pst_ckpt_check_new(folder, file_name[i]));
    return PST_OK;
}

typedef struct {
    const char *path;
    int replace;
} folder_to;

static pst_status export_folder(const pst_export *e, const void *to) {
    const folder_to *f = to;
    if (e->tokenizer && !f->replace) PST_TRY(pst_ckpt_tokenizer_check_new(e->tokenizer, f->path));
    PST_TRY(pst_hf_export(f->path, &e->model, e->read, e->arg));
    if (!e->tokenizer) return PST_OK;
    PST_TRY(pst_ckpt_tokenizer_copy(e->tokenizer, f->path));
    return pst_ckpt_tokenizer_config(e->tokenizer, e->model.config->context, f->path);
}

static pst_status find_type(const char *name, pst_dtype *type) {
    static const struct {
        const char *name;
        pst_dtype type;
    } types[] = {{"f32", PST_F32}, {"f16", PST_F16}, {"bf16", PST_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(name, types[i].name)) {
            *type = types[i].type;
            return PST_OK;
        }
    return pst_fail(PST_EINPUT, "--type '%s': expected f32, f16 or bf16", name);
}

static pst_status convert_to_folder(const pst_convert_options *o) {
    const folder_to to = {o->to, (int)o->replace};
    if (o->type && *o->type)
        return pst_fail(PST_EINPUT,
                        "--type is for files .gguf and .bin; %s is a folder, which "
                        "has f32",
                        o->to);
    if (!o->replace) PST_TRY(check_new(o->to));
    return export_from(o->checkpoint, &(target){export_folder, &to, o->to, o->base});
}

static pst_status convert_to_file(const pst_convert_options *o, pst_export_fn write) {
    pst_export_to to = {o->to, PST_F32};
    if (o->type && *o->type) PST_TRY(find_type(o->type, &to.type));
    if (!o->replace) PST_TRY(pst_file_check_new(o->to));
    return export_from(o->checkpoint, &(target){write, &to, o->to, o->base});
}

pst_status pst_convert(const pst_convert_options *options) {
    pst_convert_options o;
    PST_TRY(pst_sized_take("pst_convert", options, &o, sizeof o));
    if (!o.checkpoint || !o.to)
        return pst_fail(PST_EINPUT, "pst_convert: %s is NULL", o.to ? "checkpoint" : "to");
    if (pst_llmc_is(o.to)) return convert_to_file(&o, pst_llmc_export);
    const size_t n = strlen(o.to);
    const int gguf = n > 5 && !strcasecmp(o.to + n - 5, ".gguf") && !pst_hf_is_folder(o.to);
    return gguf ? convert_to_file(&o, pst_export_gguf) : convert_to_folder(&o);
}
