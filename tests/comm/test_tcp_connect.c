/* test: label=quick timeout=60
 * Where world `tcp` listens and calls: beside the store that torchrun's agent keeps at MASTER_PORT,
 * if there is one; and an address without a route is said with its reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/port.h"
#include "comm/world/tcp.h"
#include "comm/world/world.h"
#include <string.h>
#include <sys/wait.h>

static const char *const secret = "sesame-0123456789";

/* -1: taken. */
static int hold(uint32_t port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0); /* what has just been closed is free */
    a.sin_port = htons((uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 8) == 0) return fd;
    close(fd);
    return -1;
}

/* The store: a listener whose next port is free, below those that the kernel gives away. *store:
 * the listener. */
static uint32_t choose_store(int *store) {
    for (uint32_t port = 30000 + 2 * ((uint32_t)getpid() % 1300); port < 32766; port += 2) {
        int beside = hold(port + 1);
        *store = beside < 0 ? -1 : hold(port);
        if (beside >= 0) close(beside);
        if (*store >= 0) return port;
    }
    fail_msg("no port is free");
    return 0;
}

/* Ends with 0 when the world opens and all come to a fence, else with the status; 98 when the
 * message lacks `what`. */
static pid_t start_rank(uint32_t rank, uint32_t port, const char *has_store, const char *what) {
    char number[12];
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    pst_world *w;
    snprintf(number, sizeof number, "%u", rank);
    setenv("RANK", number, 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    snprintf(number, sizeof number, "%u", port);
    setenv("MASTER_PORT", number, 1);
    setenv("PENSTOCK_SECRET", secret, 1);
    setenv("TORCHELASTIC_USE_AGENT_STORE", has_store, 1);
    pst_world_tcp_wait(20);
    pst_status status = pst_world_tcp.open(&w);
    if (status != PST_OK && !strstr(pst_error(), what)) {
        fprintf(stderr, "rank %u: '%s' is not in: %s\n", rank, what, pst_error());
        _exit(98);
    }
    if (status != PST_OK) _exit(pst_status_exit(status));
    status = w->ops->fence(w);
    w->ops->close(w);
    _exit(pst_status_exit(status));
}

static int end_of(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_agent_store(void **state) {
    (void)state;
    int store;
    uint32_t port = choose_store(&store);
    pid_t pid[2];
    for (uint32_t r = 0; r < 2; r++) pid[r] = start_rank(r, port, "True", "");
    for (uint32_t r = 0; r < 2; r++) assert_int_equal(end_of(pid[r]), 0);
    int beside = hold(port + 1);
    assert_true(beside >= 0);
    pid_t late = start_rank(0, port, "True",
                            "next to MASTER_PORT, which torchrun's store uses: cannot listen");
    assert_int_equal(end_of(late), 2);
    close(beside);
    assert_int_equal(
        end_of(start_rank(0, port, "False", "MASTER_ADDR, MASTER_PORT: cannot listen")), 2);
    close(store);
}

/* A group's address is nobody's: the kernel knows no route for a connection. */
static void test_no_route(void **state) {
    (void)state;
    pst_tcp_job job = {.rank = 1,
                       .size = 2,
                       .address = "224.0.0.1",
                       .port = "29500",
                       .secret = secret,
                       .seconds = 1};
    int fd[2];
    assert_int_equal(pst_tcp_join(&job, fd), PST_EPEER);
    if (!strstr(pst_error(), "rank 1 cannot connect to rank 0 at 224.0.0.1:29500 within 1 s: "
                             "Network is unreachable"))
        fail_msg("%s", pst_error());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_agent_store),
                                       cmocka_unit_test(test_no_route)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
