/* The parts of learning a BPE or WordPiece: words with their counts, and pairs with theirs. */
#ifndef PST_TOKENIZER_TRAIN_PARTS_H
#define PST_TOKENIZER_TRAIN_PARTS_H
#include "tokenizer/parts.h"
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

/* What WordPiece has besides. A symbol is a character that begins a word, or one that continues it,
 * with "##" before it, or what merges make of them. */
typedef struct {
    pst_tokenizer rules; /* how text is normalized and divided: its options only */
    pst_encoder *encoder;
    pst_vocabulary alphabet; /* text of the symbols that no merge has made, by number */
    pst_vocabulary tokens;   /* what is learned: special tokens, the alphabet, merged ones */
    uint32_t *token;         /* [alphabet.n + merges] of each symbol */
    size_t token_capacity;
    pst_text text; /* scratch */
    int32_t *word; /* [word_capacity] scratch: the symbols of a word */
    size_t word_capacity;
    int cased;
} pst_wordpiece_lesson;

struct pst_bpe_training {
    pst_wordpiece_lesson *wordpiece; /* NULL: BPE, whose first 256 symbols are the bytes */
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
    int32_t (*merge)[2]; /* [n_merge] the two halves of symbol n_first + i */
    size_t n_merge, merge_capacity;
    uint32_t n_first; /* symbols that no merge has made: bytes, or the alphabet */
};
/* train_counts.c. Counts a word of n symbols. */
pst_status pst_bpe_training_count(pst_bpe_training *t, const int32_t *symbol, size_t n);

/* train_wordpiece.c. For pst_read_parts: counts the words of a part of a text. */
pst_status pst_wordpiece_count_text(void *training, const char *text, size_t bytes, int first);
size_t pst_wordpiece_text_cut(const void *training, const char *text, size_t bytes);
/* Sorts the alphabet, and makes its tokens. EINPUT: they are more than `vocabulary`. */
pst_status pst_wordpiece_begin(pst_bpe_training *t, uint32_t vocabulary);
/* Makes the token of the newest merge, unless there is one with its text. */
pst_status pst_wordpiece_merged(pst_bpe_training *t);
/* The caller closes *out, also after a failure, which may leave it NULL. */
pst_status pst_wordpiece_lesson_open(int cased, pst_wordpiece_lesson **out);
void pst_wordpiece_lesson_close(pst_wordpiece_lesson *l);
#endif
