/* World `tcp` between hosts, where no shared page tells of a death: its connections do. Each rank
 * is a process with a host name of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/ranks.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { N = 3 };
static int one_host;

/* In place of the system's. */
int gethostname(char *name, size_t bytes) {
    snprintf(name, bytes, "host-%s", one_host ? "0" : getenv("RANK"));
    return 0;
}

static void choose_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof a;
    char port[8];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    getsockname(fd, (struct sockaddr *)&a, &bytes);
    snprintf(port, sizeof port, "%u", ntohs(a.sin_port));
    setenv("MASTER_PORT", port, 1);
    close(fd);
}

/* Looks until somebody is found missing, at most `ms`. */
static pst_status look(pst_world *w, uint64_t ms) {
    uint64_t until = pst_monotonic_ns() + ms * 1000000;
    pst_status status = PST_OK;
    while (status == PST_OK && pst_monotonic_ns() < until) {
        status = w->ops->check(w);
        usleep(5000);
    }
    return status;
}

/* What a rank does once all are there. */
typedef int (*part)(pst_world *w);

static void start(part act, pid_t pid[N]) {
    choose_port();
    fflush(NULL);
    for (uint32_t r = 0; r < N; r++) {
        if ((pid[r] = fork())) continue;
        char number[8];
        snprintf(number, sizeof number, "%u", r);
        setenv("RANK", number, 1);
        setenv("WORLD_SIZE", "3", 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("PENSTOCK_SECRET", "sesame-0123456789", 1);
        pst_world *w;
        RANK_CHECK(pst_world_tcp.open(&w) == PST_OK);
        RANK_CHECK(w->local_size == (one_host ? N : 1));
        _exit(act(w));
    }
}

static int end_of(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int die(void) {
    raise(SIGKILL);
    return 1;
}

static int find(pst_world *w, const char *what) {
    RANK_CHECK(look(w, 20000) == PST_EPEER);
    RANK_CHECK(strstr(pst_error(), what));
    return 0;
}

/* Rank 0 finds it, and says so as the engine does when it gives up. */
static int lose_last(pst_world *w) {
    if (w->rank == 2) return die();
    if (w->rank == 1)
        return find(
            w, "rank 0 on host-0 has left the job: the connection to rank 2 on host-2 is lost");
    find(w, "the connection to rank 2 on host-2 is lost");
    w->ops->abort(w, 3, pst_error());
    w->ops->close(w);
    return 0;
}

static int lose_root(pst_world *w) {
    return w->rank ? find(w, "the connection to rank 0 on host-0 is lost") : die();
}

/* Going in good order is no fault, neither of rank 0 nor of another; what comes after it finds that
 * out. */
static int leave(pst_world *w) {
    if (w->rank == 2) usleep(100000);
    if (w->rank != 1) w->ops->close(w);
    else RANK_CHECK(look(w, 500) == PST_OK && w->ops->fence(w) == PST_EPEER);
    return 0;
}

static int stay(pst_world *w) {
    if (w->rank == 1) w->ops->close(w);
    else if (w->rank == 0) RANK_CHECK(look(w, 500) == PST_OK && w->ops->fence(w) == PST_EPEER);
    else RANK_CHECK(w->ops->fence(w) == PST_EPEER);
    return 0;
}

/* On one host the heartbeat says more: where a rank was last. */
static int near(pst_world *w) {
    if (w->rank == 2) return die();
    RANK_CHECK(look(w, 300) == PST_OK);
    return 0;
}

static void test_part(part act, int dies) {
    pid_t pid[N];
    start(act, pid);
    for (int r = 0; r < N; r++) assert_int_equal(end_of(pid[r]), r == dies ? 128 + SIGKILL : 0);
}

static void test_killed(void **state) {
    (void)state;
    test_part(lose_last, 2);
}
static void test_root_killed(void **state) {
    (void)state;
    test_part(lose_root, 0);
}
static void test_good_order(void **state) {
    (void)state;
    test_part(leave, -1);
    test_part(stay, -1);
}

static void test_one_host(void **state) {
    (void)state;
    one_host = 1;
    test_part(near, 2);
    one_host = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed), cmocka_unit_test(test_root_killed),
        cmocka_unit_test(test_good_order), cmocka_unit_test(test_one_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
