/* The memory of a rank: one anonymous mapping and, right behind its last usable byte, a canary
 * page. The pattern depends on the position, so zeros, a constant, or a copy from elsewhere do not
 * match it. */
#include "base/arena.h"
#include "base/limit.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t HUGE_BYTES = 2u << 20, PAGE_BYTES = 4096;

/* The eight bytes of the pattern at offset 8*word. Every aligned four bytes are a NaN in fp32, and
 * every two in bf16 and fp16, so code that reads memory before it was written spreads NaNs. The
 * last byte of each pair is 0xff and the one before is odd: no finite number, infinity or NaN from
 * arithmetic ends like this, so the end of a written array is never mistaken for untouched
 * memory. */
static inline uint64_t pattern(uint64_t word) {
    return ((word + 1) * 0x9E3779B97F4A7C15u ^ 0xA5C35A3C96F00F69u) | 0xFFC1FFC1FFC1FFC1u;
}

static inline uint8_t pattern_byte(uint64_t offset) {
    /* little endian, as the stores below */
    return (uint8_t)(pattern(offset / 8) >> offset % 8 * 8);
}

static void pattern_fill(uint8_t *base, uint64_t from, uint64_t to) {
    while (from < to && from % 8) {
        base[from] = pattern_byte(from);
        from++;
    }
    for (; from + 8 <= to; from += 8) {
        uint64_t word = pattern(from / 8);
        memcpy(base + from, &word, 8);
    }
    for (; from < to; from++) base[from] = pattern_byte(from);
}

/* One more than the last offset in [from, to) that differs from the pattern, else `from`. Numbers
 * have at least two bytes, so an aligned pair counts as a whole. */
static uint64_t pattern_broken(const uint8_t *base, uint64_t from, uint64_t to) {
    uint64_t end = to;
    while (to > from) {
        uint64_t word = pattern(to / 8 - 1), seen;
        if (to % 8 == 0 && to - from >= 8 && (memcpy(&seen, base + to - 8, 8), seen == word)) {
            to -= 8;
        } else {
            if (base[to - 1] != pattern_byte(to - 1)) return to < end ? to + to % 2 : to;
            to--;
        }
    }
    return from;
}

/* Maps `bytes` (a multiple of the page size) at a multiple of `align`. */
static uint8_t *map_aligned(uint64_t bytes, uint64_t align) {
    uint64_t slack = align > PAGE_BYTES ? align : 0;
    uint8_t *all =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    if (!slack) return all;
    uint64_t skip = (align - (uintptr_t)all % align) % align;
    if (skip) munmap(all, skip);
    if (slack > skip) munmap(all + skip + bytes, slack - skip);
    return all + skip;
}

pst_status pst_arena_open(uint64_t bytes, int canary, pst_arena *arena) {
    uint64_t limit = INT64_MAX - 2 * HUGE_BYTES;
    uint64_t mapped =
        bytes > limit ? 0 : (bytes + PST_ARENA_CANARY_BYTES + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    uint64_t alignment = bytes >= HUGE_BYTES ? HUGE_BYTES : PAGE_BYTES;
    uint8_t *base = mapped ? map_aligned(mapped, alignment) : NULL;
    if (!base) {
        int error = mapped ? errno : ENOMEM;
        char limits[PST_LIMIT_TEXT];
        return pst_fail(PST_ENOMEM, "cannot reserve %.1f MiB of memory for the arena: %s%s",
                        (double)bytes / 0x1p20, strerror(error), pst_limit_of_memory(limits));
    }
    if (bytes >= HUGE_BYTES)
        madvise(base, mapped, MADV_HUGEPAGE); /* a hint: kernels without huge pages still work */
    pattern_fill(base, canary ? 0 : bytes, bytes + PST_ARENA_CANARY_BYTES);
    *arena = (pst_arena){.base = base, .bytes = bytes, .mapped = mapped, .canary = canary != 0};
    return PST_OK;
}

void pst_arena_close(pst_arena *arena) {
    if (arena->base) munmap(arena->base, arena->mapped);
    *arena = (pst_arena){0};
}

uint64_t pst_arena_touched(const pst_arena *arena, uint64_t from, uint64_t to) {
    if (to > arena->bytes) to = arena->bytes;
    return arena->canary && from < to ? pattern_broken(arena->base, from, to) : from;
}

int pst_arena_intact(const pst_arena *arena) {
    uint64_t end = arena->bytes;
    return !arena->base || pattern_broken(arena->base, end, end + PST_ARENA_CANARY_BYTES) == end;
}
