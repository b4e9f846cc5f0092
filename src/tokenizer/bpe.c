/* Byte-level byte-pair encoding: text is split into words, and in each word bytes and tokens are
 * merged in the order of their ranks. Every byte is kept, so any file can be restored. */
#include "base/hash.h"
#include "tokenizer/parts.h"
#include "tokenizer/unicode.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Code points: the parts of Korean syllables, before the letters of Japanese; whole syllables. */
enum { JAMO_FIRST = 0x1100, KANA_FIRST = 0x3041, SYLLABLE_LAST = 0xd7a3 };
enum { WINDOW = 1 << 14 /* bytes at the end of a text that are searched */, MARGIN = 4 };

void pst_bpe_set_bytes(pst_tokenizer *t) {
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        t->byte_id[i] = pst_vocabulary_find(&t->vocabulary, &byte, 1);
        if (t->byte_id[i] < 0) t->byte_id[i] = t->unknown;
    }
    for (uint32_t id = 0; id < t->vocabulary.n; id++) {
        uint32_t bytes;
        if (pst_vocabulary_text(&t->vocabulary, id, &bytes) && bytes > t->longest)
            t->longest = bytes;
    }
}

pst_status pst_bpe_pairs_of_ranks(pst_tokenizer *t) {
    for (uint32_t id = 0; id < t->vocabulary.n; id++) {
        uint32_t bytes;
        const uint8_t *text = pst_vocabulary_text(&t->vocabulary, id, &bytes);
        for (uint32_t i = 1; text && i < bytes; i++) {
            int32_t left = pst_vocabulary_find(&t->vocabulary, text, i);
            int32_t right =
                left < 0 ? -1 : pst_vocabulary_find(&t->vocabulary, text + i, bytes - i);
            if (right < 0) continue;
            PST_TRY(pst_pairs_add(&t->pairs, (pst_pair){(uint32_t)left, (uint32_t)right, id, id}));
        }
    }
    return PST_OK;
}

pst_status pst_bpe_add_merge(pst_tokenizer *t, const pst_text *left, const pst_text *right,
                             uint32_t rank) {
    pst_text both = {0};
    const pst_vocabulary *v = &t->vocabulary;
    pst_status status = pst_text_add(&both, left->byte, left->n);
    if (status == PST_OK) status = pst_text_add(&both, right->byte, right->n);
    if (status == PST_OK) {
        int32_t a = pst_vocabulary_find(v, (const uint8_t *)left->byte, left->n);
        int32_t b = pst_vocabulary_find(v, (const uint8_t *)right->byte, right->n);
        int32_t id = pst_vocabulary_find(v, (const uint8_t *)both.byte, both.n);
        if (a < 0 || b < 0 || id < 0)
            status = pst_fail(PST_EINPUT,
                              "merge %u, of \"%.*s\" and \"%.*s\": one of these, or both together, "
                              "is no token of the vocabulary",
                              rank + 1, (int)left->n, left->byte, (int)right->n, right->byte);
        else
            status =
                pst_pairs_add(&t->pairs, (pst_pair){(uint32_t)a, (uint32_t)b, rank, (uint32_t)id});
    }
    pst_text_free(&both);
    return status;
}

pst_status pst_bpe_add_step(pst_tokenizer *t, const char *pattern) {
    if (t->n_step == PST_SPLIT_STEPS)
        return pst_fail(PST_EINPUT, "text is split in more than %d steps", PST_SPLIT_STEPS);
    pst_split_step *step = &t->step[t->n_step];
    step->row = pst_split_of_pattern(pattern);
    if (!step->row) PST_TRY(pst_regex_open(pattern, &step->regex));
    /* several spellings of a row's pattern match the same, and so do rows with a common one */
    const char *text = step->row ? step->row->pattern[0] : pattern;
    step->hash = pst_hash64(text, strlen(text), 0);
    step->lines = pst_split_lines_of(pattern);
    t->n_step++;
    return PST_OK;
}

/* --- words ------------------------------------------------------------------------------------ */

static pst_status no_token(uint8_t byte) {
    return pst_fail(PST_EINPUT, "the tokenizer has no token for the byte 0x%02x", byte);
}

/* Appends the ids of a word to the output, which has room for them. */
static pst_status merge_word(pst_encoder *e, const uint8_t *at, size_t bytes) {
    const pst_tokenizer *t = e->t;
    int32_t *id = e->out->id + e->out->n;
    if (t->whole_words && (id[0] = pst_vocabulary_find(&t->vocabulary, at, bytes)) >= 0) {
        e->out->n++;
        return PST_OK;
    }
    size_t n = bytes;
    for (size_t i = 0; i < bytes; i++)
        if ((id[i] = t->byte_id[at[i]]) < 0) return no_token(at[i]);
    PST_TRY(pst_pairs_merge(&t->pairs, id, &n, &e->merge));
    e->out->n += n;
    return PST_OK;
}

/* A short word: from the cache, or into it. The output has room for PST_WORD_IDS more. */
static inline pst_status cached_word(pst_encoder *e, const uint8_t *at, size_t bytes,
                                     const uint8_t *end) {
    uint64_t key[2];
    pst_word *word = pst_words_at(&e->words, at, bytes, end, key);
    size_t before = e->out->n;
    int32_t *id = e->out->id + before;
    if (pst_word_get(word, key, id, &e->out->n)) return PST_OK;
    PST_TRY(merge_word(e, at, bytes));
    pst_word_keep(word, key, id, e->out->n - before);
    return PST_OK;
}

static inline pst_status encode_word(pst_encoder *e, const uint8_t *at, const uint8_t *to,
                                     const uint8_t *end) {
    size_t bytes = (size_t)(to - at);
    return bytes <= PST_WORD_BYTES ? cached_word(e, at, bytes, end) : merge_word(e, at, bytes);
}

/* --- texts ------------------------------------------------------------------------------------ */

static pst_status split_by_row(pst_encoder *e, const pst_split_row *row, const uint8_t *at,
                               const uint8_t *end) {
    const uint8_t *classes = pst_unicode_classes();
    while (at < end) {
        const uint8_t *to = pst_split_next(row, classes, at, end);
        PST_TRY(encode_word(e, at, to, end));
        at = to;
    }
    return PST_OK;
}

/* Splits [at, end) by step k and the steps after it; text between matches is a word too. */
static pst_status split(pst_encoder *e, uint32_t k, const uint8_t *at, const uint8_t *end) {
    const pst_tokenizer *t = e->t;
    if (at == end) return PST_OK;
    if (k == t->n_step) return encode_word(e, at, end, end);
    const pst_split_row *row = t->step[k].row;
    if (row && k + 1 == t->n_step) return split_by_row(e, row, at, end);
    size_t bytes = (size_t)(end - at), done = 0;
    while (done < bytes) {
        pst_span match = {done, 0};
        if (row)
            match.to = (size_t)(pst_split_next(row, pst_unicode_classes(), at + done, end) - at);
        else PST_TRY(pst_regex_next(e->matcher[k], at, bytes, done, &match));
        PST_TRY(split(e, k + 1, at + done, at + match.from));
        PST_TRY(split(e, k + 1, at + match.from, at + match.to));
        done = match.to;
    }
    return PST_OK;
}

/* The end of the valid UTF-8 from `at` on, or of the invalid bytes there. */
static const uint8_t *valid_until(const uint8_t *at, const uint8_t *end, int *valid) {
    uint32_t bytes;
    *valid = pst_unicode_decode(at, end, &bytes) != PST_INVALID;
    while (at < end && (pst_unicode_decode(at, end, &bytes) != PST_INVALID) == *valid) at += bytes;
    return at;
}

/* Characters below U+0300 do not change by composition. */
static int is_composed(const uint8_t *at, const uint8_t *end) {
    while (at < end && *at < 0xcc) at++;
    return at == end;
}

/* The text, composed (NFC); invalid bytes stay. */
static pst_status compose(pst_encoder *e, const uint8_t *at, const uint8_t *end) {
    e->normal.n = 0;
    while (at < end) {
        int valid;
        const uint8_t *to = valid_until(at, end, &valid);
        utf8proc_uint8_t *made = NULL;
        utf8proc_ssize_t n =
            valid ? utf8proc_map(at, to - at, &made, UTF8PROC_COMPOSE | UTF8PROC_STABLE) : 0;
        pst_status status = made ? pst_text_add(&e->normal, made, (size_t)n)
                                 : pst_text_add(&e->normal, at, (size_t)(to - at));
        free(made);
        PST_TRY(status);
        at = to;
    }
    return PST_OK;
}

static pst_status bpe_encode(pst_encoder *e, const uint8_t *text, size_t bytes) {
    const uint8_t *end = text + bytes;
    if (e->t->compose && !is_composed(text, end)) {
        PST_TRY(compose(e, text, end));
        text = (const uint8_t *)e->normal.byte;
        end = text + e->normal.n;
    }
    PST_TRY(pst_ids_reserve(e->out, (size_t)(end - text) + PST_WORD_IDS));
    return split(e, 0, text, end);
}

static pst_status bpe_decode(const pst_tokenizer *t, uint32_t id, int first, pst_text *out) {
    uint32_t bytes;
    const uint8_t *text = pst_vocabulary_text(&t->vocabulary, id, &bytes);
    (void)first;
    return pst_text_add(out, text, bytes);
}

/* A letter is neither changed by normalization nor the reason for a change of the one before it,
 * unless it is a part of a Korean syllable. */
static int is_plain(const pst_tokenizer *t, const uint8_t *at, const uint8_t *end,
                    uint32_t *length) {
    uint32_t code = pst_unicode_decode(at, end, length);
    if (!(pst_unicode_classes()[code] & PST_LETTER)) return 0;
    return !t->compose || code < JAMO_FIRST || (code >= KANA_FIRST && code <= SYLLABLE_LAST);
}

/* The last place of a run of letters, text[from, to), at which it can be divided; 0: none. Words
 * that are tokens as a whole, contractions, and the sign before a word are shorter than the margin.
 */
static size_t cut_of_run(const pst_tokenizer *t, const uint8_t *text, size_t from, size_t to) {
    size_t margin = t->longest + MARGIN, least = from + margin;
    if (to < 2 * margin || to - margin < least) return 0;
    for (size_t place = to - margin; place > least; place--)
        if ((text[place] & 0xc0) != 0x80 && !pst_cut_is_crossed(t, &t->vocabulary, text, place))
            return place;
    return 0;
}

/* In Chinese a word may be as long as the text. It can be divided where no token is on both sides:
 * merges make nothing but tokens, so none of them crosses that place. */
static size_t cut_within_word(const pst_tokenizer *t, const uint8_t *text, size_t bytes) {
    size_t from = bytes > WINDOW ? bytes - WINDOW : 0;
    uint32_t length;
    for (size_t at = from; at < bytes; at += length) {
        if (is_plain(t, text + at, text + bytes, &length) && at + length < bytes) continue;
        size_t found = cut_of_run(t, text, from, at);
        if (found) return found;
        from = at + length;
    }
    return 0;
}

/* Steps of which nothing is known may have words that contain anything. */
static size_t bpe_cut(const pst_tokenizer *t, const uint8_t *text, size_t bytes) {
    int at_lines = 0;
    if (t->n_step == 1 && t->step[0].row) {
        size_t at = pst_split_cut(NULL, (const char *)text, bytes);
        return at ? at : cut_within_word(t, text, bytes);
    }
    for (uint32_t i = 0; i < t->n_step; i++) {
        if (t->step[i].lines == PST_SPLIT_UNKNOWN) return 0;
        at_lines |= t->step[i].lines == PST_SPLIT_AT_LINES;
    }
    return at_lines ? pst_split_line((const char *)text, bytes) : 0;
}

const pst_tokenizer_row pst_tokenizer_bpe = {"byte-level BPE", bpe_encode, bpe_decode, bpe_cut, 0};
