/* Normalization of text before WordPiece, as BERT does it: control characters are removed, Chinese
 * characters become words, accents are removed, and letters become lower-case. */
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include <stdlib.h>
#include <utf8proc.h>

enum { REPLACEMENT = 0xfffd, DOTTED_I = 0x130, DOT_ABOVE = 0x307 };

/* Room for the longest result: a Chinese character gets two blanks, a letter up to four others. */
enum { GROWTH = 8 };

static void put(pst_text *out, uint32_t code) {
    out->n += pst_unicode_encode(code, (uint8_t *)out->byte + out->n);
}

/* One character after decomposition. */
static void put_folded(pst_encoder *e, uint32_t code) {
    const pst_wordpiece_options *o = &e->t->wordpiece;
    if (o->accents && pst_unicode_bert_classes()[code] & PST_MARK) return;
    if (o->lower && code == DOTTED_I) {
        put(&e->normal, 'i');
        put(&e->normal, DOT_ABOVE);
        return;
    }
    put(&e->normal, o->lower ? (uint32_t)utf8proc_tolower((utf8proc_int32_t)code) : code);
}

/* A part of the text that decomposition may change: valid UTF-8 without ASCII. */
static pst_status put_decomposed(pst_encoder *e, const pst_text *part) {
    utf8proc_uint8_t *made = NULL;
    const uint8_t *at = (const uint8_t *)part->byte, *end = at + part->n;
    if (e->t->wordpiece.accents) {
        utf8proc_ssize_t n = utf8proc_map(at, (utf8proc_ssize_t)part->n, &made,
                                          UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
        if (n < 0) return pst_no_memory("to normalize text");
        at = made;
        end = made + n;
    }
    uint32_t bytes;
    for (; at < end; at += bytes) put_folded(e, pst_unicode_decode(at, end, &bytes));
    free(made);
    return PST_OK;
}

/* Appends a character to the part, cleaned; a Chinese one gets blanks around it. */
static void add_cleaned(const pst_wordpiece_options *o, uint32_t code, pst_text *part) {
    uint8_t class = pst_unicode_bert_classes()[code];
    if (code == PST_INVALID) code = REPLACEMENT;
    if (o->clean && (code == REPLACEMENT || class & PST_CONTROL)) return;
    if (o->clean && class & PST_SPACE) code = ' ';
    int alone = o->han && class & PST_HAN;
    if (alone) put(part, ' ');
    put(part, code);
    if (alone) put(part, ' ');
}

/* The characters from `at` on up to the next ASCII character; returns where it is. */
static pst_status other_than_ascii(pst_encoder *e, const uint8_t **at, const uint8_t *end,
                                   pst_text *part) {
    const uint8_t *to = *at;
    uint32_t bytes;
    while (to < end && *to >= 0x80) to++;
    size_t most = GROWTH * (size_t)(to - *at);
    PST_TRY(pst_text_room(part, most));
    part->n = 0;
    for (; *at < to; *at += bytes)
        add_cleaned(&e->t->wordpiece, pst_unicode_decode(*at, to, &bytes), part);
    PST_TRY(pst_text_room(&e->normal, GROWTH * part->n + (size_t)(end - to)));
    return put_decomposed(e, part);
}

/* What becomes of ASCII characters; 0: they are removed. */
static void fill_ascii(const pst_wordpiece_options *o, uint8_t map[128]) {
    for (uint32_t c = 0; c < 128; c++) {
        map[c] = (uint8_t)c;
        if (o->lower && c >= 'A' && c <= 'Z') map[c] = (uint8_t)(c + 'a' - 'A');
        if (o->clean && (c < 32 || c == 127))
            map[c] = c == '\t' || c == '\n' || c == '\r' ? ' ' : 0;
    }
}

pst_status pst_bert_normalize(pst_encoder *e, const uint8_t *text, size_t bytes) {
    const uint8_t *at = text, *end = text + bytes;
    uint8_t map[128];
    pst_text part = {0};
    pst_status status = pst_text_room(&e->normal, bytes);
    e->normal.n = 0;
    fill_ascii(&e->t->wordpiece, map);
    while (status == PST_OK && at < end) {
        char *to = e->normal.byte + e->normal.n;
        for (; at < end && *at < 0x80; at++) {
            *to = (char)map[*at];
            to += *to != 0;
        }
        e->normal.n = (size_t)(to - e->normal.byte);
        if (at < end) status = other_than_ascii(e, &at, end, &part);
    }
    pst_text_free(&part);
    return status;
}
