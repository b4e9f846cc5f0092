/* The timed device: one queue in order, like a GPU stream. An operation starts when its inputs have
 * arrived and the previous one has ended, no matter when the host launched it, and takes its
 * predicted time. Nothing is computed. */
#include "pipeline/execute/timed.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t start, end;
    int tested;
} launched;

/* Events [first, next) are kept in a ring whose size is a power of two. */
typedef struct {
    pst_device base;
    uint64_t first, next, capacity;
    launched *ring;
    uint64_t end; /* of the newest launch */
} timed_device;

static const char *reject(const pst_device_config *config) {
    (void)config;
    return NULL;
}

static pst_status open_device(const pst_device_config *config, pst_device **device) {
    timed_device *d = calloc(1, sizeof *d);
    if (!d) return pst_fail(PST_ENOMEM, "no memory for the timed device");
    d->base = (pst_device){.ops = &pst_device_timed, .clock = config->clock, .threads = 1};
    *device = &d->base;
    return PST_OK;
}

static pst_status grow_ring(timed_device *d) {
    while (d->first < d->next && d->ring[d->first & (d->capacity - 1)].tested) d->first++;
    if (d->next - d->first < d->capacity) return PST_OK;
    uint64_t capacity = d->capacity ? 2 * d->capacity : 64;
    launched *ring = malloc(capacity * sizeof *ring);
    if (!ring)
        return pst_fail(PST_ENOMEM, "no memory for %llu launched operators",
                        (unsigned long long)capacity);
    for (uint64_t e = d->first; e < d->next; e++)
        ring[e & (capacity - 1)] = d->ring[e & (d->capacity - 1)];
    free(d->ring);
    d->ring = ring;
    d->capacity = capacity;
    return PST_OK;
}

static pst_status launch(pst_device *device, pst_launch_fn fn, const void *call, uint64_t after_ns,
                         uint64_t ns, uint64_t *event) {
    (void)fn;
    (void)call;
    timed_device *d = (timed_device *)device;
    PST_TRY(grow_ring(d));
    uint64_t start = after_ns > d->end ? after_ns : d->end;
    d->end = start + ns;
    d->ring[d->next & (d->capacity - 1)] = (launched){start, d->end, 0};
    *event = d->next++;
    return PST_OK;
}

static pst_status test(pst_device *device, uint64_t event, uint64_t *start_ns, uint64_t *end_ns) {
    timed_device *d = (timed_device *)device;
    if (event < d->first || event >= d->next)
        return pst_fail(PST_EINTERNAL, "timed device: unknown event %llu",
                        (unsigned long long)event);
    launched *x = &d->ring[event & (d->capacity - 1)];
    if (pst_clock_now(device->clock) < x->end) return PST_BUSY;
    x->tested = 1;
    *start_ns = x->start;
    *end_ns = x->end;
    return PST_OK;
}

/* Ends are in ascending order, so the first event that was not tested is the earliest. */
static uint64_t next_ns(pst_device *device) {
    timed_device *d = (timed_device *)device;
    for (uint64_t e = d->first; e < d->next; e++) {
        const launched *x = &d->ring[e & (d->capacity - 1)];
        if (!x->tested) return x->end;
    }
    return PST_NEVER;
}

static void close_device(pst_device *device) {
    timed_device *d = (timed_device *)device;
    if (!d) return;
    free(d->ring);
    free(d);
}

const pst_device_ops pst_device_timed = {
    .name = "timed",
    .reject = reject,
    .open = open_device,
    .launch = launch,
    .test = test,
    .next_ns = next_ns,
    .close = close_device,
};
