/* The "cpu" device: a pool of threads. A launch computes at once, so every event has happened when it is named. */
#include "kernels/cpu/cpu.h"
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 1024, POLL_NS = 150000 };

typedef struct {
    pst_device base;
    uint64_t next_event;
    struct {
        uint64_t start_ns, end_ns;
    } times[EVENTS]; /* of the latest EVENTS events */
} cpu_device;

static uint32_t isa_of_machine(void) {
    uint32_t isa = 0;
    __builtin_cpu_init(); /* looks at what the operating system saves, too */
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) isa |= PST_ISA_AVX2;
    if (isa && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        isa |= PST_ISA_AVX512;
    if ((isa & PST_ISA_AVX512) && __builtin_cpu_supports("avx512bf16")) isa |= PST_ISA_AVX512_BF16;
    if (isa && __builtin_cpu_supports("f16c")) isa |= PST_ISA_F16C;
    return isa;
}

uint32_t pst_cpu_isa(void) {
    const char *limit = getenv("PENSTOCK_ISA");
    uint32_t isa = isa_of_machine();
    if (limit && !strcmp(limit, "generic")) return 0;
    if (limit && !strcmp(limit, "avx2")) return isa & (PST_ISA_AVX2 | PST_ISA_F16C);
    if (limit && !strcmp(limit, "avx512")) return isa & (PST_ISA_AVX2 | PST_ISA_AVX512 | PST_ISA_F16C);
    return isa;
}

const char *pst_isa_name(uint32_t isa) {
    return isa & PST_ISA_AVX512_BF16 ? "avx512_bf16"
           : isa & PST_ISA_AVX512    ? "avx512"
           : isa & PST_ISA_AVX2      ? "avx2"
                                     : "generic";
}

static const char *reject(const pst_device_config *config) {
    return config->threads ? NULL : "it needs at least one thread";
}

static void start_thread(void *arg) { pst_gemm_start_thread(arg); }

static pst_status open_device(const pst_device_config *config, pst_device **device) {
    const char *limit = getenv("PENSTOCK_ISA");
    if (limit && *limit && strcmp(limit, "generic") && strcmp(limit, "avx2") && strcmp(limit, "avx512"))
        return pst_fail(PST_EINPUT, "PENSTOCK_ISA is '%s'; it can be generic, avx2 or avx512", limit);
    cpu_device *d = calloc(1, sizeof *d);
    if (!d) return pst_fail(PST_ENOMEM, "no memory for the cpu device");
    d->base =
        (pst_device){.ops = &pst_device_cpu, .clock = config->clock, .isa = pst_cpu_isa(), .threads = config->threads};
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

static pst_status launch(pst_device *device, pst_launch_fn fn, const void *call, uint64_t after_ns, uint64_t ns,
                         uint64_t *event) {
    (void)after_ns, (void)ns;
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
        return pst_fail(PST_EINTERNAL, "event %llu is unknown or long past", (unsigned long long)event);
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
