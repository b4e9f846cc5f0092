/* All downsets of a DAG, breadth first: each adds one item whose predecessors are in the set. See
 * downset.h. */
#include "partition/foreign/downset.h"
#include "base/grow.h"
#include <stdlib.h>
#include <string.h>

static const char what[] = "for the downsets of a graph";

/* Adjacency lists of all items. */
typedef struct {
    uint32_t *first, *other;
} ends;

static void ends_close(ends *e) {
    free(e->first);
    free(e->other);
}

static pst_status ends_open(uint32_t n, const pst_downset_edge *edge, uint32_t n_edge,
                            int successors, ends *e) {
    e->first = calloc((size_t)n + 2, sizeof *e->first);
    e->other = calloc((size_t)n_edge + 1, sizeof *e->other);
    if (!e->first || !e->other) return pst_no_memory(what);
    for (uint32_t i = 0; i < n_edge; i++) e->first[(successors ? edge[i].from : edge[i].to) + 2]++;
    for (uint32_t i = 0; i < n; i++) e->first[i + 2] += e->first[i + 1];
    for (uint32_t i = 0; i < n_edge; i++) {
        uint32_t at = successors ? edge[i].from : edge[i].to;
        e->other[e->first[at + 1]++] = successors ? edge[i].to : edge[i].from;
    }
    return PST_OK;
}

/* --- order ------------------------------------------------------------------------------------ */

static pst_status order_by(uint32_t n, const ends *next, uint32_t *missing, uint32_t *ready,
                           uint32_t *order) {
    uint32_t n_ready = 0, n_done = 0;
    for (uint32_t i = n; i-- > 0;)
        if (!missing[i]) ready[n_ready++] = i;
    while (n_ready) { /* the newest first: follows a branch to its end */
        uint32_t i = ready[--n_ready];
        order[n_done++] = i;
        for (uint32_t e = next->first[i]; e < next->first[i + 1]; e++)
            if (--missing[next->other[e]] == 0) ready[n_ready++] = next->other[e];
    }
    return n_done == n ? PST_OK : pst_fail(PST_EINPUT, "the graph has a cycle");
}

pst_status pst_downset_order(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                             uint32_t *order) {
    ends next = {0};
    uint32_t *missing = calloc((size_t)n_item + 1, sizeof *missing),
             *ready = calloc((size_t)n_item + 1, sizeof *ready);
    pst_status status =
        missing && ready ? ends_open(n_item, edge, n_edge, 1, &next) : pst_no_memory(what);
    for (uint32_t i = 0; status == PST_OK && i < n_edge; i++) missing[edge[i].to]++;
    if (status == PST_OK) status = order_by(n_item, &next, missing, ready, order);
    ends_close(&next);
    free(missing);
    free(ready);
    return status;
}

/* --- enumeration ------------------------------------------------------------------------------ */

enum { MOST_EDGES = 1 << 24 };
typedef struct {
    pst_downset_list *list;
    ends next, before;
    uint32_t n_item, words, most, capacity, edge_capacity, table_mask;
    uint64_t *bits;  /* [capacity][words] */
    uint64_t *key;   /* [capacity] XOR of the codes of the items in it */
    uint64_t *code;  /* [n_item] */
    uint32_t *table; /* 1 + number of a downset, by key; 0: free */
} builder;

static uint64_t code_of(uint64_t item) { /* splitmix64 */
    uint64_t z = (item + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int has(const builder *b, uint32_t downset, uint32_t item) {
    return b->bits[(size_t)downset * b->words + item / 64] >> item % 64 & 1;
}

static pst_status rehash(builder *b) {
    size_t slots = 64;
    while (slots < 2 * (size_t)b->capacity) slots *= 2;
    free(b->table);
    b->table = calloc(slots, sizeof *b->table);
    if (!b->table) return pst_no_memory(what);
    b->table_mask = (uint32_t)(slots - 1);
    for (uint32_t d = 0; d < b->list->n; d++) {
        uint32_t at = (uint32_t)b->key[d] & b->table_mask;
        while (b->table[at]) at = (at + 1) & b->table_mask;
        b->table[at] = d + 1;
    }
    return PST_OK;
}

static pst_status allocate(builder *b) {
    pst_downset_list *l = b->list;
    if (l->n < b->capacity) return PST_OK;
    size_t capacity = b->capacity ? 2 * (size_t)b->capacity : 64;
    /* one step beyond the limit would be noticed too late */
    size_t limit = (size_t)b->most + b->n_item + 1;
    if (capacity > limit) capacity = limit;
    PST_TRY(pst_grow_to(&b->bits, sizeof *b->bits, capacity * b->words, what));
    PST_TRY(pst_grow_to(&b->key, sizeof *b->key, capacity, what));
    PST_TRY(pst_grow_to(&l->parent, sizeof *l->parent, capacity, what));
    PST_TRY(pst_grow_to(&l->last, sizeof *l->last, capacity, what));
    PST_TRY(pst_grow_to(&l->first, sizeof *l->first, capacity + 1, what));
    b->capacity = (uint32_t)capacity;
    return rehash(b);
}

/* The number of `from` plus `item`, new if necessary. */
static pst_status add(builder *b, uint32_t from, uint32_t item, uint32_t *number) {
    PST_TRY(allocate(b));
    pst_downset_list *l = b->list;
    uint64_t key = b->key[from] ^ b->code[item], *fresh = b->bits + (size_t)l->n * b->words;
    memcpy(fresh, b->bits + (size_t)from * b->words, b->words * sizeof *fresh);
    fresh[item / 64] |= UINT64_C(1) << item % 64;
    uint32_t at = (uint32_t)key & b->table_mask;
    for (; b->table[at]; at = (at + 1) & b->table_mask) {
        uint32_t d = b->table[at] - 1;
        if (b->key[d] != key ||
            memcmp(b->bits + (size_t)d * b->words, fresh, b->words * sizeof *fresh))
            continue;
        *number = d;
        return PST_OK;
    }
    b->table[at] = l->n + 1;
    b->key[l->n] = key;
    l->parent[l->n] = from;
    l->last[l->n] = item;
    *number = l->n++;
    return PST_OK;
}

static pst_status link_to(builder *b, uint32_t *n_edge, uint32_t from, uint32_t item) {
    pst_downset_list *l = b->list;
    if (*n_edge == b->edge_capacity) {
        size_t capacity = b->edge_capacity ? 2 * (size_t)b->edge_capacity : 256;
        if (capacity > UINT32_MAX / 2) return pst_no_memory(what);
        PST_TRY(pst_grow_to(&l->item, sizeof *l->item, capacity, what));
        PST_TRY(pst_grow_to(&l->next, sizeof *l->next, capacity, what));
        b->edge_capacity = (uint32_t)capacity;
    }
    uint32_t to = 0;
    PST_TRY(add(b, from, item, &to));
    l->item[*n_edge] = item;
    l->next[(*n_edge)++] = to;
    return PST_OK;
}

static int ready(const builder *b, uint32_t downset, uint32_t item) {
    for (uint32_t e = b->before.first[item]; e < b->before.first[item + 1]; e++)
        if (!has(b, downset, b->before.other[e])) return 0;
    return 1;
}

/* Items that can be added to d: those of its parent except the last item, and those that the last
 * item made ready. */
static pst_status extend(builder *b, uint32_t d, uint32_t *n_edge) {
    pst_downset_list *l = b->list;
    l->first[d] = *n_edge;
    if (d == 0) {
        for (uint32_t i = 0; i < b->n_item; i++)
            if (b->before.first[i] == b->before.first[i + 1]) PST_TRY(link_to(b, n_edge, 0, i));
        return PST_OK;
    }
    uint32_t parent = l->parent[d], last = l->last[d];
    for (uint32_t e = l->first[parent]; e < l->first[parent + 1]; e++)
        if (l->item[e] != last) PST_TRY(link_to(b, n_edge, d, l->item[e]));
    for (uint32_t e = b->next.first[last]; e < b->next.first[last + 1]; e++) {
        uint32_t i = b->next.other[e];
        int again = 0; /* two edges to the same item */
        for (uint32_t f = l->first[d]; f < *n_edge; f++) again |= l->item[f] == i;
        if (!again && ready(b, d, i)) PST_TRY(link_to(b, n_edge, d, i));
    }
    return PST_OK;
}

static pst_status enumerate(builder *b) {
    pst_downset_list *l = b->list;
    uint32_t n_edge = 0;
    PST_TRY(allocate(b));
    memset(b->bits, 0, b->words * sizeof *b->bits);
    b->key[0] = 0;
    l->parent[0] = l->last[0] = 0;
    l->n = 1;
    PST_TRY(rehash(b));
    for (uint32_t d = 0; d < l->n; d++) {
        PST_TRY(extend(b, d, &n_edge));
        l->first[d + 1] = n_edge;
        if (l->n > b->most || n_edge > MOST_EDGES) { /* a limit, not an error */
            l->n = 0;
            return PST_OK;
        }
    }
    uint32_t depth = 0;
    for (uint32_t d = l->n - 1; d; d = l->parent[d]) depth++;
    return depth == b->n_item ? PST_OK : pst_fail(PST_EINPUT, "the graph has a cycle");
}

pst_status pst_downset_list_open(uint32_t n_item, const pst_downset_edge *edge, uint32_t n_edge,
                                 uint32_t most, pst_downset_list *list) {
    *list = (pst_downset_list){0};
    builder b = {
        .list = list, .n_item = n_item, .words = (n_item + 63) / 64 + !n_item, .most = most};
    b.code = calloc((size_t)n_item + 1, sizeof *b.code);
    pst_status status = b.code ? ends_open(n_item, edge, n_edge, 1, &b.next) : pst_no_memory(what);
    if (status == PST_OK) status = ends_open(n_item, edge, n_edge, 0, &b.before);
    for (uint32_t i = 0; status == PST_OK && i < n_item; i++) b.code[i] = code_of(i);
    if (status == PST_OK) status = enumerate(&b);
    ends_close(&b.next);
    ends_close(&b.before);
    free(b.bits);
    free(b.key);
    free(b.code);
    free(b.table);
    if (status != PST_OK || !list->n) pst_downset_list_close(list);
    return status;
}

void pst_downset_list_close(pst_downset_list *list) {
    free(list->first);
    free(list->item);
    free(list->next);
    free(list->parent);
    free(list->last);
    *list = (pst_downset_list){0};
}
