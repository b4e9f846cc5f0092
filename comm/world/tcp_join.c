/* How the ranks of world `tcp` come together. Rank 0 greets whoever connects with a fresh number;
 * the other answers with its rank, a number of its own and the proof that it knows the secret; rank
 * 0 proves the same back. Numbers are little endian. Strangers get the greeting and, after GREET_S,
 * nothing more; they never delay the ranks. */
#include "base/clock.h"
#include "base/log.h"
#include "comm/world/secret.h"
#include "comm/world/tcp.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GREET_S = 5, WORD_S = 3, MAX_PENDING = 128, MAX_CALLS = 5, SECOND_NS = 1000000000 };
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
    int refused; /* and said so */
    pending pending[MAX_PENDING];
} host;

static pst_status open_listener(const pst_tcp_job *job, int *listener) {
    char port[8];
    if (job->listener) {
        *listener = job->listener;
        return PST_OK;
    }
    if (snprintf(port, sizeof port, "%s", job->port) >= (int)sizeof port)
        return pst_fail(PST_EINPUT, "MASTER_PORT '%.20s' is no port", job->port);
    return name_variables(job, pst_tcp_listen(job->address, port, listener));
}

static void drop(host *h, uint32_t i) {
    if (h->pending[i].fd >= 0) close(h->pending[i].fd);
    h->pending[i] = h->pending[--h->n_pending];
}

/* A rank answers at once: whoever has been silent longest is most likely none. */
static void drop_oldest(host *h) {
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < h->n_pending; i++)
        if (h->pending[i].until < h->pending[oldest].until) oldest = i;
    drop(h, oldest);
}

static pst_status greet(host *h) {
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

/* Said once: the rank itself says so at another host, and it may be a stranger that calls itself a
 * rank. */
static void say_refused(host *h, int fd, uint32_t rank, const char *why) {
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    char name[64] = "somewhere";
    if (h->refused++) return;
    if (getpeername(fd, (struct sockaddr *)&from, &bytes) == 0)
        getnameinfo((struct sockaddr *)&from, bytes, name, sizeof name, NULL, 0, NI_NUMERICHOST);
    pst_log(PST_LOG_WARN, "rank %u at %s was refused: %s", rank, name, why);
}

/* A complete join message. Without the right proof: no word; else the verdict, proven. */
static pst_status judge(host *h, uint32_t i) {
    pending *p = &h->pending[i];
    const uint8_t *theirs = p->join + 8;
    uint32_t rank = get_number(p->join), size = get_number(p->join + 4);
    uint8_t proof[PST_SECRET_PROOF], answer[ANSWER_BYTES];
    PST_TRY(pst_secret_prove(
        h->job->secret, &(pst_secret_claim){"penstock join", p->nonce, theirs, rank, size}, proof));
    if (!pst_secret_equal(proof, theirs + PST_SECRET_NONCE)) {
        if (size == h->job->size && rank < size)
            say_refused(h, p->fd, rank, "its PENSTOCK_SECRET is another");
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
        say_refused(h, p->fd, rank,
                    verdict == OTHER_SIZE ? "its WORLD_SIZE is another"
                                          : "its RANK is there already");
    ssize_t sent = send(p->fd, answer, sizeof answer, MSG_NOSIGNAL);
    if (verdict == WELCOME && sent == sizeof answer) {
        h->fd[rank] = p->fd;
        h->missing--;
        p->fd = -1;
    }
    drop(h, i);
    return PST_OK;
}

static pst_status hear(host *h, uint32_t i) {
    pending *p = &h->pending[i];
    ssize_t n = recv(p->fd, p->join + p->have, sizeof p->join - p->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return PST_OK;
    if (n <= 0) {
        drop(h, i);
        return PST_OK;
    }
    p->have += (uint32_t)n;
    return p->have == sizeof p->join ? judge(h, i) : PST_OK;
}

static pst_status round_of(host *h, uint64_t until) {
    struct pollfd fds[MAX_PENDING + 1] = {{.fd = h->listener, .events = POLLIN}};
    uint32_t n = h->n_pending;
    for (uint32_t i = 0; i < n; i++) {
        fds[1 + i] = (struct pollfd){.fd = h->pending[i].fd, .events = POLLIN};
        if (h->pending[i].until < until) until = h->pending[i].until;
    }
    if (poll(fds, n + 1, pst_tcp_milliseconds(until)) < 0 && errno != EINTR)
        return pst_fail(PST_EPEER, "rank 0 cannot wait for the others: %m");
    /* backwards: whoever is dropped is replaced by one that was looked at */
    for (uint32_t i = n; i-- > 0;)
        if (fds[1 + i].revents) PST_TRY(hear(h, i));
    for (uint32_t i = h->n_pending; i-- > 0;)
        if (h->pending[i].until <= pst_monotonic_ns()) drop(h, i);
    return fds[0].revents ? greet(h) : PST_OK;
}

static void list_missing(const host *h, char *text, size_t bytes) {
    size_t used = 0;
    for (uint32_t r = 1; r < h->job->size && used + 16 < bytes; r++)
        if (h->fd[r] < 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s%u", used ? ", " : "", r);
}

static void say_missing(const host *h) {
    char text[200], place[PST_TCP_PLACE];
    list_missing(h, text, sizeof text);
    pst_log(PST_LOG_INFO, "waiting at %s, up to %u s, for %u of %u ranks: %s",
            pst_tcp_own_place(h->job, h->listener, place), h->job->seconds, h->missing,
            h->job->size, text);
}

static pst_status fail_missing(const host *h) {
    char text[200], place[PST_TCP_PLACE];
    list_missing(h, text, sizeof text);
    return pst_fail(PST_EPEER, "%u of %u ranks did not come to %s within %u s: %s", h->missing,
                    h->job->size, pst_tcp_own_place(h->job, h->listener, place), h->job->seconds,
                    text);
}

static pst_status host_all(const pst_tcp_job *job, int *fd) {
    if (job->size == 1 && !job->listener) return PST_OK; /* the port may be another's */
    host *h = calloc(1, sizeof *h);
    if (!h) return pst_fail(PST_ENOMEM, "no memory for a rendezvous");
    *h = (host){.job = job, .fd = fd, .missing = job->size - 1, .listener = -1};
    uint64_t began = pst_monotonic_ns(), until = began + job->seconds * (uint64_t)SECOND_NS;
    uint64_t word = began + WORD_S * (uint64_t)SECOND_NS, next = word < until ? word : until;
    pst_status status = open_listener(job, &h->listener);
    while (status == PST_OK && h->missing && pst_monotonic_ns() < until) {
        status = round_of(h, next);
        if (next == until || pst_monotonic_ns() < next || !h->missing) continue;
        say_missing(h);
        next = until;
    }
    if (status == PST_OK && h->missing) status = fail_missing(h);
    while (h->n_pending) drop(h, 0);
    if (h->listener >= 0) close(h->listener);
    free(h);
    return status;
}

/* --- the others ------------------------------------------------------------------------------- */

/* EPEER: no answer. */
static pst_status introduce(const pst_tcp_job *job, int fd, uint64_t until) {
    uint8_t hello[HELLO_BYTES], join[JOIN_BYTES], answer[ANSWER_BYTES], proof[PST_SECRET_PROOF];
    const uint8_t *theirs = hello + sizeof magic;
    uint8_t *ours = join + 8;
    pst_status status = pst_tcp_read(fd, hello, sizeof hello, until);
    if (status != PST_OK || memcmp(hello, magic, sizeof magic))
        return pst_fail(status == PST_OK ? PST_EINPUT : status,
                        "no rank 0 of this version answers at %s:%s", job->address, job->port);
    put_number(join, job->rank);
    put_number(join + 4, job->size);
    PST_TRY(pst_secret_random(ours, PST_SECRET_NONCE));
    PST_TRY(pst_secret_prove(
        job->secret, &(pst_secret_claim){"penstock join", theirs, ours, job->rank, job->size},
        ours + PST_SECRET_NONCE));
    if (pst_tcp_write(fd, join, sizeof join, until) != PST_OK ||
        pst_tcp_read(fd, answer, sizeof answer, until) != PST_OK)
        return pst_fail(PST_EPEER,
                        "rank 0 at %s:%s refuses rank %u: is PENSTOCK_SECRET the same there?",
                        job->address, job->port, job->rank);
    uint32_t verdict = get_number(answer);
    PST_TRY(pst_secret_prove(
        job->secret, &(pst_secret_claim){"penstock answer", ours, theirs, job->rank, verdict},
        proof));
    if (!pst_secret_equal(proof, answer + 4))
        return pst_fail(PST_EINPUT, "whoever answers at %s:%s does not know this job's secret",
                        job->address, job->port);
    if (verdict == WELCOME) return PST_OK;
    if (verdict == OTHER_SIZE)
        return pst_fail(PST_EINPUT,
                        "rank %u of WORLD_SIZE %u: rank 0 at %s:%s has another WORLD_SIZE",
                        job->rank, job->size, job->address, job->port);
    return pst_fail(PST_EINPUT, "RANK %u is already there: two processes have the same RANK",
                    job->rank);
}

/* Rank 0 hangs up on whoever has another secret, but also on the oldest of more than MAX_PENDING
 * who have not answered yet: so a rank calls again before it doubts its secret. */
static pst_status call_root(const pst_tcp_job *job, int *fd) {
    uint64_t until = pst_monotonic_ns() + job->seconds * (uint64_t)SECOND_NS;
    PST_TRY(name_variables(job, pst_tcp_reach(job, job->seconds, "rank 0", fd)));
    pst_status status = introduce(job, *fd, until);
    for (int i = 1; i < MAX_CALLS && status == PST_EPEER && pst_monotonic_ns() < until; i++) {
        close(*fd);
        *fd = -1;
        pst_tcp_pause();
        PST_TRY(pst_tcp_reach(job, GREET_S, "rank 0", fd));
        status = introduce(job, *fd, until);
    }
    return status == PST_EPEER ? PST_EINPUT : status; /* introduce() has said what to look at */
}

pst_status pst_tcp_join(const pst_tcp_job *job, int *fd) {
    for (uint32_t r = 0; r < job->size; r++) fd[r] = -1;
    pst_status status = job->rank ? call_root(job, &fd[0]) : host_all(job, fd);
    for (uint32_t r = 0; status != PST_OK && r < job->size; r++) {
        if (fd[r] >= 0) close(fd[r]);
        fd[r] = -1;
    }
    return status;
}

pst_status pst_tcp_check_secret(const pst_tcp_job *job) {
    if (job->size > 1 && (!job->secret || strlen(job->secret) < PST_SECRET_LEAST))
        return pst_fail(PST_EINPUT,
                        "PENSTOCK_SECRET %s: give all ranks of the job the same random text of at "
                        "least %d characters "
                        "(openssl rand -hex 16), or nobody could tell them from strangers",
                        job->secret ? "is too short" : "is not set", PST_SECRET_LEAST);
    return PST_OK;
}
