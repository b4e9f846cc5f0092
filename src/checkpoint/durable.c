/* Durable files with system calls, and injected faults for tests. */
#include "checkpoint/durable.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 60, LOCK_MS = 50 }; /* a killed run needs a moment to release its lock */

static _Atomic uint64_t countdown; /* 0: no fault is planned */
static _Atomic int lasting;        /* 1: the countdown stays at 1 */
static _Atomic uint64_t slow_ns;

void pst_durable_fail_after(uint64_t n) {
    atomic_store(&lasting, 0);
    atomic_store(&countdown, n);
}
void pst_durable_full_after(uint64_t n) {
    atomic_store(&lasting, 1);
    atomic_store(&countdown, n);
}
void pst_durable_slow(uint64_t ns) { atomic_store(&slow_ns, ns); }

/* 1 if this operation has to fail. */
static int fault(void) {
    uint64_t n = atomic_load(&countdown);
    while (n && !(n == 1 && atomic_load(&lasting)) &&
           !atomic_compare_exchange_weak(&countdown, &n, n - 1)) {}
    if (n != 1) return 0;
    errno = ENOSPC;
    return 1;
}

static pst_status cannot(const char *what, const char *path) {
    return pst_fail(PST_ENOMEM, "cannot %s %s: %s", what, path, strerror(errno));
}

static int open_empty(const char *path) {
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
}

pst_status pst_durable_create(const char *path, int *fd) {
    int f = fault() ? -1 : open_empty(path);
    if (f < 0 && errno == ELOOP && unlink(path) == 0)
        f = open_empty(path); /* a link: a new file replaces it */
    if (f < 0) return cannot("create", path);
    *fd = f;
    return PST_OK;
}

pst_status pst_durable_write(int fd, const char *path, const void *data, uint64_t bytes) {
    const uint8_t *at = data;
    if (fault()) return cannot("write", path);
    while (bytes) {
        ssize_t n = write(fd, at, bytes < (1u << 30) ? bytes : 1u << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return cannot("write", path);
        at += n;
        bytes -= (uint64_t)n;
    }
    return PST_OK;
}

pst_status pst_durable_reserve(int fd, const char *path, uint64_t bytes) {
    if (fault()) return cannot("write", path);
    if (bytes == 0 || fallocate(fd, 0, 0, (off_t)bytes) == 0 || errno == EOPNOTSUPP ||
        errno == ENOSYS)
        return PST_OK;
    return cannot("write", path);
}

/* Drops the first `bytes` of the parts. */
static void use_up(struct iovec **part, int *n, size_t bytes) {
    while (*n && bytes >= (*part)->iov_len) {
        bytes -= (*part)->iov_len;
        ++*part;
        --*n;
    }
    if (!*n) return;
    (*part)->iov_base = (uint8_t *)(*part)->iov_base + bytes;
    (*part)->iov_len -= bytes;
}

static void be_slow(void) {
    uint64_t ns = atomic_load(&slow_ns);
    if (ns) nanosleep(&(struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)}, NULL);
}

pst_status pst_durable_write_at(int fd, const char *path, struct iovec *part, int n, uint64_t at) {
    if (fault()) return cannot("write", path);
    if (atomic_load(&slow_ns) && fcntl(fd, F_GETFL) & O_DIRECT) be_slow();
    for (use_up(&part, &n, 0); n;) {
        ssize_t written = pwritev(fd, part, n, (off_t)at);
        if (written < 0 && errno == EINTR) continue;
        if (written == 0) errno = EIO;
        if (written <= 0) return cannot("write", path);
        use_up(&part, &n, (size_t)written);
        at += (uint64_t)written;
    }
    return PST_OK;
}

pst_status pst_durable_cut(int fd, const char *path, uint64_t bytes) {
    return fault() || ftruncate(fd, (off_t)bytes) ? cannot("write", path) : PST_OK;
}

int pst_durable_direct(const char *path, uint32_t *align) {
    struct statx st;
    int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
    if (fd < 0) return -1;
    *align = 4096; /* assume a large alignment if the system does not report one */
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && st.stx_mask & STATX_DIOALIGN) {
        *align = st.stx_dio_mem_align > st.stx_dio_offset_align ? st.stx_dio_mem_align
                                                                : st.stx_dio_offset_align;
        if (*align == 0 || *align > 4096) {
            close(fd);
            fd = -1;
        } /* 0: not possible for this file */
    }
    return fd;
}

pst_status pst_durable_sync(int fd, const char *path) {
    return fault() || fsync(fd) ? cannot("sync", path) : PST_OK;
}

pst_status pst_durable_close(int fd, const char *path) {
    int failed = fault() || fsync(fd);
    int error = errno;
    if (close(fd) && !failed) return cannot("close", path);
    errno = error;
    return failed ? cannot("sync", path) : PST_OK;
}

pst_status pst_durable_file(const char *path, const void *data, size_t bytes) {
    int fd = -1;
    PST_TRY(pst_durable_create(path, &fd));
    pst_status status = pst_durable_write(fd, path, data, bytes);
    if (status == PST_OK) status = pst_durable_close(fd, path);
    else close(fd);
    if (status != PST_OK) unlink(path);
    return status;
}

pst_status pst_durable_mkdir(const char *path) {
    if (fault() || (mkdir(path, 0777) && errno != EEXIST)) return cannot("create folder", path);
    return PST_OK;
}

pst_status pst_durable_rename(const char *from, const char *to) {
    if (fault()) return cannot("rename", from);
    if (rename(from, to) == 0) return PST_OK;
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return cannot("rename", from);
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) return PST_OK;
    if (errno != EINVAL && errno != ENOSYS) return cannot("rename", from);
    /* This file system cannot exchange names (NFS): the old one is renamed first. Only at this
     * moment the replacement is not atomic. */
    char *aside = NULL;
    if (asprintf(&aside, "%s.old", from) < 0) return pst_no_memory("to replace a file");
    int failed = rename(to, aside) || (rename(from, to) && (rename(aside, to), 1));
    int error = errno;
    if (!failed && rename(aside, from)) pst_durable_remove(aside);
    free(aside);
    errno = error;
    return failed ? cannot("rename", from) : PST_OK;
}

pst_status pst_durable_sync_folder(const char *path) {
    int fd = fault() ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return cannot("sync", path);
    be_slow();
    int failed = fsync(fd) && errno != EINVAL; /* some network file systems sync no folders */
    int error = errno;
    close(fd);
    errno = error;
    return failed ? cannot("sync", path) : PST_OK;
}

pst_status pst_durable_lock(const char *path, int *fd) {
    int f = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = 0;
    if (f < 0) return cannot("open", path);
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (i) nanosleep(&(struct timespec){.tv_nsec = LOCK_MS * 1000000}, NULL);
        error = flock(f, LOCK_EX | LOCK_NB) ? errno : 0;
        if (error != EWOULDBLOCK && error != EINTR) break;
    }
    if (error) {
        close(f);
        f = -1;
    }
    if (error == EWOULDBLOCK)
        return pst_fail(PST_EINPUT,
                        "another process is training in %s: wait until it ends, or start a run "
                        "with another name",
                        path);
    *fd = f;
    return PST_OK;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk) {
    (void)st;
    (void)type;
    (void)walk;
    remove(path);
    return 0;
}

void pst_durable_remove(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
