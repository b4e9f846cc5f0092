/* See outbox.h. */
#include "comm/collective/outbox.h"
#include "comm/world/secret.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* HEADER: bytes before the slots; the file begins with its random nonce. The nonce is checked after
 * mapping, because on another machine with the same host name the path leads to some other file. */
enum { HEADER = 4096, OUTBOX_BYTES = 2 << 20, MAX_SEGMENT = 256 << 10 };

uint64_t pst_coll_outbox_segment(uint32_t n) {
    uint64_t fair = OUTBOX_BYTES / (PST_COLL_OUTBOX_ROUNDS * (uint64_t)n) / 4096 * 4096;
    return fair < MAX_SEGMENT ? fair : MAX_SEGMENT;
}

static size_t file_bytes(uint32_t n) {
    return HEADER + PST_COLL_OUTBOX_ROUNDS * n * pst_coll_outbox_segment(n);
}

uint8_t *pst_coll_outbox_slot(const pst_coll_outboxes *o, uint32_t member, uint64_t slot) {
    return o->mem[member] + HEADER + slot * pst_coll_outbox_segment(o->n);
}

void pst_coll_outboxes_close(pst_coll_outboxes *o) {
    if (!o) return;
    for (uint32_t i = 0; o->mem && i < o->n; i++)
        if (o->mem[i]) munmap(o->mem[i], file_bytes(o->n));
    if (o->fd >= 0) close(o->fd);
    free(o->all);
    free(o->mapped);
    free(o->mem);
    free(o);
}

/* Allocates all pages now, so that a lack of memory shows here, not in the first write. */
static uint8_t *create(uint32_t n, int *fd, uint64_t nonce[2]) {
    if (pst_secret_random(nonce, 2 * sizeof *nonce) != PST_OK) return NULL;
    *fd = memfd_create("penstock-outbox", MFD_CLOEXEC);
    if (*fd < 0 || posix_fallocate(*fd, 0, (off_t)file_bytes(n))) return NULL;
    void *mem =
        mmap(NULL, file_bytes(n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, *fd, 0);
    if (mem == MAP_FAILED) return NULL;
    memcpy(mem, nonce, 2 * sizeof *nonce);
    return mem;
}

static uint8_t *map_announced(const pst_coll_announcement *a, uint32_t n) {
    char path[64];
    struct stat st;
    if (a->fd < 0) return NULL;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", a->pid, a->fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int right =
        fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && (size_t)st.st_size == file_bytes(n);
    void *mem =
        right ? mmap(NULL, file_bytes(n), PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (mem == MAP_FAILED) return NULL;
    if (!memcmp(mem, a->nonce, sizeof a->nonce)) return mem;
    munmap(mem, file_bytes(n));
    return NULL;
}

pst_status pst_coll_outboxes_open(uint32_t n, uint32_t me, pst_coll_outboxes **outboxes) {
    pst_coll_outboxes *o = calloc(1, sizeof *o);
    if (o) {
        *o = (pst_coll_outboxes){.n = n, .me = me, .fd = -1};
        o->all = calloc(n, sizeof *o->all);
        o->mapped = calloc(n, sizeof *o->mapped);
        o->mem = calloc(n, sizeof *o->mem);
    }
    if (!o || !o->all || !o->mapped || !o->mem) {
        pst_coll_outboxes_close(o);
        return pst_fail(PST_ENOMEM, "no memory for shared-memory buffers of %u ranks", n);
    }
    pst_coll_announcement *a = &o->all[me];
    o->mem[me] = create(n, &o->fd, a->nonce);
    *a = (pst_coll_announcement){getpid(), o->mem[me] ? o->fd : -1, {a->nonce[0], a->nonce[1]}};
    *outboxes = o;
    return PST_OK;
}

void pst_coll_outboxes_map(pst_coll_outboxes *o) {
    o->mapped[o->me] = o->mem[o->me] != NULL;
    for (uint32_t i = 0; i < o->n; i++) {
        if (i != o->me) o->mem[i] = map_announced(&o->all[i], o->n);
        o->mapped[o->me] &= o->mem[i] != NULL;
    }
}

int pst_coll_outboxes_finish(pst_coll_outboxes *o) {
    uint32_t n_mapped = 0;
    if (o->fd >= 0) close(o->fd);
    o->fd = -1;
    for (uint32_t i = 0; i < o->n; i++) n_mapped += o->mapped[i];
    return n_mapped == o->n;
}
