/* Words of files; see train.h. */
#include "tokenizer/parts.h"
#include "tokenizer/stream.h"
#include "tokenizer/train_parts.h"
#include "tokenizer/unicode.h"
#include <stdlib.h>
#include <string.h>

static const char to_learn[] = "to learn a tokenizer";
enum { WORD_MOST = 1024 /* bytes */ };

pst_status pst_bpe_training_open(pst_bpe_training **out) {
    enum { BYTES = 256 };
    pst_bpe_training *t = calloc(1, sizeof *t);
    if (!t) return pst_no_memory(to_learn);
    t->n_first = BYTES;
    *out = t;
    return PST_OK;
}

pst_status pst_wordpiece_training_open(int cased, pst_bpe_training **out) {
    pst_bpe_training *t = NULL;
    PST_TRY(pst_bpe_training_open(&t));
    pst_status status = pst_wordpiece_lesson_open(cased, &t->wordpiece);
    if (status == PST_OK) *out = t;
    else pst_bpe_training_close(t);
    return status;
}

void pst_bpe_training_close(pst_bpe_training *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n_pair; i++) free(t->pair[i].word);
    free(t->word);
    free(t->symbol);
    free(t->slot);
    free(t->pair);
    free(t->pair_slot);
    free(t->merge);
    pst_wordpiece_lesson_close(t->wordpiece);
    free(t);
}

uint32_t pst_bpe_training_words(const pst_bpe_training *t) { return (uint32_t)t->n_word; }
uint32_t pst_bpe_training_merges(const pst_bpe_training *t) { return (uint32_t)t->n_merge; }

static pst_status count_word(pst_bpe_training *t, const uint8_t *at, size_t n) {
    int32_t symbol[WORD_MOST];
    for (size_t i = 0; i < n; i++) symbol[i] = at[i];
    return pst_bpe_training_count(t, symbol, n);
}

/* A long word counts as several, so that learning takes linear time: a merge looks at all of a
 * word. */
static pst_status count_parts(pst_bpe_training *t, const uint8_t *at, const uint8_t *end) {
    while (end - at > WORD_MOST) {
        size_t n = WORD_MOST;
        while (n > WORD_MOST - 4 && (at[n] & 0xc0) == 0x80) n--; /* not within a character */
        PST_TRY(count_word(t, at, n));
        at += n;
    }
    return count_word(t, at, (size_t)(end - at));
}

static pst_status count_text(void *to, const char *text, size_t bytes, int first) {
    const pst_split_row *row = pst_split_find("gpt2");
    const uint8_t *at = (const uint8_t *)text, *end = at + bytes, *classes = pst_unicode_classes();
    (void)first;
    while (at < end) {
        const uint8_t *next = pst_split_next(row, classes, at, end);
        PST_TRY(count_parts(to, at, next));
        at = next;
    }
    return PST_OK;
}

pst_status pst_bpe_training_add(pst_bpe_training *t, const char *text, size_t bytes) {
    return t->wordpiece ? pst_wordpiece_count_text(t, text, bytes, 1)
                        : count_text(t, text, bytes, 1);
}

pst_status pst_bpe_training_read(pst_bpe_training *t, const char *path, uint64_t *bytes) {
    if (t->wordpiece)
        return pst_read_parts(path, pst_wordpiece_text_cut, pst_wordpiece_count_text, t, bytes);
    return pst_read_parts(path, pst_split_cut, count_text, t, bytes);
}
