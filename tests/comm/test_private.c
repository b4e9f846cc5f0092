/* test: label=quick timeout=60
 * A job keeps to itself: world `tcp` takes in only who knows the job's secret, however strangers
 * knock; our launcher's PMIx server knows no other job's name; and what the ranks share in /dev/shm
 * is this user's alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/port.h"
#include "comm/ranks.h"
#include "comm/world/secret.h"
#include "comm/world/tcp.h"
#include "skip.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *const secret = "sesame-0123456789";
static char port[8];

static void choose_port(void) { port_choose(port); }

static void set_variables(uint32_t rank, uint32_t size, const char *word) {
    char number[16];
    snprintf(number, sizeof number, "%u", rank);
    setenv("RANK", number, 1);
    snprintf(number, sizeof number, "%u", size);
    setenv("WORLD_SIZE", number, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    setenv("PENSTOCK_SECRET", word, 1);
}

/* --- ranks of world tcp, one process each ----------------------------------------------------- */

/* Puts, fences and reads everybody's value, twice: the second time under the same key. */
static int exchange(pst_world *w) {
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t mine = 100 * round + w->rank;
        RANK_CHECK(w->ops->put(w, "value", &mine, sizeof mine) == PST_OK);
        RANK_CHECK(w->rank || w->ops->put(w, "empty", "", 0) == PST_OK);
        RANK_CHECK(w->ops->fence(w) == PST_OK);
        for (uint32_t r = 0; r < w->size; r++) {
            void *value;
            size_t bytes;
            RANK_CHECK(w->ops->get(w, r, "value", &value, &bytes) == PST_OK);
            RANK_CHECK(bytes == sizeof mine && *(uint32_t *)value == 100 * round + r);
            free(value);
            RANK_CHECK(w->ops->get(w, r, "empty", &value, &bytes) == (r ? PST_EPEER : PST_OK));
            if (!r) free(value);
        }
    }
    RANK_CHECK(w->local_rank == w->rank && w->local_size == w->size);
    RANK_CHECK(w->sharing == (getenv("BOUND") ? 1 : w->size));
    return 0;
}

/* Exit status of a rank: that of its failure to come in, or of the exchange. what: its error must
 * hold this. */
static pid_t start_rank(uint32_t rank, uint32_t size, const char *word, const char *what) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid) return pid;
    set_variables(rank, size, word);
    pst_world *w;
    pst_status status = pst_world_tcp.open(&w);
    if (status != PST_OK && !strstr(pst_error(), what)) {
        fprintf(stderr, "rank %u: '%s' is not in: %s\n", rank, what, pst_error());
        _exit(98);
    }
    if (status != PST_OK) _exit(pst_status_exit(status));
    int result = exchange(w);
    w->ops->close(w);
    _exit(result);
}

static int end_of(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_together(void **state) {
    (void)state;
    enum { N = 5 };
    pid_t pid[N];
    choose_port();
    for (uint32_t r = N; r-- > 0;) pid[r] = start_rank(r, N, secret, "");
    for (uint32_t r = 0; r < N; r++) assert_int_equal(end_of(pid[r]), 0);
}

/* Ranks that somebody has bound to processors of their own do not share them with their
 * neighbours. */
static void test_bound(void **state) {
    (void)state;
    cpu_set_t all, one;
    pid_t pid[2];
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2) {
        (void)SKIPPED("ranks that are bound to processors: there is one processor");
        skip();
    }
    choose_port();
    setenv("BOUND", "1", 1);
    for (int cpu = 0, r = 0; r < 2; cpu++) {
        if (!CPU_ISSET(cpu, &all)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0); /* inherited */
        pid[r] = start_rank((uint32_t)r, 2, secret, "");
        r++;
    }
    unsetenv("BOUND");
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    for (int r = 0; r < 2; r++) assert_int_equal(end_of(pid[r]), 0);
}

/* --- strangers -------------------------------------------------------------------------------- */

static int connect_to_root(void) { return port_connect(port); }

/* Rank 0 has said once, of all whom it refused, that there was one. */
static void check_refusal(FILE *said) {
    char text[2000];
    rewind(said);
    text[fread(text, 1, sizeof text - 1, said)] = 0;
    fclose(said);
    const char *refused =
        strstr(text, " was rejected: its PENSTOCK_SECRET differs from that of rank 0");
    if (!refused || !strstr(text, "rank 1 at 127.0.0.1") || strstr(refused + 1, " was rejected"))
        fail_msg("rank 0 said: %s", text);
}

/* Two hundred that say nothing, noise, too little or a join that is almost right; then the ranks
 * come all the same. */
static void test_strangers(void **state) {
    (void)state;
    enum { SILENT = 200 };
    uint8_t noise[4096], greeting[40];
    int fd[SILENT];
    choose_port();
    FILE *said = tmpfile();
    int errors = dup(STDERR_FILENO);
    assert_true(said && errors >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0);
    pid_t root = start_rank(0, 3, secret, "");
    dup2(errors, STDERR_FILENO);
    close(errors);
    for (int i = 0; i < SILENT; i++) fd[i] = connect_to_root();
    for (int i = 0; i < 20; i++) {
        int f = connect_to_root();
        RANK_CHECK(pst_secret_random(noise, sizeof noise) == PST_OK);
        if (i % 2 && recv(f, greeting, sizeof greeting, MSG_WAITALL) < 0) perror("greeting");
        if (send(f, noise, i % 3 ? sizeof noise : (size_t)i, MSG_NOSIGNAL) < 0) perror("noise");
        close(f);
    }
    pid_t wrong = start_rank(1, 3, "another-0123456789", "check that PENSTOCK_SECRET is the same");
    assert_int_equal(end_of(wrong), 2);
    pid_t other = start_rank(1, 4, secret, "has a different one");
    assert_int_equal(end_of(other), 2);
    pid_t second = start_rank(0, 3, secret, "cannot listen");
    assert_int_equal(end_of(second), 2);
    pid_t one = start_rank(1, 3, secret, "two processes have RANK 1"),
          twin = start_rank(1, 3, secret, "two processes have RANK 1");
    int status;
    pid_t loser = waitpid(-1, &status, 0); /* the other one waits for rank 2 */
    assert_true(loser == one || loser == twin);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    assert_int_equal(end_of(start_rank(2, 3, secret, "")), 0);
    assert_int_equal(end_of(loser == one ? twin : one), 0);
    assert_int_equal(end_of(root), 0);
    for (int i = 0; i < SILENT; i++) close(fd[i]);
    check_refusal(said);
}

/* As many silent ones as are listened to at a time, and then all ranks at once: none loses its
 * place to another. */
static void test_crowd(void **state) {
    (void)state;
    enum { SILENT = 128, N = 25 };
    int fd[SILENT];
    pid_t pid[N];
    choose_port();
    pid[0] = start_rank(0, N, secret, "");
    for (int i = 0; i < SILENT; i++) fd[i] = connect_to_root();
    for (uint32_t r = 1; r < N; r++) pid[r] = start_rank(r, N, secret, "");
    for (uint32_t r = 0; r < N; r++) assert_int_equal(end_of(pid[r]), 0);
    for (int i = 0; i < SILENT; i++) close(fd[i]);
}

/* One rank needs no rendezvous, and no port. */
static void test_alone(void **state) {
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    choose_port();
    a.sin_port = htons((uint16_t)atoi(port));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(end_of(start_rank(0, 1, secret, "")), 0);
    close(fd);
}

/* A queue that is full swallows what comes, as a firewall does: the time given is kept all the
 * same. */
static void test_silent_port(void **state) {
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), filler[8], out[2];
    choose_port();
    a.sin_port = htons((uint16_t)atoi(port));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 0), 0);
    for (int i = 0; i < 8; i++) {
        filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(filler[i], (struct sockaddr *)&a, sizeof a) && errno != EINPROGRESS)
            fail_msg("%s", strerror(errno));
    }
    pst_tcp_job job = {
        .rank = 1, .size = 2, .address = "127.0.0.1", .port = port, .secret = secret, .seconds = 1};
    uint64_t began = pst_monotonic_ns();
    assert_int_equal(pst_tcp_join(&job, out), PST_EPEER);
    assert_non_null(strstr(pst_error(), "rank 1 cannot connect to rank 0"));
    assert_true(out[0] == -1 && out[1] == -1);
    assert_true(pst_monotonic_ns() - began < UINT64_C(5000000000));
    for (int i = 0; i < 8; i++) close(filler[i]);
    close(fd);
}

/* Too few descriptors for the ranks is said at once: nobody spins until the time is over. */
static void test_descriptors(void **state) {
    (void)state;
    choose_port();
    fflush(NULL);
    pid_t root = fork();
    if (root == 0) {
        int probe = open("/dev/null", O_RDONLY), fd[2];
        close(probe);
        /* the listener's */
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)probe + 1, (rlim_t)probe + 1});
        pst_tcp_job job = {.rank = 0,
                           .size = 2,
                           .address = "127.0.0.1",
                           .port = port,
                           .secret = secret,
                           .seconds = 20};
        pst_status status = pst_tcp_join(&job, fd);
        int said = strstr(pst_error(), "cannot accept a connection") != NULL;
        if (!said) fprintf(stderr, "rank 0: %s\n", pst_error());
        _exit(said ? pst_status_exit(status) : 98);
    }
    int fd = connect_to_root();
    assert_int_equal(end_of(root), 4);
    close(fd);
}

/* Whoever sits at rank 0's address without the secret learns nothing and is not believed. */
static void test_false_root(void **state) {
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char magic[8] = {'p', 's', 't', 'k', 't', 'c', 'p', 1};
    uint8_t hello[40] = {0}, join[72], answer[36] = {0};
    for (int way = 0; way < 2; way++) {
        choose_port();
        int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
        a.sin_port = htons((uint16_t)atoi(port));
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
        assert_int_equal(listen(fd, 1), 0);
        pid_t rank =
            start_rank(1, 2, secret,
                       way ? "has a different PENSTOCK_SECRET" : "is not rank 0 of this version");
        int c = accept(fd, NULL, NULL);
        if (way) memcpy(hello, magic, sizeof magic);
        assert_int_equal(send(c, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
        if (way) {
            assert_int_equal(recv(c, join, sizeof join, MSG_WAITALL), sizeof join);
            assert_int_equal(send(c, answer, sizeof answer, MSG_NOSIGNAL), sizeof answer);
        }
        assert_int_equal(end_of(rank), 2);
        close(c);
        close(fd);
    }
}

static void expect_refusal(const char *name, const char *value, const char *what) {
    pst_world *w;
    set_variables(1, 2, secret);
    if (value) setenv(name, value, 1);
    else unsetenv(name);
    assert_int_equal(pst_world_tcp.open(&w), PST_EINPUT);
    if (!strstr(pst_error(), what)) fail_msg("%s=%s: %s", name, value ? value : "", pst_error());
}

static void test_variables(void **state) {
    (void)state;
    choose_port();
    expect_refusal("RANK", "2", "RANK is '2'; expected 0 to 1");
    expect_refusal("RANK", "-1", "RANK is '-1'");
    expect_refusal("WORLD_SIZE", "two", "WORLD_SIZE is 'two'");
    expect_refusal("WORLD_SIZE", "0", "WORLD_SIZE is '0'");
    expect_refusal("PENSTOCK_SECRET", "short", "PENSTOCK_SECRET is too short");
    expect_refusal("MASTER_PORT", "99999", "MASTER_PORT is '99999'; expected 1 to 65535");
    expect_refusal("MASTER_PORT", "no-port", "MASTER_ADDR, MASTER_PORT: 127.0.0.1, port no-port: ");
    pst_tcp_job job = {
        .rank = 0, .size = 3, .address = "127.0.0.1", .port = port, .secret = secret, .seconds = 1};
    int fd[3];
    assert_int_equal(pst_tcp_join(&job, fd), PST_EPEER);
    assert_non_null(strstr(pst_error(), "2 of 3 ranks did not join"));
    assert_non_null(strstr(pst_error(), "within 1 s; missing: 1, 2"));
    assert_true(fd[0] == -1 && fd[1] == -1 && fd[2] == -1);
    static const char *const need[] = {"RANK", "MASTER_ADDR", "MASTER_PORT"};
    for (int i = 0; i < 3; i++) { /* forgotten: no rank of several trains alone */
        char expected[100];
        snprintf(expected, sizeof expected, "WORLD_SIZE is 2, but %s is not set", need[i]);
        expect_refusal(need[i], NULL, expected);
        assert_null(pst_world_tcp.reject());
    }
    setenv("WORLD_SIZE", "1", 1);
    assert_non_null(pst_world_tcp.reject());
    set_variables(1, 2, secret);
    unsetenv("WORLD_SIZE");
    assert_non_null(pst_world_tcp.reject());
}

/* Every ingredient counts. */
static void test_proof(void **state) {
    (void)state;
    uint8_t a[PST_SECRET_NONCE] = {1}, b[PST_SECRET_NONCE] = {2}, first[PST_SECRET_PROOF],
            proof[PST_SECRET_PROOF];
    assert_int_equal(pst_secret_prove("s", &(pst_secret_claim){"p", a, b, 1, 2}, first), PST_OK);
    assert_int_equal(pst_secret_prove("s", &(pst_secret_claim){"p", a, b, 1, 2}, proof), PST_OK);
    assert_true(pst_secret_equal(first, proof));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pst_secret_prove(i == 0 ? "t" : "s",
                                          &(pst_secret_claim){i == 1 ? "q" : "p", i == 2 ? b : a, b,
                                                              i == 3 ? 3 : 1, i == 4 ? 3 : 2},
                                          proof),
                         PST_OK);
        assert_false(pst_secret_equal(first, proof));
    }
}

/* --- jobs of our own launcher ----------------------------------------------------------------- */

/* All shared memory that this process has mapped by name, and that still has one, is nobody else's
 * to read. */
static void check_modes(void) {
    char line[1024];
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) {
        struct stat st;
        char *name = strstr(line, "/dev/shm/");
        if (!name) continue;
        name[strcspn(name, "\n")] = 0;
        if (stat(name, &st) == 0 && st.st_mode & 077) {
            fprintf(stderr, "%s: mode %o\n", name, st.st_mode & 0777);
            exit(97);
        }
    }
    if (f) fclose(f);
}

/* Rank 0 starts a stranger that knows where the server is, but not the job's name. */
static int rank_private(rank_state *r) {
    check_modes();
    if (r->world->rank == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            setenv("PMIX_NAMESPACE", "penstock-1-0", 1);
            execl("/proc/self/exe", "test", "stranger", (char *)NULL);
            _exit(96);
        }
        RANK_CHECK(end_of(pid) == 0);
    }
    RANK_CHECK(rank_collective(r, PST_COLL_BARRIER, NULL, 0, PST_I32, 0) == PST_OK);
    return 0;
}

static void test_launched(void **state) {
    (void)state;
    assert_int_equal(launch(3, "private", "", 2000), 0);
}

int main(int argc, char **argv) {
    rank_state r;
    pst_world *w;
    if (argc == 2 && !strcmp(argv[1], "stranger"))
        return pst_world_pmix.open(&w) == PST_OK ? 95 : 0;
    if (argc > 2 && !strcmp(argv[1], "rank")) {
        rank_open(&r);
        int status = rank_private(&r);
        rank_close(&r);
        return status;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),    cmocka_unit_test(test_bound),
        cmocka_unit_test(test_strangers),   cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_alone),       cmocka_unit_test(test_silent_port),
        cmocka_unit_test(test_descriptors), cmocka_unit_test(test_false_root),
        cmocka_unit_test(test_variables),   cmocka_unit_test(test_proof),
        cmocka_unit_test(test_launched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
