/* Non-blocking sockets of world `tcp`: waiting with a time limit, and transfers of whole
 * buffers. */
#include "base/clock.h"
#include "comm/world/tcp.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* How often a wait looks whether it is over. */
enum { LOOK_MS = 5 };
static int (*_Atomic is_over)(void *arg); /* read by other threads that wait */
static void *_Atomic is_over_arg;

void pst_tcp_give_up_when(int (*over)(void *arg), void *arg) {
    is_over_arg = arg;
    is_over = over;
}

int pst_tcp_meets_again(void) { return is_over != NULL; }

int pst_tcp_is_over(void) {
    int (*over)(void *arg) = is_over;
    return over && over(is_over_arg);
}

int pst_tcp_milliseconds(uint64_t until) {
    uint64_t now = pst_monotonic_ns();
    if (is_over && until > now + LOOK_MS * UINT64_C(1000000)) return LOOK_MS;
    if (until == PST_NEVER) return -1;
    if (until <= now) return 0;
    return (int)((until - now) / 1000000 + 1 < 60000 ? (until - now) / 1000000 + 1 : 60000);
}

pst_status pst_tcp_wait(int fd, short events, uint64_t until) {
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, pst_tcp_milliseconds(until));
        if (n > 0) return PST_OK;
        if (n < 0 && errno != EINTR) return pst_fail(PST_EPEER, "cannot wait for a connection: %m");
        if (pst_tcp_is_over()) return pst_fail(PST_EPEER, "a rank of the job has died");
        if (n == 0 && until != PST_NEVER && pst_monotonic_ns() >= until)
            return pst_fail(PST_EPEER, "no answer within the time limit");
    }
}

pst_status pst_tcp_write(int fd, const void *data, size_t bytes, uint64_t until) {
    const uint8_t *at = data;
    while (bytes) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n >= 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (errno == EAGAIN) PST_TRY(pst_tcp_wait(fd, POLLOUT, until));
        else if (errno != EINTR) return pst_fail(PST_EPEER, "the connection failed: %m");
    }
    return PST_OK;
}

pst_status pst_tcp_read(int fd, void *data, size_t bytes, uint64_t until) {
    uint8_t *at = data;
    while (bytes) {
        ssize_t n = recv(fd, at, bytes, 0);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
        } else if (n == 0) return pst_fail(PST_EPEER, "the connection was closed");
        else if (errno == EAGAIN) PST_TRY(pst_tcp_wait(fd, POLLIN, until));
        else if (errno != EINTR) return pst_fail(PST_EPEER, "the connection failed: %m");
    }
    return PST_OK;
}

int pst_tcp_is_loopback(const struct sockaddr *a) {
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

const char *pst_tcp_address_text(const pst_tcp_job *job, const struct sockaddr *at, socklen_t bytes,
                                 char text[PST_TCP_ADDRESS_TEXT]) {
    char number[64];
    int n = snprintf(text, PST_TCP_ADDRESS_TEXT, "%.80s:%.8s", job->address, job->port);
    if (getnameinfo(at, bytes, number, sizeof number, NULL, 0, NI_NUMERICHOST) ||
        !strcmp(number, job->address))
        return text; /* the user gave a numeric address: it is in the text already */
    snprintf(text + n, (size_t)(PST_TCP_ADDRESS_TEXT - n), " (%s%s)", number,
             pst_tcp_is_loopback(at) ? ", which other hosts cannot reach" : "");
    return text;
}

const char *pst_tcp_own_address_text(const pst_tcp_job *job, int fd,
                                     char text[PST_TCP_ADDRESS_TEXT]) {
    struct sockaddr_storage own = {0};
    socklen_t bytes = sizeof own;
    getsockname(fd, (struct sockaddr *)&own, &bytes);
    return pst_tcp_address_text(job, (struct sockaddr *)&own, bytes, text);
}

static int lacks_resources(int error) {
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* A connection that cannot be accepted for lack of resources stays in the queue and would be
 * reported again and again. */
pst_status pst_tcp_accept(int listener, const char *who, int *fd) {
    *fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (*fd < 0 && lacks_resources(errno))
        return pst_fail(
            PST_ENOMEM,
            "%s cannot accept a connection: %m; it needs one connection per rank (raise ulimit -n)",
            who);
    if (*fd >= 0) pst_tcp_set_up(*fd);
    return PST_OK;
}

void pst_tcp_set_up(int fd) {
    int on = 1, idle = 10, every = 5, tries = 3;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
}
