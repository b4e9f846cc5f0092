/* The world of one epoch of an elastic job (elastic.h). Each rank appends its values to a region of
 * a shared memory file, and a fence waits until all ranks have reached it. A fence fails as soon as
 * a later epoch is announced, so no rank waits for a dead one. */
#include "comm/world/elastic_hosts.h"
#include "comm/world/world.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REGION PST_ELASTIC_REGION

/* A value in a region; key (with its zero) and value follow, padded to 8 bytes. */
typedef struct {
    uint32_t key_bytes, bytes;
} value_head;

/* The start of a region. used: bytes behind this that are complete. */
typedef struct {
    _Atomic uint64_t used;
} region_head;

typedef struct {
    pst_world base;
    pst_elastic_page *page;
    pst_elastic_members *member;
    uint8_t *region; /* [n_rank][REGION] */
    uint64_t bytes;  /* of all regions */
    uint32_t epoch;
} elastic_world;

static region_head *region_of(const elastic_world *w, uint32_t rank) {
    return (region_head *)(w->region + rank * REGION);
}

static uint64_t padded(uint64_t bytes) { return (bytes + 7) & ~UINT64_C(7); }

static pst_status elastic_put(pst_world *world, const char *key, const void *value, size_t bytes) {
    const elastic_world *w = (elastic_world *)world;
    region_head *mine = region_of(w, world->rank);
    uint64_t used = atomic_load(&mine->used), name = strlen(key) + 1;
    uint64_t more = sizeof(value_head) + padded(name + bytes);
    if (bytes > REGION || sizeof *mine + used + more > REGION)
        return pst_fail(PST_ENOMEM, "no memory to publish %s", key);
    uint8_t *at = (uint8_t *)(mine + 1) + used;
    *(value_head *)at = (value_head){(uint32_t)name, (uint32_t)bytes};
    memcpy(at + sizeof(value_head), key, name);
    if (bytes) memcpy(at + sizeof(value_head) + name, value, bytes);
    atomic_store(&mine->used, used + more);
    return PST_OK;
}

/* The last value with this key; NULL: there is none. */
static const value_head *find(const elastic_world *w, uint32_t rank, const char *key) {
    region_head *of = region_of(w, rank);
    const uint8_t *first = (const uint8_t *)(of + 1);
    const value_head *found = NULL;
    for (uint64_t at = 0, end = atomic_load(&of->used); at < end;) {
        const value_head *h = (const value_head *)(first + at);
        if (!strcmp((const char *)(h + 1), key)) found = h;
        at += sizeof *h + padded((uint64_t)h->key_bytes + h->bytes);
    }
    return found;
}

static pst_status elastic_get(pst_world *world, uint32_t rank, const char *key, void **value,
                              size_t *bytes) {
    const value_head *h = find((elastic_world *)world, rank, key);
    if (!h) return pst_fail(PST_EPEER, "rank %u has not published %s", rank, key);
    uint8_t *copy = malloc(h->bytes + (size_t)1);
    if (!copy) return pst_fail(PST_ENOMEM, "no memory for %s", key);
    memcpy(copy, (const uint8_t *)(h + 1) + h->key_bytes, h->bytes);
    *value = copy;
    *bytes = h->bytes;
    return PST_OK;
}

/* OK: the epoch goes on. */
static pst_status check_epoch(const elastic_world *w) {
    if (atomic_load(&w->page->epoch) == w->epoch &&
        atomic_load(&w->page->end) != PST_ELASTIC_ENDING)
        return PST_OK;
    return pst_fail(PST_EPEER, "a rank of epoch %u has died", w->epoch);
}

static pst_status elastic_fence(pst_world *world) {
    const elastic_world *w = (elastic_world *)world;
    const struct timespec pause = {.tv_nsec = 200000};
    uint64_t reached = atomic_fetch_add(&w->member->fence[world->rank], 1) + 1;
    for (uint32_t r = 0; r < world->size;) {
        if (atomic_load(&w->member->fence[r]) >= reached) {
            r++;
            continue;
        }
        PST_TRY(check_epoch(w));
        nanosleep(&pause, NULL);
    }
    return PST_OK;
}

static void elastic_abort(pst_world *world, int exit_status, const char *why) {
    (void)world;
    (void)exit_status;
    (void)why; /* the launcher sees how this process ends */
}

static void elastic_close(pst_world *world) {
    elastic_world *w = (elastic_world *)world;
    munmap(w->region, w->bytes);
    free(w);
}

static const pst_world_ops elastic_ops = {
    .name = "elastic",
    .put = elastic_put,
    .get = elastic_get,
    .fence = elastic_fence,
    .abort = elastic_abort,
    .close = elastic_close,
};

/* Regions of an epoch begin behind those of the epochs before, so no region is used twice. */
static pst_status map_regions(elastic_world *w) {
    const uint64_t from = (uint64_t)w->epoch * w->page->n * REGION;
    w->bytes = w->base.size * REGION;
    void *mem =
        mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->page->store_fd, (off_t)from);
    if (mem == MAP_FAILED)
        return pst_fail(PST_ENOMEM, "no memory for the world of epoch %u: %m", w->epoch);
    w->region = mem;
    return PST_OK;
}

/* Of the memory files of this host's ranks in the epoch. */
static uint64_t held_bytes(const pst_elastic_page *page, const pst_elastic_members *m) {
    enum { BLOCK = 512 }; /* of st_blocks */
    uint64_t bytes = 0;
    struct stat st;
    for (uint32_t r = 0; r < m->n_rank; r++)
        for (uint32_t k = 0; k < PST_ELASTIC_FILES; k++)
            if (pst_elastic_is_here(page, m->process[r]) &&
                !fstat(page->state_fd[m->process[r]][k], &st))
                bytes += (uint64_t)st.st_blocks * BLOCK;
    return bytes;
}

pst_status pst_elastic_world(pst_elastic_page *page, uint32_t epoch, uint32_t process,
                             pst_world **world) {
    elastic_world *w = calloc(1, sizeof *w);
    if (!w) return pst_fail(PST_ENOMEM, "no memory to join the job");
    pst_elastic_members *m = &page->member[epoch];
    uint32_t rank = pst_elastic_rank(page, epoch, process);
    w->base = (pst_world){.ops = &elastic_ops,
                          .rank = rank,
                          .size = m->n_rank,
                          .local_rank = rank,
                          .local_size = m->n_rank,
                          .heartbeat_fd = page->heartbeat_fd,
                          .epoch = epoch,
                          .lines = page->n,
                          .line = process,
                          .held = held_bytes(page, m),
                          .launched_by_us = 1};
    w->page = page;
    w->member = m;
    w->epoch = epoch;
    snprintf(w->base.job, sizeof w->base.job, "penstock-%d-%u", (int)getppid(), epoch);
    if (gethostname(w->base.host, sizeof w->base.host - 1)) strcpy(w->base.host, "localhost");
    if (page->hosts.n) {
        pst_status met = pst_elastic_meet(page, epoch, &w->base, world);
        free(w);
        return met;
    }
    pst_status status = map_regions(w);
    if (status != PST_OK) {
        free(w);
        return status;
    }
    status = elastic_fence(&w->base);
    if (status == PST_OK) *world = &w->base;
    else elastic_close(&w->base);
    return status;
}
