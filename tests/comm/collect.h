/* Random collectives with known results: both ends of a test draw the same case, fill what a member
 * has and check what it has got. Sums are of small whole numbers, so exact in any order. */
#ifndef TESTS_COMM_COLLECT_H
#define TESTS_COMM_COLLECT_H
#include "base/rng.h"
#include "comm/collective/collective.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLLECT_MEMBERS = 16, COLLECT_GUARD = 64, COLLECT_ALGORITHMS = 7 };

static const char *const collect_algorithm[COLLECT_ALGORITHMS] = {
    NULL, "doubling", "direct", "tree", "ring", "shared", "host"};

typedef struct {
    pst_coll_kind kind;
    uint32_t n, root, salt;
    const char *algorithm;
    pst_dtype dtype;
    int in_parts;                         /* of different sizes */
    uint64_t bytes;                       /* as pst_coll_start takes it */
    uint64_t offset[COLLECT_MEMBERS + 1]; /* of the parts in memory */
} collect;

static inline uint32_t collect_word(uint64_t key, uint64_t at) {
    uint32_t word[4];
    pst_rng_words(key, 3, at, word);
    return word[0];
}

/* Elements of a part: none, a few, odd numbers, some that make several segments. */
static inline uint64_t collect_count(uint64_t key, uint64_t at, uint64_t most) {
    uint32_t word = collect_word(key, at);
    static const uint64_t limit[] = {1, 4, 30, 700, 3000, 20000, 70000, 1000000};
    uint64_t below = limit[word % 8];
    return (word >> 8) % (below < most ? below : most);
}

/* most: elements of all parts together. */
static inline collect collect_draw(uint64_t key, uint64_t i, uint32_t n, uint64_t most) {
    uint64_t at = i * 64;
    collect c = {.n = n, .salt = collect_word(key, at)};
    c.kind = (pst_coll_kind)(collect_word(key, at + 1) % PST_COLL_KINDS);
    c.algorithm = collect_algorithm[collect_word(key, at + 2) % COLLECT_ALGORITHMS];
    c.dtype = collect_word(key, at + 3) % 3 ? PST_F32 : PST_F64;
    c.root = collect_word(key, at + 4) % n;
    int gathers = c.kind == PST_COLL_ALL_GATHER || c.kind == PST_COLL_REDUCE_SCATTER;
    c.in_parts = gathers && collect_word(key, at + 5) % 2;
    uint64_t element = pst_dtype_bytes(c.dtype), count = collect_count(key, at + 6, most / n + 1);
    int total = c.kind == PST_COLL_BROADCAST || c.kind == PST_COLL_ALL_REDUCE;
    if (total) count = collect_count(key, at + 6, most);
    c.bytes = c.kind == PST_COLL_BARRIER ? 0 : count * element;
    for (uint32_t r = 0; r < n; r++) {
        uint64_t part =
            c.in_parts ? collect_count(key, at + 8 + r, most / n + 1) * element : c.bytes;
        c.offset[r + 1] = c.offset[r] + part;
        if (total) c.offset[r + 1] = r + 1 == n ? c.bytes : 0;
    }
    return c;
}

static inline uint64_t collect_bytes(const collect *c) { return c->offset[c->n]; }

/* What member `from` has for `to`, or for all. */
static inline uint8_t collect_byte(const collect *c, uint32_t from, uint32_t to, uint64_t b) {
    return (uint8_t)(b * 31 + from * 57 + to * 101 + c->salt + (b >> 8) * 13);
}

static inline double collect_value(const collect *c, uint32_t member, uint64_t e) {
    return (double)(int)((e * 7 + member * 5 + c->salt % 1000) % 17) - 8;
}

static inline int collect_adds(const collect *c) {
    return c->kind == PST_COLL_ALL_REDUCE || c->kind == PST_COLL_REDUCE_SCATTER;
}

static inline void collect_fill(const collect *c, uint32_t me, uint8_t *mem) {
    uint64_t bytes = collect_bytes(c);
    memset(mem, 0xee, bytes + COLLECT_GUARD);
    if (collect_adds(c)) {
        for (uint64_t e = 0; e < bytes / pst_dtype_bytes(c->dtype); e++)
            if (c->dtype == PST_F32) ((float *)mem)[e] = (float)collect_value(c, me, e);
            else ((double *)mem)[e] = collect_value(c, me, e);
    } else if (c->kind == PST_COLL_BROADCAST && me == c->root) {
        for (uint64_t b = 0; b < bytes; b++) mem[b] = collect_byte(c, me, 0, b);
    } else if (c->kind == PST_COLL_ALL_GATHER) {
        for (uint64_t b = c->offset[me]; b < c->offset[me + 1]; b++)
            mem[b] = collect_byte(c, me, 0, b);
    } else if (c->kind == PST_COLL_ALL_TO_ALL) {
        for (uint32_t r = 0; r < c->n; r++)
            for (uint64_t b = 0; b < c->bytes; b++)
                mem[c->offset[r] + b] = collect_byte(c, me, r, b);
    }
}

static inline pst_status collect_start(const collect *c, pst_coll *coll, uint8_t *mem) {
    uint64_t part[COLLECT_MEMBERS];
    PST_TRY(pst_coll_force(coll, c->algorithm));
    for (uint32_t r = 0; r < c->n; r++) part[r] = c->offset[r + 1] - c->offset[r];
    if (c->in_parts) return pst_coll_start_parts(coll, c->kind, mem, part, c->dtype);
    return pst_coll_start(coll, c->kind, mem, c->bytes, c->dtype, c->root);
}

static inline int collect_is_sum(const collect *c, const uint8_t *mem, uint64_t begin,
                                 uint64_t end) {
    uint64_t element = pst_dtype_bytes(c->dtype);
    for (uint64_t e = begin / element; e < end / element; e++) {
        double sum = 0, is = c->dtype == PST_F32 ? (double)((const float *)mem)[e]
                                                 : ((const double *)mem)[e];
        for (uint32_t r = 0; r < c->n; r++) sum += collect_value(c, r, e);
        if (is != sum) return 0;
    }
    return 1;
}

/* NULL: as it should be; else what is wrong. */
static inline const char *collect_check(const collect *c, uint32_t me, const uint8_t *mem) {
    uint64_t bytes = collect_bytes(c);
    for (uint64_t b = bytes; b < bytes + COLLECT_GUARD; b++)
        if (mem[b] != 0xee) return "wrote behind the end";
    if (c->kind == PST_COLL_ALL_REDUCE)
        return collect_is_sum(c, mem, 0, bytes) ? NULL : "wrong sum";
    if (c->kind == PST_COLL_REDUCE_SCATTER)
        return collect_is_sum(c, mem, c->offset[me], c->offset[me + 1])
                   ? NULL
                   : "wrong sum of the own part";
    for (uint32_t r = 0; r < c->n; r++)
        for (uint64_t b = c->offset[r]; b < c->offset[r + 1]; b++) {
            uint8_t wanted = collect_byte(c, r, me, b - c->offset[r]);
            if (c->kind == PST_COLL_BROADCAST) wanted = collect_byte(c, c->root, 0, b);
            if (c->kind == PST_COLL_ALL_GATHER) wanted = collect_byte(c, r, 0, b);
            if (mem[b] != wanted) return "wrong bytes";
        }
    return NULL;
}

static inline void collect_print(const collect *c) {
    fprintf(stderr, "%s, %s, %u members, root %u, %llu bytes%s of %s\n", pst_coll_name(c->kind),
            c->algorithm ? c->algorithm : "any", c->n, c->root,
            (unsigned long long)collect_bytes(c), c->in_parts ? " in parts" : "",
            pst_dtype_name(c->dtype));
}
#endif
