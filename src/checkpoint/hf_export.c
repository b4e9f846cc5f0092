/* Writes Hugging Face GPT-2: a folder that transformers loads as GPT2LMHeadModel. */
#include "checkpoint/durable.h"
#include "checkpoint/hf.h"
#include "checkpoint/parts.h"
#include "config/config.h"
#include "penstock/run.h"
#include "prepare/prepare.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pst_status write_config(const char *path, const pst_model_config *c) {
    double dropout = (double)c->dropout;
    json_t *root = json_pack(
        "{s:s, s:[s], s:f, s:n, s:f, s:n, s:f, s:f, s:s, s:i, s:i, s:n, s:i, s:i, s:s*, s:f, s:b, "
        "s:b, s:s, s:i}",
        "activation_function", pst_hf_activation_name(c->activation), "architectures",
        "GPT2LMHeadModel", "attn_pdrop", 0.0, "bos_token_id", "embd_pdrop", dropout, "eos_token_id",
        "initializer_range", 0.02, "layer_norm_epsilon", 1e-5, "model_type", "gpt2", "n_embd",
        (int)c->channels, "n_head", (int)c->heads, "n_inner", "n_layer", (int)c->layers,
        "n_positions", (int)c->context, "penstock_tokenizer", *c->tokenizer ? c->tokenizer : NULL,
        "resid_pdrop", dropout, "scale_attn_weights", 1, "tie_word_embeddings", 1, "torch_dtype",
        "float32", "vocab_size", (int)c->vocabulary);
    char *text = root ? pst_ckpt_json(root, JSON_INDENT(2) | JSON_REAL_PRECISION(7)) : NULL;
    json_decref(root);
    pst_status status =
        text ? pst_durable_file(path, text, strlen(text)) : pst_no_memory("to export weights");
    free(text);
    return status;
}

typedef char hf_text[PST_NAME_MAX + 16];

/* Declares the tensors under GPT2LMHeadModel's names; names[i] holds the text. */
static pst_status declare(const pst_model_row *model, const pst_graph *g,
                          pst_safetensors_decl *decl, hf_text *names, int *transposed) {
    char buffer[PST_NAME_MAX];
    for (uint32_t i = 0; i < g->n_param; i++) {
        const pst_param *p = &g->param[i];
        const char *name = model->hf_name ? model->hf_name(p, buffer, &transposed[i]) : NULL;
        if (!name) return pst_fail(PST_EINPUT, "parameter %s has no Hugging Face name", p->name);
        snprintf(names[i], sizeof names[i], "transformer.%s", name);
        decl[i] = (pst_safetensors_decl){.name = names[i], .dtype = PST_F32, .n_dim = p->n_dim};
        memcpy(decl[i].dim, p->dim, sizeof p->dim);
        if (transposed[i]) {
            decl[i].dim[0] = p->dim[1];
            decl[i].dim[1] = p->dim[0];
        }
    }
    return PST_OK;
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

static pst_status write_param(pst_safetensors_writer *w, const pst_param *p, int transposed,
                              const source *s) {
    PST_TRY(s->read(s->arg, p, s->one));
    if (transposed) transpose(s->one, s->two, p->dim[0], p->dim[1]);
    return pst_safetensors_write(w, transposed ? s->two : s->one,
                                 pst_param_elements(p) * sizeof *s->one);
}

static pst_status write_weights(const char *path, const pst_model_row *model, const pst_graph *g,
                                pst_hf_read_fn read, void *arg) {
    static const char *const key[] = {"format"}, *const value[] = {"pt"};
    /* transformers refuses files without it */
    const pst_safetensors_meta_list meta = {key, value, 1};
    size_t n = g->n_param + (size_t)1;
    uint64_t largest = 1;
    pst_safetensors_writer *w = NULL;
    for (uint32_t i = 0; i < g->n_param; i++)
        if (pst_param_elements(&g->param[i]) > largest) largest = pst_param_elements(&g->param[i]);
    pst_safetensors_decl *decl = calloc(n, sizeof *decl);
    hf_text *names = calloc(n, sizeof *names);
    int *transposed = calloc(n, sizeof *transposed);
    source s = {read, arg, calloc(largest, sizeof *s.one), calloc(largest, sizeof *s.two)};
    pst_status status =
        decl && names && transposed && s.one && s.two ? PST_OK : pst_no_memory("to export weights");
    if (status == PST_OK) status = declare(model, g, decl, names, transposed);
    if (status == PST_OK) status = pst_safetensors_create(path, decl, g->n_param, &meta, &w);
    for (uint32_t i = 0; status == PST_OK && i < g->n_param; i++)
        status = write_param(w, &g->param[i], transposed[i], &s);
    if (status == PST_OK) status = pst_safetensors_finish(w);
    else pst_safetensors_discard(w);
    free(decl);
    free(names);
    free(transposed);
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

pst_status pst_hf_export(const char *folder, const pst_model_config *config,
                         const pst_model_row *model, const pst_graph *g, pst_hf_read_fn read,
                         void *arg) {
    char *weights = pst_ckpt_join(folder, "model.safetensors"),
         *new_weights = pst_ckpt_join(folder, ".tmp-model");
    char *json = pst_ckpt_join(folder, "config.json"),
         *new_json = pst_ckpt_join(folder, ".tmp-config");
    pst_status status = weights && new_weights && json && new_json ? PST_OK : PST_ENOMEM;
    int made = access(folder, F_OK) != 0;
    if (status == PST_OK) status = make_folder(folder);
    if (status == PST_OK) {
        status = write_weights(new_weights, model, g, read, arg);
        if (status == PST_OK) status = write_config(new_json, config);
        if (status == PST_OK) status = pst_durable_rename(new_weights, weights);
        if (status == PST_OK) status = pst_durable_rename(new_json, json);
        if (status == PST_OK) status = pst_durable_sync_folder(folder);
        if (status != PST_OK) {
            pst_durable_remove(new_weights);
            pst_durable_remove(new_json);
        }
        if (status != PST_OK && made) rmdir(folder);
    }
    free(weights);
    free(new_weights);
    free(json);
    free(new_json);
    return status;
}

static pst_status read_from_ckpt(void *arg, const pst_param *param, float *out) {
    return pst_ckpt_read_param(arg, param, NULL, out, NULL);
}

/* The model in the checkpoint's own configuration. */
static pst_status build(const pst_ckpt *ckpt, const pst_config *config, const pst_model_row **model,
                        pst_model_config *sizes, pst_graph **graph) {
    const pst_ckpt_tensor *wte = pst_ckpt_tensor_find(ckpt, "wte.weight");
    PST_TRY(pst_prepare_model(config, model, sizes));
    if (!(*model)->hf_name)
        return pst_fail(
            PST_EINPUT,
            "%s: model.kind is %s; penstock convert supports only gpt, which it writes as GPT-2",
            ckpt->path, (*model)->name);
    if (wte && !sizes->vocabulary)
        sizes->vocabulary = (uint32_t)wte->dim[0]; /* a program may have trained on other tokens */
    sizes->micro_batch = 1;
    return (*model)->build(sizes, graph);
}

/* With the files of its tokenizer, which is NULL if its tokens are bytes or unknown. */
static pst_status export_ckpt(const pst_ckpt *ckpt, const pst_config *config,
                              const pst_tokenizer *tokenizer, const char *folder) {
    pst_graph *graph = NULL;
    const pst_model_row *model;
    pst_model_config sizes;
    pst_status status = build(ckpt, config, &model, &sizes, &graph);
    if (status == PST_OK)
        status = pst_hf_export(folder, &sizes, model, graph, read_from_ckpt, (void *)ckpt);
    if (status == PST_OK && tokenizer) status = pst_ckpt_tokenizer_copy(tokenizer, folder);
    pst_graph_close(graph);
    return status;
}

/* EINPUT if one of the files exists. */
static pst_status check_new(const char *folder) {
    static const char *const names[] = {"model.safetensors", "config.json"};
    for (int i = 0; i < 2; i++) PST_TRY(pst_ckpt_check_new(folder, names[i]));
    return PST_OK;
}

static pst_status export_found(const pst_ckpt *ckpt, const char *folder, int replace) {
    pst_config *config = NULL;
    pst_tokenizer *tokenizer = NULL;
    pst_status status = pst_ckpt_config(ckpt, NULL, 0, &config);
    if (status == PST_OK && pst_config_has_tokenizer(config))
        status = pst_ckpt_tokenizer_open(config->data.tokenizer, ckpt->path, ckpt->info.tokenizer,
                                         &tokenizer);
    if (status == PST_OK && tokenizer && !replace)
        status = pst_ckpt_tokenizer_check_new(tokenizer, folder);
    if (status == PST_OK) status = export_ckpt(ckpt, config, tokenizer, folder);
    pst_tokenizer_close(tokenizer);
    pst_config_close(config);
    return status;
}

pst_status pst_export_hf(const char *checkpoint, const char *folder, int replace) {
    char *path = NULL;
    pst_ckpt *ckpt = NULL;
    if (!replace) PST_TRY(check_new(folder));
    PST_TRY(pst_ckpt_find(checkpoint, &path));
    pst_status status = pst_ckpt_open(path, &ckpt);
    free(path);
    if (status == PST_OK) status = export_found(ckpt, folder, replace);
    pst_ckpt_close(ckpt);
    return status;
}
