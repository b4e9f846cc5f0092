/* World `tcp`: ranks that nobody launched together, found through MASTER_ADDR, MASTER_PORT, RANK
 * and WORLD_SIZE, and kept to themselves by PENSTOCK_SECRET. A fence sends what each has put to
 * rank 0, which sends everything to all. The connections stay open, and tell ranks of different
 * hosts that one has died. One thread. */
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

enum { MAX_WHY = 512, LOOK_NS = 50000000 };
static uint32_t join_seconds = 60;

typedef struct {
    pst_world base;
    pst_store store;
    pst_message fresh;    /* puts since the last fence */
    int *fd;              /* [size], see tcp.h */
    struct pollfd *watch; /* [size] events: 0 for those that are not looked at, or no more */
    uint64_t next_look;   /* pst_monotonic_ns() */
    int scheduler; /* the connection to it, where one has brought the ranks together; else -1 */
} tcp_world;

/* --- the table -------------------------------------------------------------------------------- */

/* The number in a variable, UINT32_MAX when it is none. */
static uint32_t number_of(const char *name) {
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9') return UINT32_MAX;
    unsigned long n = strtoul(text, &end, 10);
    return *end || n >= UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

void pst_world_tcp_wait(uint32_t seconds) { join_seconds = seconds; }

/* The socket that our launcher has opened for rank 0; 0: none. */
static int inherited_listener(uint32_t rank) {
    uint32_t fd = rank ? UINT32_MAX : number_of("PENSTOCK_LISTEN_FD");
    int on = 0;
    socklen_t bytes = sizeof on;
    if (fd > INT_MAX || getsockopt((int)fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &bytes) != 0 || !on)
        return 0;
    fcntl((int)fd, F_SETFD, FD_CLOEXEC);
    return (int)fd;
}

static const char *const need[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

/* A rank of several whose launcher forgot a variable is not passed over: it would train the whole
 * model alone, as would all the others, and end with status 0. Opening the world says what is
 * missing. */
static const char *tcp_reject(void) {
    int has[4], n = 0;
    for (int i = 0; i < 4; i++) n += has[i] = getenv(need[i]) != NULL;
    const char *role = getenv("DMLC_ROLE");
    if (n < 4 && role && !strcmp(role, "worker")) return NULL;
    int forgotten = has[1] && number_of("WORLD_SIZE") != 1 && (has[0] || n == 3);
    return n == 4 || forgotten ? NULL
                               : "neither MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE nor "
                                 "DMLC_ROLE=worker are set";
}

static pst_status check_variables(void) {
    for (int i = 0; i < 4; i++)
        if (!getenv(need[i]))
            return pst_fail(
                PST_EINPUT,
                "WORLD_SIZE is %s, but %s is not set: each rank needs RANK, WORLD_SIZE, "
                "MASTER_ADDR and MASTER_PORT (or unset WORLD_SIZE, for one process or -n)",
                getenv("WORLD_SIZE"), need[i]);
    return PST_OK;
}

/* The agent of torchrun keeps a store of its own at MASTER_PORT, for as long as the ranks live:
 * then rank 0 listens at the port above it, or below the highest. */
static void avoid_agent_store(pst_tcp_job *job, char beside[8]) {
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    uint32_t port = number_of("MASTER_PORT");
    if (!store || strcmp(store, "True") != 0 || !port || port > 65535) return;
    snprintf(beside, 8, "%u", port < 65535 ? port + 1 : port - 1);
    job->port = beside;
    job->variables = "MASTER_ADDR, and the port beside the store of torchrun at MASTER_PORT";
}

static pst_status read_variables(pst_tcp_job *job, char beside[8]) {
    PST_TRY(check_variables());
    *job = (pst_tcp_job){.rank = number_of("RANK"),
                         .size = number_of("WORLD_SIZE"),
                         .address = getenv("MASTER_ADDR"),
                         .port = getenv("MASTER_PORT"),
                         .secret = getenv("PENSTOCK_SECRET"),
                         .seconds = join_seconds,
                         .listener = inherited_listener(number_of("RANK"))};
    if (job->size == UINT32_MAX || !job->size || job->size > 65536)
        return pst_fail(PST_EINPUT, "WORLD_SIZE '%s': 1 to 65536 ranks", getenv("WORLD_SIZE"));
    if (job->rank >= job->size)
        return pst_fail(PST_EINPUT, "RANK '%s': 0 to %u in a WORLD_SIZE of %u", getenv("RANK"),
                        job->size - 1, job->size);
    uint32_t port = number_of("MASTER_PORT");
    if (!port || (port > 65535 && port != UINT32_MAX)) /* what is no number getaddrinfo judges */
        return pst_fail(PST_EINPUT, "MASTER_PORT '%s': a port, 1 to 65535", getenv("MASTER_PORT"));
    avoid_agent_store(job, beside);
    return pst_tcp_check_secret(job);
}

/* What ranks know of each other from the start: who is on the same host, and who shares its
 * processors. */
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
    return bytes == sizeof *out ? PST_OK
                                : pst_fail(PST_EPEER, "rank %u is of another version", rank);
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

/* Blocks on nobody: who does not take the word sees the connection end. */
static void hang_up(tcp_world *w, const char *why) {
    char word[8 + MAX_WHY];
    uint64_t length = strnlen(why, MAX_WHY), head = PST_MESSAGE_FAREWELL + length;
    memcpy(word, &head, 8);
    memcpy(word + 8, why, length);
    for (uint32_t r = 0; w->fd && r < w->base.size; r++) {
        if (w->fd[r] < 0) continue;
        (void)!send(w->fd[r], word, 8 + length, MSG_NOSIGNAL | MSG_DONTWAIT);
        close(w->fd[r]);
        w->fd[r] = -1;
    }
}

static void tcp_close(pst_world *world) {
    tcp_world *w = (tcp_world *)world;
    hang_up(w, "");
    pst_store_clear(&w->store);
    pst_message_clear(&w->fresh);
    if (w->scheduler >= 0) close(w->scheduler);
    free(w->watch);
    free(w->fd);
    free(w);
}

/* Our launcher calls a host as its host file does: machines may have one name. */
static void name_host(pst_world *b) {
    const char *given = getenv("PENSTOCK_HOST");
    b->launched_by_us = getenv("PENSTOCK_LAUNCHER") != NULL;
    if (b->launched_by_us && given) snprintf(b->host, sizeof b->host, "%s", given);
    else if (gethostname(b->host, sizeof b->host - 1)) strcpy(b->host, "localhost");
}

/* Where the variables of torchrun are not all there, those of ps-lite may be: then met is filled.
 * Job points to it. */
static pst_status find_place(pst_tcp_job *job, pst_dmlc_place *met) {
    pst_dmlc_role role;
    int n = 0;
    met->fd = -1;
    for (int i = 0; i < 4; i++) n += getenv(need[i]) != NULL;
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

static pst_status tcp_open(pst_world **world) {
    pst_tcp_job job;
    pst_dmlc_place met;
    PST_TRY(find_place(&job, &met));
    tcp_world *w = calloc(1, sizeof *w);
    if (!w) return pst_fail(PST_ENOMEM, "no memory for a world");
    w->scheduler = met.fd;
    w->base = (pst_world){.ops = &pst_world_tcp, .rank = job.rank, .size = job.size};
    snprintf(w->base.job, sizeof w->base.job, "%.40s:%.16s", job.address, job.port);
    name_host(&w->base);
    int *fd = malloc(job.size * sizeof *fd);
    w->watch = calloc(job.size, sizeof *w->watch);
    pst_status status = fd && w->watch ? pst_tcp_join(&job, fd)
                                       : pst_fail(PST_ENOMEM, "no memory for %u ranks", job.size);
    if (status == PST_OK) w->fd = fd;
    else free(fd);
    if (status == PST_OK) status = publish_place(w);
    if (status == PST_OK) status = w->base.ops->fence(&w->base);
    if (status == PST_OK) status = find_neighbours(w);
    if (status != PST_OK) {
        tcp_close(&w->base);
        return status;
    }
    *world = &w->base;
    return PST_OK;
}

static pst_status tcp_put(pst_world *world, const char *key, const void *value, size_t bytes) {
    tcp_world *w = (tcp_world *)world;
    return pst_message_add(&w->fresh, world->rank, key, value, bytes);
}

static pst_status tcp_get(pst_world *world, uint32_t rank, const char *key, void **value,
                          size_t *bytes) {
    pst_status status = pst_store_get(&((tcp_world *)world)->store, rank, key, value, bytes);
    return status == PST_EINTERNAL ? PST_EPEER : status;
}

static pst_status name_lost(uint32_t rank) {
    char why[200];
    snprintf(why, sizeof why, "%s", pst_error());
    return pst_fail(PST_EPEER, "rank %u is gone: %s", rank, why);
}

/* Everybody's messages in rank order, one after the other, then to everybody. */
static pst_status gather_all(tcp_world *w, pst_message *all) {
    PST_TRY(pst_message_append(all, &w->fresh));
    for (uint32_t r = 1; r < w->base.size; r++) {
        uint64_t before = all->bytes;
        if (pst_message_read(all, w->fd[r]) != PST_OK) return name_lost(r);
        pst_message one = {.at = all->at + before, .bytes = all->bytes - before};
        pst_store ignored = {0};
        /* nobody speaks for another */
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
    if (pst_message_write(&w->fresh, w->fd[0]) != PST_OK ||
        pst_message_read(all, w->fd[0]) != PST_OK)
        return name_lost(0);
    return PST_OK;
}

static pst_status tcp_fence(pst_world *world) {
    tcp_world *w = (tcp_world *)world;
    pst_message all = {0};
    pst_status status = exchange(w, &all);
    if (status == PST_OK) status = pst_message_open(&all, UINT32_MAX, world->size, &w->store);
    if (status == PST_OK) w->fresh.bytes = 0;
    pst_message_clear(&all);
    return status;
}

/* Something has come from a rank that is not at a fence, or nothing more will. */
static pst_status listen_to(tcp_world *w, uint32_t rank) {
    struct {
        uint64_t head;
        char why[MAX_WHY + 1];
    } word = {0};
    place theirs = {0};
    ssize_t n = recv(w->fd[rank], &word, 8 + MAX_WHY, MSG_PEEK | MSG_DONTWAIT);
    const char *end = n < 0 ? strerror(errno) : "the connection was closed";
    int farewell = n >= 8 && word.head & PST_MESSAGE_FAREWELL;
    if (farewell && word.head == PST_MESSAGE_FAREWELL) {
        w->watch[rank].events = 0;
        return PST_OK;
    }
    if (fetch_place(w, rank, &theirs) != PST_OK) theirs.host[0] = 0;
    if (farewell)
        return pst_fail(PST_EPEER, "rank %u on %s has given up: %s", rank, theirs.host, word.why);
    return pst_fail(PST_EPEER, "rank %u on %s is gone: %s", rank, theirs.host, end);
}

/* Rank 0 sees all others, and they see it: what it says when it leaves reaches everybody. */
static pst_status tcp_check(pst_world *world) {
    tcp_world *w = (tcp_world *)world;
    uint64_t now = pst_monotonic_ns();
    if (now < w->next_look) return PST_OK;
    w->next_look = now + LOOK_NS;
    for (uint32_t r = 0; r < world->size; r++) w->watch[r].fd = w->watch[r].events ? w->fd[r] : -1;
    if (poll(w->watch, world->size, 0) <= 0) return PST_OK;
    for (uint32_t r = 0; r < world->size; r++)
        if (w->watch[r].fd >= 0 && w->watch[r].revents) PST_TRY(listen_to(w, r));
    return PST_OK;
}

static void tcp_abort(pst_world *world, int exit_status, const char *why) {
    (void)exit_status;
    hang_up((tcp_world *)world, why && *why ? why : "without a word");
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
