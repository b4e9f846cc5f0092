/* See events.h.
 *
 * Times: an event knows the device's time. An anchor is an event with a known host time, because it
 * was recorded in an idle stream while the host waited. The time of any other event is the anchor's
 * plus cudaEventElapsedTime. That is a float in milliseconds, and the two clocks drift, so anchors
 * are renewed every second. Only ends are recorded: work began when it was queued or when the work
 * before it ended, whichever is later.
 *
 * Failures: a kernel that fails destroys the context, and from then on every call returns its
 * error. So the device writes the number of a launch to host memory after the launch. Each write
 * costs a fence, so it is done only for launches with an event and for every eighth of the others:
 * the launch that failed is between the latest number written and the next one queued. */
#include "kernels/cuda/events.h"
#include <cudaTypedefs.h>
#include <stdio.h>
#include <stdlib.h>

enum { RING = 4096, ANCHORS = 16, ANCHOR_NS = 1000000000, ANCHOR_TRY_NS = 200000, STRETCH = 8 };
#define NONE UINT64_MAX

typedef struct {
    cudaEvent_t event;
    const char *name;
    uint64_t id, before; /* before: the event before it in its queue, or NONE */
    uint64_t submit_ns, start_ns, end_ns;
    uint32_t anchor;                                /* number of its anchor */
    uint8_t queue, ended, tested, silent, numbered; /* 1: no CUDA event was recorded */
} slot;

typedef struct {
    cudaEvent_t event;
    uint64_t host_ns;
} anchor;

struct pst_cuda_events {
    cudaStream_t stream[PST_Q_COUNT], idle;
    /* For each queue: the latest event, and when the first work after it was queued; or NONE. */
    uint64_t next, latest[PST_Q_COUNT], since_ns[PST_Q_COUNT];
    volatile uint64_t *progress; /* [PST_Q_COUNT], pinned: number of the latest launch that ended,
                                    plus 1 */
    uint64_t seen[PST_Q_COUNT];  /* the same, as known from events */
    uint32_t unnumbered[PST_Q_COUNT];      /* launches since the last write */
    PFN_cuStreamWriteValue64_v11070 write; /* NULL: the device cannot write numbers */
    uint64_t tried_ns;                     /* when an anchor was last tried */
    uint32_t n_anchor;
    anchor anchor[ANCHORS];
    char lost[512]; /* the message if the device has failed; else "" */
    slot slot[RING];
};

static slot *slot_of(pst_cuda_events *e, uint64_t id) { return e->slot + id % RING; }

/* --- failures --------------------------------------------------------------------------------- */

int pst_cuda_events_lost(const pst_cuda_events *e) {
    if (*e->lost) pst_fail(PST_EINTERNAL, "%s", e->lost);
    return *e->lost != 0;
}

/* Everything in that queue before this event has ended. */
static uint64_t ended_before(const pst_cuda_events *e, uint32_t queue) {
    return e->progress[queue] > e->seen[queue] ? e->progress[queue] : e->seen[queue];
}

/* The oldest launch that is not known to have ended; the compute queue comes first. */
static const slot *oldest_left(pst_cuda_events *e) {
    uint64_t from = e->next > RING ? e->next - RING : 0;
    const slot *other = NULL;
    for (uint64_t id = from; id < e->next; id++) {
        const slot *s = slot_of(e, id);
        if (s->tested || id < ended_before(e, s->queue)) continue;
        if (s->queue == PST_Q_COMPUTE) return s;
        if (!other) other = s;
    }
    return other;
}

/* The last launch that may have failed if `first` is the oldest that is not known to have ended. */
static const slot *last_suspect(pst_cuda_events *e, const slot *first, uint32_t *n) {
    const slot *last = first;
    *n = 1;
    for (uint64_t id = first->id + 1; id < e->next && !last->numbered; id++)
        if (slot_of(e, id)->queue == first->queue) {
            last = slot_of(e, id);
            ++*n;
        }
    return last;
}

static void note_lost(pst_cuda_events *e, cudaError_t error) {
    const slot *first = oldest_left(e);
    uint32_t n = 1;
    const slot *last = first ? last_suspect(e, first, &n) : NULL;
    const char *why = cudaGetErrorString(error);
    if (!first) snprintf(e->lost, sizeof e->lost, "CUDA: the device failed: %s", why);
    else if (n == 1) snprintf(e->lost, sizeof e->lost, "CUDA: %s failed: %s", first->name, why);
    else
        snprintf(e->lost, sizeof e->lost, "CUDA: one of %u operators, from %s to %s, failed: %s", n,
                 first->name, last->name, why);
}

/* Errors that destroy the context: any other call then returns the same error. */
static int is_lost(pst_cuda_events *e, cudaError_t error) {
    cudaGetLastError();
    if (error == cudaErrorMemoryAllocation) return 0;
    error = pst_cuda_answer(cudaStreamQuery(e->idle));
    return error != cudaSuccess && error != cudaErrorNotReady;
}

pst_status pst_cuda_events_failed(pst_cuda_events *e, cudaError_t error, const char *what) {
    if (pst_cuda_events_lost(e)) return PST_EINTERNAL;
    if (!is_lost(e, error)) return pst_cuda_status(error, what);
    note_lost(e, error);
    return pst_fail(PST_EINTERNAL, "%s", e->lost);
}

/* --- times ------------------------------------------------------------------------------------ */

/* Sets a new anchor, unless the device was slow to answer and there is an older anchor. */
static cudaError_t drop_anchor(pst_cuda_events *e) {
    anchor *a = e->anchor + e->n_anchor % ANCHORS;
    uint64_t began = pst_monotonic_ns(), now;
    cudaError_t error = cudaEventRecord(a->event, e->idle);
    if (error != cudaSuccess) return error;
    do {
        error = pst_cuda_answer(cudaEventQuery(a->event));
        now = pst_monotonic_ns();
    } while (error == cudaErrorNotReady && (!e->n_anchor || now - began < ANCHOR_TRY_NS));
    e->tried_ns = now;
    if (error != cudaSuccess) return error == cudaErrorNotReady ? cudaSuccess : error;
    a->host_ns = began + (now - began) / 2;
    e->n_anchor++;
    return cudaSuccess;
}

/* When a completed event ended. A failed device does not answer, so then it is the current time. */
static uint64_t end_of(pst_cuda_events *e, slot *s, uint64_t now) {
    float ms = 0;
    if (s->ended) return s->end_ns;
    const anchor *a = e->anchor + s->anchor % ANCHORS;
    s->end_ns = now;
    cudaError_t error = *e->lost ? cudaErrorUnknown : cudaEventElapsedTime(&ms, a->event, s->event);
    if (pst_cuda_answer(error) == cudaSuccess) {
        double ns = (double)a->host_ns + (double)ms * 1e6;
        if (ns < (double)now) s->end_ns = (uint64_t)ns;
    }
    if (s->end_ns < s->submit_ns) s->end_ns = s->submit_ns;
    s->ended = 1;
    return s->end_ns;
}

static uint64_t later(pst_cuda_events *e, uint64_t ns, uint64_t id, uint64_t now) {
    slot *s = slot_of(e, id);
    if (id == NONE || s->id != id) return ns; /* the slot has been reused */
    uint64_t end = end_of(e, s, now);
    return end > ns ? end : ns;
}

static void settle(pst_cuda_events *e, slot *s) {
    uint64_t now = pst_monotonic_ns(), end = end_of(e, s, now);
    s->start_ns = later(e, s->submit_ns, s->before, now);
    if (s->start_ns > end) s->start_ns = end;
    s->tested = 1;
    if (e->seen[s->queue] <= s->id) e->seen[s->queue] = s->id + 1;
}

/* --- the ring --------------------------------------------------------------------------------- */

/* Queues the write of the launch's number, if one is due. */
static cudaError_t number(pst_cuda_events *e, pst_queue queue, int with_event, uint8_t *numbered) {
    *numbered = with_event || e->unnumbered[queue] + 1 >= STRETCH;
    if (!*numbered || !e->write) return cudaSuccess;
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)(e->progress + queue);
    return e->write(e->stream[queue], to, e->next + 1, 0) == CUDA_SUCCESS ? cudaSuccess
                                                                          : cudaErrorUnknown;
}

pst_status pst_cuda_events_add(pst_cuda_events *e, pst_queue queue, const char *name,
                               uint64_t submit_ns, uint64_t *id) {
    slot *s = slot_of(e, e->next);
    cudaError_t error = cudaSuccess;
    uint8_t numbered = 0;
    if (e->next >= RING && !s->tested && !s->silent) error = cudaEventSynchronize(s->event);
    if (error == cudaSuccess) error = number(e, queue, id != NULL, &numbered);
    if (error == cudaSuccess && submit_ns > e->tried_ns + ANCHOR_NS) error = drop_anchor(e);
    if (error == cudaSuccess && id) error = cudaEventRecord(s->event, e->stream[queue]);
    if (error != cudaSuccess) return pst_cuda_events_failed(e, error, name);
    if (e->since_ns[queue] == NONE) e->since_ns[queue] = submit_ns;
    e->unnumbered[queue] = numbered ? 0 : e->unnumbered[queue] + 1;
    *s = (slot){.event = s->event,
                .name = name,
                .id = e->next++,
                .before = e->latest[queue],
                .submit_ns = e->since_ns[queue],
                .anchor = e->n_anchor - 1,
                .queue = (uint8_t)queue,
                .silent = !id,
                .numbered = numbered};
    if (!id) return PST_OK;
    *id = e->latest[queue] = s->id;
    e->since_ns[queue] = NONE;
    return PST_OK;
}

uint64_t pst_cuda_events_next(const pst_cuda_events *e) { return e->next; }

pst_status pst_cuda_events_test(pst_cuda_events *e, uint64_t id, uint64_t *start_ns,
                                uint64_t *end_ns) {
    slot *s = slot_of(e, id);
    if (id >= e->next || s->id != id || s->silent)
        return pst_fail(PST_EINTERNAL, "event %llu does not exist, or is no longer recorded",
                        (unsigned long long)id);
    if (!s->tested) {
        cudaError_t error = *e->lost ? cudaErrorUnknown : pst_cuda_answer(cudaEventQuery(s->event));
        if (error == cudaErrorNotReady) return PST_BUSY;
        if (error != cudaSuccess) {
            pst_status status = pst_cuda_events_failed(e, error, s->name);
            if (id >= ended_before(e, s->queue)) return status;
        }
        settle(e, s);
    }
    *start_ns = s->start_ns;
    *end_ns = s->end_ns;
    return PST_OK;
}

/* --- life ------------------------------------------------------------------------------------- */

/* A driver function: the module is not linked with the driver. Without it, the oldest launch that
 * is not known to have ended is reported as failed. */
static PFN_cuStreamWriteValue64_v11070 find_write(void) {
    enum cudaDriverEntryPointQueryResult found;
    void *fn = NULL;
    if (cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &fn, 11070, cudaEnableDefault,
                                         &found) != cudaSuccess)
        cudaGetLastError();
    return (PFN_cuStreamWriteValue64_v11070)fn;
}

/* Not every device and system supports such writes: tries one, of the value that is there
 * already. */
static void try_write(pst_cuda_events *e) {
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)e->progress;
    if (!e->write || e->write(e->stream[PST_Q_COMPUTE], to, 0, 0) == CUDA_SUCCESS) return;
    cudaGetLastError();
    e->write = NULL;
}

static pst_status make(pst_cuda_events *e) {
    void *words = NULL;
    PST_TRY(pst_cuda_status(
        cudaHostAlloc(&words, PST_Q_COUNT * sizeof *e->progress, cudaHostAllocDefault),
        "allocating pinned memory for launch counters"));
    e->progress = words;
    for (uint32_t q = 0; q < PST_Q_COUNT; q++) {
        e->progress[q] = 0;
        e->latest[q] = e->since_ns[q] = NONE;
    }
    e->write = find_write();
    try_write(e);
    PST_TRY(
        pst_cuda_status(cudaStreamCreateWithFlags(&e->idle, cudaStreamNonBlocking), "a stream"));
    for (uint32_t i = 0; i < RING; i++) {
        e->slot[i].id = NONE;
        PST_TRY(pst_cuda_status(cudaEventCreate(&e->slot[i].event), "creating an event"));
    }
    for (uint32_t i = 0; i < ANCHORS; i++)
        PST_TRY(pst_cuda_status(cudaEventCreate(&e->anchor[i].event), "creating an event"));
    return pst_cuda_status(drop_anchor(e), "reading the device's clock");
}

pst_status pst_cuda_events_open(const cudaStream_t stream[PST_Q_COUNT], pst_cuda_events **events) {
    pst_cuda_events *e = calloc(1, sizeof *e);
    if (!e) return pst_fail(PST_ENOMEM, "no memory for the events of a CUDA device");
    for (uint32_t q = 0; q < PST_Q_COUNT; q++) e->stream[q] = stream[q];
    pst_status status = make(e);
    if (status != PST_OK) {
        pst_cuda_events_close(e);
        return status;
    }
    *events = e;
    return PST_OK;
}

void pst_cuda_events_close(pst_cuda_events *e) {
    if (!e) return;
    for (uint32_t i = 0; i < RING; i++)
        if (e->slot[i].event) cudaEventDestroy(e->slot[i].event);
    for (uint32_t i = 0; i < ANCHORS; i++)
        if (e->anchor[i].event) cudaEventDestroy(e->anchor[i].event);
    if (e->idle) cudaStreamDestroy(e->idle);
    if (e->progress) cudaFreeHost((void *)(uintptr_t)e->progress);
    free(e);
}
