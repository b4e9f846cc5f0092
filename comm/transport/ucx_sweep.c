/* See ucx_sweep.h. UCX creates a file in /dev/shm, fills it, maps it, and removes its name; it
 * keeps the file open. A rank that is killed in between leaves the name behind. To find files
 * without an owner, this asks for a write lease, which the kernel grants only on a file that is
 * open nowhere else. */
#include "comm/transport/ucx_sweep.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_BREAK_NS = 10000000 };

/* A process that is just opening the file (UCX creates the name before it opens the file) breaks
 * the lease: we get SIGURG, which is ignored by default, and then see that the file is in use. */
static int is_left(int fd) {
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return 0;
    if (fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETLEASE, F_WRLCK)) return 0;
    nanosleep(&(struct timespec){.tv_nsec = LEASE_BREAK_NS}, NULL);
    return fcntl(fd, F_GETLEASE) == F_WRLCK;
}

void pst_ucx_sweep(void) {
    DIR *dir = opendir("/dev/shm");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, "ucx_shm_posix_", 14)) continue;
        int fd = openat(dirfd(dir), e->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0) continue;
        if (is_left(fd)) unlinkat(dirfd(dir), e->d_name, 0);
        close(fd);
    }
    if (dir) closedir(dir);
}
