/* Listening at an address, and connecting to one where the other process may start to listen
 * later. */
#include "base/clock.h"
#include "base/log.h"
#include "comm/world/tcp.h"
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TRY_S = 5, LOG_S = 3, NO_ROUTE_S = 6, RETRY_MS = 50 };
#define SECOND_NS UINT64_C(1000000000)

static pst_status resolve(const char *address, const char *port, struct addrinfo **list) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int rc = getaddrinfo(address, port, &hints, list);
    if (rc) return pst_fail(PST_EINPUT, "%s, port %s: %s", address, port, gai_strerror(rc));
    return PST_OK;
}

static int listen_at(const struct addrinfo *a) {
    int on = 1, fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 256) == 0) return fd;
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return -1;
}

pst_status pst_tcp_listen(const char *address, char port[8], int *listener) {
    struct addrinfo *list;
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    int fd = -1;
    PST_TRY(resolve(address, port, &list));
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) fd = listen_at(a);
    int error = errno;
    freeaddrinfo(list);
    if (fd < 0)
        return pst_fail(PST_EINPUT, "cannot listen at %s, port %s: %s", address, port,
                        strerror(error));
    if (getsockname(fd, (struct sockaddr *)&own, &bytes) == 0)
        getnameinfo((struct sockaddr *)&own, bytes, NULL, 0, port, 8,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    *listener = fd;
    return PST_OK;
}

/* --- reaching --------------------------------------------------------------------------------- */

typedef struct {
    const pst_tcp_job *job;
    const char *who;
    uint32_t seconds;
    uint64_t until, log_ns, no_route; /* the time limit; when to log what it waits for; since when
                                       no address has had a route */
    char place[PST_TCP_ADDRESS_TEXT]; /* the address tried last */
    int error;                        /* there */
} attempt;

/* Returns 0 with a connected socket, else the error. */
static int connect_to(const struct addrinfo *a, uint64_t until, int *out) {
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t bytes = sizeof error;
    if (fd < 0) return errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS)
            error = pst_tcp_wait(fd, POLLOUT, until) == PST_OK ? 0 : ETIMEDOUT;
        if (!error && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
    }
    if (error) close(fd);
    else *out = fd;
    return error;
}

static int lacks_route(int error) {
    return error == ENETUNREACH || error == EHOSTUNREACH || error == ENETDOWN || error == EHOSTDOWN;
}

static void name_self(const pst_tcp_job *job, char name[32]) {
    snprintf(name, 32, "this worker");
    if (job->rank != UINT32_MAX) snprintf(name, 32, "rank %u", job->rank);
}

/* Logged once, so that a waiting user sees the address and the error. */
static void log_waiting(attempt *c) {
    char name[32];
    if (pst_monotonic_ns() < c->log_ns) return;
    c->log_ns = PST_NEVER;
    name_self(c->job, name);
    pst_log(PST_LOG_INFO, "%s tries to connect to %s at %s for up to %u s: %s", name, c->who,
            c->place, c->seconds, strerror(c->error));
}

/* Tries every address once, each for a limited time: a firewall may drop packets to one of them. 1:
 * connected. */
static int try_all(attempt *c, const struct addrinfo *list, int *out) {
    int routes = 0;
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        uint64_t limit = pst_monotonic_ns() + TRY_S * SECOND_NS;
        c->error = connect_to(a, limit < c->until ? limit : c->until, out);
        if (!c->error) return 1;
        pst_tcp_address_text(c->job, a->ai_addr, a->ai_addrlen, c->place);
        routes += !lacks_route(c->error);
        log_waiting(c);
    }
    if (routes) c->no_route = pst_monotonic_ns();
    return 0;
}

void pst_tcp_pause(void) { nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000}, NULL); }

/* A refused connection is tried again, because the listener may start later; a host without a route
 * is given up soon. */
pst_status pst_tcp_connect(const pst_tcp_job *job, uint32_t seconds, const char *who, int *out) {
    struct addrinfo *list;
    char name[32];
    uint64_t began = pst_monotonic_ns(), now;
    attempt c = {.job = job, .who = who, .seconds = seconds, .no_route = began};
    c.until = began + seconds * SECOND_NS;
    c.log_ns = began + LOG_S * SECOND_NS;
    PST_TRY(resolve(job->address, job->port, &list));
    int reached;
    while (!(reached = try_all(&c, list, out))) {
        now = pst_monotonic_ns();
        if (now >= c.until || now >= c.no_route + NO_ROUTE_S * SECOND_NS) break;
        if (pst_tcp_is_over()) break;
        pst_tcp_pause();
    }
    freeaddrinfo(list);
    if (reached) {
        pst_tcp_set_up(*out);
        return PST_OK;
    }
    name_self(job, name);
    return pst_fail(PST_EPEER, "%s cannot connect to %s at %s within %.0f s: %s", name, who,
                    c.place, (double)(pst_monotonic_ns() - began) * 1e-9, strerror(c.error));
}
