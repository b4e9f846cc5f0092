/* test: label=quick */
/* The guard around UCX: an abort inside it comes back, again and again; one outside or from another
 * process kills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/transport/ucx_guard.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static int aborts(volatile int really) {
    if (PST_UCX_GUARD()) return 1;
    if (really) abort();
    pst_ucx_guard_end();
    return 0;
}

static void an_abort_comes_back(void **state) {
    (void)state;
    pst_ucx_guard_open();
    for (int i = 0; i < 6; i++) assert_int_equal(aborts(i % 2), i % 2);
    assert_true(strlen(pst_ucx_guard_error()) > 0);
    pst_ucx_guard_close();
}

static int ends_with(int from_outside) {
    int status;
    pid_t pid = fork();
    if (!pid) {
        pst_ucx_guard_open();
        if (!from_outside) abort();
        pst_ucx_guard_begin(); /* as amid a call */
        for (;;) pause();
    }
    if (from_outside) {
        usleep(50000);
        kill(pid, SIGABRT);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void other_aborts_kill(void **state) {
    (void)state;
    assert_int_equal(ends_with(0), SIGABRT);
    assert_int_equal(ends_with(1), SIGABRT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_abort_comes_back),
                                       cmocka_unit_test(other_aborts_kill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
