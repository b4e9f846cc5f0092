/* See elastic_hosts.h: the ranks' side. The launcher's: elastic_memory.c. */
#include "comm/world/elastic_hosts.h"
#include "base/clock.h"
#include "comm/world/elastic_wire.h"
#include "comm/world/secret.h"
#include "comm/world/tcp.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* How long ranks wait for each other, and for a host's memory, s; a lost host ends the wait. */
enum { MEET_S = 30 };

uint32_t pst_elastic_host_of(const pst_elastic_page *page, uint32_t process) {
    for (uint32_t i = 0; i < page->hosts.n; i++)
        if (process - page->hosts.host[i].first < page->hosts.host[i].n) return i;
    return 0;
}

int pst_elastic_is_here(const pst_elastic_page *page, uint32_t process) {
    return !page->hosts.n || pst_elastic_host_of(page, process) == page->hosts.own;
}

/* --- meeting ---------------------------------------------------------------------------------- */

/* The epoch in which this process is; the training thread sets it before it waits. */
static struct {
    pst_elastic_page *page;
    uint32_t epoch;
} now_in;

static int is_over(void *arg) {
    (void)arg;
    return atomic_load(&now_in.page->epoch) != now_in.epoch ||
           atomic_load(&now_in.page->end) == PST_ELASTIC_ENDING;
}

void pst_elastic_enter(pst_elastic_page *page, uint32_t epoch) {
    now_in.page = page;
    now_in.epoch = epoch;
    pst_tcp_give_up_when(is_over, NULL);
}

pst_status pst_elastic_meet(pst_elastic_page *page, uint32_t epoch, const pst_world *like,
                            pst_world **world) {
    const pst_elastic_hosts *h = &page->hosts;
    const uint32_t at = pst_elastic_host_of(page, page->member[epoch].process[0]);
    char secret[sizeof h->secret + 16];
    /* a connection of another epoch must not count */
    snprintf(secret, sizeof secret, "%s:%u", h->secret, epoch);
    pst_elastic_enter(page, epoch);
    pst_tcp_job job = {.rank = like->rank,
                       .size = like->size,
                       .address = h->host[at].address,
                       .port = h->host[at].port,
                       .variables = "--hostfile",
                       .secret = secret,
                       .seconds = MEET_S};
    if (!like->rank) job.listener = fcntl(h->listener, F_DUPFD_CLOEXEC, 3);
    if (job.listener < 0) return pst_fail(PST_ENOMEM, "cannot listen for the other ranks: %m");
    return pst_world_tcp_meet(&job, like, world);
}

/* --- reading memory --------------------------------------------------------------------------- */

static pst_status prove(const pst_elastic_memory *m, int fd, uint64_t until) {
    uint8_t theirs[PST_SECRET_NONCE], mine[PST_SECRET_NONCE + PST_SECRET_PROOF],
        answer[PST_SECRET_PROOF], expected[PST_SECRET_PROOF];
    const char *secret = m->page->hosts.secret;
    PST_TRY(pst_tcp_read(fd, theirs, sizeof theirs, until));
    PST_TRY(pst_secret_random(mine, PST_SECRET_NONCE));
    const pst_secret_claim asks = {PST_ELASTIC_ASKS, theirs, mine, 0, 0},
                           gives = {PST_ELASTIC_GIVES, theirs, mine, 0, 0};
    PST_TRY(pst_secret_prove(secret, &asks, mine + PST_SECRET_NONCE));
    PST_TRY(pst_tcp_write(fd, mine, sizeof mine, until));
    PST_TRY(pst_tcp_read(fd, answer, sizeof answer, until));
    PST_TRY(pst_secret_prove(secret, &gives, expected));
    if (pst_secret_equal(answer, expected)) return PST_OK;
    return pst_fail(PST_EPEER, "another process answers in place of the launcher");
}

static uint64_t limit_of(const pst_elastic_memory *m) {
    return m->limit_ns ? pst_monotonic_ns() + m->limit_ns : PST_NEVER;
}

static pst_status connect_to(pst_elastic_memory *m, uint32_t host, int *fd) {
    const pst_elastic_host *h = &m->page->hosts.host[host];
    const uint32_t seconds = m->limit_ns ? 1 : MEET_S;
    pst_tcp_job job = {.rank = UINT32_MAX, .seconds = seconds};
    job.address = h->address;
    job.port = h->memory_port;
    PST_TRY(pst_tcp_connect(&job, seconds, "the launcher", fd));
    pst_status status = prove(m, *fd, limit_of(m));
    if (status != PST_OK) close(*fd);
    return status;
}

static pst_status fetch(pst_elastic_memory *m, uint32_t host, const pst_elastic_range *range,
                        void *out) {
    int fd = m->fd[host] - 1;
    if (fd < 0) {
        PST_TRY(connect_to(m, host, &fd));
        m->fd[host] = fd + 1;
    }
    PST_TRY(pst_tcp_write(fd, range, sizeof *range, limit_of(m)));
    return pst_tcp_read(fd, out, range->bytes, limit_of(m));
}

pst_status pst_elastic_fetch(pst_elastic_memory *m, uint32_t host, const pst_elastic_range *range,
                             void *out) {
    const uint64_t began = pst_monotonic_ns();
    pst_status status = fetch(m, host, range, out);
    m->bytes += range->bytes;
    m->ns += pst_monotonic_ns() - began;
    if (status == PST_OK) return status;
    return pst_fail_in(PST_EPEER, "the memory of host %s", m->page->hosts.host[host].name);
}

void pst_elastic_memory_close(pst_elastic_memory *m) {
    for (uint32_t i = 0; i < PST_ELASTIC_HOSTS; i++) {
        if (m->fd[i]) close(m->fd[i] - 1);
        m->fd[i] = 0;
    }
}
