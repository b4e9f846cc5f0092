/* Where suite `kernels` measures: on the processors, or on a device of a module. There memory is
 * one block of the device's, and what is timed is queued, and says itself when it began and
 * ended. */
#ifndef PST_COMMANDS_BENCH_SITE_H
#define PST_COMMANDS_BENCH_SITE_H
#include "base/arena.h"
#include "kernels/kernel.h"

typedef struct {
    pst_device *device;
    const pst_arith *arith;
    int far;         /* a module's device; the host cannot reach its memory */
    pst_arena arena; /* base: where far, the device's address, with which the host only reckons */
} pst_bench_site;

/* Of a device that computes. */
pst_status pst_bench_site_open(const pst_device_ops *ops, const pst_device_config *config,
                               pst_bench_site *site);
void pst_bench_site_close(pst_bench_site *site);
/* Room for so many bytes in place of what there was; where far the first call takes all there will
 * be. ENOMEM. */
pst_status pst_bench_site_reserve(pst_bench_site *site, uint64_t bytes);
/* An array in that room for the host to fill, then copied back by unmap: itself, or where far a
 * copy. */
pst_status pst_bench_site_map(const pst_bench_site *site, void *at, uint64_t bytes, void **host);
pst_status pst_bench_site_unmap(const pst_bench_site *site, void *at, uint64_t bytes, void *host);
/* Where far: nanoseconds that the device has spent on what fn queues, which it does twice: the
 * first keeps the device busy while the second is queued. */
pst_status pst_bench_site_time(const pst_bench_site *site, pst_launch_fn fn, const void *call,
                               uint64_t *ns);
/* Until that has ended, on the device: how long it took. */
pst_status pst_bench_site_await(pst_device *d, uint64_t event, uint64_t *ns);
#endif
