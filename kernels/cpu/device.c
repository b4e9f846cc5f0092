/* The "cpu" device: a pool of threads. A launch computes before it returns, so every event is
 * complete when it gets its number. */
#include "kernels/cpu/cpu.h"
#include <stdlib.h>

enum { EVENTS = 1024, POLL_NS = 150000 };

typedef struct {
    pst_device base;
    uint64_t next_event;
    struct {
        uint64_t start_ns, end_ns;
    } times[EVENTS]; /* a ring: of the latest EVENTS events */
} cpu_device;

static const char *reject(const pst_device_config *config) {
    return config->threads ? NULL : "it needs at least one thread";
}

static void start_thread(void *arg) { pst_gemm_start_thread(arg); }

static pst_status open_device(const pst_device_config *config, pst_device **device) {
    PST_TRY(pst_cpu_isa_check());
    cpu_device *d = calloc(1, sizeof *d);
    if (!d) return pst_fail(PST_ENOMEM, "no memory for the cpu device");
    d->base = (pst_device){.ops = &pst_device_cpu,
                           .clock = config->clock,
                           .isa = pst_cpu_isa(),
                           .threads = config->threads};
    pst_gemm_set_isa(d->base.isa);
    pst_status status = pst_pool_open(config->threads, start_thread, NULL, &d->base.pool);
    if (status != PST_OK) {
        free(d);
        return status;
    }
    if (config->poll) pst_pool_set_poll(d->base.pool, config->poll, config->poll_arg, POLL_NS);
    *device = &d->base;
    return PST_OK;
}

static pst_status launch(pst_device *device, pst_launch_fn fn, const void *call, uint64_t after_ns,
                         uint64_t ns, uint64_t *event) {
    (void)after_ns;
    (void)ns;
    cpu_device *d = (cpu_device *)device;
    uint64_t start = pst_clock_now(device->clock);
    PST_TRY(fn(device, call));
    d->times[d->next_event % EVENTS].start_ns = start;
    d->times[d->next_event % EVENTS].end_ns = pst_clock_now(device->clock);
    *event = d->next_event++;
    return PST_OK;
}

static pst_status test(pst_device *device, uint64_t event, uint64_t *start_ns, uint64_t *end_ns) {
    cpu_device *d = (cpu_device *)device;
    if (event >= d->next_event || event + EVENTS < d->next_event)
        return pst_fail(PST_EINTERNAL, "event %llu does not exist, or is no longer recorded",
                        (unsigned long long)event);
    *start_ns = d->times[event % EVENTS].start_ns;
    *end_ns = d->times[event % EVENTS].end_ns;
    return PST_OK;
}

static uint64_t next_ns(pst_device *device) {
    (void)device;
    return PST_NEVER;
}

static void close_device(pst_device *device) {
    if (!device) return;
    pst_pool_close(device->pool);
    free(device);
}

const pst_device_ops pst_device_cpu = {.name = "cpu",
                                       .reject = reject,
                                       .open = open_device,
                                       .launch = launch,
                                       .test = test,
                                       .next_ns = next_ns,
                                       .close = close_device};
