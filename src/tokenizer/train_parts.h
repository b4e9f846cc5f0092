/* The parts of learning a BPE: words with their counts, and pairs with theirs. */
#ifndef PST_TOKENIZER_TRAIN_PARTS_H
#define PST_TOKENIZER_TRAIN_PARTS_H
#include "tokenizer/train.h"

typedef struct {
    uint32_t at, n; /* its symbols in `symbol`; n decreases by merges */
    uint64_t count, hash;
} pst_counted_word;
/* Two neighbours: how often they occur, and in which words (some perhaps no longer). */
typedef struct {
    int32_t left, right;
    int64_t count;
    uint32_t *word;
    size_t n, capacity;
    uint32_t changed; /* merge by which the count has last grown */
} pst_counted_pair;

struct pst_bpe_training {
    pst_counted_word *word;
    size_t n_word, word_capacity;
    int32_t *symbol; /* of all words, one after another */
    size_t n_symbol, symbol_capacity;
    uint32_t *slot; /* [n_slot] word + 1 by hash; a power of two */
    size_t n_slot;
    pst_counted_pair *pair;
    size_t n_pair, pair_capacity;
    uint32_t *pair_slot;
    size_t n_pair_slot;
    int32_t (*merge)[2]; /* [n_merge] ids of the two halves of token 256 + i */
    size_t n_merge, merge_capacity;
};
#endif
