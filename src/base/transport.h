/* The table of transports: non-blocking, tag-matched messages between ranks. No function ever
 * blocks. */
#ifndef PST_BASE_TRANSPORT_H
#define PST_BASE_TRANSPORT_H
#include "base/clock.h"
#include "base/status.h"
#include "base/world.h"
#include <stdint.h>

typedef enum { PST_TRANSFER_SEND, PST_TRANSFER_RECV } pst_transfer_kind;

/* A message is matched by (source, destination, channel, seq); both ends give the same number of
 * bytes. */
typedef struct {
    pst_transfer_kind kind;
    uint32_t peer, channel, seq; /* channel < 65536 */
    void *mem; /* must stay valid and, for a send, unchanged until the request has completed */
    uint64_t bytes;
    int of_device;        /* not 0: `mem` is memory of a device */
    uint64_t ns, wire_ns; /* predicted duration, and that of its bytes alone; only the timed
                             transport uses them */
} pst_transfer;

/* The first channel for the run's own collectives; instruction lists use lower ones. */
enum { PST_CHANNEL_COLLECTIVE = 0xff00 };

/* DEVICE_MEMORY: `mem` may be device memory that the host cannot access. */
enum { PST_TRANSPORT_RENDEZVOUS = 4, PST_TRANSPORT_DEVICE_MEMORY = 8 };

typedef struct pst_transport pst_transport;
typedef struct {
    const char *name;
    uint32_t flags;
    /* NULL: can connect the ranks of this world; else why not. */
    const char *(*reject)(const pst_world *world);
    /* clock: NULL is monotonic. */
    pst_status (*open)(pst_world *world, const pst_clock *clock, pst_transport **transport);
    pst_status (*post)(pst_transport *t, const pst_transfer *transfer, uint64_t *request);
    /* OK: the request has completed at *end_ns and is freed; BUSY: not yet; EPEER: it never will.
     * EINPUT: the two ends disagree about the size. It does not advance transfers; progress
     * does. */
    pst_status (*test)(pst_transport *t, uint64_t request, uint64_t *end_ns);
    /* Advances all transfers; returns how many things have moved, including requests that have
     * completed and are not tested yet. A caller that sleeps only after 0 misses nothing. */
    uint32_t (*progress)(pst_transport *t);
    uint64_t (*next_ns)(pst_transport *t); /* earliest known completion, PST_NEVER if unknown */
    /* OK: *fd becomes readable when something moves. BUSY: call progress first. EINPUT: this
     * transport cannot be slept on, or not now. */
    pst_status (*arm)(pst_transport *t, int *fd);
    void (*abort)(pst_transport *t); /* gives up all requests without waiting for a peer */
    void (*close)(pst_transport *t);
} pst_transport_ops;

/* Implementations embed this as their first member. */
struct pst_transport {
    const pst_transport_ops *ops;
    const pst_clock *clock;
    uint32_t rank, size;
    int reaches_cuda; /* nonzero: on all ranks `mem` may be CUDA memory too */
};
#endif
