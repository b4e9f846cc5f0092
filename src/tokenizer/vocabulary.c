/* See vocabulary.h. An open hash table with linear probing, at most half full. */
#include "tokenizer/vocabulary.h"
#include "base/grow.h"
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>

static const char for_tokens[] = "for a vocabulary";
enum { FIRST_SLOTS = 1024 };

static int is_token(const pst_vocabulary *v, uint32_t id, const uint8_t *text, size_t bytes) {
    const pst_token *t = &v->token[id];
    return t->bytes == bytes && !memcmp(v->text + t->at, text, bytes);
}

/* The slot of these bytes, or the empty slot where they belong. */
static uint32_t slot_of(const pst_vocabulary *v, const uint8_t *text, size_t bytes) {
    uint32_t i = (uint32_t)pst_hash_bytes(text, bytes) & (v->n_slot - 1);
    while (v->slot[i] && !is_token(v, v->slot[i] - 1, text, bytes)) i = (i + 1) & (v->n_slot - 1);
    return i;
}

static pst_status grow_slots(pst_vocabulary *v) {
    uint32_t n = v->n_slot ? 2 * v->n_slot : FIRST_SLOTS;
    uint32_t *slot = calloc(n, sizeof *slot);
    if (!slot) return pst_no_memory(for_tokens);
    free(v->slot);
    v->slot = slot;
    v->n_slot = n;
    for (uint32_t id = 0; id < v->n; id++) {
        const pst_token *t = &v->token[id];
        if (t->at == UINT64_MAX) continue;
        uint32_t i = slot_of(v, v->text + t->at, t->bytes);
        if (!v->slot[i]) v->slot[i] = id + 1;
    }
    return PST_OK;
}

static pst_status make_room(pst_vocabulary *v, uint32_t id, size_t bytes) {
    while (v->token_capacity <= id) {
        size_t capacity = v->token_capacity ? 2 * v->token_capacity : FIRST_SLOTS;
        PST_TRY(pst_grow_to(&v->token, sizeof *v->token, capacity, for_tokens));
        v->token_capacity = capacity;
    }
    while (v->text_capacity - v->used < bytes + 1) {
        size_t capacity = v->text_capacity ? 2 * v->text_capacity : 8 * FIRST_SLOTS;
        PST_TRY(pst_grow_to(&v->text, 1, capacity, for_tokens));
        v->text_capacity = capacity;
    }
    return 2 * (v->n_set + 1) > v->n_slot ? grow_slots(v) : PST_OK;
}

pst_status pst_vocabulary_add(pst_vocabulary *v, uint64_t id, const uint8_t *text, size_t bytes) {
    if (id >= PST_VOCABULARY_MOST || bytes > UINT32_MAX)
        return pst_fail(PST_EINPUT, "the token \"%.*s\" has the id %llu; ids are below %d",
                        bytes < 40 ? (int)bytes : 40, (const char *)text, (unsigned long long)id,
                        PST_VOCABULARY_MOST);
    if (id < v->n && v->token[id].at != UINT64_MAX)
        return pst_fail(PST_EINPUT, "two tokens have the id %llu", (unsigned long long)id);
    PST_TRY(make_room(v, (uint32_t)id, bytes));
    while (v->n <= id) v->token[v->n++] = (pst_token){UINT64_MAX, 0};
    v->token[id] = (pst_token){v->used, (uint32_t)bytes};
    if (bytes) memcpy(v->text + v->used, text, bytes);
    v->used += bytes;
    v->n_set++;
    uint32_t i = slot_of(v, text, bytes);
    if (!v->slot[i]) v->slot[i] = (uint32_t)id + 1;
    return PST_OK;
}

int32_t pst_vocabulary_find(const pst_vocabulary *v, const uint8_t *text, size_t bytes) {
    if (!v->n_slot) return -1;
    return (int32_t)v->slot[slot_of(v, text, bytes)] - 1;
}

const uint8_t *pst_vocabulary_text(const pst_vocabulary *v, uint32_t id, uint32_t *bytes) {
    if (id >= v->n || v->token[id].at == UINT64_MAX) return NULL;
    *bytes = v->token[id].bytes;
    return v->text + v->token[id].at;
}

void pst_vocabulary_free(pst_vocabulary *v) {
    free(v->token);
    free(v->text);
    free(v->slot);
    *v = (pst_vocabulary){0};
}
