/* See source.h. */
#include "generate/source.h"
#include "base/log.h"
#include "checkpoint/base.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf.h"
#include "checkpoint/safetensors.h"
#include "prepare/llmc.h"
#include "prepare/prepare.h"
#include "run/resume.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BYTES = 256 }; /* tokens of the byte tokenizer */

/* A program may train on any tokens (data.kind custom), and files of tokens may be without
 * tokenizer; if there are as many as bytes, they are taken as bytes. */
static pst_status check_tokens(const pst_config *c, const char *source) {
    if (!strcmp(c->data.kind, "tokens") && !strcmp(c->data.tokenizer, "byte") &&
        c->model.vocabulary != BYTES)
        return pst_fail(PST_EINPUT,
                        "%s: data.tokenizer is byte, but the model has %" PRId64
                        " tokens, not 256; train with the tokenizer that made them",
                        source, c->model.vocabulary);
    if (strcmp(c->data.kind, "custom") || !strcmp(c->model.kind, "custom") ||
        c->model.vocabulary == BYTES)
        return PST_OK;
    return pst_fail(PST_EINPUT,
                    "%s: the model's tokens were defined by the program that trained the model "
                    "(data.kind custom); only bytes as tokens (256) can be read as text",
                    source);
}

/* The tokenizer that the configuration names; hash: as pst_ckpt_tokenizer_open. */
static pst_status open_tokenizer(pst_source *g, const char *source, uint64_t hash) {
    return pst_ckpt_tokenizer_open(g->config->data.tokenizer, source, hash, &g->tokenizer);
}

/* The configuration in a checkpoint, with this machine's device, and the tokenizer. */
static pst_status open_checkpoint(pst_source *g, const char *source, const char *base) {
    static const char *const override[] = {"parallel.device=auto"};
    struct stat st;
    char *folder = NULL;
    pst_ckpt *ckpt = NULL;
    if (stat(source, &st) != 0) return pst_fail(PST_EINPUT, "%s: %s", source, strerror(errno));
    PST_TRY(pst_hf_refuse_gguf(source));
    if (!S_ISDIR(st.st_mode))
        return pst_fail(
            PST_EINPUT,
            "%s: neither a run, a checkpoint of a run, nor a Hugging Face model with config.json",
            source);
    PST_TRY(pst_ckpt_find(source, &folder));
    pst_status status = pst_ckpt_open(folder, &ckpt);
    if (status == PST_OK) status = pst_ckpt_config_with_base(ckpt, base, override, 1, &g->config);
    if (status == PST_OK) status = check_tokens(g->config, source);
    if (status == PST_OK) status = open_tokenizer(g, source, ckpt->info.tokenizer);
    pst_ckpt_close(ckpt);
    free(folder);
    return status;
}

/* The sizes of a Hugging Face model, from config.json, and its tokenizer. Without the files of one,
 * its tokens must be bytes. */
static pst_status open_hf(pst_source *g, const char *source) {
    pst_model_config m = {0};
    char text[240], *folder = NULL, *override[2] = {NULL, NULL};
    struct stat st;
    pst_safetensors_file *f;
    if (stat(source, &st) == 0 && S_ISREG(st.st_mode) && !pst_llmc_is(source)) {
        /* an error in the file itself is reported first */
        PST_TRY(pst_safetensors_open(source, &f));
        pst_safetensors_close(f);
    }
    PST_TRY(pst_hf_config(source, &m));
    PST_TRY(pst_hf_find_tokenizer(source, &folder));
    pst_status status =
        folder ? PST_OK
               : pst_hf_check_tokens(
                     source, "byte",
                     "but the files of a tokenizer (tokenizer.json, or vocab.json with "
                     "merges.txt) are not beside it; put them there, or use a model with bytes as "
                     "tokens, such as one that penstock convert wrote from a run on text");
    snprintf(text, sizeof text,
             "model: {kind: %s, vocabulary: %u%s}\ndata: {kind: %s, paths: [none]}\n", m.kind,
             m.vocabulary, m.bert.labels ? ", task: classification" : "",
             m.bert.labels ? "labels" : "text");
    if (status == PST_OK &&
        (asprintf(&override[0], "model.weights=%s", source) < 0 ||
         asprintf(&override[1], "data.tokenizer=%s", folder ? folder : "byte") < 0))
        status = pst_no_memory("for a configuration");
    if (status == PST_OK)
        status = pst_config_parse(text, source, (const char *const *) override, 2, &g->config);
    if (status == PST_OK) status = pst_prepare_set_labels(g->config);
    if (status == PST_OK) status = open_tokenizer(g, source, 0);
    free(folder);
    free(override[0]);
    free(override[1]);
    return status;
}

static pst_status read_ends(pst_source *g) {
    const int32_t end = pst_tokenizer_end(g->tokenizer);
    if (g->hf) PST_TRY(pst_hf_read_ends(g->path, &g->ends));
    if (!g->ends.n && end >= 0) g->ends.id[g->ends.n++] = end;
    return PST_OK;
}

pst_status pst_source_open(const char *path, const char *base, pst_source *source) {
    *source = (pst_source){.path = path, .hf = pst_hf_is(path)};
    if (source->hf && base && *base)
        return pst_fail(PST_EINPUT,
                        "%s has all weights of its model; --base is for runs with adapt or "
                        "train.freeze",
                        path);
    pst_status status = source->hf ? open_hf(source, path) : open_checkpoint(source, path, base);
    if (status == PST_OK) status = read_ends(source);
    if (status != PST_OK) pst_source_close(source);
    return status;
}

void pst_source_close(pst_source *source) {
    pst_config_close(source->config);
    pst_tokenizer_close(source->tokenizer);
    *source = (pst_source){0};
}

pst_status pst_source_model(const pst_source *source, int64_t context, pst_model_config *model) {
    const pst_model_row *row;
    PST_TRY(pst_prepare_model(source->config, &row, model));
    if (!context) return PST_OK;
    if (!row->continues)
        return pst_fail(PST_EINPUT,
                        "%s: another context is for models that continue text, not for model.kind "
                        "%s",
                        source->path, row->name);
    if (context > model->context && !row->rotary)
        return pst_fail(PST_EINPUT,
                        "%s: a context of %" PRId64 " tokens is too long: the model has learned "
                        "positions for %u",
                        source->path, context, model->context);
    if (context > model->context)
        pst_log(PST_LOG_WARN,
                "a context of %" PRId64 " tokens is longer than the %u for which the rotary "
                "positions of %s were trained",
                context, model->context, source->path);
    model->context = (uint32_t)context;
    return PST_OK;
}

pst_status pst_source_read(const pst_source *source, pst_rank *rank) {
    if (!source->path) return pst_rank_init_weights(rank);
    return source->hf ? pst_resume_read_hf(rank, source->path)
                      : pst_resume_read_weights(rank, source->path);
}
