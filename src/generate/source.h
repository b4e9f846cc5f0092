/* A trained model on disk: a run folder, of which the newest checkpoint counts, a checkpoint, or a
 * model in Hugging Face's format. */
#ifndef PST_GENERATE_SOURCE_H
#define PST_GENERATE_SOURCE_H
#include "config/config.h"
#include "prepare/hf_config.h"
#include "rank/rank.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    const char *path; /* borrowed; NULL: no weights are read, they are those of the seed */
    pst_config *config;
    pst_tokenizer *tokenizer;
    int hf;           /* 1: in Hugging Face's format */
    pst_hf_ends ends; /* tokens that end a text; without those of a file, the tokenizer's */
} pst_source;

/* Reads configuration and tokenizer. base: as in pst_generate_options. EINPUT: there is no model;
 * its tokens are no text, or their tokenizer is missing; its base is another one. A zeroed *source
 * may be closed. */
pst_status pst_source_open(const char *path, const char *base, pst_source *source);
void pst_source_close(pst_source *source);
/* The model's kind and sizes; context: tokens of a sample instead of the model's own number of
 * them, 0: that number. Warns of more than the model was trained for. EINPUT: its positions are
 * learned, and fewer, or it does not continue text. */
pst_status pst_source_model(const pst_source *source, int64_t context, pst_model_config *model);
/* Reads the weights into a rank of the model. */
pst_status pst_source_read(const pst_source *source, pst_rank *rank);
#endif
