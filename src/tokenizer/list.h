/* A tokenizer as lists of tokens and merges, as files of byte-level BPE write them, or of tokens
 * and scores, as SentencePiece does. */
#ifndef PST_TOKENIZER_LIST_H
#define PST_TOKENIZER_LIST_H
#include "tokenizer/tokenizer.h"

/* No token has the id, or none that text becomes; text; a special token that is asked for; one that
 * is always found; a byte of SentencePiece. */
typedef enum {
    PST_TOKEN_NONE,
    PST_TOKEN_TEXT,
    PST_TOKEN_SPECIAL,
    PST_TOKEN_ADDED,
    PST_TOKEN_BYTE
} pst_token_kind;
typedef struct {
    const char *split; /* how text is split: "gpt2", "llama3" or "qwen2"; NULL: SentencePiece */
    int whole_words;   /* 1: a word that is a token is not merged */
    uint32_t n, n_merge;
    char **token; /* [n] by id, zero-terminated; NULL: no token has the id */
    pst_token_kind *kind;
    char **merge;    /* [n_merge] "left right", in order of rank; SentencePiece: none */
    float *score;    /* [n] of SentencePiece; NULL: others */
    int prefix;      /* 1: a blank is put before each text (SentencePiece) */
    int32_t unknown; /* -1: none */
} pst_token_list;
/* Lists the tokens of byte-level BPE, of a BPE of SentencePiece, or the 256 of bytes, which have no
 * merges. EINPUT: another kind of tokenizer, or one that these lists do not define; the message
 * says why. The caller frees the list. */
pst_status pst_token_list_make(const pst_tokenizer *t, pst_token_list *out);
void pst_token_list_free(pst_token_list *list);
#endif
