/* The tokenizer in a GGUF file. */
#ifndef PST_CHECKPOINT_GGUF_TOKENS_H
#define PST_CHECKPOINT_GGUF_TOKENS_H
#include "checkpoint/export.h"
#include "checkpoint/gguf.h"

/* Adds the pairs of the tokenizer: byte-level BPE, SentencePiece, or bytes as a BPE without merges.
 * EINPUT: another kind of tokens. */
pst_status pst_gguf_tokens(pst_gguf *g, const pst_export *e);
#endif
