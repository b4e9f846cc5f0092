/* test: label=quick timeout=30
 * UCX installs handlers of signals when it is loaded: none is left when main() begins, whatever its
 * variables say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "comm/transport/ucx_parts.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The signals that UCX handles, as a set of bits. */
static uint64_t of_ucx(void) {
    uint64_t found = 0;
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;
        Dl_info at;
        if (sigaction(number, NULL, &now) || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)
            continue;
        if (dladdr(*(void **)&now.sa_handler, &at) && strstr(at.dli_fname, "libucs"))
            found |= UINT64_C(1) << number;
    }
    return found;
}

static void at_the_beginning(void **state) {
    (void)state;
    assert_int_equal(of_ucx(), 0);
    pst_ucx_undo_defaults();
    assert_int_equal(of_ucx(), 0);
}

/* Starts this program again as `way`; its exit status. */
static int again(const char *way, const char *debug, const char *errors) {
    pid_t pid = fork();
    int status = -1;
    if (pid) return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    signal(SIGHUP, SIG_IGN);
    setenv("UCX_DEBUG_SIGNO", debug, 1);
    if (*errors) setenv("UCX_ERROR_SIGNALS", errors, 1);
    execl("/proc/self/exe", "test", way, (char *)NULL);
    _exit(127);
}

static void whatever_is_asked_for(void **state) {
    (void)state;
    assert_int_equal(again("none", "SIGUSR1", ""), 0);
    assert_int_equal(again("none", "SIGHUP", "SIGTERM,SIGINT"), 0);
    assert_int_equal(again("crash", "SIGHUP", "SIGTERM,SIGFPE"), 0);
}

/* Explaining crashes is left to UCX where the user asks it to; and nohup's SIGHUP is ignored as
 * before. */
static int check(const char *way) {
    struct sigaction hangup;
    uint64_t expected = !strcmp(way, "crash") ? UINT64_C(1) << SIGFPE : 0;
    sigaction(SIGHUP, NULL, &hangup);
    if (of_ucx() != expected) return 1;
    pst_ucx_undo_defaults();
    if (of_ucx() != expected) return 2;
    return hangup.sa_handler == SIG_IGN ? 0 : 3;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_the_beginning),
                                       cmocka_unit_test(whatever_is_asked_for)};
    if (argc > 1) return check(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
