/* config.json of Hugging Face folders: GPT-2, Llama, Qwen 2, Mistral and BERT. */
#ifndef PST_PREPARE_HF_CONFIG_H
#define PST_PREPARE_HF_CONFIG_H
#include "models/model.h"
#include <stddef.h>

/* `source` may also be a file .bin of llm.c (llmc.h), whose header stands for config.json.
 * Sizes, dropout, activation and tokenizer from config.json in the folder `source`, or in the
 * folder of the file `source`; kind is that of penstock's model. EINPUT: another kind of model, or
 * an option that penstock does not support; the message names the option. */
pst_status pst_hf_config(const char *source, pst_model_config *config);
/* The same from the text of config.json; `file` is a name for messages. */
pst_status pst_hf_parse_config(const char *text, size_t bytes, const char *file,
                               pst_model_config *config);
/* EINPUT: `source` is a GGUF file, which is not read. */
pst_status pst_hf_refuse_gguf(const char *source);
/* Warns of keys of rotary positions in config.json that have no effect on the model. */
pst_status pst_hf_warn_of_rope(const char *source);
/* Whether config.json is there. ENOMEM. */
pst_status pst_hf_has_config(const char *source, int *there);
/* The names of the labels in config.json, [*n], which the caller frees, each and all; NULL, and *n
 * their number: they have none, or it is 0: the model gives no labels. EINPUT, ENOMEM. */
pst_status pst_hf_read_labels(const char *source, char ***name, uint32_t *n);
/* The same from the text of config.json; `file` is a name for messages. */
pst_status pst_hf_parse_labels(const char *text, size_t bytes, const char *file, char ***name,
                               uint32_t *n);
/* The text of config.json for the model; the caller frees. end: the token that ends a document, -1:
 * unknown. EINPUT: no Hugging Face model has this combination of options. */
pst_status pst_hf_config_text(const pst_model_config *config, int32_t end, char **text);
/* The same of generation_config.json; NULL: this kind of model has none. */
pst_status pst_hf_generation_text(const pst_model_config *config, int32_t end, char **text);

/* The tokens that end a text: eos_token_id of generation_config.json, else of config.json, which is
 * a token or a list; n is 0 if neither file has it. EINPUT: it is something else, or has more than
 * PST_HF_ENDS tokens. parse: the same from the text of one file; `file` is a name for messages. */
enum { PST_HF_ENDS = 16 };
typedef struct {
    uint32_t n;
    int32_t id[PST_HF_ENDS];
} pst_hf_ends;
pst_status pst_hf_read_ends(const char *source, pst_hf_ends *ends);
pst_status pst_hf_parse_ends(const char *text, size_t bytes, const char *file, pst_hf_ends *ends);

/* The path of `name` in the folder `source`, or in the folder of the file `source`; owned by the
 * caller. NULL: no memory. */
char *pst_hf_path(const char *source, const char *name);
int pst_hf_is_folder(const char *path);

/* The name of an activation in config.json. */
const char *pst_hf_activation_name(pst_activation activation);
#endif
