/* SentencePiece's .model, a protocol buffer (sentencepiece_model.proto): tokens with scores and
 * types, the kind of model, and how text is normalized. */
#include "tokenizer/parts.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE }; /* types of tokens */
enum { UNIGRAM = 1, BPE = 2 };                             /* kinds of models */
static const float UNKNOWN_PENALTY = 10;                   /* kUnkPenalty of unigram_model.cc */

/* --- protocol buffers ------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at, *end;
} message;
typedef struct {
    uint32_t number, type; /* type: 0 varint, 1 and 5 fixed, 2 bytes */
    uint64_t value;        /* of a number, as it stands there */
    message bytes;
} field;

static int get_varint(message *m, uint64_t *value) {
    *value = 0;
    for (uint32_t shift = 0; m->at < m->end && shift < 64; shift += 7) {
        uint8_t byte = *m->at++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

static int get_fixed(message *m, uint32_t bytes, uint64_t *value) {
    if ((size_t)(m->end - m->at) < bytes) return 0;
    *value = 0;
    memcpy(value, m->at, bytes);
    m->at += bytes;
    return 1;
}

/* The next field; 0: the message is damaged. */
static int get_field(message *m, field *f) {
    uint64_t key, n;
    if (!get_varint(m, &key) || key >> 3 > UINT32_MAX) return 0;
    *f = (field){.number = (uint32_t)(key >> 3), .type = key & 7};
    if (f->type == 0) return get_varint(m, &f->value);
    if (f->type == 1) return get_fixed(m, 8, &f->value);
    if (f->type == 5) return get_fixed(m, 4, &f->value);
    if (f->type != 2 || !get_varint(m, &n) || n > (uint64_t)(m->end - m->at)) return 0;
    f->bytes = (message){m->at, m->at + n};
    m->at += n;
    return 1;
}

static float float_of(uint64_t value) {
    uint32_t bits = (uint32_t)value;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

static pst_status damaged(void) {
    return pst_fail(PST_EINPUT, "the file is damaged, or not a model of SentencePiece");
}

/* --- the parts of the model ------------------------------------------------------------------- */

static pst_status set_byte(pst_tokenizer *t, const uint8_t *text, size_t n, int32_t id) {
    char digits[3] = {0};
    if (n != 6 || memcmp(text, "<0x", 3) || !isxdigit(text[3]) || !isxdigit(text[4]) ||
        text[5] != '>')
        return damaged();
    memcpy(digits, text + 3, 2);
    t->byte_id[strtoul(digits, NULL, 16)] = id;
    return PST_OK;
}

static pst_status add_special(pst_tokenizer *t, const message *text, int32_t id, int inner) {
    char *name = strndup((const char *)text->at, (size_t)(text->end - text->at));
    if (!name) return pst_no_memory("for special tokens");
    pst_status status = *name ? pst_tokenizer_add_special(t, name, id) : PST_OK;
    if (status == PST_OK && *name && inner) {
        t->special[t->n_special - 1].inner = 1;
        t->has_inner = 1;
    }
    free(name);
    return status;
}

static pst_status add_token(pst_tokenizer *t, const message *text, uint64_t type) {
    uint32_t id = t->vocabulary.n;
    size_t n = (size_t)(text->end - text->at);
    PST_TRY(pst_vocabulary_add(&t->vocabulary, id, text->at, n));
    if (type == UNKNOWN) t->unknown = (int32_t)id;
    if (type == BYTE) return set_byte(t, text->at, n, (int32_t)id);
    if (type == CONTROL || type == USER) PST_TRY(add_special(t, text, (int32_t)id, type == USER));
    if (type != NORMAL && type != USER) return PST_OK;
    if (n > t->longest) t->longest = (uint32_t)n;
    return pst_vocabulary_add(&t->matched, id, text->at, n);
}

/* SentencePiece: piece (1), score (2), type (3). */
static pst_status read_token(pst_tokenizer *t, message m, size_t *capacity) {
    message text = {m.at, m.at};
    uint64_t type = NORMAL;
    float score = 0;
    field f;
    while (m.at < m.end) {
        if (!get_field(&m, &f)) return damaged();
        if (f.number == 1 && f.type == 2) text = f.bytes;
        if (f.number == 2 && f.type == 5) score = float_of(f.value);
        if (f.number == 3 && f.type == 0) type = f.value;
    }
    if (t->vocabulary.n >= *capacity) {
        *capacity = *capacity ? 2 * *capacity : 1024;
        float *more = realloc(t->sentencepiece.score, *capacity * sizeof *more);
        if (!more) return pst_no_memory("for a tokenizer");
        t->sentencepiece.score = more;
    }
    t->sentencepiece.score[t->vocabulary.n] = type == USER ? NAN : score;
    return add_token(t, &text, type);
}

/* TrainerSpec: model_type (3), treat_whitespace_as_suffix (24), byte_fallback (35). */
static pst_status read_kind(pst_tokenizer *t, message m) {
    uint64_t kind = UNIGRAM;
    field f;
    while (m.at < m.end) {
        if (!get_field(&m, &f)) return damaged();
        if (f.number == 3 && f.type == 0) kind = f.value;
        if (f.number == 35 && f.type == 0) t->sentencepiece.bytes = f.value != 0;
        if (f.number == 24 && f.value)
            return pst_fail(PST_EINPUT, "blanks at the ends of tokens are not supported");
    }
    t->sentencepiece.unigram = kind == UNIGRAM;
    if (kind == UNIGRAM || kind == BPE) return PST_OK;
    return pst_fail(PST_EINPUT, "a model of words or characters is not supported; expected unigram "
                                "or BPE");
}

/* NormalizerSpec: precompiled_charsmap (2), add_dummy_prefix (3), remove_extra_whitespaces (4),
 * escape_whitespaces (5). */
static pst_status read_normalizer(pst_tokenizer *t, message m) {
    pst_sentencepiece *o = &t->sentencepiece;
    field f;
    while (m.at < m.end) {
        if (!get_field(&m, &f)) return damaged();
        if (f.number == 2 && f.type == 2 && f.bytes.at < f.bytes.end) {
            pst_charsmap_free(&o->charsmap);
            PST_TRY(
                pst_charsmap_open(f.bytes.at, (size_t)(f.bytes.end - f.bytes.at), &o->charsmap));
        }
        if (f.number == 3) o->prefix = f.value != 0;
        if (f.number == 4) o->collapse = f.value != 0;
        if (f.number == 5 && !f.value)
            return pst_fail(PST_EINPUT, "blanks that are not written as U+2581 are not supported");
    }
    return PST_OK;
}

/* --- what follows from the tokens ------------------------------------------------------------- */

/* 1: no token has a blank (U+2581) after another character. */
static int has_words(const pst_vocabulary *v) {
    for (uint32_t id = 0; id < v->n; id++) {
        uint32_t n;
        const uint8_t *at = pst_vocabulary_text(v, id, &n);
        uint32_t i = 0;
        while (at && i + 3 <= n && !memcmp(at + i, "\xe2\x96\x81", 3)) i += 3;
        if (at && memmem(at + i, n - i, "\xe2\x96\x81", 3)) return 0;
    }
    return 1;
}

typedef struct {
    float score;
    uint32_t id;
} ranked;
static int by_score(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

/* -1: no token, or one that is never merged. */
static int32_t find_normal(const pst_tokenizer *t, const uint8_t *text, size_t bytes) {
    int32_t id = pst_vocabulary_find(&t->matched, text, bytes);
    return id >= 0 && isnan(t->sentencepiece.score[id]) ? -1 : id;
}

/* Merges of a BPE model: any two tokens that together are one; its score decides, equal ones have
 * the same rank. */
static pst_status add_merges(pst_tokenizer *t, const ranked *list, uint32_t n) {
    const pst_vocabulary *v = &t->matched;
    for (uint32_t k = 0, rank = 0; k < n; k++) {
        uint32_t bytes;
        const uint8_t *text = pst_vocabulary_text(v, list[k].id, &bytes);
        if (k && list[k].score != list[k - 1].score) rank = k;
        for (uint32_t i = 1; i < bytes; i++) {
            int32_t left = find_normal(t, text, i);
            int32_t right = left < 0 ? -1 : find_normal(t, text + i, bytes - i);
            const pst_pair pair = {(uint32_t)left, (uint32_t)right, rank, list[k].id};
            if (right >= 0) PST_TRY(pst_pairs_add(&t->pairs, pair));
        }
    }
    return PST_OK;
}

static pst_status rank_tokens(pst_tokenizer *t) {
    uint32_t n = 0;
    ranked *list = malloc((t->matched.n + (size_t)1) * sizeof *list);
    if (!list) return pst_no_memory("for a tokenizer");
    for (uint32_t id = 0; id < t->matched.n; id++)
        if (t->matched.token[id].at != UINT64_MAX && !isnan(t->sentencepiece.score[id]))
            list[n++] = (ranked){t->sentencepiece.score[id], id};
    qsort(list, n, sizeof *list, by_score);
    if (n) t->sentencepiece.unknown = list[n - 1].score - UNKNOWN_PENALTY;
    if (n) t->sentencepiece.most = list[0].score;
    pst_status status = t->sentencepiece.unigram ? pst_unigram_open(t) : add_merges(t, list, n);
    free(list);
    return status;
}

static pst_status finish(pst_tokenizer *t) {
    for (int i = 0; t->sentencepiece.bytes && i < 256; i++)
        if (t->byte_id[i] < 0) return pst_fail(PST_EINPUT, "the token <0x%02X> is missing", i);
    if (t->unknown < 0 && !t->sentencepiece.bytes)
        return pst_fail(PST_EINPUT, "there is no token for unknown characters");
    t->sentencepiece.words = has_words(&t->matched);
    return rank_tokens(t);
}

/* ModelProto: pieces (1), trainer_spec (2), normalizer_spec (3). */
static pst_status parse(pst_tokenizer *t, message m) {
    size_t capacity = 0;
    field f;
    t->sentencepiece.prefix = t->sentencepiece.collapse = t->sentencepiece.unigram = 1;
    memset(t->byte_id, 0xff, sizeof t->byte_id);
    while (m.at < m.end) {
        if (!get_field(&m, &f)) return damaged();
        if (f.type != 2) continue;
        if (f.number == 1) PST_TRY(read_token(t, f.bytes, &capacity));
        if (f.number == 2) PST_TRY(read_kind(t, f.bytes));
        if (f.number == 3) PST_TRY(read_normalizer(t, f.bytes));
    }
    return t->vocabulary.n ? finish(t) : damaged();
}

pst_status pst_tokenizer_read_sentencepiece(pst_tokenizer *t, const char *path) {
    char *text;
    size_t bytes;
    t->row = &pst_tokenizer_sentencepiece;
    PST_TRY(pst_tokenizer_read(path, &text, &bytes));
    pst_status status = parse(t, (message){(uint8_t *)text, (uint8_t *)text + bytes});
    free(text);
    return status == PST_OK ? PST_OK : pst_fail_in(status, "%s", path);
}
