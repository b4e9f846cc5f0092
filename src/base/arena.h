/* One contiguous block of memory per rank, reserved once and never grown: all data of a training
 * step lies in the block, at offsets that the memory map sets. A canary fill shows afterwards which
 * bytes were written. */
#ifndef PST_BASE_ARENA_H
#define PST_BASE_ARENA_H
#include "base/status.h"
#include <stdint.h>

typedef struct {
    uint8_t *base;   /* 4096-byte aligned (2 MiB with huge pages) */
    uint64_t bytes;  /* usable bytes, as requested */
    uint64_t mapped; /* bytes of address space, including the canary page */
    int canary;      /* 1: pst_arena_open filled the block with the canary pattern */
} pst_arena;

enum { PST_ARENA_ALIGN = 64, PST_ARENA_CANARY_BYTES = 4096 };

/* Maps `bytes` and a canary page behind them (private anonymous memory, MADV_HUGEPAGE, not touched
 * unless `canary`). canary != 0: fills everything with the canary pattern for pst_arena_touched; a
 * new arena is then NOT zero. ENOMEM if the system has not enough memory. Close the arena with
 * pst_arena_close. */
pst_status pst_arena_open(uint64_t bytes, int canary, pst_arena *arena);
void pst_arena_close(pst_arena *arena);

/* Returns one more than the highest offset in [from, to) written since pst_arena_open; `from` if
 * none was written. A byte written with the value of the pattern counts as not written. Only for
 * arenas opened with canary. */
uint64_t pst_arena_touched(const pst_arena *arena, uint64_t from, uint64_t to);
/* Returns 1 if the canary page behind the block is unchanged. The page is filled with or without
 * `canary`. */
int pst_arena_intact(const pst_arena *arena);

/* Rounds up to a multiple of PST_ARENA_ALIGN. */
static inline uint64_t pst_align(uint64_t bytes) {
    return (bytes + (PST_ARENA_ALIGN - 1)) & ~(uint64_t)(PST_ARENA_ALIGN - 1);
}
#endif
