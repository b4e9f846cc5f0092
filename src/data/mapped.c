/* See mapped.h. */
#include "data/mapped.h"
#include "base/hash.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pst_status cannot_read(const char *path) {
    return pst_fail(pst_status_of_errno(errno), "%s: %s", path, strerror(errno));
}

static pst_status map(const char *path, int fd, pst_mapped *out) {
    struct stat st;
    if (fstat(fd, &st)) return cannot_read(path);
    if (!S_ISREG(st.st_mode)) return pst_fail(PST_EINPUT, "%s: not a file", path);
    *out = (pst_mapped){(const uint8_t *)"", (uint64_t)st.st_size, 0};
    if (!st.st_size) return PST_OK;
    void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return cannot_read(path);
    out->byte = at;
    out->mapped = 1;
    return PST_OK;
}

pst_status pst_mapped_open(const char *path, pst_mapped *out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cannot_read(path);
    pst_mapped made = {0};
    pst_status status = map(path, fd, &made);
    close(fd);
    if (status == PST_OK) *out = made;
    return status;
}

void pst_mapped_close(pst_mapped *m) {
    if (m->mapped) munmap((void *)m->byte, m->bytes);
    *m = (pst_mapped){0};
}

enum { BLOCKS = 256, BLOCK = 1 << 16 };

uint64_t pst_mapped_hash(const pst_mapped *m, uint64_t hash) {
    hash = pst_hash64(&m->bytes, sizeof m->bytes, hash);
    if (m->bytes <= (uint64_t)BLOCKS * BLOCK) return pst_hash64(m->byte, m->bytes, hash);
    uint64_t last = m->bytes - BLOCK, step = last / (BLOCKS - 1);
    for (uint64_t i = 0; i < BLOCKS - 1; i++) hash = pst_hash64(m->byte + i * step, BLOCK, hash);
    return pst_hash64(m->byte + last, BLOCK, hash);
}
