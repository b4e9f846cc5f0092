/* Names of segments that nobody holds open go; those that somebody has, and files of other kinds,
 * stay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/transport/ucx_sweep.h"
#include "skip.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEFT, OPEN, MAPPED, OTHER, N_FILE };

static void what_nobody_has_goes(void **state) {
    (void)state;
    char path[N_FILE][80];
    int fd[N_FILE];
    for (int i = 0; i < N_FILE; i++) {
        snprintf(path[i], sizeof path[i], "/dev/shm/%s_test%d-%d",
                 i == OTHER ? "other" : "ucx_shm_posix", (int)getpid(), i);
        fd[i] = open(path[i], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd[i] < 0 || ftruncate(fd[i], 4096)) {
            (void)SKIPPED("no files can be made in /dev/shm");
            skip();
        }
    }
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd[MAPPED], 0);
    for (int i = 0; i < N_FILE; i++)
        if (i != OPEN) close(fd[i]);
    pst_ucx_sweep();
    for (int i = 0; i < N_FILE; i++) {
        int is_there = !access(path[i], F_OK);
        unlink(path[i]);
        if (is_there != (i != LEFT)) fail_msg("%s %s", path[i], is_there ? "stays" : "has gone");
    }
    munmap(map, 4096);
    close(fd[OPEN]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_nobody_has_goes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
