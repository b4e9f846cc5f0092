/* WordPiece: text is normalized (bert.c) and split at blanks and punctuation; each word is the
 * longest token that begins it, then the longest that continues it, and so on (Devlin et al.
 * 2019). */
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_CHARACTERS = 100 };

static int is_special(const uint8_t *text, uint32_t bytes) {
    return bytes > 2 && text[0] == '[' && text[bytes - 1] == ']' && text[1] >= 'A' &&
           text[1] <= 'Z' && !memchr(text, ' ', bytes);
}

static pst_status add_special(pst_tokenizer *t, uint32_t id, const uint8_t *text, uint32_t bytes) {
    char name[64];
    if (bytes >= sizeof name) return PST_OK;
    memcpy(name, text, bytes);
    name[bytes] = 0;
    return pst_tokenizer_add_special(t, name, (int32_t)id);
}

pst_status pst_wordpiece_set_tokens(pst_tokenizer *t, const char *unknown, const char *prefix) {
    size_t n = strlen(prefix);
    for (uint32_t id = 0; id < t->vocabulary.n; id++) {
        uint32_t bytes;
        const uint8_t *text = pst_vocabulary_text(&t->vocabulary, id, &bytes);
        if (!text) continue;
        if (bytes > t->longest) t->longest = bytes;
        if (bytes > n && !memcmp(text, prefix, n))
            PST_TRY(pst_vocabulary_add(&t->matched, id, text + n, bytes - n));
        if (is_special(text, bytes)) PST_TRY(add_special(t, id, text, bytes));
    }
    t->unknown = pst_vocabulary_find(&t->vocabulary, (const uint8_t *)unknown, strlen(unknown));
    if (t->unknown >= 0) return PST_OK;
    return pst_fail(PST_EINPUT, "the vocabulary has no token %s for unknown words", unknown);
}

/* 1: no token is written with a capital, except those in brackets: the vocabulary is of lower-case
 * text. */
static int is_lower(const pst_vocabulary *v) {
    for (uint32_t id = 0; id < v->n; id++) {
        uint32_t bytes;
        const uint8_t *text = pst_vocabulary_text(v, id, &bytes);
        if (!text || is_special(text, bytes)) continue;
        for (uint32_t i = 0; i < bytes; i++)
            if (text[i] >= 'A' && text[i] <= 'Z') return 0;
    }
    return 1;
}

static pst_status parse(pst_tokenizer *t, const char *text, size_t bytes) {
    uint64_t id = 0;
    for (const char *at = text, *end = text + bytes, *to; at < end; at = to + 1) {
        to = memchr(at, '\n', (size_t)(end - at));
        if (!to) to = end;
        size_t n = (size_t)(to - at);
        if (n && at[n - 1] == '\r') n--;
        PST_TRY(pst_vocabulary_add(&t->vocabulary, id++, (const uint8_t *)at, n));
    }
    return PST_OK;
}

pst_status pst_tokenizer_read_wordpiece(pst_tokenizer *t, const char *path) {
    char *text;
    size_t bytes;
    t->row = &pst_tokenizer_wordpiece;
    PST_TRY(pst_tokenizer_read(path, &text, &bytes));
    pst_status status = parse(t, text, bytes);
    free(text);
    if (status == PST_OK) status = pst_wordpiece_set_tokens(t, "[UNK]", "##");
    if (status != PST_OK) return pst_fail_in(status, "%s", path);
    int lower = is_lower(&t->vocabulary);
    t->wordpiece = (pst_wordpiece_options){
        .lower = lower, .accents = lower, .clean = 1, .han = 1, .most = MOST_CHARACTERS};
    return PST_OK;
}

/* --- words ------------------------------------------------------------------------------------ */

/* The longest token that begins at `at`; *length: its bytes, 0: none. */
static int32_t longest_token(const pst_tokenizer *t, const uint8_t *at, size_t bytes, int begins,
                             size_t *length) {
    const pst_vocabulary *v = begins ? &t->vocabulary : &t->matched;
    for (size_t n = bytes < t->longest ? bytes : t->longest; n; n--) {
        if (n < bytes && (at[n] & 0xc0) == 0x80) continue; /* within a character */
        int32_t id = pst_vocabulary_find(v, at, n);
        if (id < 0) continue;
        *length = n;
        return id;
    }
    *length = 0;
    return -1;
}

/* The output has room for an id per byte. */
static void divide_word(pst_encoder *e, const uint8_t *at, size_t bytes) {
    const pst_tokenizer *t = e->t;
    size_t before = e->out->n, length = 0;
    int known = bytes <= t->wordpiece.most || pst_unicode_count(at, bytes) <= t->wordpiece.most;
    for (size_t done = 0; known && done < bytes; done += length) {
        e->out->id[e->out->n++] = longest_token(t, at + done, bytes - done, !done, &length);
        known = length > 0;
    }
    if (known) return;
    e->out->n = before;
    e->out->id[e->out->n++] = t->unknown;
}

static void encode_word(pst_encoder *e, const uint8_t *at, const uint8_t *to, const uint8_t *end) {
    size_t bytes = (size_t)(to - at), before = e->out->n;
    uint64_t key[2];
    if (bytes > PST_WORD_BYTES) {
        divide_word(e, at, bytes);
        return;
    }
    pst_word *word = pst_words_at(&e->words, at, bytes, end, key);
    int32_t *id = e->out->id + before;
    if (pst_word_get(word, key, id, &e->out->n)) return;
    divide_word(e, at, bytes);
    pst_word_keep(word, key, id, e->out->n - before);
}

static pst_status wordpiece_encode(pst_encoder *e, const uint8_t *text, size_t bytes) {
    const uint8_t *classes = pst_unicode_bert_classes();
    PST_TRY(pst_bert_normalize(e, text, bytes));
    PST_TRY(pst_ids_reserve(e->out, e->normal.n + PST_WORD_IDS));
    const uint8_t *at = (const uint8_t *)e->normal.byte, *end = at + e->normal.n, *word = at;
    while (at < end) {
        uint32_t n = 1;
        uint8_t class = classes[*at < 0x80 ? *at : pst_unicode_decode(at, end, &n)];
        const uint8_t *next = at + n;
        if (class & (PST_SPACE | PST_PUNCT)) {
            if (word < at) encode_word(e, word, at, end);
            if (class & PST_PUNCT) encode_word(e, at, next, end);
            word = next;
        }
        at = next;
    }
    if (word < end) encode_word(e, word, end, end);
    return PST_OK;
}

static pst_status wordpiece_decode(const pst_tokenizer *t, uint32_t id, int first, pst_text *out) {
    uint32_t bytes;
    const uint8_t *text = pst_vocabulary_text(&t->matched, id, &bytes);
    if (text) return pst_text_add(out, text, bytes);
    text = pst_vocabulary_text(&t->vocabulary, id, &bytes);
    if (!first) PST_TRY(pst_text_add(out, " ", 1));
    return pst_text_add(out, text, bytes);
}

/* Words end before blanks, punctuation and Chinese characters, whatever comes before these. */
static size_t wordpiece_cut(const pst_tokenizer *t, const uint8_t *text, size_t bytes) {
    const uint8_t *class = pst_unicode_bert_classes();
    uint32_t ends = PST_PUNCT | PST_SPACE | (t->wordpiece.han ? PST_HAN : 0), length;
    for (size_t at = bytes; at-- > 1;) {
        if ((text[at] & 0xc0) == 0x80) continue;
        uint32_t next = class[pst_unicode_decode(text + at, text + bytes, &length)];
        if (next & ends && !(next & PST_CONTROL)) return at;
    }
    return 0;
}

const pst_tokenizer_row pst_tokenizer_wordpiece = {"WordPiece", wordpiece_encode, wordpiece_decode,
                                                   wordpiece_cut, 1};

int pst_tokenizer_lowers(const pst_tokenizer *t) {
    return t->row == &pst_tokenizer_wordpiece ? t->wordpiece.lower : -1;
}

int pst_tokenizer_continues(const pst_tokenizer *t, int32_t id, int *known) {
    uint32_t bytes;
    *known = t->row == &pst_tokenizer_wordpiece;
    return *known && id >= 0 && pst_vocabulary_text(&t->matched, (uint32_t)id, &bytes) != NULL;
}
