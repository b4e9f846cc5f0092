/* What tokenizers consist of, for the files of this folder. */
#ifndef PST_TOKENIZER_PARTS_H
#define PST_TOKENIZER_PARTS_H
#include "tokenizer/pairs.h"
#include "tokenizer/split.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/words.h"
#include <jansson.h>

/* A kind of tokenizer. */
typedef struct {
    const char *name;
    /* Appends the ids of a text without special tokens to e->out. */
    pst_status (*encode)(pst_encoder *e, const uint8_t *text, size_t bytes);
    /* Appends the text of one token; first: it is the first of its text. */
    pst_status (*decode)(const pst_tokenizer *t, uint32_t id, int first, pst_text *out);
    /* Like pst_tokenizer_cut, without regard to special tokens; less than `bytes`. */
    size_t (*cut)(const pst_tokenizer *t, const uint8_t *text, size_t bytes);
    int loses_text; /* 1: decoded ids are not the text, because blanks are lost */
} pst_tokenizer_row;
extern const pst_tokenizer_row pst_tokenizer_byte, pst_tokenizer_bpe, pst_tokenizer_wordpiece,
    pst_tokenizer_sentencepiece;

/* One step of splitting: a row, or a compiled pattern. */
typedef struct {
    const pst_split_row *row;
    pst_regex *regex;
    uint64_t hash; /* of what it matches, as a text */
    pst_split_lines lines;
} pst_split_step;
enum { PST_SPLIT_STEPS = 8 };

typedef struct {
    char *text;
    size_t bytes;
    int32_t id;
    int inner; /* 1: SentencePiece treats it as text that is not divided, asked for or not */
    /* 1: it is a token whether special tokens are asked for or not; white space before it, or after
     * it, is a part of it */
    int always, left, right;
} pst_special;

typedef struct {
    int lower;     /* 1: upper-case letters become lower-case ones */
    int accents;   /* 1: accents are removed */
    int clean;     /* 1: control characters are removed */
    int han;       /* 1: every Chinese character is a word */
    uint32_t most; /* words with more characters become [UNK] */
} pst_wordpiece_options;

/* Replacements of characters before SentencePiece: a double array (darts-clone) of the texts to
 * replace, whose values are places in `text`. */
typedef struct {
    uint32_t *unit;
    size_t n_unit, bytes;
    char *text; /* ends with a zero */
} pst_charsmap;

typedef struct {
    pst_charsmap charsmap;
    int unigram;  /* 1: unigram model; 0: BPE */
    int prefix;   /* 1: a blank is put before the text */
    int collapse; /* 1: blanks at both ends are removed, several become one */
    int bytes;    /* 1: characters without token become the tokens of their bytes */
    int words;    /* 1: no token has a blank after another character: words are independent */
    float *score; /* [size]; NaN: an inner special token */
    float unknown, most; /* score of a character without token; largest score of a token */
    pst_pairs trie;      /* unigram: node and next byte -> node, and id + 1 as rank */
} pst_sentencepiece;

struct pst_tokenizer {
    const pst_tokenizer_row *row;
    pst_vocabulary vocabulary;
    pst_special *special;
    size_t n_special, special_capacity;
    int has_inner, has_always;  /* 1: one of them is */
    uint8_t special_first[256]; /* 1: a special token begins with this byte */
    uint64_t hash;
    uint32_t n_file;                                             /* files that it was read from: */
    char *file[PST_TOKENIZER_FILES], *name[PST_TOKENIZER_FILES]; /* pst_tokenizer_file */
    int32_t unknown; /* id of the token for what has no token; -1: none */
    int32_t end;     /* id of the token that ends a document; -1: none */
    uint32_t size;   /* the largest id + 1, special tokens included */
    /* BPE */
    pst_pairs pairs;
    int32_t byte_id[256]; /* -1: no token */
    pst_split_step step[PST_SPLIT_STEPS];
    uint32_t n_step;
    int whole_words; /* 1: a word that is a token is not merged */
    int compose;     /* 1: text is normalized (NFC) first */
    int prefix;      /* 1: a blank is put before a text that begins without one */
    /* WordPiece */
    pst_wordpiece_options wordpiece;
    /* WordPiece: tokens that continue a word, without ##; SentencePiece: tokens that stand for
     * their text (not special ones, nor those of bytes) */
    pst_vocabulary matched;
    uint32_t longest; /* bytes of the longest token */
    pst_sentencepiece sentencepiece;
};

/* The best way to divide a word up to a place. */
typedef struct {
    int32_t id; /* of the last token; -2: no way */
    float score;
    size_t from; /* where the last token begins */
} pst_lattice;

struct pst_encoder {
    const pst_tokenizer *t;
    int special;
    pst_ids *out; /* of the call in progress */
    pst_words words;
    pst_merge_memory merge;
    int begins;      /* 1: the text in progress begins a document */
    pst_text normal; /* normalized text */
    float score;     /* of the document so far, by the unigram model */
    pst_lattice *lattice;
    size_t lattice_capacity;
    pst_matcher *matcher[PST_SPLIT_STEPS];
};

/* Reads a whole file; the caller frees *text. */
pst_status pst_tokenizer_read(const char *path, char **text, size_t *bytes);
/* EINPUT: the id is taken by another token. */
pst_status pst_tokenizer_add_special(pst_tokenizer *t, const char *text, int32_t id);
/* Fills byte_id after the vocabulary. */
void pst_bpe_set_bytes(pst_tokenizer *t);
/* Adds a merge for every two tokens whose bytes together are a token, with its id as rank. */
pst_status pst_bpe_pairs_of_ranks(pst_tokenizer *t);
/* Adds the merge of two tokens given by their bytes; EINPUT: one of them, or both together, is no
 * token. */
pst_status pst_bpe_add_merge(pst_tokenizer *t, const pst_text *left, const pst_text *right,
                             uint32_t rank);
/* Appends a split step; `pattern` is one of a row's, or for PCRE2. */
pst_status pst_bpe_add_step(pst_tokenizer *t, const char *pattern);
/* Appends the bytes that a token's characters stand for in files of byte-level BPE: GPT-2 writes
 * each byte as one printable character. A token with other characters (an added one) stays as it
 * is. */
pst_status pst_bytes_of_token(const char *token, size_t n, pst_text *out);
/* The character that stands for a byte. */
uint32_t pst_character_of_byte(uint8_t byte);

/* Readers of files; each fills an empty tokenizer. */
pst_status pst_tokenizer_read_json(pst_tokenizer *t, const char *path);
/* Adds the tokens of a JSON object of tokens and ids. */
pst_status pst_json_vocabulary(pst_tokenizer *t, json_t *vocabulary);
pst_status pst_tokenizer_read_merges(pst_tokenizer *t, const char *vocabulary, const char *merges);
pst_status pst_tokenizer_read_ranks(pst_tokenizer *t, const char *path);
pst_status pst_tokenizer_read_wordpiece(pst_tokenizer *t, const char *path);
/* Finds the tokens that continue words, [UNK] and other special tokens in the vocabulary. EINPUT:
 * there is no [UNK]. */
pst_status pst_wordpiece_set_tokens(pst_tokenizer *t, const char *unknown, const char *prefix);
pst_status pst_tokenizer_read_sentencepiece(pst_tokenizer *t, const char *path);
/* Reads a precompiled charsmap of SentencePiece. */
pst_status pst_charsmap_open(const uint8_t *at, size_t bytes, pst_charsmap *map);
void pst_charsmap_free(pst_charsmap *map);
/* What the longest text at `at` that has a replacement becomes, *n bytes; *taken: its length. NULL:
 * no text has one there. */
const char *pst_charsmap_find(const pst_charsmap *map, const uint8_t *at, size_t bytes,
                              size_t *taken, size_t *n);
/* Divides a word so that the sum of the tokens' scores is largest; appends their ids, -1 for a
 * character without token. The output has room for an id per byte. */
pst_status pst_unigram_encode(pst_encoder *e, const uint8_t *word, size_t bytes);
/* Prepares the search of tokens in a word. */
pst_status pst_unigram_open(pst_tokenizer *t);
/* The longest special token at `at`, inner ones or others; NULL: none. */
const pst_special *pst_special_at(const pst_tokenizer *t, int inner, const uint8_t *at,
                                  size_t bytes);
/* 1: the text of a .tiktoken file, whatever its name. */
int pst_ranks_is(const char *text, size_t bytes);
/* 1: some token has bytes on both sides of text[place]; t->longest bytes before and after the place
 * are looked at. */
int pst_cut_is_crossed(const pst_tokenizer *t, const pst_vocabulary *tokens, const uint8_t *text,
                       size_t place);
/* Normalizes text as BERT does, into e->normal. */
pst_status pst_bert_normalize(pst_encoder *e, const uint8_t *text, size_t bytes);
#endif
