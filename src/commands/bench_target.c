/* See bench_target.h. */
#include "commands/bench_target.h"
#include "backends/registry.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

pst_status pst_bench_target_open(const pst_device_ops *ops, const pst_device_config *config,
                                 pst_bench_target *target) {
    *target =
        (pst_bench_target){.arith = pst_registry_arith(ops), .far = !pst_registry_is_host(ops)};
    if (target->far && !(ops->flags & PST_DEVICE_OWN_MEMORY))
        return pst_fail(PST_EINPUT, "device %s cannot be measured: it has no device memory",
                        ops->name);
    return ops->open(config, &target->device);
}

void pst_bench_target_close(pst_bench_target *target) {
    if (!target->far) pst_arena_close(&target->arena); /* else the device frees it */
    if (target->device) target->device->ops->close(target->device);
    *target = (pst_bench_target){.device = NULL};
}

/* --- memory ----------------------------------------------------------------------------------- */

static pst_status reserve_far(pst_bench_target *target, uint64_t bytes) {
    void *base;
    if (bytes <= target->arena.bytes) return PST_OK;
    if (target->arena.base)
        return pst_fail(PST_EINTERNAL, "device %s: its memory is reserved already",
                        target->device->ops->name);
    PST_TRY(target->device->ops->memory(target->device, bytes, &base));
    target->arena = (pst_arena){.base = base, .bytes = bytes};
    return PST_OK;
}

pst_status pst_bench_target_reserve(pst_bench_target *target, uint64_t bytes) {
    if (target->far) return reserve_far(target, bytes);
    pst_arena_close(&target->arena);
    target->arena = (pst_arena){.base = NULL};
    return pst_arena_open(bytes, 0, &target->arena);
}

pst_status pst_bench_target_map(const pst_bench_target *target, void *at, uint64_t bytes,
                                void **host) {
    *host = target->far ? malloc(bytes + 1) : at;
    return *host
               ? PST_OK
               : pst_fail(PST_ENOMEM, "no memory for %.1f MiB of operands", (double)bytes / 0x1p20);
}

pst_status pst_bench_target_unmap(const pst_bench_target *target, void *at, uint64_t bytes,
                                  void *host) {
    if (!target->far) return PST_OK;
    pst_device *d = target->device;
    pst_status status = bytes ? d->ops->copy(d, PST_Q_COMPUTE, at, host, bytes, NULL) : PST_OK;
    free(host);
    return status;
}

/* --- time ------------------------------------------------------------------------------------- */

pst_status pst_bench_target_await(pst_device *d, uint64_t event, uint64_t *ns) {
    static const struct timespec a_little = {.tv_nsec = 20000};
    uint64_t start, end;
    pst_status status;
    while ((status = d->ops->test(d, event, &start, &end)) == PST_BUSY) nanosleep(&a_little, NULL);
    if (status == PST_OK) *ns = end > start ? end - start : 1;
    return status;
}

pst_status pst_bench_target_time(const pst_bench_target *target, pst_launch_fn fn, const void *call,
                                 uint64_t *ns) {
    pst_device *d = target->device;
    uint64_t event = 0;
    for (int i = 0; i < 2; i++) PST_TRY(d->ops->launch(d, fn, call, 0, 0, &event));
    return pst_bench_target_await(d, event, ns);
}
