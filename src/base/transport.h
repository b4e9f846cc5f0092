/* The table of transports: non-blocking, tag-matched messages between ranks. No function ever
 * blocks. */
#ifndef PST_BASE_TRANSPORT_H
#define PST_BASE_TRANSPORT_H
#include "base/clock.h"
#include "base/status.h"
#include "base/world.h"
#include <stdint.h>

typedef enum { PST_TRANSFER_SEND, PST_TRANSFER_RECV } pst_transfer_kind;

/* A send or receive. A message is matched by (source, destination, channel, seq); sender and
 * receiver must give the same number of bytes. */
typedef struct {
    pst_transfer_kind kind;
    uint32_t peer, channel, seq; /* channel < 65536 */
    void *mem; /* must stay valid and, for a send, unchanged until the request has completed */
    uint64_t bytes;
    int of_device;        /* nonzero: `mem` is device memory */
    uint64_t ns, wire_ns; /* predicted duration of the message, with and without latency; only the
                             timed transport uses them */
} pst_transfer;

/* The first channel for collectives; instruction lists use lower channels. */
enum { PST_CHANNEL_COLLECTIVE = 0xff00 };

/* DEVICE_MEMORY: `mem` may be device memory that the host cannot access. */
enum { PST_TRANSPORT_RENDEZVOUS = 4, PST_TRANSPORT_DEVICE_MEMORY = 8 };

typedef struct pst_transport pst_transport;
typedef struct {
    const char *name;
    uint32_t flags;
    /* Returns NULL if the transport can connect the ranks of this world, else the reason. */
    const char *(*reject)(const pst_world *world);
    /* clock NULL: the monotonic clock. */
    pst_status (*open)(pst_world *world, const pst_clock *clock, pst_transport **transport);
    pst_status (*post)(pst_transport *t, const pst_transfer *transfer, uint64_t *request);
    /* OK: the request completed at *end_ns and is freed. BUSY: not completed. EPEER: will never
     * complete. EINPUT: sender and receiver gave different sizes. Does not advance transfers;
     * progress does. */
    pst_status (*test)(pst_transport *t, uint64_t request, uint64_t *end_ns);
    /* Advances all transfers; returns the number of requests that advanced, including completed
     * requests that are not tested yet. A caller may sleep after 0. */
    uint32_t (*progress)(pst_transport *t);
    uint64_t (*next_ns)(pst_transport *t); /* time of the earliest known completion; PST_NEVER:
                                              unknown */
    /* OK: *fd becomes readable when a request advances. BUSY: call progress first. EINPUT: this
     * transport has no such descriptor, or not at this moment. */
    pst_status (*arm)(pst_transport *t, int *fd);
    void (*abort)(pst_transport *t); /* cancels all requests without waiting for a peer */
    void (*close)(pst_transport *t);
} pst_transport_ops;

/* First member of the structure of each transport. */
struct pst_transport {
    const pst_transport_ops *ops;
    const pst_clock *clock;
    uint32_t rank, size;
    int reaches_cuda; /* nonzero: on all ranks `mem` may be CUDA memory too */
};
#endif
