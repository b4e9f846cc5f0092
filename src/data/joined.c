/* Opens files when they are first read, at most MAX_OPEN at a time or a share of the process's
 * limit (a folder may have more files than that); then the one opened first is closed. Files are
 * read, not mapped: truncating a mapped file would kill the process. */
#include "data/joined.h"
#include "base/hash.h"
#include "tokenizer/text_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_OPEN = 64, LIMIT_SHARE = 4 /* share of the files that the process may open */ };
/* Above this size, samples are read at random places of a file that may not be in the page
 * cache: readahead would load 128 KiB for a few bytes. */
static const uint64_t RANDOM_BYTES = 1ull << 30;

struct pst_joined {
    pst_file_list list;
    uint64_t *start;         /* [n + 1] offset of each file in the text */
    int *fd;                 /* [n] -1: not open */
    uint32_t open[MAX_OPEN]; /* ring of open files */
    uint32_t n_open, next, most_open;
};

static uint32_t most_open(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= MAX_OPEN * LIMIT_SHARE)
        return MAX_OPEN;
    return limit.rlim_cur < 2 * LIMIT_SHARE ? 1 : (uint32_t)limit.rlim_cur / LIMIT_SHARE;
}

pst_status pst_joined_open(pst_file_list *list, pst_joined **out) {
    uint32_t n = list->n;
    pst_joined *j = calloc(1, sizeof *j);
    if (!j) goto no_memory;
    j->start = calloc((size_t)n + 1, sizeof *j->start);
    j->fd = malloc(((size_t)n + 1) * sizeof *j->fd);
    if (!j->start || !j->fd) goto no_memory;
    for (uint32_t i = 0; i < n; i++) {
        j->start[i + 1] = j->start[i] + list->file[i].bytes;
        j->fd[i] = -1;
    }
    j->list = *list;
    j->most_open = most_open();
    *list = (pst_file_list){0};
    *out = j;
    return PST_OK;
no_memory:
    pst_joined_close(j);
    return pst_fail(PST_ENOMEM, "no memory for the list of %u data files", n);
}

void pst_joined_close(pst_joined *j) {
    if (!j) return;
    for (uint32_t i = 0; i < j->n_open; i++) close(j->fd[j->open[i]]);
    pst_files_free(&j->list);
    free(j->start);
    free(j->fd);
    free(j);
}

uint64_t pst_joined_bytes(const pst_joined *j) { return j->start[j->list.n]; }
uint32_t pst_joined_files(const pst_joined *j) { return j->list.n; }
uint64_t pst_joined_start(const pst_joined *j, uint32_t i) { return j->start[i]; }

uint64_t pst_joined_hash(const pst_joined *j) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < j->list.n; i++) {
        const pst_file *f = &j->list.file[i];
        const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
        /* without folders: the same data may be mounted elsewhere */
        hash = pst_hash64(name, strlen(name), hash);
        hash = pst_hash64(&f->bytes, sizeof f->bytes, hash);
    }
    return hash;
}

static pst_status cannot_read(const pst_file *f, int error) {
    return pst_fail(pst_status_of_errno(error), "data: cannot read %s: %s", f->path,
                    strerror(error));
}

/* EINPUT if the size has changed. */
static pst_status check_size(const pst_file *f, int fd) {
    struct stat st;
    if (fstat(fd, &st)) return cannot_read(f, errno);
    if ((uint64_t)st.st_size == f->bytes) return PST_OK;
    return pst_fail(PST_EINPUT, "data: %s has %llu bytes now, but had %llu when the run began",
                    f->path, (unsigned long long)st.st_size, (unsigned long long)f->bytes);
}

/* EINPUT: the bytes are not those of a text. */
static pst_status check_format(const pst_file *f, int fd) {
    uint8_t first[PST_TEXT_FILE_FIRST];
    ssize_t n = pread(fd, first, sizeof first, 0);
    const char *format = n > 0 ? pst_text_file_format(first, (size_t)n) : NULL;
    if (!format) return PST_OK;
    return pst_fail(PST_EINPUT, "data: %s is compressed (%s); decompress it, or use data.kind text",
                    f->path, format);
}

static pst_status open_file(pst_joined *j, uint32_t i) {
    const pst_file *f = &j->list.file[i];
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cannot_read(f, errno);
    pst_status status = check_size(f, fd);
    if (status == PST_OK) status = check_format(f, fd);
    if (status != PST_OK) {
        close(fd);
        return status;
    }
    if (f->bytes >= RANDOM_BYTES) posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    if (j->n_open == j->most_open) {
        uint32_t old = j->open[j->next];
        close(j->fd[old]);
        j->fd[old] = -1;
    } else {
        j->n_open++;
    }
    j->open[j->next] = i;
    j->next = (j->next + 1) % j->most_open;
    j->fd[i] = fd;
    return PST_OK;
}

static pst_status read_file(pst_joined *j, uint32_t i, uint64_t at, uint64_t n, uint8_t *out) {
    const pst_file *f = &j->list.file[i];
    if (j->fd[i] < 0) PST_TRY(open_file(j, i));
    while (n) {
        ssize_t got = pread(j->fd[i], out, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return cannot_read(f, errno);
        if (got == 0) {
            PST_TRY(check_size(f, j->fd[i]));
            return cannot_read(f, EIO); /* it has its size again: it was overwritten just now */
        }
        out += got;
        at += (uint64_t)got;
        n -= (uint64_t)got;
    }
    return PST_OK;
}

/* The file with byte `at`: the last one that starts at or before it (an empty file has no
 * bytes). */
static uint32_t file_of(const pst_joined *j, uint64_t at) {
    uint32_t low = 0, high = j->list.n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (j->start[middle] <= at) low = middle;
        else high = middle;
    }
    return low;
}

pst_status pst_joined_read(pst_joined *j, uint64_t at, uint64_t n, uint8_t *out) {
    uint64_t total = pst_joined_bytes(j);
    if (at > total || n > total - at)
        return pst_fail(PST_EINTERNAL, "data: read beyond the end of the text");
    for (uint32_t i = n ? file_of(j, at) : 0; n; i++) {
        uint64_t here = j->start[i + 1] - at, take = here < n ? here : n;
        if (!take) continue;
        PST_TRY(read_file(j, i, at - j->start[i], take, out));
        out += take;
        at += take;
        n -= take;
    }
    return PST_OK;
}
