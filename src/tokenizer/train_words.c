/* Words of files and how often each occurs; see train.h. */
#include "base/grow.h"
#include "base/hash.h"
#include "tokenizer/parts.h"
#include "tokenizer/stream.h"
#include "tokenizer/train_parts.h"
#include "tokenizer/unicode.h"
#include <stdlib.h>
#include <string.h>

static const char to_learn[] = "to learn a tokenizer";
enum { FIRST_SLOTS = 4096, WORD_MOST = 1024 /* bytes */ };

pst_status pst_bpe_training_open(pst_bpe_training **out) {
    pst_bpe_training *t = calloc(1, sizeof *t);
    if (!t) return pst_no_memory(to_learn);
    *out = t;
    return PST_OK;
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
    free(t);
}

uint32_t pst_bpe_training_words(const pst_bpe_training *t) { return (uint32_t)t->n_word; }
uint32_t pst_bpe_training_merges(const pst_bpe_training *t) { return (uint32_t)t->n_merge; }

static int is_word(const pst_bpe_training *t, const pst_counted_word *w, const uint8_t *at,
                   size_t n) {
    if (w->n != n) return 0;
    for (size_t i = 0; i < n; i++)
        if (t->symbol[w->at + i] != at[i]) return 0;
    return 1;
}

static pst_status grow_slots(pst_bpe_training *t) {
    size_t n = t->n_slot ? 2 * t->n_slot : FIRST_SLOTS;
    uint32_t *slot = calloc(n, sizeof *slot);
    if (!slot) return pst_no_memory(to_learn);
    for (size_t k = 0; k < t->n_word; k++) {
        size_t i = t->word[k].hash & (n - 1);
        while (slot[i]) i = (i + 1) & (n - 1);
        slot[i] = (uint32_t)k + 1;
    }
    free(t->slot);
    t->slot = slot;
    t->n_slot = n;
    return PST_OK;
}

static pst_status add_word(pst_bpe_training *t, const uint8_t *at, size_t n, uint64_t hash) {
    PST_TRY(pst_grow(&t->word, sizeof *t->word, t->n_word, &t->word_capacity, to_learn));
    if (t->n_symbol + n > UINT32_MAX)
        return pst_fail(PST_EINPUT, "the different words have more than 4 GiB");
    while (t->symbol_capacity < t->n_symbol + n) {
        size_t capacity = t->symbol_capacity ? 2 * t->symbol_capacity : FIRST_SLOTS;
        PST_TRY(pst_grow_to(&t->symbol, sizeof *t->symbol, capacity, to_learn));
        t->symbol_capacity = capacity;
    }
    t->word[t->n_word++] = (pst_counted_word){(uint32_t)t->n_symbol, (uint32_t)n, 1, hash};
    for (size_t i = 0; i < n; i++) t->symbol[t->n_symbol++] = at[i];
    return PST_OK;
}

static pst_status count_word(pst_bpe_training *t, const uint8_t *at, size_t n) {
    uint64_t hash = pst_hash_bytes(at, n);
    if (2 * (t->n_word + 1) > t->n_slot) PST_TRY(grow_slots(t));
    size_t i = hash & (t->n_slot - 1);
    for (; t->slot[i]; i = (i + 1) & (t->n_slot - 1)) {
        pst_counted_word *w = &t->word[t->slot[i] - 1];
        if (w->hash != hash || !is_word(t, w, at, n)) continue;
        w->count++;
        return PST_OK;
    }
    t->slot[i] = (uint32_t)t->n_word + 1;
    return add_word(t, at, n, hash);
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
    return count_text(t, text, bytes, 1);
}

pst_status pst_bpe_training_read(pst_bpe_training *t, const char *path, uint64_t *bytes) {
    return pst_read_parts(path, pst_split_cut, count_text, t, bytes);
}
