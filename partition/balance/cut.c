/* pst_balance_cut: n items in a row, n_chunk contiguous chunks, the most expensive chunk as cheap
 * as possible. Exact, by two dynamic programs: the first finds the smallest possible maximum; the
 * second, among cuts that stay within it, the fewest crossing bytes. Both take O(n^2 k) at worst
 * and stop early where a chunk's items alone exceed the bound. */
#include "partition/balance/balance.h"
#include <stdlib.h>
#include <string.h>

#define IMPOSSIBLE UINT64_MAX

/* Saturates below IMPOSSIBLE, so that absurdly large costs still have a result. */
static uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum == IMPOSSIBLE ? IMPOSSIBLE - 1 : sum;
}

/* Cost of item i in a chunk; chunks: how many are left, this one included. */
static uint64_t item(const pst_balance_items *p, uint32_t chunks, uint32_t i) {
    const uint64_t *again = p->again ? p->again[p->n_chunk - chunks] : NULL;
    return again ? plus(p->cost[i], again[i]) : p->cost[i];
}

/* The same for the sum of a chunk's items. */
static uint64_t slowed(const pst_balance_items *p, uint32_t chunks, uint64_t items) {
    if (!p->slow) return items;
    double ns = (double)items * p->slow[p->n_chunk - chunks];
    return ns < 0x1p63 ? (uint64_t)ns : IMPOSSIBLE - 1;
}

/* What a chunk pays for its two ends. */
static uint64_t edge(const pst_balance_items *p, uint32_t at) {
    return p->boundary_cost && at > 0 && at < p->n ? p->boundary_cost[at] : 0;
}
static uint64_t cross(const pst_balance_items *p, uint32_t at) {
    return p->crossing && at < p->n ? p->crossing[at] : 0;
}

/* cost[i]: of items i..n as one chunk. */
static void one_chunk(const pst_balance_items *p, uint64_t *cost) {
    uint64_t items = 0;
    for (uint32_t i = p->n; i-- > 0;) {
        items = plus(items, item(p, 1, i));
        cost[i] = plus(slowed(p, 1, items), edge(p, i));
    }
}

/* How many start items to consider; the first chunk starts at item 0. */
static uint32_t starts(const pst_balance_items *p, uint32_t chunks) {
    return chunks == p->n_chunk ? 1 : p->n;
}

/* The smallest possible maximum. best[i]: for items i..n in as many chunks as were considered. */
static uint64_t smallest_maximum(const pst_balance_items *p, uint64_t *best, uint64_t *next) {
    best[p->n] = IMPOSSIBLE;
    one_chunk(p, best);
    for (uint32_t chunks = 2; chunks <= p->n_chunk; chunks++) {
        next[p->n] = IMPOSSIBLE;
        for (uint32_t i = 0; i < starts(p, chunks); i++) {
            uint64_t items = 0;
            next[i] = IMPOSSIBLE;
            for (uint32_t end = i + 1; end <= p->n; end++) {
                items = plus(items, item(p, chunks, end - 1));
                uint64_t here = plus(slowed(p, chunks, items), edge(p, i));
                if (here >= next[i]) break; /* larger ends only cost more */
                uint64_t chunk = plus(here, edge(p, end));
                uint64_t most = chunk > best[end] ? chunk : best[end];
                if (most < next[i]) next[i] = most;
            }
        }
        best[0] = next[0];
        if (chunks < p->n_chunk) memcpy(best, next, (p->n + 1) * sizeof(*best));
    }
    return best[0];
}

/* least[c][i]: fewest bytes that cross the cuts of items i..n in c chunks, none of which exceeds
 * `bound`. */
static void fewest_bytes(const pst_balance_items *p, uint64_t bound, uint64_t *least) {
    uint64_t row = (uint64_t)p->n + 1;
    for (uint64_t i = 0; i < row * (p->n_chunk + 1); i++) least[i] = IMPOSSIBLE;
    least[p->n] = 0; /* no items in no chunks */
    one_chunk(p, least + row);
    for (uint32_t i = 0; i < p->n; i++) least[row + i] = least[row + i] <= bound ? 0 : IMPOSSIBLE;
    for (uint32_t c = 2; c <= p->n_chunk; c++)
        for (uint32_t i = 0; i < starts(p, c); i++) {
            uint64_t items = 0, *fewest = &least[c * row + i];
            for (uint32_t end = i + 1; end <= p->n; end++) {
                items = plus(items, item(p, c, end - 1));
                uint64_t here = plus(slowed(p, c, items), edge(p, i));
                if (here > bound) break;
                uint64_t rest = least[(c - 1) * row + end];
                if (rest == IMPOSSIBLE || plus(here, edge(p, end)) > bound) continue;
                uint64_t bytes = plus(rest, cross(p, end));
                if (bytes < *fewest) *fewest = bytes;
            }
        }
}

/* Walks the table from the front, always to the earliest cut that is still optimal. */
static void read_cuts(const pst_balance_items *p, uint64_t bound, const uint64_t *least,
                      uint32_t *chunk_of_item) {
    uint64_t row = (uint64_t)p->n + 1;
    uint32_t i = 0;
    for (uint32_t c = p->n_chunk; c > 0; c--) {
        uint64_t items = 0;
        uint32_t end = i;
        for (;;) {
            items = plus(items, item(p, c, end++));
            uint64_t rest = least[(c - 1) * row + end],
                     here = plus(slowed(p, c, items), edge(p, i));
            if (rest != IMPOSSIBLE && plus(here, edge(p, end)) <= bound &&
                plus(rest, cross(p, end)) == least[c * row + i])
                break;
        }
        while (i < end) chunk_of_item[i++] = p->n_chunk - c;
    }
}

pst_status pst_balance_cut(const pst_balance_items *items, uint32_t *chunk_of_item) {
    const uint32_t n = items->n, n_chunk = items->n_chunk;
    if (n_chunk == 0)
        return pst_fail(PST_EINPUT, "cannot cut a model into 0 chunks; expected 1 or more");
    if (n < n_chunk)
        return pst_fail(
            PST_EINPUT,
            "%u operators cannot be cut into %u chunks; expected at most one chunk per operator", n,
            n_chunk);
    size_t row = (size_t)n + 1;
    uint64_t *table = malloc(row * ((size_t)n_chunk + 1) * sizeof(*table));
    uint64_t *pair = malloc(2 * row * sizeof(*pair));
    pst_status status = PST_OK;
    if (table && pair) {
        uint64_t bound = smallest_maximum(items, pair, pair + row);
        fewest_bytes(items, bound, table);
        read_cuts(items, bound, table, chunk_of_item);
    } else {
        status = pst_fail(PST_ENOMEM, "no memory to cut %u operators into %u chunks", n, n_chunk);
    }
    free(table);
    free(pair);
    return status;
}
