/* See elastic.h: the page, the announcement of epochs, and which state is complete. The worlds of
 * the epochs: elastic_world.c. */
#include "comm/world/elastic.h"
#include "base/clock.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the launcher ----------------------------------------------------------------------------- */

static int memory_file(const char *name, uint64_t bytes) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && bytes && ftruncate(fd, (off_t)bytes)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void set_first(pst_elastic_page *page, const pst_elastic_start *start) {
    page->n = start->slots;
    page->began_ns = pst_monotonic_ns();
    page->known = start->ranks;
    page->target = start->ranks;
    memcpy(page->ranks_of, start->ranks_of, (page->known + 1) * sizeof *start->ranks_of);
    page->store_fd = page->heartbeat_fd = page->wake_fd = -1;
    for (uint32_t i = 0; i < PST_ELASTIC_RANKS; i++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++) page->state_fd[i][k] = -1;
    page->member[0].n_rank = start->ranks;
    page->member[0].alive = start->processes;
    for (uint32_t i = 0; i < start->ranks; i++) page->member[0].process[i] = i;
}

static int open_files(pst_elastic_page *page) {
    const uint64_t store = PST_ELASTIC_EPOCHS * (uint64_t)page->n * PST_ELASTIC_REGION;
    int missing = (page->store_fd = memory_file("penstock-world", store)) < 0;
    missing |= (page->heartbeat_fd = memory_file("penstock-heartbeat", 0)) < 0;
    missing |= (page->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0;
    for (uint32_t i = 0; i < page->n; i++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++)
            missing |= (page->state_fd[i][k] = memory_file("penstock-state", 0)) < 0;
    return !missing;
}

pst_status pst_elastic_open(const pst_elastic_start *start, int *out, pst_elastic_page **page) {
    if (start->slots > PST_ELASTIC_RANKS)
        return pst_fail(PST_EINPUT, "an elastic job has at most %d ranks, not %u; omit --elastic",
                        PST_ELASTIC_RANKS, start->slots);
    int fd = memory_file("penstock-elastic", sizeof **page);
    pst_elastic_page *p = MAP_FAILED;
    if (fd >= 0) p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        if (fd >= 0) close(fd);
        return pst_fail(PST_ENOMEM, "cannot create the shared page of an elastic job: %m");
    }
    set_first(p, start);
    if (!open_files(p)) {
        pst_status status =
            pst_fail(PST_ENOMEM, "cannot create the memory files of an elastic job: %m");
        pst_elastic_close(p, fd);
        return status;
    }
    *out = fd;
    *page = p;
    return PST_OK;
}

static void keep(int fd) {
    if (fd >= 0) fcntl(fd, F_SETFD, 0);
}

void pst_elastic_inherit(const pst_elastic_page *page, int fd) {
    keep(fd);
    keep(page->store_fd);
    keep(page->heartbeat_fd);
    keep(page->wake_fd);
    if (page->hosts.n) keep(page->hosts.listener);
    for (uint32_t i = 0; i < page->n; i++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++) keep(page->state_fd[i][k]);
}

static void close_file(int fd) {
    if (fd >= 0) close(fd);
}

void pst_elastic_close(pst_elastic_page *page, int fd) {
    if (!page) return;
    for (uint32_t i = 0; i < page->n; i++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++) close_file(page->state_fd[i][k]);
    close_file(page->store_fd);
    close_file(page->heartbeat_fd);
    close_file(page->wake_fd);
    munmap(page, sizeof *page);
    close(fd);
}

uint32_t pst_elastic_ranks(const pst_elastic_page *page, uint32_t living) {
    if (living > page->target) living = page->target;
    return page->ranks_of[living < page->known ? living : page->known];
}

/* Whether a step of the epoch was completed: a state behind that before its first step. */
static int has_trained(pst_elastic_page *page, uint32_t epoch) {
    for (uint32_t i = 0; i < page->n; i++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++) {
            pst_elastic_state *s = &page->state[i][k];
            if (s->epoch == epoch && atomic_load(&s->number) > page->member[epoch].source + 1)
                return 1;
        }
    return 0;
}

/* The last epoch before `epoch` with a step; 0 if there is none. */
static uint32_t last_trained(pst_elastic_page *page, uint32_t epoch) {
    while (epoch > 1 && !has_trained(page, epoch - 1)) epoch--;
    return epoch - 1;
}

/* When what the next epoch recovers from began: with a loss during a recovery, the first one. */
static uint64_t first_loss(pst_elastic_page *page, uint32_t epoch, uint64_t lost_ns) {
    const uint64_t before = page->member[epoch - 1].lost_ns;
    return before && before < lost_ns && !has_trained(page, epoch - 1) ? before : lost_ns;
}

/* Frees what the ranks of the epoch before this one's exchanged: nobody reads it any more. */
static void free_values(const pst_elastic_page *page, uint32_t epoch) {
    const uint64_t bytes = page->n * PST_ELASTIC_REGION;
    if (epoch < 2) return;
    fallocate(page->store_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)((epoch - 2) * bytes), (off_t)bytes);
}

/* Fills in the ranks of an epoch, from the lowest processes of `can`, and announces it. */
static int announce(pst_elastic_page *page, uint32_t epoch, const uint8_t *can) {
    pst_elastic_members *next = &page->member[epoch];
    uint32_t living = 0;
    for (uint32_t i = 0; i < page->n; i++) living += can[i] != 0;
    next->alive = living;
    const uint32_t ranks = pst_elastic_ranks(page, living);
    for (uint32_t i = 0; i < page->n && next->n_rank < ranks; i++)
        if (can[i]) next->process[next->n_rank++] = i;
    if (!next->n_rank) return 0;
    pst_elastic_spread(page, can, next);
    free_values(page, epoch);
    atomic_store(&page->changes, 0);
    atomic_store(&page->epoch, epoch);
    return 1;
}

int pst_elastic_announce(pst_elastic_page *page, const uint8_t *alive, uint64_t lost_ns) {
    const uint32_t epoch = atomic_load(&page->epoch) + 1;
    if (epoch >= PST_ELASTIC_EPOCHS) return 0;
    pst_elastic_members *next = &page->member[epoch];
    *next = (pst_elastic_members){.lost_ns = first_loss(page, epoch, lost_ns)};
    const pst_elastic_members *before = &page->member[last_trained(page, epoch)];
    for (uint32_t r = 0; r < before->n_rank; r++)
        if (!alive[before->process[r]]) next->lost[next->n_lost++] = r;
    return announce(page, epoch, alive);
}

int pst_elastic_all_departed(const pst_elastic_page *page) {
    const pst_elastic_members *m = &page->member[atomic_load(&page->epoch)];
    return atomic_load(&m->departed) >= m->n_rank;
}

int pst_elastic_change(pst_elastic_page *page, const uint8_t *stays) {
    const uint32_t epoch = atomic_load(&page->epoch) + 1;
    if (epoch >= PST_ELASTIC_EPOCHS) return 0;
    const uint64_t departed_ns = atomic_load(&page->member[epoch - 1].departed_ns);
    page->member[epoch] = (pst_elastic_members){.is_change = 1, .lost_ns = departed_ns};
    return announce(page, epoch, stays);
}

void pst_elastic_save(pst_elastic_page *page, uint32_t process, uint32_t alive) {
    const uint32_t epoch = atomic_load(&page->epoch) + 1;
    page->member[epoch] =
        (pst_elastic_members){.is_save = 1, .n_rank = 1, .alive = alive, .process = {process}};
    atomic_store(&page->epoch, epoch);
}

void pst_elastic_free_slot(const pst_elastic_page *page, uint32_t slot) {
    for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++)
        if (ftruncate(page->state_fd[slot][k], 0)) return; /* never: the file is ours */
}

uint32_t pst_elastic_rank(const pst_elastic_page *page, uint32_t epoch, uint32_t process) {
    const pst_elastic_members *m = &page->member[epoch];
    for (uint32_t r = 0; r < m->n_rank; r++)
        if (m->process[r] == process) return r;
    return UINT32_MAX;
}

/* --- the processes ---------------------------------------------------------------------------- */

void pst_elastic_wake(const pst_elastic_page *page) {
    const uint64_t one = 1;
    if (write(page->wake_fd, &one, sizeof one) < 0) return; /* full: it will be read */
}

pst_status pst_elastic_map(pst_elastic_page **page, uint32_t *process) {
    const char *text = getenv("PENSTOCK_ELASTIC_FD"), *number = getenv("PENSTOCK_ELASTIC_PROCESS");
    struct stat st;
    *page = NULL;
    if (!text || !number) return PST_OK;
    int fd = atoi(text);
    if (fstat(fd, &st) || st.st_size != (off_t)sizeof **page)
        return pst_fail(PST_EINTERNAL, "PENSTOCK_ELASTIC_FD is not the page of an elastic job");
    void *mem = mmap(NULL, sizeof **page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mem == MAP_FAILED) return pst_fail(PST_ENOMEM, "no memory for the page of an elastic job");
    *page = mem;
    *process = (uint32_t)atoi(number);
    return PST_OK;
}

/* 1: all ranks of the epoch have the state. */
static int is_complete(pst_elastic_page *page, uint32_t epoch, uint64_t number) {
    const pst_elastic_members *m = &page->member[epoch];
    for (uint32_t r = 0; r < m->n_rank; r++) {
        pst_elastic_state *s = &page->state[m->process[r]][number % PST_ELASTIC_FILES];
        if (atomic_load(&s->number) != number || s->epoch != epoch) return 0;
    }
    return 1;
}

int pst_elastic_newest(pst_elastic_page *page, uint32_t *epoch, uint64_t *number) {
    uint64_t newest = 0;
    for (uint32_t i = 0; i < page->n; i++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++) {
            pst_elastic_state *s = &page->state[i][k];
            uint64_t at = atomic_load(&s->number);
            if (at <= newest || !is_complete(page, s->epoch, at)) continue;
            newest = at;
            *epoch = s->epoch;
        }
    *number = newest;
    return newest != 0;
}

int pst_elastic_has_state(pst_elastic_page *page) {
    uint32_t epoch;
    uint64_t number;
    return pst_elastic_newest(page, &epoch, &number) && epoch == atomic_load(&page->epoch);
}
