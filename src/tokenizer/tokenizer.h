/* Tokenizers: text to token ids and back, as the files of other programs define them. A tokenizer
 * does not change once it is open and may be used by any number of threads; an encoder belongs to
 * one thread. */
#ifndef PST_TOKENIZER_TOKENIZER_H
#define PST_TOKENIZER_TOKENIZER_H
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct pst_tokenizer pst_tokenizer;
typedef struct pst_encoder pst_encoder;
typedef struct {
    int32_t *id;
    size_t n, capacity;
} pst_ids;
typedef struct {
    char *byte;
    size_t n, capacity;
} pst_text;

/* Opens a tokenizer. path: "byte"; a folder, in which these are looked for in this order:
 * tokenizer.json, vocab.json with merges.txt, encoder.json with vocab.bpe, *.tiktoken, *.model,
 * vocab.txt; or one of these files. EINPUT names the file and what is wrong with it. */
pst_status pst_tokenizer_open(const char *path, pst_tokenizer **out);
/* *name: of the file that pst_tokenizer_open would read first in the folder, which the caller
 * frees; NULL: there is none. */
pst_status pst_tokenizer_find(const char *folder, char **name);
void pst_tokenizer_close(pst_tokenizer *t);
/* A file that a tokenizer was read from, and the name by which pst_tokenizer_open finds a copy of
 * it in a folder of its own. Both belong to the tokenizer. */
enum { PST_TOKENIZER_FILES = 2 };
typedef struct {
    const char *path, *name;
} pst_tokenizer_file;
/* Returns their number; 0: byte. */
uint32_t pst_tokenizer_files(const pst_tokenizer *t, pst_tokenizer_file out[PST_TOKENIZER_FILES]);
/* 1: a document's ids depend on all of its text before them (the sums of a unigram model are
 * rounded): parts must be encoded one after another by one encoder. */
int pst_tokenizer_in_order(const pst_tokenizer *t);
/* "byte", "byte-level BPE", "WordPiece", "SentencePiece". */
const char *pst_tokenizer_kind(const pst_tokenizer *t);
/* The largest id + 1: the smallest vocabulary of a model that uses the tokenizer. */
uint32_t pst_tokenizer_size(const pst_tokenizer *t);
/* Hash of the tokens, the merges and how text is divided: equal for two formats of one tokenizer,
 * except files of ranks (.tiktoken). */
uint64_t pst_tokenizer_hash(const pst_tokenizer *t);
/* 1: there is a token with this id; ids may have gaps. */
int pst_tokenizer_has(const pst_tokenizer *t, int32_t id);
/* The id of a special token such as <|endoftext|>; EINPUT: the tokenizer lacks it. */
pst_status pst_tokenizer_special(const pst_tokenizer *t, const char *text, int32_t *id);
/* The token that ends a document, such as <|endoftext|>, </s> or [SEP]; -1: there is none. */
int32_t pst_tokenizer_end(const pst_tokenizer *t);
/* Appends the text of n ids; first: 1: they begin a text. EINPUT: there is no such id. */
pst_status pst_tokenizer_decode(const pst_tokenizer *t, const int32_t *id, size_t n, int first,
                                pst_text *out);
/* WordPiece: 1: the token continues the word of the token before it (##ing). *known: 0: another
 * kind of tokenizer, of which this is not known. */
int pst_tokenizer_continues(const pst_tokenizer *t, int32_t id, int *known);
/* WordPiece: 1: text becomes lower case and loses its accents; -1: another kind of tokenizer. */
int pst_tokenizer_lowers(const pst_tokenizer *t);
/* *bytes: of the text, after the tokenizer's normalization, that each id stands for, [size],
 * malloc'd; 0 for special tokens and for ids without token. NULL if the tokenizer does not keep the
 * text (WordPiece loses blanks). */
pst_status pst_tokenizer_text_bytes(const pst_tokenizer *t, uint32_t **bytes);
/* A position < bytes, near the end, at which the text can be divided without a change of its ids,
 * whatever comes before and after; 0: none is known. */
size_t pst_tokenizer_cut(const pst_tokenizer *t, const char *text, size_t bytes);

/* special: 1: the text of a special token, such as <|endoftext|>, becomes that token; 0: it is text
 * like any other. */
pst_status pst_encoder_open(const pst_tokenizer *t, int special, pst_encoder **out);
void pst_encoder_close(pst_encoder *e);
/* The tokenizer that the encoder was opened with. */
const pst_tokenizer *pst_encoder_tokenizer(const pst_encoder *e);
/* Appends the ids of a text, or of a part of a document that pst_tokenizer_cut ended; first: 1: the
 * part begins the document. BPE keeps invalid UTF-8 as bytes; WordPiece replaces it by U+FFFD. */
pst_status pst_encode(pst_encoder *e, const char *text, size_t bytes, int first, pst_ids *out);

void pst_ids_free(pst_ids *ids);
void pst_text_free(pst_text *text);
/* Makes room for `more` elements. */
pst_status pst_ids_reserve(pst_ids *ids, size_t more);
/* The same for text, and for a zero at its end. */
pst_status pst_text_room(pst_text *text, size_t more);
pst_status pst_text_add(pst_text *text, const void *bytes, size_t n);
#endif
