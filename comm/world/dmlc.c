/* See dmlc.h. The protocol: the scheduler greets each connection with a nonce; the worker sends its
 * requested rank, its port and the proof that it knows the secret; once all have joined, the
 * scheduler sends each its place, or the reason of a refusal. Numbers are little endian. */
#include "comm/world/dmlc.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/world/secret.h"
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HELLO = 8 + PST_SECRET_NONCE,
    REQUEST = 8 + PST_SECRET_NONCE + PST_SECRET_PROOF,
    ADDRESS = 48,
    SPARE = 64
};
enum { ANSWER = 8 + ADDRESS + PST_SECRET_PROOF, REQUEST_S = 5 };
#define SECOND UINT64_C(1000000000)
static const char magic[8] = {'p', 's', 't', 'k', 'd', 'm', 'l', 2};
/* Reasons of a refusal: the answer then has rank UINT32_MAX and port reason << 16 | the scheduler's
 * DMLC_NUM_WORKER. */
enum { OTHER_SIZE, RANK_TAKEN, ALL_THERE };

static void put_number(uint8_t *at, uint32_t number) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(number >> 8 * i);
}

static uint32_t get_number(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Requested instead of a rank: any rank of a worker, or of a server. */
enum { ANY_WORKER = -1, ANY_SERVER = -2 };

static int counts_servers;

void pst_dmlc_count_servers(int counts) { counts_servers = counts; }

int pst_dmlc_is_rank(void) {
    const char *role = getenv("DMLC_ROLE");
    return role && (!strcmp(role, "worker") || (counts_servers && !strcmp(role, "server")));
}

/* --- variables -------------------------------------------------------------------------------- */

static pst_status read_number(const char *name, uint32_t most, uint32_t *number) {
    const char *text = getenv(name);
    char *end;
    unsigned long n = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : most + 1ul;
    if (n > most || *end)
        return pst_fail(PST_EINPUT, "%s %s%s%s; with DMLC_ROLE=%s it must be a number from 0 to %u",
                        name, text ? "is '" : "is not set", text ? text : "", text ? "'" : "",
                        getenv("DMLC_ROLE"), most);
    *number = (uint32_t)n;
    return PST_OK;
}

static pst_status read_role(const char *text, pst_dmlc_role *role) {
    static const char *const names[] = {"worker", "scheduler", "server"};
    *role = PST_DMLC_NONE;
    for (int i = 0; text && i < 3; i++)
        if (!strcmp(text, names[i])) *role = (pst_dmlc_role)(PST_DMLC_WORKER + i);
    if (text && *role == PST_DMLC_NONE)
        return pst_fail(PST_EINPUT, "DMLC_ROLE '%s': expected worker, scheduler or server", text);
    return PST_OK;
}

pst_status pst_dmlc_read(pst_dmlc_role *role, pst_tcp_job *job) {
    static const char *const ids[] = {"DMLC_WORKER_ID", "DMLC_RANK"};
    PST_TRY(read_role(getenv("DMLC_ROLE"), role));
    if (*role == PST_DMLC_NONE) return PST_OK;
    if (*role == PST_DMLC_SERVER && !counts_servers) return PST_OK;
    pst_tcp_job j = {.rank = UINT32_MAX,
                     .address = getenv("DMLC_PS_ROOT_URI"),
                     .port = getenv("DMLC_PS_ROOT_PORT"),
                     .secret = getenv("PENSTOCK_SECRET"),
                     .seconds = job->seconds};
    uint32_t port;
    PST_TRY(read_number("DMLC_NUM_WORKER", 65535, &j.size));
    PST_TRY(read_number("DMLC_PS_ROOT_PORT", 65535, &port));
    if (!j.size) return pst_fail(PST_EINPUT, "DMLC_NUM_WORKER is 0; expected at least 1");
    if (counts_servers && getenv("DMLC_NUM_SERVER"))
        PST_TRY(read_number("DMLC_NUM_SERVER", 65535 - j.size, &j.servers));
    if (*role == PST_DMLC_SERVER && !j.servers)
        return pst_fail(PST_EINPUT, "DMLC_ROLE is server, but DMLC_NUM_SERVER is not set or 0");
    if (!j.address)
        return pst_fail(PST_EINPUT,
                        "DMLC_PS_ROOT_URI is not set; set it to the scheduler's address");
    for (int i = 0; i < 2 && *role == PST_DMLC_WORKER && j.rank == UINT32_MAX; i++)
        if (getenv(ids[i])) PST_TRY(read_number(ids[i], j.size - 1, &j.rank));
    j.size += j.servers;
    if (*role == PST_DMLC_SERVER) j.rank = (uint32_t)ANY_SERVER;
    PST_TRY(pst_tcp_check_secret(&j));
    if (!j.secret) j.secret = ""; /* one process: there is no other to keep out */
    *job = j;
    return PST_OK;
}

/* What gives the number of processes of a job, for messages. */
static const char *size_name(const pst_tcp_job *job) {
    return job->servers ? "DMLC_NUM_WORKER + DMLC_NUM_SERVER" : "DMLC_NUM_WORKER";
}

/* --- the scheduler ---------------------------------------------------------------------------- */

typedef struct {
    int fd, joined;
    uint64_t until;
    uint32_t have, rank, port, order; /* rank UINT32_MAX: none yet; order of arrival */
    char address[ADDRESS];
    uint8_t nonce[PST_SECRET_NONCE], request[REQUEST];
} caller;

typedef struct {
    const pst_tcp_job *job;
    caller *at; /* [size + SPARE] */
    struct pollfd *fds;
    uint32_t n, joined;
    int listener;
} scheduler;

static void drop(scheduler *d, uint32_t i) {
    close(d->at[i].fd);
    d->joined -= (uint32_t)d->at[i].joined;
    d->at[i] = d->at[--d->n];
}

/* A worker sends its request at once: the connection that has been silent longest is most likely
 * not a worker. */
static void drop_oldest(scheduler *d) {
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < d->n; i++)
        if (!d->at[i].joined && (oldest == UINT32_MAX || d->at[i].until < d->at[oldest].until))
            oldest = i;
    drop(d, oldest);
}

static pst_status greet(scheduler *d) {
    uint8_t hello[HELLO];
    struct sockaddr_storage from;
    socklen_t bytes = sizeof from;
    int fd;
    PST_TRY(pst_tcp_accept(d->listener, "the scheduler", &fd));
    if (fd < 0) return PST_OK;
    if (d->n == d->job->size + SPARE) drop_oldest(d);
    caller *c = &d->at[d->n++];
    *c = (caller){.fd = fd, .rank = UINT32_MAX, .until = pst_monotonic_ns() + REQUEST_S * SECOND};
    if (getpeername(fd, (struct sockaddr *)&from, &bytes) == 0)
        getnameinfo((struct sockaddr *)&from, bytes, c->address, sizeof c->address, NULL, 0,
                    NI_NUMERICHOST);
    PST_TRY(pst_secret_random(c->nonce, sizeof c->nonce));
    memcpy(hello, magic, sizeof magic);
    memcpy(hello + sizeof magic, c->nonce, sizeof c->nonce);
    if (send(fd, hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) drop(d, d->n - 1);
    return PST_OK;
}

static int is_taken(const scheduler *d, uint32_t rank) {
    for (uint32_t i = 0; i < d->n; i++)
        if (d->at[i].joined && d->at[i].rank == rank) return 1;
    return 0;
}

/* Whether fewer servers, or fewer workers, have joined than the job has. */
static int has_place(const scheduler *d, uint32_t rank) {
    uint32_t servers = 0;
    for (uint32_t i = 0; i < d->n; i++)
        servers += d->at[i].joined && d->at[i].rank == (uint32_t)ANY_SERVER;
    if (rank == (uint32_t)ANY_SERVER) return servers < d->job->servers;
    return d->joined - servers < d->job->size - d->job->servers;
}

/* Sends where rank 0 is, or why the worker was refused; with a proof that the sender knows the
 * secret. */
static pst_status answer(const scheduler *d, const caller *c, uint32_t rank, uint32_t port,
                         const char *address) {
    uint8_t bytes[ANSWER] = {0};
    put_number(bytes, rank);
    put_number(bytes + 4, port);
    memcpy(bytes + 8, address, strlen(address));
    PST_TRY(pst_secret_prove(
        d->job->secret,
        &(pst_secret_claim){"penstock scheduler", c->request + 8, c->nonce, rank, port},
        bytes + 8 + ADDRESS));
    if (send(c->fd, bytes, sizeof bytes, MSG_NOSIGNAL) == sizeof bytes) return PST_OK;
    return pst_fail(PST_EPEER, "the connection to the worker of rank %u at %s is lost", rank,
                    c->address);
}

/* The worker may connect again with a corrected request, so the scheduler continues to wait. */
static pst_status refuse(scheduler *d, uint32_t i, uint32_t reason, uint32_t theirs) {
    const caller *c = &d->at[i];
    char why[120];
    snprintf(why, sizeof why, "its %s is %u, that of the scheduler is %u", size_name(d->job),
             theirs, d->job->size);
    const char *const reasons[] = {[OTHER_SIZE] = why,
                                   [RANK_TAKEN] =
                                       "its DMLC_WORKER_ID is already used by another worker",
                                   [ALL_THERE] = "all workers have joined already"};
    pst_log(PST_LOG_WARN, "a worker at %s was rejected: %s", c->address, reasons[reason]);
    pst_status status = answer(d, c, UINT32_MAX, reason << 16 | d->job->size, "");
    drop(d, i);
    return status == PST_EPEER ? PST_OK : status;
}

/* Handles a complete request. A request without a valid proof is dropped: it is not from a worker
 * of this job. */
static pst_status check_request(scheduler *d, uint32_t i) {
    caller *c = &d->at[i];
    uint32_t rank = get_number(c->request), place = get_number(c->request + 4), size = place >> 16;
    const uint8_t *theirs = c->request + 8;
    uint8_t proof[PST_SECRET_PROOF];
    PST_TRY(pst_secret_prove(d->job->secret,
                             &(pst_secret_claim){"penstock worker", c->nonce, theirs, rank, place},
                             proof));
    if (!pst_secret_equal(proof, theirs + PST_SECRET_NONCE)) {
        pst_log(PST_LOG_WARN, "a worker at %s was rejected: its PENSTOCK_SECRET is different",
                c->address);
        drop(d, i);
        return PST_OK;
    }
    int any = rank >= (uint32_t)ANY_SERVER;
    if (size != d->job->size || (!any && rank >= size)) return refuse(d, i, OTHER_SIZE, size);
    if (!any && is_taken(d, rank)) return refuse(d, i, RANK_TAKEN, size);
    if (d->joined == size || !has_place(d, rank)) return refuse(d, i, ALL_THERE, size);
    c->rank = rank;
    c->port = place & 0xffff;
    c->joined = 1;
    c->order = d->joined++;
    return PST_OK;
}

static pst_status receive(scheduler *d, uint32_t i) {
    caller *c = &d->at[i];
    uint8_t more;
    ssize_t n = c->joined ? recv(c->fd, &more, 1, 0)
                          : recv(c->fd, c->request + c->have, sizeof c->request - c->have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return PST_OK;
    if (n <= 0) {
        drop(d, i);
        return PST_OK;
    }
    if (c->joined) return PST_OK;
    c->have += (uint32_t)n;
    return c->have == sizeof c->request ? check_request(d, i) : PST_OK;
}

static pst_status poll_once(scheduler *d, int milliseconds) {
    d->fds[0] = (struct pollfd){.fd = d->listener, .events = POLLIN};
    uint32_t n = d->n;
    for (uint32_t i = 0; i < n; i++)
        d->fds[1 + i] = (struct pollfd){.fd = d->at[i].fd, .events = POLLIN};
    if (poll(d->fds, n + 1, milliseconds) < 0 && errno != EINTR)
        return pst_fail(PST_EPEER, "the scheduler cannot wait for workers: %m");
    /* backwards: drop() moves the last entry, which was handled already, to the free place */
    for (uint32_t i = n; i-- > 0;)
        if (d->fds[1 + i].revents) PST_TRY(receive(d, i));
    for (uint32_t i = d->n; i-- > 0;)
        if (!d->at[i].joined && d->at[i].until <= pst_monotonic_ns()) drop(d, i);
    return d->fds[0].revents ? greet(d) : PST_OK;
}

static int by_host(const void *a, const void *b) {
    const caller *x = a, *y = b;
    int order = strcmp(x->address, y->address);
    if (order) return order;
    return x->order < y->order ? -1 : 1;
}

/* Assigns the ranks that no worker requested, host by host; then sends each worker its rank, and
 * where rank 0 is. */
static pst_status answer_all(scheduler *d) {
    const caller *root = NULL;
    uint32_t next = 0, server = d->job->size - d->job->servers;
    for (uint32_t i = d->n; i-- > 0;)
        if (!d->at[i].joined) drop(d, i);
    qsort(d->at, d->n, sizeof *d->at, by_host);
    for (uint32_t i = 0; i < d->n; i++) {
        while (is_taken(d, next)) next++;
        if (d->at[i].rank == (uint32_t)ANY_WORKER) d->at[i].rank = next;
        else if (d->at[i].rank == (uint32_t)ANY_SERVER) d->at[i].rank = server++;
        if (d->at[i].rank == 0) root = &d->at[i];
    }
    if (!root) return pst_fail(PST_EINTERNAL, "the scheduler has not assigned rank 0");
    for (uint32_t i = 0; i < d->n; i++)
        PST_TRY(answer(d, &d->at[i], d->at[i].rank, root->port, root->address));
    pst_log(PST_LOG_INFO, "scheduler: all %u workers have joined; rank 0 is at %s", d->n,
            root->address);
    return PST_OK;
}

static pst_status fail_missing(const scheduler *d) {
    char text[200] = "", place[PST_TCP_ADDRESS_TEXT];
    size_t used = 0;
    for (uint32_t r = 0; r < d->job->size && used + 16 < sizeof text; r++)
        if (!is_taken(d, r))
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", used ? ", " : "", r);
    return pst_fail(
        PST_EPEER,
        "%u of %u workers did not join at the scheduler at %s within %u s; missing ranks: %s",
        d->job->size - d->joined, d->job->size,
        pst_tcp_own_address_text(d->job, d->listener, place), d->job->seconds, text);
}

static pst_status serve(scheduler *d) {
    uint64_t until = pst_monotonic_ns() + d->job->seconds * SECOND;
    while (d->joined < d->job->size) {
        if (pst_monotonic_ns() >= until) return fail_missing(d);
        PST_TRY(poll_once(d, 500));
    }
    PST_TRY(answer_all(d));
    while (d->joined) PST_TRY(poll_once(d, -1));
    return PST_OK;
}

pst_status pst_dmlc_schedule(const pst_tcp_job *job) {
    scheduler d = {.job = job, .listener = -1};
    char port[8];
    snprintf(port, sizeof port, "%.7s", job->port);
    d.at = calloc(job->size + SPARE, sizeof *d.at);
    d.fds = calloc(job->size + SPARE + 1, sizeof *d.fds);
    pst_status status =
        d.at && d.fds ? PST_OK : pst_fail(PST_ENOMEM, "no memory for %u workers", job->size);
    if (status == PST_OK && pst_tcp_listen(job->address, port, &d.listener) != PST_OK)
        status = pst_fail_in(PST_EINPUT, "DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT");
    if (status == PST_OK) status = serve(&d);
    while (d.n) drop(&d, d.n - 1);
    if (d.listener >= 0) close(d.listener);
    free(d.at);
    free(d.fds);
    return status;
}

/* --- a worker --------------------------------------------------------------------------------- */

static pst_status listen_beside(int fd, pst_dmlc_place *p) {
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    char address[ADDRESS];
    if (getsockname(fd, (struct sockaddr *)&own, &bytes) ||
        getnameinfo((struct sockaddr *)&own, bytes, address, sizeof address, NULL, 0,
                    NI_NUMERICHOST))
        return pst_fail(PST_ENOMEM, "cannot find this worker's own address: %m");
    snprintf(p->port, sizeof p->port, "0");
    return pst_tcp_listen(address, p->port, &p->listener);
}

static pst_status fail_refused(const pst_tcp_job *job, uint32_t why) {
    uint32_t size = why & 0xffff;
    if (why >> 16 == OTHER_SIZE)
        return pst_fail(PST_EINPUT, "%s is %u, but it is %u at the scheduler at %s:%s",
                        size_name(job), job->size, size, job->address, job->port);
    if (why >> 16 == RANK_TAKEN)
        return pst_fail(
            PST_EINPUT,
            "DMLC_WORKER_ID %u is used by two workers; give each worker a different one",
            job->rank);
    const char *what = job->rank == (uint32_t)ANY_SERVER ? "servers" : "workers";
    uint32_t n = job->rank == (uint32_t)ANY_SERVER ? job->servers : size - job->servers;
    return pst_fail(PST_EINPUT, "all %u %s have already joined at the scheduler at %s:%s", n, what,
                    job->address, job->port);
}

static pst_status ask(const pst_tcp_job *job, pst_dmlc_place *p, uint64_t until) {
    uint8_t hello[HELLO], request[REQUEST], answer[ANSWER], proof[PST_SECRET_PROOF],
        *ours = request + 8;
    pst_status status = pst_tcp_read(p->fd, hello, sizeof hello, until);
    if (status != PST_OK || memcmp(hello, magic, sizeof magic))
        return pst_fail(PST_EINPUT,
                        "the process at %s:%s is not a penstock scheduler of this version",
                        job->address, job->port);
    put_number(request, job->rank);
    put_number(request + 4, job->size << 16 | (uint32_t)strtoul(p->port, NULL, 10));
    PST_TRY(pst_secret_random(ours, PST_SECRET_NONCE));
    PST_TRY(pst_secret_prove(job->secret,
                             &(pst_secret_claim){"penstock worker", hello + sizeof magic, ours,
                                                 job->rank, get_number(request + 4)},
                             ours + PST_SECRET_NONCE));
    PST_TRY(pst_tcp_write(p->fd, request, sizeof request, until));
    if (pst_tcp_read(p->fd, answer, sizeof answer, until) != PST_OK)
        return pst_fail(PST_EPEER,
                        "the scheduler at %s:%s closed the connection: other workers did not join, "
                        "or it rejected this worker; see the scheduler's log",
                        job->address, job->port);
    p->rank = get_number(answer);
    PST_TRY(pst_secret_prove(job->secret,
                             &(pst_secret_claim){"penstock scheduler", ours, hello + sizeof magic,
                                                 p->rank, get_number(answer + 4)},
                             proof));
    int is_true = pst_secret_equal(proof, answer + 8 + ADDRESS);
    if (is_true && p->rank == UINT32_MAX) return fail_refused(job, get_number(answer + 4));
    if (!is_true || p->rank >= job->size)
        return pst_fail(PST_EINPUT, "the process at %s:%s has a different PENSTOCK_SECRET",
                        job->address, job->port);
    if (p->rank) {
        close(p->listener);
        p->listener = 0;
    }
    snprintf(p->port, sizeof p->port, "%u", get_number(answer + 4) & 0xffff);
    snprintf(p->address, sizeof p->address, "%.*s", ADDRESS - 1, (const char *)answer + 8);
    return PST_OK;
}

pst_status pst_dmlc_ask(const pst_tcp_job *job, pst_dmlc_place *place) {
    pst_dmlc_place p = {.fd = -1};
    pst_status reached = pst_tcp_connect(job, job->seconds, "the scheduler", &p.fd);
    if (reached == PST_EINPUT) return pst_fail_in(reached, "DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT");
    PST_TRY(reached);
    /* the scheduler may have started just now */
    uint64_t until = pst_monotonic_ns() + job->seconds * SECOND;
    pst_status status = listen_beside(p.fd, &p);
    if (status == PST_OK)
        status = ask(job, &p, until + 2 * SECOND); /* the scheduler must time out first */
    if (status == PST_OK) {
        *place = p;
        return PST_OK;
    }
    if (p.listener > 0) close(p.listener);
    close(p.fd);
    return status;
}
