/* The device that suite `kernels` measures: the processors, or a device of a module. A module's
 * device has one block of device memory; work is queued, and events give its start and end. */
#ifndef PST_COMMANDS_BENCH_TARGET_H
#define PST_COMMANDS_BENCH_TARGET_H
#include "base/arena.h"
#include "kernels/kernel.h"

typedef struct {
    pst_device *device;
    const pst_arith *arith;
    int far;         /* a module's device, whose memory the host cannot access */
    pst_arena arena; /* base: if far, an address on the device, used for arithmetic only */
} pst_bench_target;

/* Opens a device that computes. The caller closes the target. */
pst_status pst_bench_target_open(const pst_device_ops *ops, const pst_device_config *config,
                                 pst_bench_target *target);
void pst_bench_target_close(pst_bench_target *target);
/* Reserves `bytes` bytes instead of the previous reservation; if far, only the first call
 * allocates. ENOMEM. */
pst_status pst_bench_target_reserve(pst_bench_target *target, uint64_t bytes);
/* Gives the host an array in that memory to fill; unmap makes it visible to the device. If far,
 * `host` is a copy, else the array itself. */
pst_status pst_bench_target_map(const pst_bench_target *target, void *at, uint64_t bytes,
                                void **host);
pst_status pst_bench_target_unmap(const pst_bench_target *target, void *at, uint64_t bytes,
                                  void *host);
/* If far: nanoseconds that the device spends on the work that fn queues. fn is called
 * twice: the first call keeps the device busy while the second is queued. */
pst_status pst_bench_target_time(const pst_bench_target *target, pst_launch_fn fn, const void *call,
                                 uint64_t *ns);
/* Waits for the event on the device; *ns: duration of the work. */
pst_status pst_bench_target_await(pst_device *d, uint64_t event, uint64_t *ns);
#endif
