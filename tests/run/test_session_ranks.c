/* test: label=quick timeout=60
 * Sessions of several processes look at each other first, as runs do: another configuration and
 * another graph are named on all of them; parallel.bind gives each its cores; between hosts (here:
 * host names) links are timed; then they train with the bits of one process. */
#include "penstock/train.h"
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "comm/port.h"
#include "skip.h"

enum { N = 2, BATCH = 4, TIME = 4, CHANNELS = 4, VOCABULARY = 7 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (condition) break;                                                                      \
        fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, pst_error());          \
        _exit(99);                                                                                 \
    } while (0)

/* In a child: what fails ends it. more: a setting, or NULL. layers: of the graph, between the
 * tables. */
static pst_status open_session(const char *more, int layers, pst_session **session) {
    const char *settings[] = {"batch=4", "micro_batch=2", "steps=4", "threads=1", "lr=1e-2", more};
    uint32_t in, next, table, x;
    pst_config *c;
    pst_graph *g;
    pst_plan *plan;
    CHECK(pst_config_open("test", settings, more ? 6 : 5, &c) == PST_OK);
    CHECK(pst_graph_open("test", 2, &g) == PST_OK);
    CHECK(pst_graph_add_data(g, "tokens", 2, (uint64_t[]){2, TIME}, &in) == PST_OK);
    CHECK(pst_graph_add_data(g, "targets", 2, (uint64_t[]){2, TIME}, &next) == PST_OK);
    CHECK(pst_graph_add_param(g, "table", 2, (uint64_t[]){VOCABULARY, CHANNELS}, PST_INIT_NORMAL,
                              0.3f, 1, &table) == PST_OK);
    CHECK(pst_graph_add_embedding(g, "embedding", in, table, PST_NONE, &x) == PST_OK);
    for (int i = 0; i < layers; i++) {
        char name[16];
        uint32_t weight;
        snprintf(name, sizeof name, "layer%d", i);
        CHECK(pst_graph_add_param(g, name, 2, (uint64_t[]){CHANNELS, CHANNELS}, PST_INIT_NORMAL,
                                  0.3f, 1, &weight) == PST_OK);
        CHECK(pst_graph_add_linear(g, name, x, weight, PST_NONE, PST_ACT_GELU_TANH, &x) == PST_OK);
    }
    CHECK(pst_graph_add_linear(g, "head", x, table, PST_NONE, PST_ACT_NONE, &x) == PST_OK);
    CHECK(pst_graph_add_cross_entropy(g, "loss", x, next, &x) == PST_OK);
    CHECK(pst_plan_solve(c, g, N, &plan) == PST_OK);
    pst_status status = pst_session_open(c, g, plan, session);
    pst_plan_close(plan);
    pst_graph_close(g);
    pst_config_close(c);
    return status;
}

/* Two steps; every process has the same weights. */
static uint64_t train(pst_session *s) {
    int32_t tokens[BATCH * TIME], targets[BATCH * TIME];
    uint64_t hash;
    for (int i = 0; i < BATCH * TIME; i++) {
        tokens[i] = i % VOCABULARY;
        targets[i] = (3 * i + 1) % VOCABULARY;
    }
    for (int i = 0; i < 2; i++)
        CHECK(pst_session_step(s, (const int32_t *const[]){tokens, targets}, 2, NULL) == PST_OK);
    CHECK(pst_session_hash(s, &hash) == PST_OK);
    return hash;
}

/* In a process: a session is refused with these words, or trains to this hash. */
static void be_rank(const char *more, int layers, const char *refused, uint64_t hash) {
    pst_session *s;
    cpu_set_t before, after;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    pst_status status = open_session(more, layers, &s);
    if (refused) {
        CHECK(status == PST_EINPUT && strstr(pst_error(), refused));
        _exit(0);
    }
    if (status == PST_EINPUT && strstr(pst_error(), "fewer cores than ranks"))
        _exit(0); /* bound, had there been any */
    CHECK(status == PST_OK);
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(!more || strcmp(more, "bind=core") || CPU_COUNT(&after) < CPU_COUNT(&before));
    CHECK(train(s) == hash);
    pst_session_close(s);
    _exit(0);
}

/* 0: it may not. said: what the process says on standard error from now on. */
static int be_host(int rank, FILE *said) {
    char name[16];
    int n = snprintf(name, sizeof name, "host-%d", rank);
    return !unshare(CLONE_NEWUTS) && !sethostname(name, (size_t)n) &&
           dup2(fileno(said), STDERR_FILENO) >= 0;
}

static FILE *hosts; /* NULL: the ranks are on one */

/* What rank 1 has in place of rank 0's, and what both of them hear of it; NULL: they train. */
static void in_two(const char *const more[N], const int layers[N], const char *refused,
                   uint64_t hash) {
    pid_t pid[N];
    char port[8], rank[12];
    int status;
    port_choose(port);
    fflush(NULL);
    for (int r = 0; r < N; r++) {
        if ((pid[r] = fork())) continue;
        snprintf(rank, sizeof rank, "%d", r);
        setenv("RANK", rank, 1);
        setenv("WORLD_SIZE", "2", 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", port, 1);
        setenv("PENSTOCK_SECRET", "sesame-0123456789", 1);
        if (hosts && !be_host(r, hosts)) _exit(98);
        be_rank(more[r], layers[r], refused, hash);
    }
    for (int r = 0; r < N; r++) {
        assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
        assert_int_equal(status, 0);
    }
}

static void test_compared(void **state) {
    (void)state;
    in_two(
        (const char *const[]){NULL, "lr=2e-2"}, (const int[]){2, 2},
        "rank 1 has a different run file than rank 0: 'train.lr: 0.02' on rank 1, 'train.lr: 0.01' "
        "on rank 0",
        0);
    in_two((const char *const[]){NULL, NULL}, (const int[]){2, 3},
           "rank 1 has a different plan than rank 0", 0);
}

/* This process alone, in a child: the libraries of the ranks are not to be there before they
 * fork. */
static uint64_t hash_alone(void) {
    int out[2];
    uint64_t hash = 0;
    pst_session *s;
    assert_int_equal(pipe(out), 0);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(open_session(NULL, 2, &s) == PST_OK);
        hash = train(s);
        CHECK(write(out[1], &hash, sizeof hash) == sizeof hash);
        _exit(0);
    }
    close(out[1]);
    assert_int_equal(read(out[0], &hash, sizeof hash), sizeof hash);
    close(out[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return hash;
}

static void test_trains(void **state) {
    (void)state;
    uint64_t hash = hash_alone();
    in_two((const char *const[]){NULL, NULL}, (const int[]){2, 2}, NULL, hash);
    in_two((const char *const[]){"bind=core", "bind=core"}, (const int[]){2, 2}, NULL, hash);
}

static void test_hosts(void **state) {
    (void)state;
    uint64_t hash = hash_alone();
    static char said[1 << 16];
    int status;
    pid_t pid = fork();
    if (pid == 0) _exit(unshare(CLONE_NEWUTS) != 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status) {
        (void)SKIPPED("two hosts: no UTS namespaces can be made here");
        skip();
    }
    hosts = tmpfile();
    assert_non_null(hosts);
    in_two((const char *const[]){"log.level=debug", "log.level=debug"}, (const int[]){2, 2}, NULL,
           hash);
    rewind(hosts);
    said[fread(said, 1, sizeof said - 1, hosts)] = 0;
    if (!strstr(said, "link from rank 0 to rank 1: ")) fail_msg("no link was timed: %s", said);
    fclose(hosts);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_compared),
                                       cmocka_unit_test(test_trains), cmocka_unit_test(test_hosts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
