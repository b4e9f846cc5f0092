/* Hugging Face folders of GPT-2, Llama, Qwen 2, Mistral and BERT: config.json (prepare/hf_config.h)
 * and model.safetensors or its shards; the model's hf_name or hf_part maps names and order of
 * dimensions. */
#ifndef PST_CHECKPOINT_HF_H
#define PST_CHECKPOINT_HF_H
#include "prepare/hf_config.h"

/* 1 if `source` is a safetensors file, a file .bin of llm.c (llmc.h), or a folder with config.json
 * that is not a penstock checkpoint. */
int pst_hf_is(const char *source);
/* EINPUT unless the model at `source` (as above) uses the tokens of `tokenizer`; the message names
 * the model's tokenizer, followed by `instead`. */
pst_status pst_hf_check_tokens(const char *source, const char *tokenizer, const char *instead);
/* *folder: where the files of the model's own tokenizer are, for pst_tokenizer_open; the caller
 * frees it. NULL: there are none, or its tokens are bytes. */
pst_status pst_hf_find_tokenizer(const char *source, char **folder);
/* *hash: of the names, types and shapes of all tensors, and of the first, middle and last bytes of
 * each. EINPUT: they cannot be read. */
pst_status pst_hf_hash(const char *source, uint64_t *hash);
/* Where weights are loaded to: weight[i] is the memory of parameter i (NULL: not needed here),
 * fp32, with the shape in `held`, the full graph or the graph of a tensor rank. Only elements
 * [from[i], to[i]) are loaded; from and to NULL: all. */
typedef struct {
    const pst_graph *held;
    float *const *weight;
    const uint64_t *from, *to;
    uint64_t seed; /* of what the files lack */
} pst_hf_weights;
/* Names may lack the model's hf_prefix; attention's mask buffers, a tied lm_head or decoder and, if
 * the graph has none, BERT's heads are skipped. Of learned positions the first ones are taken, as
 * many as the graph has. A graph that classifies may also start from a model that does not: its
 * head then gets the initial values of the seed.
 * config.json, if present, must agree with the graph. EINPUT names all tensors that are missing,
 * unknown or of another shape. */
pst_status pst_hf_import(const char *source, const pst_model_row *model, const pst_graph *graph,
                         const pst_hf_weights *weights);
/* Logs which parameters pst_hf_import takes in part, or gives initial values. */
pst_status pst_hf_log_parts(const char *source, const pst_model_row *model, const pst_graph *graph);

/* Writes the weights of a parameter, fp32, to out. */
typedef pst_status (*pst_hf_read_fn)(void *arg, const pst_param *param, float *out);
/* Writes config.json, model.safetensors and, for llama, generation_config.json into `folder`
 * (created if missing), and replaces each file atomically. end: the token that ends a document, -1:
 * unknown. Needs memory for two copies of the largest parameter. ENOMEM: the disk is full or cannot
 * be written; the message gives path and reason. */
typedef struct {
    const pst_model_config *config;
    const pst_model_row *model;
    const pst_graph *graph;
    int32_t end;
} pst_hf_model;
pst_status pst_hf_export(const char *folder, const pst_hf_model *model, pst_hf_read_fn read,
                         void *arg);
#endif
