/* test: label=quick timeout=60
 * The scheduler of workers with the variables of ps-lite: all get ranks, those that they ask for,
 * however many strangers sit there and say nothing; who has another number of workers hears it; one
 * worker needs no secret; a scheduler without descriptors says so and does not spin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/port.h"
#include "comm/world/dmlc.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const char *const secret = "sesame-0123456789";
static char port[8];

static pst_tcp_job job_of(uint32_t rank, uint32_t size, const char *word) {
    return (pst_tcp_job){.rank = rank,
                         .size = size,
                         .address = "127.0.0.1",
                         .port = port,
                         .secret = word,
                         .seconds = 20};
}

/* Ends with the status of pst_dmlc_schedule, 98 when its message lacks these words. */
static pid_t start_scheduler(uint32_t size, const char *word, rlim_t descriptors,
                             const char *what) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    struct rlimit limit = {descriptors, descriptors};
    if (descriptors) setrlimit(RLIMIT_NOFILE, &limit);
    pst_tcp_job job = job_of(0, size, word);
    pst_status status = pst_dmlc_schedule(&job);
    if (status != PST_OK && !strstr(pst_error(), what)) {
        fprintf(stderr, "scheduler: '%s' is not in: %s\n", what, pst_error());
        _exit(98);
    }
    _exit(pst_status_exit(status));
}

/* Ends with 10 + its rank, or with the status of pst_dmlc_ask, 98 when its message lacks these
 * words. */
static pid_t start_worker(uint32_t rank, uint32_t size, const char *word, const char *what) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    pst_dmlc_place place;
    pst_tcp_job job = job_of(rank, size, word);
    pst_status status = pst_dmlc_ask(&job, &place);
    if (status != PST_OK && !strstr(pst_error(), what)) {
        fprintf(stderr, "worker: '%s' is not in: %s\n", what, pst_error());
        _exit(98);
    }
    if (status != PST_OK) _exit(pst_status_exit(status));
    _exit((place.rank == 0) != (place.listener > 0) ? 97 : 10 + (int)place.rank);
}

static int end_of(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_strangers(void **state) {
    (void)state;
    enum { SILENT = 150, N = 4 };
    int fd[SILENT], rank[N], seen[N] = {0};
    pid_t pid[N];
    port_choose(port);
    uint64_t began = pst_monotonic_ns();
    pid_t scheduler = start_scheduler(N, secret, 0, "");
    for (int i = 0; i < SILENT; i++) fd[i] = port_connect(port);
    assert_int_equal(
        end_of(start_worker(UINT32_MAX, N, "another-0123456789", "closed the connection")), 3);
    pid[0] = start_worker(2, N, secret, "");
    for (int i = 1; i < N; i++) pid[i] = start_worker(UINT32_MAX, N, secret, "");
    for (int i = 0; i < N; i++) rank[i] = end_of(pid[i]) - 10;
    assert_int_equal(rank[0], 2);
    for (int i = 0; i < N; i++) {
        assert_in_range(rank[i], 0, N - 1);
        assert_int_equal(seen[rank[i]]++, 0);
    }
    assert_int_equal(end_of(scheduler), 0);
    /* nobody waited until the time was over */
    assert_true(pst_monotonic_ns() - began < UINT64_C(15000000000));
    for (int i = 0; i < SILENT; i++) close(fd[i]);
}

/* Who cannot be one of them is told so at once, with both numbers; the others are waited for. */
static void test_refused(void **state) {
    (void)state;
    port_choose(port);
    uint64_t began = pst_monotonic_ns();
    pid_t scheduler = start_scheduler(2, secret, 0, "");
    pid_t other =
        start_worker(UINT32_MAX, 3, secret, "DMLC_NUM_WORKER is 3, but it is 2 at the scheduler");
    assert_int_equal(end_of(other), 2);
    assert_int_equal(end_of(start_worker(UINT32_MAX, 1, "", "closed the connection")), 3);
    pid_t one = start_worker(1, 2, secret, "DMLC_WORKER_ID 1 is used by two workers");
    pid_t twin = start_worker(1, 2, secret, "DMLC_WORKER_ID 1 is used by two workers");
    int status;
    pid_t loser = waitpid(-1, &status, 0); /* the other one waits for rank 0 */
    assert_true(loser == one || loser == twin);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    assert_int_equal(end_of(start_worker(0, 2, secret, "")), 10);
    assert_int_equal(end_of(loser == one ? twin : one), 11);
    assert_int_equal(end_of(scheduler), 0);
    /* nobody waited until the time was over */
    assert_true(pst_monotonic_ns() - began < UINT64_C(15000000000));
}

static void test_alone(void **state) {
    (void)state;
    port_choose(port);
    pid_t scheduler = start_scheduler(1, "", 0, "");
    assert_int_equal(end_of(start_worker(UINT32_MAX, 1, "", "")), 10);
    assert_int_equal(end_of(scheduler), 0);
}

static void test_descriptors(void **state) {
    (void)state;
    int probe = open("/dev/null", O_RDONLY);
    close(probe);
    port_choose(port);
    pid_t scheduler = start_scheduler(2, secret, (rlim_t)probe + 1, /* the listener's */
                                      "the scheduler cannot accept a connection");
    int fd = port_connect(port);
    assert_int_equal(end_of(scheduler), 4);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_strangers),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_descriptors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
