/* The threads of one CPU device. Work is a numbered set of tiles; no result depends on which thread
 * runs a tile, because no sum is ever split over tiles. The calling thread takes part and calls
 * `poll` between its own tiles, so that transfers progress while a long operator computes. Idle
 * workers sleep (futex) after a short spin. */
#ifndef PST_BASE_POOL_H
#define PST_BASE_POOL_H
#include "base/status.h"
#include <stdint.h>

typedef struct pst_pool pst_pool;
/* Runs tile `tile` of [0, n); `thread` in [0, threads) selects the scratch memory. */
typedef void (*pst_tile_fn)(void *arg, uint64_t tile, uint32_t thread);

/* threads >= 1 includes the calling thread. on_start (may be NULL) runs once on every thread,
 * including the caller. */
pst_status pst_pool_open(uint32_t threads, void (*on_start)(void *), void *start_arg,
                         pst_pool **pool);
void pst_pool_close(pst_pool *pool);
/* The number of threads, including the caller. For tests. */
uint32_t pst_pool_threads(const pst_pool *pool);
/* poll is called by the thread that runs pst_pool_run, between tiles and in pst_pool_poll, when at
 * least `every_ns` have passed. */
void pst_pool_set_poll(pst_pool *pool, void (*poll)(void *), void *arg, uint64_t every_ns);
/* Calls `poll` if it is due; for tiles that may take longer than a millisecond. thread: as passed
 * to the tile. */
void pst_pool_poll(pst_pool *pool, uint32_t thread);
/* Runs all n tiles and returns when they are done. One caller at a time; not from inside a tile. */
void pst_pool_run(pst_pool *pool, pst_tile_fn fn, void *arg, uint64_t n);
#endif
