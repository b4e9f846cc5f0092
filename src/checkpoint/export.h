/* What all exports of a checkpoint share: its model, its tokenizer, and its weights. */
#ifndef PST_CHECKPOINT_EXPORT_H
#define PST_CHECKPOINT_EXPORT_H
#include "checkpoint/hf.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    pst_hf_model model;
    const pst_tokenizer *tokenizer; /* NULL: tokens are bytes, or unknown */
    pst_hf_read_fn read;            /* of weights, with `arg` */
    void *arg;
} pst_export;
typedef pst_status (*pst_export_fn)(const pst_export *e, const void *to);
/* A file to write, which replaces an older one. EINPUT: the model or its tokenizer has no
 * form in the format, or not with numbers of this type; the message says why. */
typedef struct {
    const char *path;
    pst_dtype type;
} pst_export_to;
pst_status pst_export_gguf(const pst_export *e, const void *to);
#endif
