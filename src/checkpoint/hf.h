/* Hugging Face GPT-2: config.json and model.safetensors, with names and order of dimensions mapped
 * by the model's hf_name. */
#ifndef PST_CHECKPOINT_HF_H
#define PST_CHECKPOINT_HF_H
#include "models/model.h"
#include <stddef.h>

/* 1 when `source` is a safetensors file, or a folder with config.json that is no checkpoint of
 * ours. */
int pst_hf_is(const char *source);
/* Sizes, dropout, activation and tokenizer from the config.json in the folder `source` or beside
 * the file `source`. EINPUT: no GPT-2, or one with an option that the model has not (says
 * which). */
pst_status pst_hf_config(const char *source, pst_model_config *config);
/* The same from text; `file` stands in messages. */
pst_status pst_hf_parse_config(const char *text, size_t bytes, const char *file,
                               pst_model_config *config);

/* EINPUT unless the tokens of the model at `source` (as above) are those of `tokenizer`: one line
 * that says what they are, and `instead` behind it. */
pst_status pst_hf_check_tokens(const char *source, const char *tokenizer, const char *instead);
/* The path of `name` in the folder `source`, or beside the file `source`; the caller's. NULL: no
 * memory. */
char *pst_hf_near(const char *source, const char *name);
int pst_hf_is_folder(const char *path);

/* What config.json calls an activation. */
const char *pst_hf_activation_name(pst_activation activation);

/* Where weights go: weight[i] is the memory of parameter i (NULL: not wanted here), fp32 in the
 * form of `held`, a graph of a tensor rank or the whole one; of what that holds, elements
 * [from[i], to[i]) alone (NULL: all). */
typedef struct {
    const pst_graph *held;
    float *const *weight;
    const uint64_t *from, *to;
} pst_hf_weights;
/* Names may have the prefix "transformer."; attention's mask buffers and a tied lm_head are passed
 * over. A config.json that is there must fit the graph. EINPUT in one sentence: missing, surplus or
 * wrongly shaped tensors. */
pst_status pst_hf_import(const char *source, const pst_model_row *model, const pst_graph *graph,
                         const pst_hf_weights *weights);

/* Gives the weights of a parameter, from wherever they are. */
typedef pst_status (*pst_hf_read_fn)(void *arg, const pst_param *param, float *out);
/* Writes config.json and model.safetensors into `folder` (made when it is not there), each replaced
 * in one step. Needs memory for the largest parameter twice. ENOMEM with path and reason when the
 * disk is full or unwritable. */
pst_status pst_hf_export(const char *folder, const pst_model_config *config,
                         const pst_model_row *model, const pst_graph *graph, pst_hf_read_fn read,
                         void *arg);
#endif
