/* Drives the executors of one process: round robin while something moves. Else it lets time pass:
 * on the virtual clock by jumping, on the real one by yielding and then sleeping until a transport
 * wakes it. */
#include "pipeline/execute/executor.h"
#include "pipeline/execute/executor_query.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Waking up takes tens of microseconds, hundreds on a busy host, so a rank yields before it sleeps:
 * for YIELD_NS, or until a yield takes SHARED_NS, because then another thread computes on this
 * processor and further yields would only slow it down. WAKE_NS: a sleep with a deadline ends that
 * much earlier; the rest is yielded. SLEEP_NS: a transport may miss a wake-up while its queues are
 * full. */
enum {
    DEAD_ROUNDS = 1000,
    YIELD_NS = 2000000,
    SHARED_NS = 50000,
    WAKE_NS = 100000,
    SLEEP_NS = 20000000,
    MAX_FD = 64
};

typedef struct {
    pst_executor *const *x;
    uint32_t n, idle_rounds;
    /* consecutive idle rounds in which nothing could have moved by itself */
    uint32_t dead_rounds;
    uint64_t idle_ns;     /* time of the first idle round */
    int processor_shared; /* 1: since then another thread has used the processor */
    pst_clock *clock;     /* virtual, or NULL */
} driver;

static pst_status run_round(driver *d, uint32_t *left, uint32_t *moved) {
    *left = *moved = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t here = 0;
        pst_status status = pst_executor_progress(d->x[i], &here);
        *moved += here;
        if (status != PST_OK && status != PST_BUSY) return status;
        *left += status == PST_BUSY;
    }
    return PST_OK;
}

static uint64_t next_event(const driver *d) {
    uint64_t next = PST_NEVER;
    for (uint32_t i = 0; i < d->n; i++) {
        uint64_t ns = pst_executor_next_ns(d->x[i]);
        if (ns < next) next = ns;
    }
    return next;
}

static int anything_computes(const driver *d) {
    for (uint32_t i = 0; i < d->n; i++)
        if (pst_executor_computes(d->x[i])) return 1;
    return 0;
}

static pst_status deadlock(const driver *d) {
    char message[480], where[360];
    size_t used = 0;
    message[0] = 0;
    for (uint32_t i = 0; i < d->n && used + 1 < sizeof message; i++) {
        if (pst_executor_finished(d->x[i])) continue;
        int n = snprintf(message + used, sizeof message - used, "%s%s", used ? "; " : "",
                         pst_executor_where(d->x[i], where, sizeof where));
        used += n > 0 ? (size_t)n : 0;
    }
    return pst_fail(PST_EINTERNAL, "deadlock: %s", message);
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* BUSY: a transport needs progress first. EINPUT: no transport can wake this process; they move
 * only when polled. */
static pst_status arm_all(const driver *d, struct pollfd *fd, uint32_t *n_fd) {
    *n_fd = 0;
    pst_status status = PST_EINPUT;
    for (uint32_t i = 0; i < d->n && *n_fd < MAX_FD; i++) {
        pst_transport *t = pst_executor_transport(d->x[i]);
        if (!t || !t->ops->arm) continue;
        int one = -1;
        pst_status armed = t->ops->arm(t, &one);
        if (armed == PST_BUSY) return PST_BUSY;
        if (armed != PST_OK) continue;
        status = PST_OK;
        fd[(*n_fd)++] = (struct pollfd){.fd = one, .events = POLLIN};
    }
    return status;
}

static void sleep_on(struct pollfd *fd, uint32_t n_fd, uint64_t ns) {
    struct timespec limit = {.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
    ppoll(fd, n_fd, &limit, NULL);
}

/* Real time: the next event is a message, an operator on a separate device, or a deadline. */
static pst_status wait_real(driver *d) {
    struct pollfd fd[MAX_FD];
    uint32_t n_fd;
    uint64_t next = next_event(d), now = pst_monotonic_ns(), limit = SLEEP_NS;
    if (d->idle_rounds == 1) {
        d->idle_ns = now;
        d->processor_shared = 0;
        d->dead_rounds = 0;
    }
    if ((now - d->idle_ns < YIELD_NS && !d->processor_shared) ||
        (next != PST_NEVER && next < now + WAKE_NS)) {
        sched_yield();
        d->processor_shared |= pst_monotonic_ns() - now > SHARED_NS;
        return PST_OK;
    }
    pst_status armed = arm_all(d, fd, &n_fd);
    int computes = anything_computes(d);
    if (armed == PST_EINPUT && next == PST_NEVER && !computes &&
        d->n == pst_executor_ranks(d->x[0]))
        return ++d->dead_rounds > DEAD_ROUNDS ? deadlock(d) : PST_OK;
    d->dead_rounds = 0;
    if (armed == PST_BUSY) {
        sched_yield();
        return PST_OK;
    }
    if (next != PST_NEVER && next - now < limit) limit = next - now - WAKE_NS;
    else if (next == PST_NEVER && (computes || armed == PST_EINPUT)) limit = 50000;
    sleep_on(fd, n_fd, limit);
    return PST_OK;
}

static pst_status wait_virtual(driver *d) {
    uint64_t next = next_event(d);
    if (next != PST_NEVER && next > d->clock->virtual_ns) {
        d->clock->virtual_ns = next;
        d->idle_rounds = 0;
        return PST_OK;
    }
    return d->idle_rounds > DEAD_ROUNDS ? deadlock(d) : PST_OK;
}

pst_status pst_executor_drive(pst_executor *const *x, uint32_t n, pst_clock *virtual_clock,
                              pst_status (*idle)(void *), void *idle_arg) {
    driver d = {.x = x, .n = n, .clock = virtual_clock};
    uint32_t left, moved;
    pst_status status;
    while ((status = run_round(&d, &left, &moved)) == PST_OK && left) {
        if (idle && (status = idle(idle_arg)) != PST_OK) break;
        d.idle_rounds = moved ? 0 : d.idle_rounds + 1;
        if (!moved && (status = virtual_clock ? wait_virtual(&d) : wait_real(&d)) != PST_OK) break;
    }
    return status;
}
