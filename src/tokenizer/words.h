/* The ids of words that were seen lately: a cache without chains, in which a new word replaces the
 * one in its place. It only saves time; results do not depend on it. */
#ifndef PST_TOKENIZER_WORDS_H
#define PST_TOKENIZER_WORDS_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PST_WORD_BYTES = 15, PST_WORD_IDS = 3, PST_WORD_SLOTS = 1 << 16 };
typedef struct {
    uint64_t key[2]; /* the word's bytes, then zeros; the last byte is its length + 1 */
    int32_t id[PST_WORD_IDS];
    uint32_t n;
} pst_word;
typedef struct {
    pst_word *slot; /* [PST_WORD_SLOTS] */
} pst_words;

pst_status pst_words_open(pst_words *w);
void pst_words_close(pst_words *w);

/* The place of a word of at most PST_WORD_BYTES bytes; `end`: bytes before it may be read. */
static inline pst_word *pst_words_at(const pst_words *w, const uint8_t *at, size_t bytes,
                                     const uint8_t *end, uint64_t key[2]) {
    static const uint64_t masks[PST_WORD_BYTES + 1][2] = {
#define PST_MASK(n) ((UINT64_C(1) << (n)) - 1)
        {0, 0},
        {PST_MASK(8), 0},
        {PST_MASK(16), 0},
        {PST_MASK(24), 0},
        {PST_MASK(32), 0},
        {PST_MASK(40), 0},
        {PST_MASK(48), 0},
        {PST_MASK(56), 0},
        {UINT64_MAX, 0},
        {UINT64_MAX, PST_MASK(8)},
        {UINT64_MAX, PST_MASK(16)},
        {UINT64_MAX, PST_MASK(24)},
        {UINT64_MAX, PST_MASK(32)},
        {UINT64_MAX, PST_MASK(40)},
        {UINT64_MAX, PST_MASK(48)},
        {UINT64_MAX, PST_MASK(56)},
#undef PST_MASK
    };
    key[0] = key[1] = 0;
    if (end - at >= 16) memcpy(key, at, 16);
    else memcpy(key, at, bytes);
    key[0] &= masks[bytes][0];
    key[1] = (key[1] & masks[bytes][1]) | (uint64_t)(bytes + 1) << 56;
    uint64_t h = (key[0] ^ key[1] * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93);
    return &w->slot[h >> 48];
}
/* 1: the place has the word: PST_WORD_IDS ids are written to id, and the number of those that count
 * is added to *n. */
static inline int pst_word_get(const pst_word *word, const uint64_t key[2], int32_t *id,
                               size_t *n) {
    if (word->key[0] != key[0] || word->key[1] != key[1]) return 0;
    memcpy(id, word->id, sizeof word->id);
    *n += word->n;
    return 1;
}
/* Keeps the n ids of a word, if there is room for them. */
static inline void pst_word_keep(pst_word *word, const uint64_t key[2], const int32_t *id,
                                 size_t n) {
    if (n > PST_WORD_IDS) return;
    memcpy(word->key, key, sizeof word->key);
    memcpy(word->id, id, sizeof word->id);
    word->n = (uint32_t)n;
}
#endif
