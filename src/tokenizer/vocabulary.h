/* The tokens of a tokenizer: bytes by id, and id by bytes. */
#ifndef PST_TOKENIZER_VOCABULARY_H
#define PST_TOKENIZER_VOCABULARY_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

enum { PST_VOCABULARY_MOST = 1 << 24 }; /* ids are below this */

typedef struct {
    uint64_t at; /* in `text`; UINT64_MAX: no token has this id */
    uint32_t bytes;
} pst_token;
typedef struct {
    pst_token *token;  /* [n] by id */
    uint32_t n, n_set; /* the largest id + 1; number of ids that have a token */
    uint8_t *text;     /* of all tokens */
    size_t used, text_capacity, token_capacity;
    uint32_t *slot; /* [n_slot] id + 1 by hash; a power of two */
    uint32_t n_slot;
} pst_vocabulary;

/* Adds a token. EINPUT: the id is taken or too large. Two ids may have the same bytes; the first
 * one is found. */
pst_status pst_vocabulary_add(pst_vocabulary *v, uint64_t id, const uint8_t *text, size_t bytes);
/* The id of these bytes; -1: no token. */
int32_t pst_vocabulary_find(const pst_vocabulary *v, const uint8_t *text, size_t bytes);
/* The bytes of token `id`; NULL if there is no such token. */
const uint8_t *pst_vocabulary_text(const pst_vocabulary *v, uint32_t id, uint32_t *bytes);
void pst_vocabulary_free(pst_vocabulary *v);
#endif
