/* Waiting for a transport. Ranks often outnumber cores, and a spinning rank takes time from its
 * neighbour: poll, and yield between polls; when nothing has moved for a while, arm the transport
 * and sleep on its descriptor. */
#include "base/clock.h"
#include "comm/transport/transport.h"
#include <poll.h>
#include <sched.h>

/* SLEEP_MS: limit of one sleep, because shared memory may drop a wake-up while a queue is full.
 * YIELD_NS: a peer's answer comes within microseconds, and a sleep costs tens of them. */
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
