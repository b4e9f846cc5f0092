/* What all tokenizers have in common: special tokens, ends of documents, decoding, and the
 * tokenizer "byte". Which file has which format: open.c. */
#include "tokenizer/tokenizer.h"
#include "base/file.h"
#include "base/grow.h"
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 1 << 28 }; /* bytes of a tokenizer's file */
static const char for_ids[] = "for token ids";

pst_status pst_ids_reserve(pst_ids *ids, size_t more) {
    if (ids->capacity - ids->n >= more) return PST_OK;
    size_t capacity = ids->n + more;
    if (capacity < 2 * ids->capacity) capacity = 2 * ids->capacity;
    PST_TRY(pst_grow_to(&ids->id, sizeof *ids->id, capacity, for_ids));
    ids->capacity = capacity;
    return PST_OK;
}

void pst_ids_free(pst_ids *ids) {
    free(ids->id);
    *ids = (pst_ids){0};
}

pst_status pst_text_room(pst_text *text, size_t more) {
    if (text->capacity - text->n > more) return PST_OK;
    size_t capacity = 2 * (text->n + more + 16);
    PST_TRY(pst_grow_to(&text->byte, 1, capacity, "for text"));
    text->capacity = capacity;
    return PST_OK;
}

pst_status pst_text_add(pst_text *text, const void *bytes, size_t n) {
    PST_TRY(pst_text_room(text, n));
    if (n) memcpy(text->byte + text->n, bytes, n);
    text->n += n;
    return PST_OK;
}

void pst_text_free(pst_text *text) {
    free(text->byte);
    *text = (pst_text){0};
}

pst_status pst_tokenizer_read(const char *path, char **text, size_t *bytes) {
    return pst_file_read(path, FILE_MOST, text, bytes);
}

void pst_tokenizer_close(pst_tokenizer *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n_special; i++) free(t->special[i].text);
    for (uint32_t i = 0; i < t->n_step; i++) pst_regex_close(t->step[i].regex);
    for (uint32_t i = 0; i < t->n_file; i++) {
        free(t->file[i]);
        free(t->name[i]);
    }
    free(t->special);
    pst_charsmap_free(&t->sentencepiece.charsmap);
    pst_pairs_free(&t->sentencepiece.trie);
    free(t->sentencepiece.score);
    pst_pairs_free(&t->pairs);
    pst_vocabulary_free(&t->vocabulary);
    pst_vocabulary_free(&t->matched);
    free(t);
}

uint32_t pst_tokenizer_files(const pst_tokenizer *t, pst_tokenizer_file out[PST_TOKENIZER_FILES]) {
    for (uint32_t i = 0; i < t->n_file; i++) out[i] = (pst_tokenizer_file){t->file[i], t->name[i]};
    return t->n_file;
}

const char *pst_tokenizer_kind(const pst_tokenizer *t) { return t->row->name; }
int pst_tokenizer_in_order(const pst_tokenizer *t) { return t->sentencepiece.unigram; }
const pst_tokenizer *pst_encoder_tokenizer(const pst_encoder *e) { return e->t; }
uint32_t pst_tokenizer_size(const pst_tokenizer *t) { return t->size; }
uint64_t pst_tokenizer_hash(const pst_tokenizer *t) { return t->hash; }
int32_t pst_tokenizer_end(const pst_tokenizer *t) { return t->end; }

/* --- special tokens --------------------------------------------------------------------------- */

pst_status pst_tokenizer_add_special(pst_tokenizer *t, const char *text, int32_t id) {
    uint32_t bytes;
    size_t n = strlen(text);
    if (!n || id < 0 || id >= PST_VOCABULARY_MOST)
        return pst_fail(PST_EINPUT, "the special token \"%.40s\" has the id %d", text, id);
    const uint8_t *there = pst_vocabulary_text(&t->vocabulary, (uint32_t)id, &bytes);
    if (there && (bytes != n || memcmp(there, text, n)))
        return pst_fail(PST_EINPUT,
                        "the special token \"%.40s\" has the id %d, as the token "
                        "\"%.*s\"",
                        text, id, (int)bytes, (const char *)there);
    if (!there) PST_TRY(pst_vocabulary_add(&t->vocabulary, (uint64_t)id, (const uint8_t *)text, n));
    PST_TRY(pst_grow(&t->special, sizeof *t->special, t->n_special, &t->special_capacity,
                     "for special tokens"));
    char *copy = strdup(text);
    if (!copy) return pst_no_memory("for special tokens");
    t->special[t->n_special++] = (pst_special){.text = copy, .bytes = n, .id = id};
    t->special_first[(uint8_t)*text] = 1;
    return PST_OK;
}

pst_status pst_tokenizer_special(const pst_tokenizer *t, const char *text, int32_t *id) {
    for (size_t i = 0; i < t->n_special; i++)
        if (!strcmp(t->special[i].text, text)) {
            *id = t->special[i].id;
            return PST_OK;
        }
    return pst_fail(PST_EINPUT, "the tokenizer has no special token \"%s\"", text);
}

const pst_special *pst_special_at(const pst_tokenizer *t, int inner, const uint8_t *at,
                                  size_t bytes) {
    const pst_special *found = NULL;
    if (!t->special_first[*at]) return NULL;
    for (size_t i = 0; i < t->n_special; i++) {
        const pst_special *s = &t->special[i];
        if (s->inner == inner && s->bytes <= bytes && !memcmp(s->text, at, s->bytes) &&
            (!found || s->bytes > found->bytes))
            found = s;
    }
    return found;
}

static pst_status count_bytes(const pst_tokenizer *t, uint32_t *bytes, pst_text *text) {
    for (uint32_t id = 0; id < t->size; id++) {
        text->n = 0;
        if (pst_tokenizer_has(t, (int32_t)id)) PST_TRY(t->row->decode(t, id, 0, text));
        bytes[id] = (uint32_t)text->n;
    }
    for (size_t i = 0; i < t->n_special; i++)
        if (!t->special[i].inner) bytes[t->special[i].id] = 0;
    return PST_OK;
}

pst_status pst_tokenizer_text_bytes(const pst_tokenizer *t, uint32_t **bytes) {
    pst_text text = {0};
    *bytes = NULL;
    if (t->row->loses_text) return PST_OK;
    uint32_t *found = malloc(t->size * sizeof *found);
    pst_status status = found ? count_bytes(t, found, &text) : pst_no_memory("for a tokenizer");
    pst_text_free(&text);
    if (status == PST_OK) *bytes = found;
    else free(found);
    return status;
}

/* --- encoding --------------------------------------------------------------------------------- */

pst_status pst_encoder_open(const pst_tokenizer *t, int special, pst_encoder **out) {
    pst_encoder *e = calloc(1, sizeof *e);
    if (!e) return pst_no_memory("to encode text");
    e->t = t;
    e->special = special;
    pst_status status = pst_words_open(&e->words);
    for (uint32_t i = 0; status == PST_OK && i < t->n_step; i++)
        if (t->step[i].regex) status = pst_matcher_open(t->step[i].regex, &e->matcher[i]);
    if (status == PST_OK) *out = e;
    else pst_encoder_close(e);
    return status;
}

void pst_encoder_close(pst_encoder *e) {
    if (!e) return;
    for (uint32_t i = 0; i < PST_SPLIT_STEPS; i++) pst_matcher_close(e->matcher[i]);
    pst_words_close(&e->words);
    pst_merge_memory_free(&e->merge);
    pst_text_free(&e->normal);
    free(e->lattice);
    free(e);
}

/* A text without special tokens; some tokenizers put a blank before it. */
static pst_status encode_plain(pst_encoder *e, const char *text, size_t bytes, int first) {
    const pst_tokenizer *t = e->t;
    if (!bytes) return PST_OK;
    e->begins = first;
    if (first) e->score = 0;
    if (!t->prefix || !first || *text == ' ')
        return t->row->encode(e, (const uint8_t *)text, bytes);
    pst_text prefixed = {0};
    pst_status status = pst_text_add(&prefixed, " ", 1);
    if (status == PST_OK) status = pst_text_add(&prefixed, text, bytes);
    if (status == PST_OK) status = t->row->encode(e, (const uint8_t *)prefixed.byte, prefixed.n);
    pst_text_free(&prefixed);
    return status;
}

/* The special token at `at` that counts for this encoder; NULL: none. */
static const pst_special *token_at(const pst_encoder *e, const char *text, size_t at,
                                   size_t bytes) {
    const pst_special *s = pst_special_at(e->t, 0, (const uint8_t *)text + at, bytes - at);
    return s && (e->special || s->always) ? s : NULL;
}

/* The end of text[from, at) without white space there. */
static size_t before_blanks(const char *text, size_t from, size_t at) {
    const uint8_t *begin = (const uint8_t *)text + from;
    uint32_t n;
    while (at > from) {
        uint32_t code = pst_unicode_before(begin, (const uint8_t *)text + at, &n);
        if (!(pst_unicode_classes()[code] & PST_SPACE)) break;
        at -= n;
    }
    return at;
}

static size_t after_blanks(const char *text, size_t at, size_t bytes) {
    const uint8_t *end = (const uint8_t *)text + bytes;
    uint32_t n;
    while (at < bytes) {
        uint32_t code = pst_unicode_decode((const uint8_t *)text + at, end, &n);
        if (!(pst_unicode_classes()[code] & PST_SPACE)) break;
        at += n;
    }
    return at;
}

pst_status pst_encode(pst_encoder *e, const char *text, size_t bytes, int first, pst_ids *out) {
    size_t from = 0;
    /* what follows a special token begins a text, except for SentencePiece */
    int again = !e->t->sentencepiece.score;
    e->out = out;
    if (!e->t->has_always && (!e->special || !e->t->n_special))
        return encode_plain(e, text, bytes, first);
    for (size_t at = 0; at < bytes;) {
        const pst_special *s = token_at(e, text, at, bytes);
        if (!s) {
            at++;
            continue;
        }
        size_t to = s->left ? before_blanks(text, from, at) : at;
        PST_TRY(encode_plain(e, text + from, to - from, from ? again : first));
        PST_TRY(pst_ids_reserve(out, 1));
        out->id[out->n++] = s->id;
        at += s->bytes;
        if (s->right) at = after_blanks(text, at, bytes);
        from = at;
    }
    return encode_plain(e, text + from, bytes - from, from ? again : first);
}

int pst_tokenizer_has(const pst_tokenizer *t, int32_t id) {
    uint32_t bytes;
    return id >= 0 && pst_vocabulary_text(&t->vocabulary, (uint32_t)id, &bytes);
}

pst_status pst_tokenizer_decode(const pst_tokenizer *t, const int32_t *id, size_t n, int first,
                                pst_text *out) {
    for (size_t i = 0; i < n; i++) {
        if (!pst_tokenizer_has(t, id[i]))
            return pst_fail(PST_EINPUT, "the tokenizer has no token %d; it has ids below %u", id[i],
                            t->size);
        PST_TRY(t->row->decode(t, (uint32_t)id[i], first && i == 0, out));
    }
    return PST_OK;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static pst_status byte_encode(pst_encoder *e, const uint8_t *text, size_t bytes) {
    PST_TRY(pst_ids_reserve(e->out, bytes));
    for (size_t i = 0; i < bytes; i++) e->out->id[e->out->n++] = text[i];
    return PST_OK;
}

static pst_status byte_decode(const pst_tokenizer *t, uint32_t id, int first, pst_text *out) {
    const char byte = (char)id;
    (void)t;
    (void)first;
    return pst_text_add(out, &byte, 1);
}

static size_t byte_cut(const pst_tokenizer *t, const uint8_t *text, size_t bytes) {
    (void)t;
    (void)text;
    return bytes ? bytes - 1 : 0;
}

const pst_tokenizer_row pst_tokenizer_byte = {"byte", byte_encode, byte_decode, byte_cut, 0};
