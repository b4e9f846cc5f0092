/* A rank's heartbeat: maps the page that the ranks of a host share, ticks in its own line, and
 * watches the other lines from a separate thread. Shared-memory transports do not report a dead
 * peer; this does. */
#include "base/limit.h"
#include "comm/watch/heartbeat_page.h"
#include "comm/world/secret.h"
#include "comm/world/world.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct pst_heartbeat {
    pst_heartbeat_page *page;
    uint32_t line;   /* ours */
    uint32_t n_here; /* ranks of this host */
    int is_accuser;  /* 1: this rank has written the verdict */
    char host[64];
    int stop_fd; /* eventfd that ends the thread */
    int has_thread;
    pthread_mutex_t tick_lock; /* held while `tick` runs, so that pst_heartbeat_on_tick returns only
                                  after the call has ended */
    void (*tick)(void *arg);
    void *tick_arg;
    pthread_t thread;
    uint64_t *last_ticks; /* [n] ticks of each line when it last changed; used by the thread alone
                           */
    uint32_t *missed;     /* [n] this rank's ticks since then */
};

/* --- the thread ------------------------------------------------------------------------------- */

static void watch(pst_heartbeat *h) {
    for (uint32_t i = 0; i < h->page->n; i++) {
        page_line *line = &h->page->line[i];
        uint64_t ticks = atomic_load_explicit(&line->ticks, memory_order_relaxed);
        if (i == h->line || atomic_load(&line->state) != LINE_ALIVE || ticks != h->last_ticks[i]) {
            h->last_ticks[i] = ticks;
            h->missed[i] = 0;
        } else if (++h->missed[i] == PST_HEARTBEAT_MISSES) {
            pst_page_fault(h->page, FAULT_SILENT, i);
        }
    }
}

/* Sleeps relative to its own last tick: after a stop it does not catch up, so when the whole job
 * was stopped no rank counts more ticks than the others. */
static void *beat(void *arg) {
    pst_heartbeat *h = arg;
    pst_position_set_process(pst_page_position(h->page, h->line), (uint32_t)gettid());
    struct pollfd stop = {.fd = h->stop_fd, .events = POLLIN};
    for (;;) {
        int ready = poll(&stop, 1, PST_HEARTBEAT_MS);
        if (ready > 0) return NULL;
        if (ready < 0) continue; /* interrupted by a stop: does not count as a tick */
        atomic_fetch_add_explicit(&h->page->line[h->line].ticks, 1, memory_order_relaxed);
        watch(h);
        pthread_mutex_lock(&h->tick_lock);
        if (h->tick) h->tick(h->tick_arg);
        pthread_mutex_unlock(&h->tick_lock);
    }
}

void pst_heartbeat_on_tick(pst_heartbeat *h, void (*tick)(void *arg), void *arg) {
    pthread_mutex_lock(&h->tick_lock);
    h->tick = tick;
    h->tick_arg = arg;
    pthread_mutex_unlock(&h->tick_lock);
}

uint32_t pst_heartbeat_ranks(const pst_heartbeat *h) { return h->n_here; }

/* All signals are blocked in this thread: other threads of the program handle them. */
static pst_status start_thread(pst_heartbeat *h) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&h->thread, NULL, beat, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    char limits[PST_LIMIT_TEXT];
    if (failed)
        return pst_fail(PST_ENOMEM, "cannot start the heartbeat thread: %s%s", strerror(failed),
                        pst_limit_of_threads(limits));
    h->has_thread = 1;
    return PST_OK;
}

/* --- getting the page ------------------------------------------------------------------------- */

/* *page stays NULL if our launcher passed none. */
static pst_status map_launchers_page(const pst_world *w, uint32_t n, pst_heartbeat_page **page) {
    const char *text = getenv("PENSTOCK_HEARTBEAT_FD");
    struct stat st;
    int fd = text ? atoi(text) : -1;
    if (w->lines) fd = w->heartbeat_fd;
    const uint32_t index = w->lines ? w->epoch : 0;
    const size_t least = (index + (size_t)1) * pst_page_bytes(n);
    if (fd < 0 || fstat(fd, &st) || (size_t)st.st_size < least) return PST_OK;
    if (!w->lines && (size_t)st.st_size != least) return PST_OK;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    pst_heartbeat_page *mapped = pst_page_map(fd, n, index);
    if (!mapped) return pst_fail(PST_ENOMEM, "no memory for the heartbeat page");
    if (mapped->n == n) *page = mapped;
    else pst_heartbeat_page_close(mapped);
    return PST_OK;
}

/* Where to find the page's file, which has no name in a file system: process and descriptor of the
 * host's first rank. */
typedef struct {
    char host[64];
    int32_t pid, fd;   /* fd -1: this is not the first rank, or it failed */
    uint64_t nonce[2]; /* page->nonce */
} announcement;

static pst_status create_page(uint32_t n, announcement *a, pst_heartbeat_page **page) {
    uint64_t nonce[2];
    int fd;
    PST_TRY(pst_secret_random(nonce, sizeof nonce));
    PST_TRY(pst_heartbeat_page_open(n, &fd, page));
    memcpy((*page)->nonce, nonce, sizeof nonce);
    memcpy(a->nonce, nonce, sizeof nonce);
    a->pid = getpid();
    a->fd = fd;
    return PST_OK;
}

/* Maps the announced page. NULL: it is not the page; on another machine with the same host name the
 * path is some other file. The kernel allows this for processes of the same user only. */
static pst_heartbeat_page *map_announced(const announcement *a, uint32_t n) {
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", a->pid, a->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int matches = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
                  (size_t)st.st_size == pst_page_bytes(n);
    pst_heartbeat_page *page = matches ? pst_page_map(fd, n, 0) : NULL;
    if (fd >= 0) close(fd);
    if (!page || (page->n == n && !memcmp(page->nonce, a->nonce, sizeof a->nonce))) return page;
    munmap(page, pst_page_bytes(n)); /* not page->n, which may be anything */
    return NULL;
}

static pst_status join_page(pst_world *w, pst_heartbeat_page **page) {
    for (uint32_t rank = 0; rank < w->size; rank++) {
        void *value;
        size_t bytes;
        announcement a = {.fd = -1};
        PST_TRY(w->ops->get(w, rank, "penstock.heartbeat", &value, &bytes));
        if (bytes == sizeof a) memcpy(&a, value, sizeof a);
        free(value);
        if (a.fd < 0 || strncmp(a.host, w->host, sizeof a.host)) continue;
        if ((*page = map_announced(&a, w->local_size))) return PST_OK;
    }
    return pst_fail(PST_ENOMEM,
                    "rank %u cannot map the heartbeat page of %s: the ranks of a host must see "
                    "each other in /proc (run containers in one PID namespace)",
                    w->rank, w->host);
}

static pst_status begin(pst_heartbeat *h, const pst_world *w);

/* For mpirun and srun. The first fence publishes the file; after the second one all ranks have
 * mapped it and it can be closed. A rank that failed before (status) or between takes part in both
 * fences, so that no rank waits for it. */
static pst_status share_page(pst_heartbeat *h, pst_world *w, pst_status status) {
    announcement a = {.fd = -1};
    snprintf(a.host, sizeof a.host, "%s", w->host);
    if (status == PST_OK && w->local_rank == 0) status = create_page(w->local_size, &a, &h->page);
    pst_status common = w->ops->put(w, "penstock.heartbeat", &a, sizeof a);
    if (common == PST_OK) common = w->ops->fence(w);
    if (common == PST_OK && status == PST_OK && !h->page) status = join_page(w, &h->page);
    if (common == PST_OK && status == PST_OK) status = begin(h, w);
    if (common == PST_OK) status = pst_world_agree(w, "penstock.heartbeat.open", status);
    if (a.fd >= 0) close(a.fd);
    return common == PST_OK ? status : common;
}

/* --- open and close --------------------------------------------------------------------------- */

/* The parts that need no page. */
static pst_status prepare(pst_heartbeat *h, uint32_t n) {
    h->last_ticks = calloc(n, sizeof *h->last_ticks);
    h->missed = calloc(n, sizeof *h->missed);
    h->stop_fd = eventfd(0, EFD_CLOEXEC);
    return h->last_ticks && h->missed && h->stop_fd >= 0
               ? PST_OK
               : pst_fail(PST_ENOMEM, "no memory for the heartbeat");
}

static pst_status begin(pst_heartbeat *h, const pst_world *w) {
    page_line *mine = &h->page->line[h->line];
    mine->rank = w->rank;
    mine->instr = PAGE_NO_INSTR;
    PST_TRY(start_thread(h));
    atomic_store(&mine->state, LINE_ALIVE);
    return PST_OK;
}

pst_status pst_heartbeat_open(pst_world *world, pst_heartbeat **heartbeat) {
    pst_heartbeat *h = calloc(1, sizeof *h);
    if (!h) return pst_fail(PST_ENOMEM, "no memory for the heartbeat");
    h->stop_fd = -1;
    pthread_mutex_init(&h->tick_lock, NULL);
    const uint32_t lines = world->lines ? world->lines : world->local_size;
    h->line = world->lines ? world->line : world->local_rank;
    h->n_here = world->local_size;
    snprintf(h->host, sizeof h->host, "%s", world->host);
    pst_status status = prepare(h, lines);
    pst_status given = world->launched_by_us ? map_launchers_page(world, lines, &h->page) : PST_OK;
    if (given != PST_OK) status = given;
    else if (!h->page) status = share_page(h, world, status);
    else if (status == PST_OK) status = begin(h, world);
    if (status == PST_OK) *heartbeat = h;
    else pst_heartbeat_close(h);
    return status;
}

void pst_heartbeat_close(pst_heartbeat *h) {
    if (!h) return;
    if (h->has_thread) {
        atomic_store(&h->page->line[h->line].state, LINE_GONE);
        eventfd_write(h->stop_fd, 1);
        pthread_join(h->thread, NULL);
    }
    if (h->stop_fd >= 0) close(h->stop_fd);
    pst_heartbeat_page_close(h->page);
    free(h->last_ticks);
    free(h->missed);
    pthread_mutex_destroy(&h->tick_lock);
    free(h);
}

/* --- what other ranks see --------------------------------------------------------------------- */

static uint32_t line_of(const pst_heartbeat *h, uint32_t rank) {
    for (uint32_t i = 0; i < h->page->n; i++)
        if (h->page->line[i].rank == rank && atomic_load(&h->page->line[i].state) != LINE_ABSENT)
            return i;
    return UINT32_MAX;
}

pst_position *pst_heartbeat_position(pst_heartbeat *h, uint32_t rank) {
    uint32_t line = line_of(h, rank);
    return line == UINT32_MAX ? NULL : pst_page_position(h->page, line);
}

int pst_heartbeat_left(pst_heartbeat *h, uint32_t rank) {
    uint32_t line = line_of(h, rank);
    return line != UINT32_MAX && atomic_load(&h->page->line[line].state) == LINE_GONE;
}

int pst_heartbeat_silent(pst_heartbeat *h, uint32_t *rank) {
    uint32_t line;
    if (!pst_heartbeat_page_silent(h->page, &line) || line == h->line) return 0;
    *rank = h->page->line[line].rank;
    return 1;
}

void pst_heartbeat_accuse(pst_heartbeat *h, uint32_t rank, int is_stuck, const char *verdict) {
    uint32_t line = line_of(h, rank), nobody = 0;
    if (line == UINT32_MAX || !atomic_compare_exchange_strong(&h->page->accused, &nobody, 1))
        return;
    snprintf(h->page->verdict, sizeof h->page->verdict, "%s", verdict);
    h->page->is_stuck = is_stuck != 0;
    h->is_accuser = 1;
    pst_page_fault(h->page, FAULT_HUNG, line);
}

int pst_heartbeat_dead(pst_heartbeat *h, uint32_t *rank) {
    uint64_t fault = atomic_load(&h->page->fault);
    uint32_t line = (uint32_t)fault;
    if (fault >> 32 != FAULT_DEAD || line >= h->page->n || line == h->line) return 0;
    *rank = h->page->line[line].rank;
    return 1;
}

void pst_heartbeat_report_dead(pst_heartbeat *h, uint32_t rank, const char *where) {
    uint32_t line = line_of(h, rank), nobody = 0;
    if (line == UINT32_MAX || !atomic_compare_exchange_strong(&h->page->accused, &nobody, 1))
        return;
    snprintf(h->page->verdict, sizeof h->page->verdict, "%s", where);
    atomic_store(&h->page->dead_report, line + 1);
}

void pst_heartbeat_stopped(pst_heartbeat *h, int signal) {
    atomic_store(&h->page->stopped, (uint32_t)signal);
}

void pst_heartbeat_note(pst_heartbeat *h, const char *note) {
    snprintf(h->page->note, sizeof h->page->note, "%s", note);
    atomic_store(&h->page->noted, 1);
}

void pst_heartbeat_set_reason(pst_heartbeat *h, const char *why) {
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&h->page->reason_state, &nobody, 1)) return;
    snprintf(h->page->reason, sizeof h->page->reason, "rank %u on %s: %s",
             h->page->line[h->line].rank, h->host, why);
    atomic_store(&h->page->reason_state, 2);
}

int pst_heartbeat_accused(pst_heartbeat *h) {
    return !h->is_accuser && atomic_load(&h->page->fault) >> 32 == FAULT_HUNG;
}

volatile uint64_t *pst_heartbeat_instr(pst_heartbeat *h) { return &h->page->line[h->line].instr; }

void pst_heartbeat_fail(pst_heartbeat *h) { pst_page_fault(h->page, FAULT_FAILED, h->line); }

pst_status pst_heartbeat_check(pst_heartbeat *h) {
    uint64_t fault = atomic_load_explicit(&h->page->fault, memory_order_acquire);
    uint32_t line = (uint32_t)fault;
    fault_kind kind = (fault_kind)(fault >> 32);
    if (!fault || line >= h->page->n || (line == h->line && kind == FAULT_FAILED)) return PST_OK;
    char where[64];
    pst_heartbeat_page_where(h->page, line, where, sizeof where);
    uint32_t rank = h->page->line[line].rank;
    if (kind == FAULT_HUNG) return pst_fail(PST_EPEER, "%s", h->page->verdict);
    if (line == h->line)
        return pst_fail(PST_EPEER,
                        "the other ranks have declared rank %u on %s dead (last activity: %s)",
                        rank, h->host, where);
    switch (kind) {
    case FAULT_SILENT:
        return pst_fail(PST_EPEER,
                        "rank %u on %s has sent no heartbeat for %.1f s (last activity: %s)", rank,
                        h->host, PST_HEARTBEAT_MS * PST_HEARTBEAT_MISSES / 1000.0, where);
    case FAULT_DEAD:
        return pst_fail(PST_EPEER, "rank %u on %s died (last activity: %s)", rank, h->host, where);
    default:
        return pst_fail(PST_EPEER, "rank %u on %s failed (last activity: %s)", rank, h->host,
                        where);
    }
}
