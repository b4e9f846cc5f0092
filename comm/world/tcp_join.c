/* How the ranks of world `tcp` meet. Rank 0 greets each connection with a nonce; the other end
 * answers with its rank, its own nonce and the proof that it knows the secret; rank 0 sends back
 * its own proof. Numbers are little endian. A stranger gets the greeting and, after GREET_S, is
 * disconnected; it never delays the ranks. */
#include "base/clock.h"
#include "base/log.h"
#include "comm/world/secret.h"
#include "comm/world/tcp.h"
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GREET_S = 5, LOG_S = 3, MAX_PENDING = 128, MAX_CALLS = 5, SECOND_NS = 1000000000 };
enum {
    HELLO_BYTES = 8 + PST_SECRET_NONCE,
    JOIN_BYTES = 8 + PST_SECRET_NONCE + PST_SECRET_PROOF,
    ANSWER_BYTES = 4 + PST_SECRET_PROOF
};
enum { WELCOME, OTHER_SIZE, RANK_TAKEN, N_VERDICT };
static const char magic[8] = {'p', 's', 't', 'k', 't', 'c', 'p', 1};

static void put_number(uint8_t *at, uint32_t number) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(number >> 8 * i);
}

static uint32_t get_number(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static pst_status name_variables(const pst_tcp_job *job, pst_status status) {
    const char *variables = job->variables ? job->variables : "MASTER_ADDR, MASTER_PORT";
    return status == PST_EINPUT ? pst_fail_in(status, "%s", variables) : status;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    uint64_t until;
    uint32_t have;
    uint8_t nonce[PST_SECRET_NONCE], join[JOIN_BYTES];
} pending;

typedef struct {
    const pst_tcp_job *job;
    int *fd, listener;
    uint32_t missing, n_pending;
    int refused; /* a refusal was logged */
    pending pending[MAX_PENDING];
} rendezvous;

static pst_status open_listener(const pst_tcp_job *job, int *listener) {
    char port[8];
    if (job->listener) {
        *listener = job->listener;
        return PST_OK;
    }
    if (snprintf(port, sizeof port, "%s", job->port) >= (int)sizeof port)
        return pst_fail(PST_EINPUT, "MASTER_PORT '%.20s' is not a port", job->port);
    return name_variables(job, pst_tcp_listen(job->address, port, listener));
}

static void drop(rendezvous *h, uint32_t i) {
    if (h->pending[i].fd >= 0) close(h->pending[i].fd);
    h->pending[i] = h->pending[--h->n_pending];
}

/* A rank answers at once: the connection that has been silent longest is most likely not a rank. */
static void drop_oldest(rendezvous *h) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < h->n_pending; i++)
        if (h->pending[i].until < h->pending[oldest].until) oldest = i;
    drop(h, oldest);
}

static pst_status greet(rendezvous *h) {
    uint8_t hello[HELLO_BYTES];
    int fd;
    PST_TRY(pst_tcp_accept(h->listener, "rank 0", &fd));
    if (fd < 0) return PST_OK;
    if (h->n_pending == MAX_PENDING) drop_oldest(h);
    pending *p = &h->pending[h->n_pending++];
    *p = (pending){.fd = fd, .until = pst_monotonic_ns() + GREET_S * (uint64_t)SECOND_NS};
    PST_TRY(pst_secret_random(p->nonce, sizeof p->nonce));
    memcpy(hello, magic, sizeof magic);
    memcpy(hello + sizeof magic, p->nonce, sizeof p->nonce);
    if (send(fd, hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) drop(h, h->n_pending - 1);
    return PST_OK;
}

/* Logged once: the rank reports the error on its own host too, and any other process may pretend to
 * be a rank. */
static void log_refused(rendezvous *h, int fd, uint32_t rank, const char *why) {
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    char name[64] = "somewhere";
    if (h->refused++ || pst_tcp_meets_again()) return; /* a rank of another epoch is no error */
    if (getpeername(fd, (struct sockaddr *)&from, &bytes) == 0)
        getnameinfo((struct sockaddr *)&from, bytes, name, sizeof name, NULL, 0, NI_NUMERICHOST);
    pst_log(PST_LOG_WARN, "rank %u at %s was rejected: %s", rank, name, why);
}

/* Handles a complete join message. Without a valid proof there is no answer; else the answer is the
 * verdict with rank 0's own proof. */
static pst_status check_join(rendezvous *h, uint32_t i) {
    pending *p = &h->pending[i];
    const uint8_t *theirs = p->join + 8;
    uint32_t rank = get_number(p->join), size = get_number(p->join + 4);
    uint8_t proof[PST_SECRET_PROOF], answer[ANSWER_BYTES];
    PST_TRY(pst_secret_prove(
        h->job->secret, &(pst_secret_claim){"penstock join", p->nonce, theirs, rank, size}, proof));
    if (!pst_secret_equal(proof, theirs + PST_SECRET_NONCE)) {
        if (size == h->job->size && rank < size)
            log_refused(h, p->fd, rank, "its PENSTOCK_SECRET differs from that of rank 0");
        drop(h, i);
        return PST_OK;
    }
    uint32_t verdict = WELCOME;
    if (size != h->job->size || rank >= size) verdict = OTHER_SIZE;
    else if (rank == 0 || h->fd[rank] >= 0) verdict = RANK_TAKEN;
    put_number(answer, verdict);
    PST_TRY(pst_secret_prove(
        h->job->secret, &(pst_secret_claim){"penstock answer", theirs, p->nonce, rank, verdict},
        answer + 4));
    if (verdict != WELCOME)
        log_refused(h, p->fd, rank,
                    verdict == OTHER_SIZE ? "its WORLD_SIZE differs from that of rank 0"
                                          : "another process has the same RANK");
    ssize_t sent = send(p->fd, answer, sizeof answer, MSG_NOSIGNAL);
    if (verdict == WELCOME && sent == sizeof answer) {
        h->fd[rank] = p->fd;
        h->missing--;
        p->fd = -1;
    }
    drop(h, i);
    return PST_OK;
}

static pst_status receive(rendezvous *h, uint32_t i) {
    pending *p = &h->pending[i];
    ssize_t n = recv(p->fd, p->join + p->have, sizeof p->join - p->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return PST_OK;
    if (n <= 0) {
        drop(h, i);
        return PST_OK;
    }
    p->have += (uint32_t)n;
    return p->have == sizeof p->join ? check_join(h, i) : PST_OK;
}

static pst_status poll_once(rendezvous *h, uint64_t until) {
    struct pollfd fds[MAX_PENDING + 1] = {{.fd = h->listener, .events = POLLIN}};
    uint32_t n = h->n_pending;
    for (uint32_t i = 0; i < n; i++) {
        fds[1 + i] = (struct pollfd){.fd = h->pending[i].fd, .events = POLLIN};
        if (h->pending[i].until < until) until = h->pending[i].until;
    }
    if (poll(fds, n + 1, pst_tcp_milliseconds(until)) < 0 && errno != EINTR)
        return pst_fail(PST_EPEER, "rank 0 cannot wait for the other ranks: %m");
    /* backwards: drop() moves the last entry, which was handled already, to the free place */
    for (uint32_t i = n; i-- > 0;)
        if (fds[1 + i].revents) PST_TRY(receive(h, i));
    for (uint32_t i = h->n_pending; i-- > 0;)
        if (h->pending[i].until <= pst_monotonic_ns()) drop(h, i);
    return fds[0].revents ? greet(h) : PST_OK;
}

static void list_missing(const rendezvous *h, char *text, size_t bytes) {
    size_t used = 0;
    for (uint32_t r = 1; r < h->job->size && used + 16 < bytes; r++)
        if (h->fd[r] < 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? ", " : "", r);
}

static void log_missing(const rendezvous *h) {
    char text[200], place[PST_TCP_ADDRESS_TEXT];
    list_missing(h, text, sizeof text);
    pst_log(PST_LOG_INFO, "waiting at %s for up to %u s; %u of %u ranks are missing: %s",
            pst_tcp_own_address_text(h->job, h->listener, place), h->job->seconds, h->missing,
            h->job->size, text);
}

static pst_status fail_missing(const rendezvous *h) {
    char text[200], place[PST_TCP_ADDRESS_TEXT];
    list_missing(h, text, sizeof text);
    return pst_fail(PST_EPEER, "%u of %u ranks did not join at %s within %u s; missing: %s",
                    h->missing, h->job->size, pst_tcp_own_address_text(h->job, h->listener, place),
                    h->job->seconds, text);
}

static pst_status accept_all(const pst_tcp_job *job, int *fd) {
    if (job->size == 1 && !job->listener)
        return PST_OK; /* one rank needs no listener, and the port may be in use */
    rendezvous *h = calloc(1, sizeof *h);
    if (!h) return pst_fail(PST_ENOMEM, "no memory to wait for the other ranks");
    *h = (rendezvous){.job = job, .fd = fd, .missing = job->size - 1, .listener = -1};
    uint64_t began = pst_monotonic_ns(), until = began + job->seconds * (uint64_t)SECOND_NS;
    uint64_t log_ns = began + LOG_S * (uint64_t)SECOND_NS, next = log_ns < until ? log_ns : until;
    pst_status status = open_listener(job, &h->listener);
    while (status == PST_OK && h->missing && pst_monotonic_ns() < until && !pst_tcp_is_over()) {
        status = poll_once(h, next);
        if (next == until || pst_monotonic_ns() < next || !h->missing) continue;
        log_missing(h);
        next = until;
    }
    if (status == PST_OK && h->missing) status = fail_missing(h);
    while (h->n_pending) drop(h, 0);
    if (h->listener >= 0) close(h->listener);
    free(h);
    return status;
}

/* --- the other ranks -------------------------------------------------------------------------- */

/* Sends this rank's join message and reads the verdict. EPEER: no answer. */
static pst_status introduce(const pst_tcp_job *job, int fd, uint64_t until) {
    uint8_t hello[HELLO_BYTES], join[JOIN_BYTES], answer[ANSWER_BYTES], proof[PST_SECRET_PROOF];
    const uint8_t *theirs = hello + sizeof magic;
    uint8_t *ours = join + 8;
    pst_status status = pst_tcp_read(fd, hello, sizeof hello, until);
    if (status != PST_OK || memcmp(hello, magic, sizeof magic))
        return pst_fail(status == PST_OK ? PST_EINPUT : status,
                        "the process at %s:%s is not rank 0 of this version of penstock",
                        job->address, job->port);
    put_number(join, job->rank);
    put_number(join + 4, job->size);
    PST_TRY(pst_secret_random(ours, PST_SECRET_NONCE));
    PST_TRY(pst_secret_prove(
        job->secret, &(pst_secret_claim){"penstock join", theirs, ours, job->rank, job->size},
        ours + PST_SECRET_NONCE));
    if (pst_tcp_write(fd, join, sizeof join, until) != PST_OK ||
        pst_tcp_read(fd, answer, sizeof answer, until) != PST_OK)
        return pst_fail(
            PST_EPEER,
            "rank 0 at %s:%s rejected rank %u: check that PENSTOCK_SECRET is the same on both",
            job->address, job->port, job->rank);
    uint32_t verdict = get_number(answer);
    PST_TRY(pst_secret_prove(
        job->secret, &(pst_secret_claim){"penstock answer", ours, theirs, job->rank, verdict},
        proof));
    if (!pst_secret_equal(proof, answer + 4))
        return pst_fail(PST_EINPUT, "the process at %s:%s has a different PENSTOCK_SECRET",
                        job->address, job->port);
    if (verdict == WELCOME) return PST_OK;
    if (verdict == OTHER_SIZE)
        return pst_fail(PST_EINPUT,
                        "rank %u has WORLD_SIZE %u, but rank 0 at %s:%s has a different one",
                        job->rank, job->size, job->address, job->port);
    return pst_fail(PST_EINPUT, "two processes have RANK %u; give each process a different one",
                    job->rank);
}

/* Rank 0 disconnects a caller with another secret, but also the oldest one when more than
 * MAX_PENDING have not answered yet. So a rank tries again before it reports a wrong secret. */
static pst_status join_root(const pst_tcp_job *job, int *fd) {
    uint64_t until = pst_monotonic_ns() + job->seconds * (uint64_t)SECOND_NS;
    PST_TRY(name_variables(job, pst_tcp_connect(job, job->seconds, "rank 0", fd)));
    pst_status status = introduce(job, *fd, until);
    const int calls = pst_tcp_meets_again() ? INT_MAX : MAX_CALLS;
    for (int i = 1; i < calls && status == PST_EPEER && pst_monotonic_ns() < until; i++) {
        if (pst_tcp_is_over()) return status;
        close(*fd);
        *fd = -1;
        pst_tcp_pause();
        PST_TRY(pst_tcp_connect(job, GREET_S, "rank 0", fd));
        status = introduce(job, *fd, until);
    }
    if (pst_tcp_meets_again()) return status;
    return status == PST_EPEER ? PST_EINPUT : status; /* introduce() has set the message */
}

pst_status pst_tcp_join(const pst_tcp_job *job, int *fd) {
    for (uint32_t r = 0; r < job->size; r++) fd[r] = -1;
    pst_status status = job->rank ? join_root(job, &fd[0]) : accept_all(job, fd);
    for (uint32_t r = 0; status != PST_OK && r < job->size; r++) {
        if (fd[r] >= 0) close(fd[r]);
        fd[r] = -1;
    }
    return status;
}

pst_status pst_tcp_check_secret(const pst_tcp_job *job) {
    if (job->size > 1 && (!job->secret || strlen(job->secret) < PST_SECRET_MIN))
        return pst_fail(
            PST_EINPUT,
            "PENSTOCK_SECRET %s: set it to the same random string of at least %d characters on all "
            "ranks of the job (openssl rand -hex 16); it keeps other processes out",
            job->secret ? "is too short" : "is not set", PST_SECRET_MIN);
    return PST_OK;
}
