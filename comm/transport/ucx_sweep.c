/* See ucx_sweep.h. UCX makes a file in /dev/shm, writes it full, maps it, and takes its name away;
 * it keeps the file open. A rank that is killed in between leaves the name behind. The system tells
 * whose nobody's it is: a lease for writing is given on a file that is open nowhere else. */
#include "comm/transport/ucx_sweep.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SETTLE_NS = 10000000 };

/* Whoever is just about to open it (UCX has made the name before it has the file) asks the lease
 * back: by SIGURG, which nobody minds, and is then found to have it. */
static int is_left(int fd) {
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) return 0;
    if (fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETLEASE, F_WRLCK)) return 0;
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NS}, NULL);
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
