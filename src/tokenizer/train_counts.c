/* How often each word occurs: a hash table of words as sequences of symbols; see train_parts.h. */
#include "base/grow.h"
#include "base/hash.h"
#include "tokenizer/train_parts.h"
#include <stdlib.h>
#include <string.h>

static const char to_learn[] = "to learn a tokenizer";
enum { FIRST_SLOTS = 4096 };

static int is_word(const pst_bpe_training *t, const pst_counted_word *w, const int32_t *symbol,
                   size_t n) {
    return w->n == n && !memcmp(t->symbol + w->at, symbol, n * sizeof *symbol);
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

static pst_status add_word(pst_bpe_training *t, const int32_t *symbol, size_t n, uint64_t hash) {
    PST_TRY(pst_grow(&t->word, sizeof *t->word, t->n_word, &t->word_capacity, to_learn));
    if (t->n_symbol + n > UINT32_MAX)
        return pst_fail(PST_EINPUT, "the different words have more than 4 GiB");
    while (t->symbol_capacity < t->n_symbol + n) {
        size_t capacity = t->symbol_capacity ? 2 * t->symbol_capacity : FIRST_SLOTS;
        PST_TRY(pst_grow_to(&t->symbol, sizeof *t->symbol, capacity, to_learn));
        t->symbol_capacity = capacity;
    }
    t->word[t->n_word++] = (pst_counted_word){(uint32_t)t->n_symbol, (uint32_t)n, 1, hash};
    memcpy(t->symbol + t->n_symbol, symbol, n * sizeof *symbol);
    t->n_symbol += n;
    return PST_OK;
}

pst_status pst_bpe_training_count(pst_bpe_training *t, const int32_t *symbol, size_t n) {
    uint64_t hash = pst_hash_bytes(symbol, n * sizeof *symbol);
    if (2 * (t->n_word + 1) > t->n_slot) PST_TRY(grow_slots(t));
    size_t i = hash & (t->n_slot - 1);
    for (; t->slot[i]; i = (i + 1) & (t->n_slot - 1)) {
        pst_counted_word *w = &t->word[t->slot[i] - 1];
        if (w->hash != hash || !is_word(t, w, symbol, n)) continue;
        w->count++;
        return PST_OK;
    }
    t->slot[i] = (uint32_t)t->n_word + 1;
    return add_word(t, symbol, n, hash);
}
