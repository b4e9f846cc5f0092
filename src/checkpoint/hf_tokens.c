/* What the token numbers of a Hugging Face model mean. Weights do not tell, and with another
 * tokenizer they are useless: penstock writes its tokenizer into config.json, and takes other
 * models' tokens as bytes only if they cannot be anything else. */
#include "checkpoint/hf.h"
#include "checkpoint/parts.h"
#include "tokenizer/tokenizer.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 256, GPT2 = 50257, WHAT = 160 };

/* The folder of the model; the caller frees. NULL: no memory. */
static char *folder_of(const char *source) {
    char *path = pst_hf_path(source, "x");
    if (path) path[strlen(path) - 2] = 0;
    return path;
}

/* *found: the name of a tokenizer's file beside the model, which the caller frees; NULL: there is
 * none. A file that lacks its partner counts, because the tokens are not bytes. */
static pst_status find_tokenizer(const char *source, char **found) {
    static const char lone[] = "merges.txt";
    char *folder = folder_of(source), *path = pst_hf_path(source, lone);
    *found = NULL;
    pst_status status = folder && path ? pst_tokenizer_find(folder, found) : PST_ENOMEM;
    if (status == PST_OK && !*found && access(path, F_OK) == 0 && !(*found = strdup(lone)))
        status = PST_ENOMEM;
    free(folder);
    free(path);
    return status;
}

/* For weights without a config.json; 0: they have no embedding. */
static pst_status count_rows(const char *source, uint32_t *n) {
    pst_safetensors_file *f = NULL;
    char *path =
        pst_hf_is_folder(source) ? pst_hf_path(source, "model.safetensors") : strdup(source);
    *n = 0;
    pst_status status =
        path ? pst_safetensors_open(path, &f) : pst_fail(PST_ENOMEM, "%s: out of memory", source);
    if (status == PST_OK) {
        const pst_safetensors_entry *wte = pst_safetensors_find(f, "wte.weight");
        if (!wte) wte = pst_safetensors_find(f, "transformer.wte.weight");
        if (!wte) wte = pst_safetensors_find(f, "model.embed_tokens.weight");
        if (!wte) wte = pst_safetensors_find(f, "bert.embeddings.word_embeddings.weight");
        if (wte && wte->n_dim == 2 && wte->dim[0] <= INT32_MAX) *n = (uint32_t)wte->dim[0];
    }
    pst_safetensors_close(f);
    free(path);
    return status;
}

static pst_status read_sizes(const char *source, pst_model_config *m) {
    int there;
    PST_TRY(pst_hf_has_config(source, &there));
    return there ? pst_hf_config(source, m) : count_rows(source, &m->vocabulary);
}

/* Describes the tokens for the message. */
static const char *describe(const pst_model_config *m, const char *file, char text[WHAT]) {
    if (*m->tokenizer) snprintf(text, WHAT, "from the tokenizer %s", m->tokenizer);
    else if (file) snprintf(text, WHAT, "from %s", file);
    else if (m->vocabulary == GPT2) snprintf(text, WHAT, "from GPT-2's byte-pair encoding (BPE)");
    else
        snprintf(text, WHAT,
                 "from an unknown tokenizer, because config.json names none (a model with bytes as "
                 "tokens needs \"penstock_tokenizer\": \"byte\")");
    return text;
}

/* 1: `tokenizer` is the one whose files lie beside the model; or nothing says which one the model
 * has, and their sizes agree. */
static int is_same(const char *source, const pst_model_config *m, const char *file,
                   const char *tokenizer) {
    pst_tokenizer *own = NULL, *given = NULL;
    int same = 0;
    if (!strcmp(tokenizer, "byte") || *m->tokenizer) return 0;
    char *folder = file ? folder_of(source) : NULL;
    if (pst_tokenizer_open(tokenizer, &given) == PST_OK) {
        if (!file) same = pst_tokenizer_size(given) == m->vocabulary;
        else if (folder && pst_tokenizer_open(folder, &own) == PST_OK)
            same = pst_tokenizer_hash(own) == pst_tokenizer_hash(given);
    }
    pst_tokenizer_close(own);
    pst_tokenizer_close(given);
    free(folder);
    return same;
}

pst_status pst_hf_find_tokenizer(const char *source, char **folder) {
    pst_model_config m = {0};
    char *file;
    *folder = NULL;
    PST_TRY(read_sizes(source, &m));
    PST_TRY(find_tokenizer(source, &file));
    int there = file != NULL;
    free(file);
    if (*m.tokenizer || !there) return PST_OK;
    *folder = folder_of(source);
    return *folder ? PST_OK : pst_no_memory("for a path");
}

pst_status pst_hf_check_tokens(const char *source, const char *tokenizer, const char *instead) {
    pst_model_config m = {0};
    char what[WHAT], *file;
    pst_status status = PST_OK;
    PST_TRY(read_sizes(source, &m));
    PST_TRY(find_tokenizer(source, &file));
    if (!*m.tokenizer && !file && m.vocabulary == BYTES)
        snprintf(m.tokenizer, sizeof m.tokenizer, "byte");
    if (m.vocabulary && strcmp(m.tokenizer, tokenizer) && !is_same(source, &m, file, tokenizer))
        status = pst_fail(PST_EINPUT, "%s: the model's %u tokens come %s, %s", source, m.vocabulary,
                          describe(&m, file, what), instead);
    free(file);
    return status;
}
