/* Shared by the files hf_*.c: values of config.json that all models have, and BERT's. */
#ifndef PST_PREPARE_HF_PARTS_H
#define PST_PREPARE_HF_PARTS_H
#include "models/model.h"
#include <jansson.h>

/* hf_json.c. *out: the integer `key` of config.json. EINPUT: it is missing, or not from 1 to 2^31
 * - 1. */
pst_status pst_hf_size_of(const json_t *root, const char *file, const char *key, uint32_t *out);
/* *out: the number `key`, at least 0; `fallback` if the key is missing or null. EINPUT. */
pst_status pst_hf_number_of(const json_t *root, const char *file, const char *key, double fallback,
                            float *out);
/* As pst_hf_size_of; `fallback` if the key is missing or null. */
pst_status pst_hf_optional_size(const json_t *root, const char *file, const char *key,
                                uint32_t fallback, uint32_t *out);
/* EINPUT unless the switch is missing, or has the value that our models implement. */
pst_status pst_hf_must_be(const json_t *root, const char *file, const char *key, int wanted);
/* *out: the rate of dropout `key`; transformers' 0.1 if it is missing. EINPUT: it is not at least 0
 * and below 1. */
pst_status pst_hf_rate_of(const json_t *root, const char *file, const char *key, float *out);

/* hf_rope.c: rotary positions. context: max_position_embeddings. */
pst_status pst_hf_parse_rope(const json_t *root, const char *file, uint32_t context,
                             pst_rope *rope);
void pst_hf_warn_of_rope_in(const json_t *root, const char *file);
/* hf_json.c. The shortest decimal form of a float, as a double: 1e-05, not 9.99999974738e-06. */
double pst_hf_shortest(float value);
/* hf_labels.c: the number of labels of a model that classifies, as transformers counts them; their
 * names, which the caller frees, each and all (NULL: they have none); and id2label and label2id.
 * EINPUT: id2label does not name each number. ENOMEM. */
pst_status pst_hf_count_labels(const json_t *root, const char *file, uint32_t *n);
pst_status pst_hf_copy_labels(const json_t *root, uint32_t n, char ***name);
pst_status pst_hf_add_labels(json_t *root, const pst_bert *bert);

/* hf_bert.c: config.json of BERT, read and made (NULL: no memory). */
pst_status pst_hf_parse_bert(const json_t *root, const char *file, pst_model_config *config);
json_t *pst_hf_bert_json(const pst_model_config *config);
#endif
