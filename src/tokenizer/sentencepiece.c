/* SentencePiece: characters are replaced and blanks become U+2581; then words are divided by the
 * unigram model (unigram.c), or characters are merged as in BPE, by the tokens' scores. */
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include <string.h>

static const char blank[] = "\xe2\x96\x81";
enum { BLANK = 3 /* bytes */, UNKNOWN = -1 };
enum {
    WINDOW = 1 << 12 /* bytes at the end of a text that are searched for a place to divide it */
};
enum { REPLACED_MOST = 64 /* bytes of the longest text with a replacement, and more */ };

/* --- normalization ---------------------------------------------------------------------------- */

/* What the text at `at` becomes, *n bytes, and how much of it, *taken. */
static const char *replaced(const pst_tokenizer *t, const uint8_t *at, size_t bytes, size_t *taken,
                            size_t *n) {
    static const char invalid[] = "\xef\xbf\xbd";
    uint32_t length;
    const pst_special *inner = t->has_inner ? pst_special_at(t, 1, at, bytes) : NULL;
    if (inner) {
        *n = *taken = inner->bytes;
        return (const char *)at;
    }
    const char *found = pst_charsmap_find(&t->sentencepiece.charsmap, at, bytes, taken, n);
    if (found) return found;
    uint32_t code = pst_unicode_decode(at, at + bytes, &length);
    *taken = length;
    *n = code == PST_INVALID ? sizeof invalid - 1 : length;
    return code == PST_INVALID ? invalid : (const char *)at;
}

/* Appends text with blanks as tokens have them; *was_blank: the last character was one that makes
 * others superfluous. */
static pst_status add(const pst_sentencepiece *o, pst_text *out, const char *text, size_t n,
                      int *was_blank) {
    PST_TRY(pst_text_room(out, BLANK * n));
    for (size_t i = 0; i < n; i++) {
        int is_blank = text[i] == ' ';
        if (is_blank && *was_blank) continue;
        if (is_blank) PST_TRY(pst_text_add(out, blank, BLANK));
        else out->byte[out->n++] = text[i];
        *was_blank = is_blank && o->collapse;
    }
    return PST_OK;
}

static int ends_in_blank(const pst_text *text) {
    return text->n >= BLANK && !memcmp(text->byte + text->n - BLANK, blank, BLANK);
}

/* Into e->normal. Blanks at the end of a part stay: more may follow only at the document's end. */
static pst_status normalize(pst_encoder *e, const uint8_t *text, size_t bytes) {
    const pst_sentencepiece *o = &e->t->sentencepiece;
    int was_blank = o->collapse && e->begins;
    e->normal.n = 0;
    if (o->prefix && e->begins) PST_TRY(pst_text_add(&e->normal, blank, BLANK));
    for (size_t at = 0, taken, n; at < bytes; at += taken) {
        const char *made = replaced(e->t, text + at, bytes - at, &taken, &n);
        PST_TRY(add(o, &e->normal, made, n, &was_blank));
    }
    while (o->collapse && ends_in_blank(&e->normal)) e->normal.n -= BLANK;
    return PST_OK;
}

/* --- words ------------------------------------------------------------------------------------ */

/* Appends the ids of single characters, or UNKNOWN, and merges them. */
static pst_status merge_word(pst_encoder *e, const uint8_t *at, size_t bytes) {
    const pst_tokenizer *t = e->t;
    int32_t *id = e->out->id + e->out->n;
    size_t n = 0;
    uint32_t length;
    for (size_t i = 0; i < bytes; i += length) {
        const pst_special *inner = t->has_inner ? pst_special_at(t, 1, at + i, bytes - i) : NULL;
        if (inner) length = (uint32_t)inner->bytes;
        else pst_unicode_decode(at + i, at + bytes, &length);
        id[n++] = inner ? inner->id : pst_vocabulary_find(&t->matched, at + i, length);
    }
    PST_TRY(pst_pairs_merge(&t->pairs, id, &n, &e->merge));
    e->out->n += n;
    return PST_OK;
}

/* Replaces UNKNOWN from id `first` on: by the tokens of its bytes, or by one unknown token for
 * several characters in a row. */
static void resolve(pst_encoder *e, size_t first, const uint8_t *at, const uint8_t *to) {
    const pst_tokenizer *t = e->t;
    size_t n = e->out->n - first;
    int32_t *from = e->out->id + first;
    if (!memchr(from, 0xff, n * sizeof *from)) return;
    int32_t *copy = from + (to - at); /* after all that is written */
    memcpy(copy, from, n * sizeof *copy);
    e->out->n = first;
    for (size_t i = 0; i < n; i++) {
        uint32_t bytes;
        if (copy[i] >= 0) {
            pst_vocabulary_text(&t->vocabulary, (uint32_t)copy[i], &bytes);
            e->out->id[e->out->n++] = copy[i];
            at += bytes;
            continue;
        }
        pst_unicode_decode(at, to, &bytes);
        int follows = i && copy[i - 1] < 0;
        for (uint32_t k = 0; t->sentencepiece.bytes && k < bytes; k++)
            e->out->id[e->out->n++] = t->byte_id[at[k]];
        if (!t->sentencepiece.bytes && !follows) e->out->id[e->out->n++] = t->unknown;
        at += bytes;
    }
}

static pst_status encode_word(pst_encoder *e, const uint8_t *at, const uint8_t *to,
                              const uint8_t *end) {
    size_t bytes = (size_t)(to - at), before = e->out->n;
    uint64_t key[2];
    pst_word *word = NULL;
    int32_t *id = e->out->id + before;
    int cached = bytes <= PST_WORD_BYTES && !e->t->sentencepiece.unigram;
    if (cached) word = pst_words_at(&e->words, at, bytes, end, key);
    if (cached && pst_word_get(word, key, id, &e->out->n)) return PST_OK;
    PST_TRY(e->t->sentencepiece.unigram ? pst_unigram_encode(e, at, bytes)
                                        : merge_word(e, at, bytes));
    resolve(e, before, at, to);
    if (cached) pst_word_keep(word, key, id, e->out->n - before);
    return PST_OK;
}

static int is_blank_at(const uint8_t *at, const uint8_t *end) {
    return end - at >= BLANK && !memcmp(at, blank, BLANK);
}

/* The end of the word that begins at `at`: blanks, then other characters. */
static const uint8_t *word_end(const uint8_t *at, const uint8_t *end) {
    while (is_blank_at(at, end)) at += BLANK;
    while (at < end && !is_blank_at(at, end)) at++;
    return at;
}

static pst_status sentencepiece_encode(pst_encoder *e, const uint8_t *text, size_t bytes) {
    PST_TRY(normalize(e, text, bytes));
    /* an id per byte, and another one for a copy: see resolve */
    PST_TRY(pst_ids_reserve(e->out, 2 * e->normal.n + PST_WORD_IDS));
    const uint8_t *at = (const uint8_t *)e->normal.byte, *end = at + e->normal.n;
    while (at < end) {
        const uint8_t *to = e->t->sentencepiece.words ? word_end(at, end) : end;
        PST_TRY(encode_word(e, at, to, end));
        at = to;
    }
    return PST_OK;
}

static pst_status sentencepiece_decode(const pst_tokenizer *t, uint32_t id, int first,
                                       pst_text *out) {
    uint32_t bytes;
    const uint8_t *text = pst_vocabulary_text(&t->vocabulary, id, &bytes);
    for (uint32_t i = 0; t->sentencepiece.bytes && i < 256; i++) {
        const char byte = (char)i;
        if (t->byte_id[i] == (int32_t)id) return pst_text_add(out, &byte, 1);
    }
    if (pst_vocabulary_text(&t->matched, id, &bytes) == NULL) /* special */
        return pst_text_add(out, text, bytes);
    const uint8_t *end = text + bytes;
    if (first && t->sentencepiece.prefix && is_blank_at(text, end)) text += BLANK;
    for (; text < end; text++) {
        int is_blank = is_blank_at(text, end);
        PST_TRY(pst_text_add(out, is_blank ? " " : (const char *)text, 1));
        if (is_blank) text += BLANK - 1;
    }
    return PST_OK;
}

/* No token crosses the border before a blank. */
static size_t cut_before_blank(const uint8_t *text, size_t bytes) {
    for (size_t at = bytes; at > 1; at--) {
        uint8_t before = text[at - 2] | 0x20;
        if (text[at - 1] == ' ' && before >= 'a' && before <= 'z') return at - 1;
    }
    return 0;
}

/* The first place from `at` on that no replacement crosses: whatever comes before, a replacement or
 * a character begins there. 0: none. */
static size_t first_border(const pst_tokenizer *t, const uint8_t *text, size_t at, size_t bytes) {
    size_t clear = at + REPLACED_MOST, taken, n;
    for (size_t reach = 0; at < bytes; at++) {
        if ((text[at] & 0xc0) == 0x80) continue;
        if (at >= clear && reach <= at) return at;
        replaced(t, text + at, bytes - at, &taken, &n);
        if (at + taken > reach) reach = at + taken;
    }
    return 0;
}

/* 1: the normalized text can be divided at `place`: the character before it is not a blank and has
 * a token of its own, and no token is on both sides. */
static int can_divide(const pst_tokenizer *t, const pst_text *normal, size_t place) {
    uint32_t length;
    const uint8_t *text = (const uint8_t *)normal->byte;
    if (place < t->longest || normal->n - place < t->longest) return 0;
    pst_unicode_before(text, text + place, &length);
    return !is_blank_at(text + place - length, text + place) &&
           pst_vocabulary_find(&t->matched, text + place - length, length) >= 0 &&
           !pst_cut_is_crossed(t, &t->matched, text, place);
}

/* In text without blanks: where no token is on both sides. */
static size_t cut_anywhere(const pst_tokenizer *t, const uint8_t *text, size_t bytes) {
    size_t from = first_border(t, text, bytes > WINDOW ? bytes - WINDOW : 0, bytes), found = 0, n;
    size_t end = bytes > REPLACED_MOST ? bytes - REPLACED_MOST : 0, taken, place[WINDOW][2];
    size_t n_place = 0;
    int was_blank = 0;
    pst_text normal = {0};
    for (size_t at = from; from && at < end; at += taken) {
        const char *made = replaced(t, text + at, bytes - at, &taken, &n);
        place[n_place][0] = at;
        place[n_place++][1] = normal.n;
        if (add(&t->sentencepiece, &normal, made, n, &was_blank) != PST_OK) end = 0;
    }
    while (end && n_place-- && !found)
        if (can_divide(t, &normal, place[n_place][1])) found = place[n_place][0];
    pst_text_free(&normal);
    return found;
}

static size_t sentencepiece_cut(const pst_tokenizer *t, const uint8_t *text, size_t bytes) {
    size_t at = t->sentencepiece.words ? cut_before_blank(text, bytes) : 0;
    return at ? at : cut_anywhere(t, text, bytes);
}

const pst_tokenizer_row pst_tokenizer_sentencepiece = {"SentencePiece", sentencepiece_encode,
                                                       sentencepiece_decode, sentencepiece_cut, 0};
