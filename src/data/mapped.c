/* Files are mapped when they are first touched, at most MAX_MAPPED at a time (the kernel allows 65,530 mappings of a
 * process, and a folder may hold more files than that); then the mapping made longest ago gives way. */
#include "data/mapped.h"
#include "base/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_MAPPED = 2048 };
/* Above this size the few bytes of a sample are read at random places of a file that the page cache may not hold:
 * reading ahead would fetch 128 KiB for each. */
static const uint64_t RANDOM_BYTES = 1ull << 30;

struct pst_mapped {
    pst_file_list list;
    uint64_t *start;        /* [n + 1] where each file begins in the text */
    const uint8_t **memory; /* [n] NULL: not mapped */
    uint32_t *mapped;       /* ring of the mapped files */
    uint32_t n_mapped, next;
};

pst_status pst_mapped_open(pst_file_list *list, pst_mapped **out) {
    uint32_t n = list->n;
    pst_mapped *m = calloc(1, sizeof *m);
    if (!m) goto no_memory;
    m->start = calloc((size_t)n + 1, sizeof *m->start);
    m->memory = calloc((size_t)n + 1, sizeof *m->memory);
    m->mapped = calloc(MAX_MAPPED, sizeof *m->mapped);
    if (!m->start || !m->memory || !m->mapped) goto no_memory;
    for (uint32_t i = 0; i < n; i++) m->start[i + 1] = m->start[i] + list->file[i].bytes;
    m->list = *list;
    *list = (pst_file_list){0};
    *out = m;
    return PST_OK;
no_memory:
    pst_mapped_close(m);
    return pst_fail(PST_ENOMEM, "out of memory for the list of %u data files", n);
}

void pst_mapped_close(pst_mapped *m) {
    if (!m) return;
    for (uint32_t i = 0; i < m->n_mapped; i++)
        munmap((void *)m->memory[m->mapped[i]], m->list.file[m->mapped[i]].bytes);
    pst_files_free(&m->list);
    free(m->start);
    free(m->memory);
    free(m->mapped);
    free(m);
}

uint64_t pst_mapped_bytes(const pst_mapped *m) { return m->start[m->list.n]; }

uint64_t pst_mapped_hash(const pst_mapped *m) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < m->list.n; i++) {
        const pst_file *f = &m->list.file[i];
        const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
        hash = pst_hash64(name, strlen(name), hash); /* no folders: the same data may be mounted elsewhere */
        hash = pst_hash64(&f->bytes, sizeof f->bytes, hash);
    }
    return hash;
}

static pst_status map_file(pst_mapped *m, uint32_t i) {
    const pst_file *f = &m->list.file[i];
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        int error = errno;
        if (fd >= 0) close(fd);
        return pst_fail(PST_EINPUT, "data: cannot read %s: %s", f->path, strerror(error));
    }
    if ((uint64_t)st.st_size != f->bytes) {
        close(fd);
        return pst_fail(PST_EINPUT, "data: %s has %llu bytes now and had %llu when the run began", f->path,
                        (unsigned long long)st.st_size, (unsigned long long)f->bytes);
    }
    void *memory = mmap(NULL, f->bytes, PROT_READ, MAP_SHARED, fd, 0);
    int error = errno;
    close(fd);
    if (memory == MAP_FAILED)
        return pst_fail(error == ENOMEM ? PST_ENOMEM : PST_EINPUT, "data: cannot map %s (%llu bytes): %s", f->path,
                        (unsigned long long)f->bytes, strerror(error));
    if (f->bytes >= RANDOM_BYTES) madvise(memory, f->bytes, MADV_RANDOM);
    if (m->n_mapped == MAX_MAPPED) {
        uint32_t old = m->mapped[m->next];
        munmap((void *)m->memory[old], m->list.file[old].bytes);
        m->memory[old] = NULL;
    } else {
        m->n_mapped++;
    }
    m->mapped[m->next] = i;
    m->next = (m->next + 1) % MAX_MAPPED;
    m->memory[i] = memory;
    return PST_OK;
}

/* The file that holds byte `at`: the last that starts at or before it (an empty file holds none). */
static uint32_t file_of(const pst_mapped *m, uint64_t at) {
    uint32_t low = 0, high = m->list.n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (m->start[middle] <= at) low = middle;
        else high = middle;
    }
    return low;
}

pst_status pst_mapped_read(pst_mapped *m, uint64_t at, uint64_t n, uint8_t *out) {
    uint64_t total = pst_mapped_bytes(m);
    if (at > total || n > total - at) return pst_fail(PST_EINTERNAL, "data: bytes beyond the end of the text");
    for (uint32_t i = n ? file_of(m, at) : 0; n; i++) {
        uint64_t here = m->start[i + 1] - at, take = here < n ? here : n;
        if (!take) continue;
        if (!m->memory[i]) PST_TRY(map_file(m, i));
        memcpy(out, m->memory[i] + (at - m->start[i]), take);
        out += take, at += take, n -= take;
    }
    return PST_OK;
}
