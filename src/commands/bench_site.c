/* See bench_site.h. */
#include "commands/bench_site.h"
#include "backends/registry.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

pst_status pst_bench_site_open(const pst_device_ops *ops, const pst_device_config *config,
                               pst_bench_site *site) {
    *site = (pst_bench_site){.arith = pst_registry_arith(ops), .far = !pst_registry_is_host(ops)};
    if (site->far && !(ops->flags & PST_DEVICE_FAR))
        return pst_fail(PST_EINPUT, "device %s has no memory of its own to measure in", ops->name);
    return ops->open(config, &site->device);
}

void pst_bench_site_close(pst_bench_site *site) {
    if (!site->far) pst_arena_close(&site->arena); /* else the device takes it along */
    if (site->device) site->device->ops->close(site->device);
    *site = (pst_bench_site){.device = NULL};
}

/* --- memory ----------------------------------------------------------------------------------- */

static pst_status reserve_far(pst_bench_site *site, uint64_t bytes) {
    void *base;
    if (bytes <= site->arena.bytes) return PST_OK;
    if (site->arena.base)
        return pst_fail(PST_EINTERNAL, "device %s has given its memory already",
                        site->device->ops->name);
    PST_TRY(site->device->ops->memory(site->device, bytes, &base));
    site->arena = (pst_arena){.base = base, .bytes = bytes};
    return PST_OK;
}

pst_status pst_bench_site_reserve(pst_bench_site *site, uint64_t bytes) {
    if (site->far) return reserve_far(site, bytes);
    pst_arena_close(&site->arena);
    site->arena = (pst_arena){.base = NULL};
    return pst_arena_open(bytes, 0, &site->arena);
}

pst_status pst_bench_site_map(const pst_bench_site *site, void *at, uint64_t bytes, void **host) {
    *host = site->far ? malloc(bytes + 1) : at;
    return *host
               ? PST_OK
               : pst_fail(PST_ENOMEM, "no memory for %.1f MiB of operands", (double)bytes / 0x1p20);
}

pst_status pst_bench_site_unmap(const pst_bench_site *site, void *at, uint64_t bytes, void *host) {
    if (!site->far) return PST_OK;
    pst_device *d = site->device;
    pst_status status = bytes ? d->ops->copy(d, PST_Q_COMPUTE, at, host, bytes, NULL) : PST_OK;
    free(host);
    return status;
}

/* --- time ------------------------------------------------------------------------------------- */

pst_status pst_bench_site_await(pst_device *d, uint64_t event, uint64_t *ns) {
    static const struct timespec a_little = {.tv_nsec = 20000};
    uint64_t start, end;
    pst_status status;
    while ((status = d->ops->test(d, event, &start, &end)) == PST_BUSY) nanosleep(&a_little, NULL);
    if (status == PST_OK) *ns = end > start ? end - start : 1;
    return status;
}

pst_status pst_bench_site_time(const pst_bench_site *site, pst_launch_fn fn, const void *call,
                               uint64_t *ns) {
    pst_device *d = site->device;
    uint64_t event = 0;
    for (int i = 0; i < 2; i++) PST_TRY(d->ops->launch(d, fn, call, 0, 0, &event));
    return pst_bench_site_await(d, event, ns);
}
