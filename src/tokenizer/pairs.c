/* See pairs.h. Short words are merged by looking for the lowest rank again after each merge; long
 * ones by a heap over a linked list. */
#include "tokenizer/pairs.h"
#include <stdlib.h>
#include <string.h>

enum { SHORT = 32, FIRST_SLOTS = 1024 };
#define NO_RANK UINT32_MAX

static inline size_t hash(uint32_t left, uint32_t right, size_t n_slot) {
    uint64_t h = (((uint64_t)left << 32) | right) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 24) & (n_slot - 1);
}

static inline const pst_pair *find(const pst_pairs *p, uint32_t left, uint32_t right) {
    for (size_t i = hash(left, right, p->n_slot);; i = (i + 1) & (p->n_slot - 1)) {
        const pst_pair *s = &p->slot[i];
        if (s->left == left && s->right == right) return s;
        if (s->left == (uint32_t)PST_PAIR_NONE) return NULL;
    }
}

static void put(pst_pairs *p, pst_pair pair) {
    size_t i = hash(pair.left, pair.right, p->n_slot);
    while (p->slot[i].left != (uint32_t)PST_PAIR_NONE) i = (i + 1) & (p->n_slot - 1);
    p->slot[i] = pair;
}

static pst_status grow(pst_pairs *p) {
    pst_pairs bigger = {.n_slot = p->n_slot ? 2 * p->n_slot : FIRST_SLOTS, .n = p->n};
    if (!(bigger.slot = malloc(bigger.n_slot * sizeof *bigger.slot)))
        return pst_no_memory("for the merges of a tokenizer");
    memset(bigger.slot, 0xff, bigger.n_slot * sizeof *bigger.slot);
    for (size_t i = 0; i < p->n_slot; i++)
        if (p->slot[i].left != (uint32_t)PST_PAIR_NONE) put(&bigger, p->slot[i]);
    free(p->slot);
    *p = bigger;
    return PST_OK;
}

pst_status pst_pairs_add(pst_pairs *p, pst_pair pair) {
    if (2 * (p->n + 1) > p->n_slot) PST_TRY(grow(p));
    if (find(p, pair.left, pair.right)) return PST_OK;
    put(p, pair);
    p->n++;
    return PST_OK;
}

const pst_pair *pst_pairs_find(const pst_pairs *p, uint32_t left, uint32_t right) {
    return p->n ? find(p, left, right) : NULL;
}

void pst_pairs_free(pst_pairs *p) {
    free(p->slot);
    *p = (pst_pairs){0};
}

/* --- short words ------------------------------------------------------------------------------ */

static inline void look_up(const pst_pairs *p, const int32_t *id, uint32_t *rank, int32_t *merged) {
    const pst_pair *pair = find(p, (uint32_t)id[0], (uint32_t)id[1]);
    *rank = pair ? pair->rank : NO_RANK;
    *merged = pair ? (int32_t)pair->id : 0;
}

static size_t merge_short(const pst_pairs *p, int32_t *id, size_t n) {
    uint32_t rank[SHORT];
    int32_t merged[SHORT];
    for (size_t i = 0; i + 1 < n; i++) look_up(p, id + i, rank + i, merged + i);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == NO_RANK) break;
        id[best] = merged[best];
        n--;
        size_t after = n - best - 1;
        memmove(id + best + 1, id + best + 2, after * sizeof *id);
        memmove(rank + best, rank + best + 1, after * sizeof *rank);
        memmove(merged + best, merged + best + 1, after * sizeof *merged);
        if (best) look_up(p, id + best - 1, rank + best - 1, merged + best - 1);
        if (after) look_up(p, id + best, rank + best, merged + best);
    }
    return n;
}

/* --- long words ------------------------------------------------------------------------------- */

/* A symbol of the word: its neighbours, and the merge with the next one. */
typedef struct {
    int32_t id, merged;
    uint32_t rank, before, after;
} symbol;
typedef uint64_t entry; /* rank and position, in the order in which merges happen */
enum { ENTRIES = 3 };   /* per symbol: at first, and two more for every merge */
#define NOWHERE UINT32_MAX

typedef struct {
    symbol *symbol;
    entry *heap;
    size_t n_heap;
} long_word;

static void push(long_word *w, entry e) {
    size_t at = w->n_heap++;
    while (at && w->heap[(at - 1) / 2] > e) {
        w->heap[at] = w->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    w->heap[at] = e;
}

static entry pop(long_word *w) {
    entry top = w->heap[0], last = w->heap[--w->n_heap];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < w->n_heap) {
        if (child + 1 < w->n_heap && w->heap[child + 1] < w->heap[child]) child++;
        if (w->heap[child] >= last) break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return top;
}

static void consider(const pst_pairs *p, long_word *w, uint32_t at) {
    symbol *s = &w->symbol[at];
    s->rank = NO_RANK;
    if (s->after == NOWHERE) return;
    const int32_t both[2] = {s->id, w->symbol[s->after].id};
    look_up(p, both, &s->rank, &s->merged);
    if (s->rank != NO_RANK) push(w, (entry)s->rank << 32 | at);
}

static void merge_at(const pst_pairs *p, long_word *w, uint32_t at) {
    symbol *s = &w->symbol[at], *gone = &w->symbol[s->after];
    s->id = s->merged;
    s->after = gone->after;
    gone->rank = NO_RANK;
    if (s->after != NOWHERE) w->symbol[s->after].before = at;
    consider(p, w, at);
    if (s->before != NOWHERE) consider(p, w, s->before);
}

static pst_status reserve(pst_merge_memory *m, size_t n) {
    if (m->capacity >= n) return PST_OK;
    void *memory = malloc(n * (sizeof(symbol) + ENTRIES * sizeof(entry)));
    if (!memory)
        return pst_fail(PST_ENOMEM, "no memory to encode a word of %zu bytes without a blank", n);
    free(m->memory);
    m->memory = memory;
    m->capacity = n;
    return PST_OK;
}

void pst_merge_memory_free(pst_merge_memory *m) {
    free(m->memory);
    *m = (pst_merge_memory){0};
}

static pst_status merge_long(const pst_pairs *p, int32_t *id, size_t *n, pst_merge_memory *m) {
    if (*n >= NOWHERE)
        return pst_fail(PST_EINPUT, "a word of %zu bytes without a blank cannot be encoded", *n);
    PST_TRY(reserve(m, *n));
    entry *heap = m->memory; /* entries are aligned more strictly than symbols */
    long_word w = {.heap = heap, .symbol = (symbol *)(heap + ENTRIES * m->capacity)};
    uint32_t last = (uint32_t)*n - 1;
    for (uint32_t i = 0; i <= last; i++)
        w.symbol[i] = (symbol){
            .id = id[i], .before = i ? i - 1 : NOWHERE, .after = i < last ? i + 1 : NOWHERE};
    for (uint32_t i = 0; i <= last; i++) consider(p, &w, i);
    while (w.n_heap) {
        entry top = pop(&w);
        uint32_t at = (uint32_t)top;
        if (w.symbol[at].rank == top >> 32) merge_at(p, &w, at); /* else it was replaced */
    }
    *n = 0;
    for (uint32_t i = 0; i != NOWHERE; i = w.symbol[i].after) id[(*n)++] = w.symbol[i].id;
    return PST_OK;
}

pst_status pst_pairs_merge(const pst_pairs *p, int32_t *id, size_t *n, pst_merge_memory *m) {
    if (*n < 2 || !p->n) return PST_OK;
    if (*n > SHORT) return merge_long(p, id, n, m);
    *n = merge_short(p, id, *n);
    return PST_OK;
}
