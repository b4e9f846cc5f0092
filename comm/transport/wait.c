/* Waiting for a transport: ranks often outnumber cores, and a spinning rank takes its neighbour's
 * time. Progress, and leave the processor to others between; when nothing has moved for a while,
 * arm and sleep on the transport's descriptor. */
#include "base/clock.h"
#include "comm/transport/transport.h"
#include <poll.h>
#include <sched.h>

/* SLEEP_MS: shared memory may drop a wake-up while a queue is full; nobody sleeps longer than this
 * in one go. YIELD_NS: what peers send to each other in turn comes within microseconds, and
 * sleeping costs tens. */
enum { SLEEP_MS = 20, YIELD_NS = 100000 };

void pst_transport_wait(pst_transport *t, uint32_t timeout_ms) {
    int fd = -1;
    if (t->ops->progress(t)) return;
    for (uint64_t until = pst_monotonic_ns() + YIELD_NS; pst_monotonic_ns() < until;) {
        sched_yield();
        if (t->ops->progress(t)) return;
    }
    if (t->ops->arm(t, &fd) != PST_OK) { /* something moved meanwhile, or this transport cannot
                                            sleep */
        sched_yield();
        return;
    }
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    poll(&poll_fd, 1, timeout_ms < SLEEP_MS ? (int)timeout_ms : SLEEP_MS);
}
