/* One contiguous block of memory per rank, reserved once and never grown: all data of a training
 * step lies at offsets that the memory map chose. A canary fill shows afterwards which bytes were
 * written. */
#ifndef PST_BASE_ARENA_H
#define PST_BASE_ARENA_H
#include "base/status.h"
#include <stdint.h>

typedef struct {
    uint8_t *base;   /* 4096-byte aligned (2 MiB with huge pages) */
    uint64_t bytes;  /* usable bytes, as requested */
    uint64_t mapped; /* bytes of address space, including the canary page */
    int canary;      /* the block was filled with the canary pattern at open */
} pst_arena;

enum { PST_ARENA_ALIGN = 64, PST_ARENA_CANARY_BYTES = 4096 };

/* Maps `bytes` and a canary page behind them (private anonymous memory, MADV_HUGEPAGE, not touched
 * unless `canary`). canary != 0: fills everything with the canary pattern for pst_arena_touched; a
 * new arena is then NOT zero. ENOMEM when the system refuses. */
pst_status pst_arena_open(uint64_t bytes, int canary, pst_arena *arena);
void pst_arena_close(pst_arena *arena);

/* Only after pst_arena_open with canary: one more than the highest offset in [from, to) that was
 * written since (a byte written with the pattern's own value counts as not written); `from` when
 * none was. */
uint64_t pst_arena_touched(const pst_arena *arena, uint64_t from, uint64_t to);
/* 1 when the canary page behind the block is unchanged. The page is filled with or without
 * `canary`. */
int pst_arena_intact(const pst_arena *arena);

/* Rounds up to PST_ARENA_ALIGN. */
static inline uint64_t pst_align(uint64_t bytes) {
    return (bytes + (PST_ARENA_ALIGN - 1)) & ~(uint64_t)(PST_ARENA_ALIGN - 1);
}
#endif
