/* The launcher of a host gives its memory out (elastic_hosts.h). One thread accepts connections,
 * and one serves each of them; they only read, and end with the process. */
#include "base/clock.h"
#include "comm/world/elastic_hosts.h"
#include "comm/world/elastic_wire.h"
#include "comm/world/secret.h"
#include "comm/world/tcp.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

/* A stranger is disconnected after PROVE_S; more than MOST connections are not served: each rank
 * needs one. */
enum { PROVE_S = 5, MOST = 2 * PST_ELASTIC_RANKS, STACK = 1 << 18 };

typedef struct {
    const pst_elastic_page *page;
    int page_fd, listener;
    _Atomic uint32_t n;
} server;

typedef struct {
    server *server;
    int fd;
} customer;

/* 1: the other end has proved that it knows the secret, and this end too. */
static int is_trusted(const customer *c) {
    const uint64_t until = pst_monotonic_ns() + PROVE_S * UINT64_C(1000000000);
    const char *secret = c->server->page->hosts.secret;
    uint8_t mine[PST_SECRET_NONCE], theirs[PST_SECRET_NONCE + PST_SECRET_PROOF],
        proof[PST_SECRET_PROOF];
    const pst_secret_claim asks = {PST_ELASTIC_ASKS, mine, theirs, 0, 0},
                           gives = {PST_ELASTIC_GIVES, mine, theirs, 0, 0};
    return pst_secret_random(mine, sizeof mine) == PST_OK &&
           pst_tcp_write(c->fd, mine, sizeof mine, until) == PST_OK &&
           pst_tcp_read(c->fd, theirs, sizeof theirs, until) == PST_OK &&
           pst_secret_prove(secret, &asks, proof) == PST_OK &&
           pst_secret_equal(proof, theirs + PST_SECRET_NONCE) &&
           pst_secret_prove(secret, &gives, proof) == PST_OK &&
           pst_tcp_write(c->fd, proof, sizeof proof, until) == PST_OK;
}

/* The file with the range; -1: there is none. */
static int file_of(const server *s, const pst_elastic_range *r) {
    const uint64_t page = sizeof *s->page;
    if (r->process == PST_ELASTIC_PAGE)
        return r->from <= page && r->bytes <= page - r->from ? s->page_fd : -1;
    if (r->process >= s->page->n || r->file >= PST_ELASTIC_FILES) return -1;
    return s->page->state_fd[r->process][r->file];
}

/* 0: the connection is lost, or the file is shorter. */
static int send_range(int to, int file, const pst_elastic_range *r) {
    off_t at = (off_t)r->from;
    for (uint64_t left = r->bytes; left;) {
        const ssize_t n = sendfile(to, file, &at, left);
        if (n > 0) left -= (uint64_t)n;
        else if (n == 0) return 0;
        else if (errno == EAGAIN && pst_tcp_wait(to, POLLOUT, PST_NEVER) == PST_OK) continue;
        else if (errno != EINTR) return 0;
    }
    return 1;
}

static void *serve(void *arg) {
    customer *c = arg;
    pst_elastic_range r;
    int goes_on = is_trusted(c);
    while (goes_on && pst_tcp_read(c->fd, &r, sizeof r, PST_NEVER) == PST_OK) {
        const int file = file_of(c->server, &r);
        goes_on = file >= 0 && send_range(c->fd, file, &r);
    }
    close(c->fd);
    atomic_fetch_sub(&c->server->n, 1);
    free(c);
    return NULL;
}

/* All signals are blocked in these threads: the launcher handles signals. */
int pst_elastic_thread(void *(*run)(void *), void *arg) {
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&thread, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return !failed;
}

static void receive(server *s) {
    int fd = -1;
    if (pst_tcp_accept(s->listener, "the launcher", &fd) != PST_OK) pst_tcp_pause();
    if (fd < 0) return;
    customer *c = atomic_load(&s->n) < MOST ? malloc(sizeof *c) : NULL;
    if (!c) {
        close(fd);
        return;
    }
    *c = (customer){s, fd};
    atomic_fetch_add(&s->n, 1);
    if (pst_elastic_thread(serve, c)) return;
    atomic_fetch_sub(&s->n, 1);
    close(fd);
    free(c);
}

static void *accept_all(void *arg) {
    server *s = arg;
    while (pst_tcp_wait(s->listener, POLLIN, PST_NEVER) == PST_OK) receive(s);
    return NULL;
}

pst_status pst_elastic_memory_serve(pst_elastic_page *page, int fd, const char *address,
                                    char port[8]) {
    static server one; /* a launcher has one job */
    one = (server){.page = page, .page_fd = fd, .listener = -1};
    memcpy(port, "0", 2);
    PST_TRY(pst_tcp_listen(address, port, &one.listener));
    if (pst_elastic_thread(accept_all, &one)) return PST_OK;
    close(one.listener);
    return pst_fail(PST_ENOMEM, "cannot start the thread that gives out memory");
}
