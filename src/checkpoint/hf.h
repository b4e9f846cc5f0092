/* Hugging Face GPT-2: config.json and model.safetensors; the model's hf_name maps names and
 * order of dimensions. */
#ifndef PST_CHECKPOINT_HF_H
#define PST_CHECKPOINT_HF_H
#include "models/model.h"
#include <stddef.h>

/* 1 if `source` is a safetensors file, or a folder with config.json that is not a penstock
 * checkpoint. */
int pst_hf_is(const char *source);
/* Sizes, dropout, activation and tokenizer from config.json in the folder `source`, or in the
 * folder of the file `source`. EINPUT: not a GPT-2, or a GPT-2 with an option that penstock does
 * not support; the message names the option. */
pst_status pst_hf_config(const char *source, pst_model_config *config);
/* The same from the text of config.json; `file` is a name for messages. */
pst_status pst_hf_parse_config(const char *text, size_t bytes, const char *file,
                               pst_model_config *config);

/* EINPUT unless the model at `source` (as above) uses the tokens of `tokenizer`; the message names
 * the model's tokenizer, followed by `instead`. */
pst_status pst_hf_check_tokens(const char *source, const char *tokenizer, const char *instead);
/* *folder: where the files of the model's own tokenizer are, for pst_tokenizer_open; the caller
 * frees it. NULL: there are none, or its tokens are bytes. */
pst_status pst_hf_find_tokenizer(const char *source, char **folder);
/* The path of `name` in the folder `source`, or in the folder of the file `source`; owned by the
 * caller. NULL: no memory. */
char *pst_hf_path(const char *source, const char *name);
int pst_hf_is_folder(const char *path);

/* The name of an activation in config.json. */
const char *pst_hf_activation_name(pst_activation activation);

/* Where weights are loaded to: weight[i] is the memory of parameter i (NULL: not needed here),
 * fp32, with the shape in `held`, the full graph or the graph of a tensor rank. Only elements
 * [from[i], to[i]) are loaded; from and to NULL: all. */
typedef struct {
    const pst_graph *held;
    float *const *weight;
    const uint64_t *from, *to;
} pst_hf_weights;
/* Names may have the prefix "transformer."; attention's mask buffers and a tied lm_head are
 * skipped. config.json, if present, must agree with the graph. EINPUT names a tensor that is
 * missing, unknown or of another shape. */
pst_status pst_hf_import(const char *source, const pst_model_row *model, const pst_graph *graph,
                         const pst_hf_weights *weights);

/* Writes the weights of a parameter, fp32, to out. */
typedef pst_status (*pst_hf_read_fn)(void *arg, const pst_param *param, float *out);
/* Writes config.json and model.safetensors into `folder` (created if missing), and replaces each
 * file atomically. Needs memory for two copies of the largest parameter. ENOMEM: the disk is full
 * or cannot be written; the message gives path and reason. */
pst_status pst_hf_export(const char *folder, const pst_model_config *config,
                         const pst_model_row *model, const pst_graph *graph, pst_hf_read_fn read,
                         void *arg);
#endif
