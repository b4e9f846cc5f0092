/* World `tcp`: ranks that were not launched together. They meet through MASTER_ADDR, MASTER_PORT,
 * RANK and WORLD_SIZE, and PENSTOCK_SECRET keeps strangers out. A fence sends every rank's values
 * to rank 0, which sends all of them to every rank. The connections stay open, so ranks on
 * different hosts notice when one dies. One thread. */
#include "comm/world/tcp.h"
#include "base/clock.h"
#include "comm/world/store.h"
#include "comm/world/dmlc.h"
#include "comm/world/message.h"
#include "comm/world/secret.h"
#include "comm/world/world.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_WHY = 512, CHECK_NS = 50000000 };
static uint32_t join_seconds = 60;

typedef struct {
    pst_world base;
    pst_store store;
    pst_message unsent;   /* values put since the last fence */
    int *fd;              /* [size], see tcp.h */
    struct pollfd *watch; /* [size] events: 0 for ranks that are not watched, or no longer */
    uint64_t next_check;  /* pst_monotonic_ns() */
    int scheduler;        /* connection to a DMLC scheduler, if one assigned the ranks; else -1 */
} tcp_world;

/* --- the table -------------------------------------------------------------------------------- */

/* The number in a variable, UINT32_MAX if it contains none. */
static uint32_t number_of(const char *name) {
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9') return UINT32_MAX;
    unsigned long n = strtoul(text, &end, 10);
    return *end || n >= UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

void pst_world_tcp_wait(uint32_t seconds) { join_seconds = seconds; }

/* The listening socket that our launcher opened for rank 0; 0: none. */
static int inherited_listener(uint32_t rank) {
    uint32_t fd = rank ? UINT32_MAX : number_of("PENSTOCK_LISTEN_FD");
    int on = 0;
    socklen_t bytes = sizeof on;
    if (fd > INT_MAX || getsockopt((int)fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &bytes) != 0 || !on)
        return 0;
    fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    return (int)fd;
}

static const char *const variable_names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

/* A process is not rejected if its launcher forgot one of the variables: it would train the whole
 * model alone, like all the others, and exit with status 0. Opening the world reports what is
 * missing. */
static const char *tcp_reject(void) {
    int has[4], n = 0;
    for (int i = 0; i < 4; i++) n += has[i] = getenv(variable_names[i]) != NULL;
    if (n < 4 && pst_dmlc_is_rank()) return NULL;
    int forgotten = has[1] && number_of("WORLD_SIZE") != 1 && (has[0] || n == 3);
    return n == 4 || forgotten ? NULL
                               : "neither MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE nor "
                                 "DMLC_ROLE=worker are set";
}

static pst_status check_variables(void) {
    for (int i = 0; i < 4; i++)
        if (!getenv(variable_names[i]))
            return pst_fail(
                PST_EINPUT,
                "WORLD_SIZE is %s, but %s is not set: set RANK, WORLD_SIZE, MASTER_ADDR and "
                "MASTER_PORT for each rank, or unset WORLD_SIZE to use one process or -n",
                getenv("WORLD_SIZE"), variable_names[i]);
    return PST_OK;
}

/* The agent of torchrun keeps its store at MASTER_PORT as long as the ranks live: rank 0 then
 * listens at the next port, or the previous one if there is none. */
static void avoid_agent_store(pst_tcp_job *job, char next_port[8]) {
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    uint32_t port = number_of("MASTER_PORT");
    if (!store || strcmp(store, "True") != 0 || !port || port > 65535) return;
    snprintf(next_port, 8, "%u", port < 65535 ? port + 1 : port - 1);
    job->port = next_port;
    job->variables = "MASTER_ADDR and a port next to MASTER_PORT, which torchrun's store uses";
}

static pst_status read_variables(pst_tcp_job *job, char next_port[8]) {
    PST_TRY(check_variables());
    *job = (pst_tcp_job){.rank = number_of("RANK"),
                         .size = number_of("WORLD_SIZE"),
                         .address = getenv("MASTER_ADDR"),
                         .port = getenv("MASTER_PORT"),
                         .secret = getenv("PENSTOCK_SECRET"),
                         .seconds = join_seconds,
                         .listener = inherited_listener(number_of("RANK"))};
    if (job->size == UINT32_MAX || !job->size || job->size > 65536)
        return pst_fail(PST_EINPUT, "WORLD_SIZE is '%s'; expected 1 to 65536",
                        getenv("WORLD_SIZE"));
    if (job->rank >= job->size)
        return pst_fail(PST_EINPUT, "RANK is '%s'; expected 0 to %u for WORLD_SIZE %u",
                        getenv("RANK"), job->size - 1, job->size);
    uint32_t port = number_of("MASTER_PORT");
    if (!port || (port > 65535 && port != UINT32_MAX)) /* getaddrinfo checks what is not a number */
        return pst_fail(PST_EINPUT, "MASTER_PORT is '%s'; expected 1 to 65535",
                        getenv("MASTER_PORT"));
    avoid_agent_store(job, next_port);
    return pst_tcp_check_secret(job);
}

/* What each rank publishes about its place: its host, and the processors that it may use. */
typedef struct {
    char host[sizeof((pst_world *)0)->host];
    cpu_set_t mask; /* empty: not known */
} place;

static pst_status publish_place(tcp_world *w) {
    place mine = {0};
    memcpy(mine.host, w->base.host, sizeof mine.host);
    if (sched_getaffinity(0, sizeof mine.mask, &mine.mask) != 0) CPU_ZERO(&mine.mask);
    return w->base.ops->put(&w->base, "penstock.place", &mine, sizeof mine);
}

static pst_status fetch_place(tcp_world *w, uint32_t rank, place *out) {
    void *value;
    size_t bytes;
    PST_TRY(pst_store_get(&w->store, rank, "penstock.place", &value, &bytes));
    if (bytes == sizeof *out) memcpy(out, value, bytes);
    free(value);
    return bytes == sizeof *out
               ? PST_OK
               : pst_fail(PST_EPEER, "rank %u runs a different version of penstock", rank);
}

static pst_status find_neighbours(tcp_world *w) {
    pst_world *b = &w->base;
    place mine, theirs;
    cpu_set_t both;
    PST_TRY(fetch_place(w, b->rank, &mine));
    for (uint32_t r = 0; r < b->size; r++) {
        PST_TRY(fetch_place(w, r, &theirs));
        int here = !memcmp(theirs.host, mine.host, sizeof mine.host);
        w->watch[r].events = here ? 0 : POLLRDHUP;
        if (!here) continue;
        CPU_AND(&both, &mine.mask, &theirs.mask);
        if (r < b->rank) b->local_rank++;
        b->local_size++;
        b->sharing += CPU_COUNT(&both) || !CPU_COUNT(&mine.mask) || !CPU_COUNT(&theirs.mask);
    }
    return PST_OK;
}

/* Sends why this rank leaves, then closes the connections. Does not block: a peer that does not
 * read sees the connection end. */
static void leave(tcp_world *w, const char *why) {
    char message[8 + MAX_WHY];
    uint64_t length = strnlen(why, MAX_WHY), head = PST_MESSAGE_LEAVE + length;
    memcpy(message, &head, 8);
    memcpy(message + 8, why, length);
    for (uint32_t r = 0; w->fd && r < w->base.size; r++) {
        if (w->fd[r] < 0) continue;
        (void)!send(w->fd[r], message, 8 + length, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(w->fd[r]);
        w->fd[r] = -1;
    }
}

static void tcp_close(pst_world *world) {
    tcp_world *w = (tcp_world *)world;
    leave(w, "");
    pst_store_clear(&w->store);
    pst_message_clear(&w->unsent);
    if (w->scheduler >= 0) close(w->scheduler);
    free(w->watch);
    free(w->fd);
    free(w);
}

/* Under our launcher the host is called as in the host file, because machines may have the same
 * host name. */
static void name_host(pst_world *b) {
    const char *given = getenv("PENSTOCK_HOST");
    b->launched_by_us = getenv("PENSTOCK_LAUNCHER") != NULL;
    if (b->launched_by_us && given) snprintf(b->host, sizeof b->host, "%s", given);
    else if (gethostname(b->host, sizeof b->host - 1)) strcpy(b->host, "localhost");
}

/* Uses torchrun's variables if all are set, else ps-lite's; then `met` is filled and job points to
 * it. */
static pst_status find_place(pst_tcp_job *job, pst_dmlc_place *met) {
    pst_dmlc_role role;
    int n = 0;
    met->fd = -1;
    for (int i = 0; i < 4; i++) n += getenv(variable_names[i]) != NULL;
    job->seconds = join_seconds;
    if (n == 4 || !getenv("DMLC_ROLE")) return read_variables(job, met->port);
    PST_TRY(pst_dmlc_read(&role, job));
    PST_TRY(pst_dmlc_ask(job, met));
    job->rank = met->rank;
    job->address = met->address;
    job->port = met->port;
    job->listener = met->listener;
    return PST_OK;
}

/* Meets the other ranks; closes *w on failure. */
static pst_status meet(tcp_world *w, const pst_tcp_job *job) {
    int *fd = malloc(job->size * sizeof *fd);
    w->watch = calloc(job->size, sizeof *w->watch);
    pst_status status = fd && w->watch ? pst_tcp_join(job, fd)
                                       : pst_fail(PST_ENOMEM, "no memory for %u ranks", job->size);
    if (status == PST_OK) w->fd = fd;
    else free(fd);
    if (status == PST_OK) status = publish_place(w);
    if (status == PST_OK) status = w->base.ops->fence(&w->base);
    if (status == PST_OK) status = find_neighbours(w);
    if (status != PST_OK) tcp_close(&w->base);
    return status;
}

static pst_status tcp_open(pst_world **world) {
    pst_tcp_job job;
    pst_dmlc_place met;
    PST_TRY(find_place(&job, &met));
    tcp_world *w = calloc(1, sizeof *w);
    if (!w) return pst_fail(PST_ENOMEM, "no memory to join the job");
    w->scheduler = met.fd;
    w->base = (pst_world){.ops = &pst_world_tcp, .rank = job.rank, .size = job.size};
    snprintf(w->base.job, sizeof w->base.job, "%.40s:%.16s", job.address, job.port);
    name_host(&w->base);
    PST_TRY(meet(w, &job));
    *world = &w->base;
    return PST_OK;
}

pst_status pst_world_tcp_meet(const pst_tcp_job *job, const pst_world *like, pst_world **world) {
    tcp_world *w = calloc(1, sizeof *w);
    if (!w) return pst_fail(PST_ENOMEM, "no memory to join the job");
    w->scheduler = -1;
    w->base = *like;
    w->base.ops = &pst_world_tcp;
    w->base.rank = job->rank;
    w->base.size = job->size;
    w->base.local_rank = w->base.local_size = w->base.sharing = 0;
    name_host(&w->base);
    PST_TRY(meet(w, job));
    *world = &w->base;
    return PST_OK;
}

static pst_status tcp_put(pst_world *world, const char *key, const void *value, size_t bytes) {
    tcp_world *w = (tcp_world *)world;
    return pst_message_add(&w->unsent, world->rank, key, value, bytes);
}

static pst_status tcp_get(pst_world *world, uint32_t rank, const char *key, void **value,
                          size_t *bytes) {
    pst_status status = pst_store_get(&((tcp_world *)world)->store, rank, key, value, bytes);
    return status == PST_EINTERNAL ? PST_EPEER : status;
}

static pst_status name_lost(uint32_t rank) {
    char why[200];
    snprintf(why, sizeof why, "%s", pst_error());
    return pst_fail(PST_EPEER, "the connection to rank %u is lost: %s", rank, why);
}

/* Rank 0: receives every rank's values in rank order, then sends them all to every rank. */
static pst_status gather_all(tcp_world *w, pst_message *all) {
    PST_TRY(pst_message_append(all, &w->unsent));
    for (uint32_t r = 1; r < w->base.size; r++) {
        uint64_t before = all->bytes;
        if (pst_message_read(all, w->fd[r]) != PST_OK) return name_lost(r);
        pst_message one = {.at = all->at + before, .bytes = all->bytes - before};
        pst_store ignored = {0};
        /* a rank may only publish values of its own */
        pst_status status = pst_message_open(&one, r, w->base.size, &ignored);
        pst_store_clear(&ignored);
        PST_TRY(status);
    }
    for (uint32_t r = 1; r < w->base.size; r++)
        if (pst_message_write(all, w->fd[r]) != PST_OK) return name_lost(r);
    return PST_OK;
}

static pst_status exchange(tcp_world *w, pst_message *all) {
    if (w->base.rank == 0) return gather_all(w, all);
    if (pst_message_write(&w->unsent, w->fd[0]) != PST_OK ||
        pst_message_read(all, w->fd[0]) != PST_OK)
        return name_lost(0);
    return PST_OK;
}

static pst_status tcp_fence(pst_world *world) {
    tcp_world *w = (tcp_world *)world;
    pst_message all = {0};
    pst_status status = exchange(w, &all);
    if (status == PST_OK) status = pst_message_open(&all, UINT32_MAX, world->size, &w->store);
    if (status == PST_OK) w->unsent.bytes = 0;
    pst_message_clear(&all);
    return status;
}

/* A rank has sent something outside of a fence, or has closed its connection. */
static pst_status check_rank(tcp_world *w, uint32_t rank) {
    struct {
        uint64_t head;
        char why[MAX_WHY + 1];
    } message = {0};
    place theirs = {0};
    ssize_t n = recv(w->fd[rank], &message, 8 + MAX_WHY, MSG_PEEK | MSG_DONTWAIT);
    const char *end = n < 0 ? strerror(errno) : "the connection was closed";
    int leaves = n >= 8 && message.head & PST_MESSAGE_LEAVE;
    if (leaves && message.head == PST_MESSAGE_LEAVE) {
        w->watch[rank].events = 0;
        return PST_OK;
    }
    if (fetch_place(w, rank, &theirs) != PST_OK) theirs.host[0] = 0;
    if (leaves)
        return pst_fail(PST_EPEER, "rank %u on %s has left the job: %s", rank, theirs.host,
                        message.why);
    return pst_fail(PST_EPEER, "the connection to rank %u on %s is lost: %s", rank, theirs.host,
                    end);
}

/* Rank 0 watches all others, and they watch rank 0: the reason with which rank 0 leaves reaches all
 * of them. */
static pst_status tcp_check(pst_world *world) {
    tcp_world *w = (tcp_world *)world;
    uint64_t now = pst_monotonic_ns();
    if (pst_tcp_is_over()) return pst_fail(PST_EPEER, "a rank of the job has died");
    if (now < w->next_check) return PST_OK;
    w->next_check = now + CHECK_NS;
    for (uint32_t r = 0; r < world->size; r++) w->watch[r].fd = w->watch[r].events ? w->fd[r] : -1;
    if (poll(w->watch, world->size, 0) <= 0) return PST_OK;
    for (uint32_t r = 0; r < world->size; r++)
        if (w->watch[r].fd >= 0 && w->watch[r].revents) PST_TRY(check_rank(w, r));
    return PST_OK;
}

static void tcp_abort(pst_world *world, int exit_status, const char *why) {
    (void)exit_status;
    leave((tcp_world *)world, why && *why ? why : "without a reason");
}

const pst_world_ops pst_world_tcp = {
    .name = "tcp",
    .reject = tcp_reject,
    .open = tcp_open,
    .put = tcp_put,
    .get = tcp_get,
    .fence = tcp_fence,
    .check = tcp_check,
    .abort = tcp_abort,
    .close = tcp_close,
};
