/* Waiting for a transport without spinning: ranks often outnumber cores, and a spinning rank takes its neighbour's
 * time. Progress; when nothing moved, arm and sleep on the transport's descriptor. */
#include "comm/transport.h"
#include <poll.h>
#include <sched.h>

/* Shared memory may drop a wake-up while a queue is full; nobody sleeps longer than this in one go. */
enum { SLEEP_MS = 20 };

void pst_transport_wait(pst_transport *t, uint32_t timeout_ms) {
    int fd = -1;
    if (t->ops->progress(t)) return;
    if (t->ops->arm(t, &fd) != PST_OK) { /* something moved meanwhile, or this transport cannot sleep */
        sched_yield();
        return;
    }
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    poll(&poll_fd, 1, timeout_ms < SLEEP_MS ? (int)timeout_ms : SLEEP_MS);
}
