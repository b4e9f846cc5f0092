/* Loaded before all else (LD_PRELOAD), it makes a disk slow: each read at a place (pread) of a file
 * whose name ends in SLOW_FILE takes SLOW_US microseconds longer. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int is_slow(int fd) {
    char link[32], path[4096];
    const char *file = getenv("SLOW_FILE");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    size_t bytes = file ? strlen(file) : 0;
    return bytes && (size_t)n >= bytes && n > 0 && !strcmp(path + (size_t)n - bytes, file);
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void *to, size_t n, off_t at) {
    union {
        void *symbol;
        ssize_t (*call)(int, void *, size_t, off_t);
    } real = {dlsym(RTLD_NEXT, "pread")};
    if (!real.symbol) abort();
    const char *us = getenv("SLOW_US");
    if (us && is_slow(fd)) {
        long time = atol(us);
        nanosleep(&(struct timespec){time / 1000000, time % 1000000 * 1000}, NULL);
    }
    return real.call(fd, to, n, at);
}
