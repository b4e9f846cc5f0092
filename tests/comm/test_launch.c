/* test: label=quick timeout=60 */
/* What the launcher and the heartbeat do when a rank is killed, stopped, fails or ends the job;
 * signals to the launcher; and that nothing is left behind. Most scenarios run the launcher in a
 * child of its own, to read what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/ranks.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { OPCODE_F = 0, OPCODE_STEP = 9, LIMIT_MS = 15000 };

/* --- scenarios of ranks ----------------------------------------------------------------------- */

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int signal) { asked_to_stop = signal; }

/* All wait for a message of rank 2 that never comes; rank 2 goes in the way the scenario says. */
static int wait_for_rank_2(rank_state *r, const char *way) {
    uint64_t word, request;
    *pst_heartbeat_instr(r->heartbeat) = (uint64_t)OPCODE_F << 56 | UINT64_C(2) << 32 | 3;
    pst_status here = rank_collective(r, PST_COLL_BARRIER, NULL, 0, PST_I32, 0);
    if (here != PST_OK)
        return rank_give_up(r, here); /* rank 2 was through it, and gone, before this one was */
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (r->world->rank == 2) {
        if (!strcmp(way, "kill")) raise(SIGKILL);
        if (!strcmp(way, "usr1")) raise(SIGUSR1);
        if (!strcmp(way, "stop")) raise(SIGSTOP);
        if (!strcmp(way, "exit")) _exit(7);
        if (!strcmp(way, "leave")) exit(0);
        if (!strcmp(way, "input")) _exit(2);
        if (!strcmp(way, "abort")) r->world->ops->abort(r->world, 4, "no disk");
        if (!strcmp(way, "fail")) return rank_give_up(r, pst_fail(PST_ENOMEM, "no disk"));
    }
    if (r->world->rank == 2 && !strcmp(way, "accuse"))
        pst_heartbeat_accuse(r->heartbeat, 1, 0, "rank 1 it was");
    if (!strcmp(way, "deaf") || !strcmp(way, "accuse"))
        for (;;) pause();
    RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_RECV, 2, 0, 0, &word, sizeof word),
                         &request) == PST_OK);
    return rank_give_up(r, rank_finish(r, request));
}

/* Rank 2 offers memory and dies; rank 0 reads it afterwards, at once, without a look at the
 * heartbeat. */
static int read_the_dead(rank_state *r) {
    static uint8_t mem[4 << 20];
    uint64_t request, end_ns;
    for (uint32_t root = 0; root <= 2; root += 2) /* UCX sets up what it needs in both directions */
        RANK_CHECK(rank_collective(r, PST_COLL_BROADCAST, mem, sizeof mem, PST_F32, root) ==
                   PST_OK);
    /* whoever is through dies only when all are */
    RANK_CHECK(r->world->ops->fence(r->world) == PST_OK);
    if (r->world->rank == 2) {
        RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_SEND, 0, 0, 0, mem, sizeof mem),
                             &request) == PST_OK);
        for (int i = 0; i < 1000; i++) r->t->ops->progress(r->t);
        raise(SIGKILL);
    }
    while (pst_heartbeat_check(r->heartbeat) == PST_OK) usleep(1000);
    if (r->world->rank == 0) {
        pst_status status =
            rank_post(r, transfer_of(PST_TRANSFER_RECV, 2, 0, 0, mem, sizeof mem), &request);
        for (int i = 0; i < 1000 && status == PST_OK; i++) {
            r->t->ops->progress(r->t);
            status = r->t->ops->test(r->t, request, &end_ns);
            if (status == PST_BUSY) status = PST_OK;
        }
        fprintf(stderr, "rank 0: %s: %s\n", status == PST_EPEER ? "lost" : "?", pst_error());
    }
    return rank_give_up(r, pst_heartbeat_check(r->heartbeat));
}

static int run_until_asked(rank_state *r, int obey) {
    signal(SIGINT, obey ? on_signal : SIG_IGN);
    signal(SIGTERM, obey ? on_signal : SIG_IGN);
    signal(SIGHUP, obey ? on_signal : SIG_IGN);
    RANK_CHECK(rank_collective(r, PST_COLL_BARRIER, NULL, 0, PST_I32, 0) == PST_OK);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    while (!asked_to_stop) {
        usleep(1000);
        if (pst_heartbeat_check(r->heartbeat) != PST_OK) return rank_give_up(r, PST_EPEER);
    }
    printf("asked\n");
    fflush(stdout);
    rank_close(r);
    return 0;
}

static int rank_main(const char *scenario, const char *way) {
    rank_state r;
    if (!strcmp(scenario, "status")) return atoi(way);
    if (!strcmp(scenario, "early") && !strcmp(getenv("PMIX_RANK"), "1")) raise(atoi(way));
    if (!strcmp(scenario, "late") && !strcmp(getenv("PMIX_RANK"), "1")) return 0;
    rank_open(&r);
    if (!strcmp(scenario, "read")) return read_the_dead(&r);
    if (!strcmp(scenario, "wait")) return wait_for_rank_2(&r, way);
    if (!strcmp(scenario, "run")) return run_until_asked(&r, strcmp(way, "deaf") != 0);
    return 98;
}

/* --- a launcher in a child, and what it says -------------------------------------------------- */

typedef struct {
    pid_t pid;
    int out;
    char said[16384];
    uint32_t used;
} child;

/* Runs the launcher in a process of its own, which ends with the job's exit status. */
static child start_launcher(uint32_t n, const char *scenario, const char *way, uint32_t grace_ms) {
    child c = {0};
    int ends[2];
    char ranks[16], grace[16];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    snprintf(ranks, sizeof ranks, "%u", n);
    snprintf(grace, sizeof grace, "%u", grace_ms);
    fflush(NULL);
    c.pid = fork();
    if (!c.pid) {
        signal(SIGINT, SIG_DFL); /* a shell's background ignores them */
        signal(SIGQUIT, SIG_DFL);
        /* as the program does: PMIx may write to a rank that has just been killed */
        signal(SIGPIPE, SIG_IGN);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves nobody behind */
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execl("/proc/self/exe", "test", "launch", ranks, scenario, way, grace, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    c.out = ends[0];
    return c;
}

/* Reads on until `text` has come `times` times (NULL: until the end). */
static int hear(child *c, const char *text, int times) {
    uint64_t until = pst_monotonic_ns() + LIMIT_MS * UINT64_C(1000000);
    while (pst_monotonic_ns() < until) {
        int seen = 0;
        for (char *at = c->said; text && (at = strstr(at, text)); at++) seen++;
        if (text && seen >= times) return 1;
        struct pollfd fd = {.fd = c->out, .events = POLLIN};
        if (poll(&fd, 1, 100) <= 0) continue;
        ssize_t got = read(c->out, c->said + c->used, sizeof c->said - 1 - c->used);
        if (got <= 0) return text == NULL;
        c->said[c->used += (uint32_t)got] = 0;
    }
    return 0;
}

/* All output is closed: neither launcher nor ranks hold it any more. Returns the launcher's exit
 * status. */
static int finish(child *c, uint64_t since_ns, uint32_t limit_ms) {
    int status, over = hear(c, NULL, 0);
    if (!over) fprintf(stderr, "still running: %s\n", c->said);
    assert_true(over);
    uint64_t took_ms = (pst_monotonic_ns() - since_ns) / 1000000;
    printf("  over after %llu ms\n", (unsigned long long)took_ms);
    assert_true(took_ms < limit_ms);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    close(c->out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void assert_said(const child *c, const char *text) {
    if (!strstr(c->said, text)) fail_msg("not said: \"%s\" in:\n%s", text, c->said);
}

static void one_fault(const char *way, int expected_status, const char *launcher_says,
                      const char *ranks_say) {
    uint64_t start = pst_monotonic_ns();
    child c = start_launcher(4, "wait", way, 2000);
    int status = finish(&c, start, LIMIT_MS);
    if (status != expected_status) fail_msg("%s: exit status %d:\n%s", way, status, c.said);
    if (launcher_says) assert_said(&c, launcher_says);
    if (ranks_say) assert_said(&c, ranks_say);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void exit_statuses_are_joined(void **state) {
    (void)state;
    assert_int_equal(launch(3, "status", "0", 100), 0);
    assert_int_equal(launch(2, "status", "5", 100), 5);
    char *argv[] = {NULL};
    pst_launch_end end;
    assert_int_equal(pst_launch_local(0, argv, 100, &end), PST_EINPUT);
}

static void a_killed_rank_is_named(void **state) {
    (void)state;
    char host[64] = "", text[256];
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text,
             "penstock: rank 2 on %s was killed by signal 9 during F chunk 2 micro-batch 3\n",
             host);
    char peers[256];
    snprintf(peers, sizeof peers,
             "rank 0: rank 2 on %s died (last activity: F chunk 2 micro-batch 3)", host);
    one_fault("kill", 3, text, peers);
    one_fault("usr1", 3, "was killed by signal 10 during F chunk 2 micro-batch 3\n",
              "rank 1: rank 2 on ");
}

static void a_failing_rank_gives_its_status(void **state) {
    (void)state;
    one_fault("exit", 7, "exited with status 7 during F chunk 2", "rank 3: rank 2 on ");
    one_fault("fail", 4, "rank 2: no disk", "rank 3: rank 2 on ");
    const char *ways[] = {"input", "fail"};
    for (int i = 0; i < 2; i++) {
        uint64_t start = pst_monotonic_ns();
        child c = start_launcher(4, "wait", ways[i], 2000);
        assert_int_equal(finish(&c, start, LIMIT_MS), i ? 4 : 2);
        if (strstr(c.said, "penstock:"))
            fail_msg("a rank with status 2 or 4 speaks for itself:\n%s", c.said);
    }
}

/* A library may call exit(0): nobody waits for that rank for ever. */
static void a_rank_that_leaves_with_0_is_named(void **state) {
    (void)state;
    one_fault("leave", 3, "penstock: rank 2 on ",
              "exited with status 0 before the job was done during F chunk 2");
    uint64_t start = pst_monotonic_ns();
    child c = start_launcher(3, "late", "", 500);
    assert_int_equal(finish(&c, start, LIMIT_MS), 3);
    assert_said(&c, "rank 1 on ");
    assert_said(&c, "exited with status 0 before it joined the other ranks");
}

/* The dead rank's memory is read while it goes: the survivor says who died, and does not crash
 * itself. */
static void a_survivor_does_not_abort(void **state) {
    (void)state;
    uint64_t start = pst_monotonic_ns();
    child c = start_launcher(3, "read", "", 2000);
    assert_int_equal(finish(&c, start, LIMIT_MS), 3);
    assert_said(&c, "rank 2 on ");
    assert_said(&c, "was killed by signal 9");
    assert_said(&c, "rank 0: lost");
    if (strstr(c.said, "signal 6") || strstr(c.said, "process_vm_readv"))
        fail_msg("UCX is heard:\n%s", c.said);
}

static void ranks_that_do_not_leave_are_killed(void **state) {
    (void)state;
    child c = start_launcher(3, "wait", "deaf", 300);
    assert_true(hear(&c, "ready", 3));
    int pid = atoi(strstr(c.said, "ready") + 6);
    uint64_t start = pst_monotonic_ns();
    kill(pid, SIGKILL);
    assert_int_equal(finish(&c, start, 5000), 3);
}

/* They know who it was, and are held up in leaving: nothing ends that would wake the launcher. */
static void a_verdict_is_said_though_nobody_leaves(void **state) {
    (void)state;
    uint64_t start = pst_monotonic_ns();
    child c = start_launcher(3, "wait", "accuse", 100);
    assert_int_equal(finish(&c, start, LIMIT_MS), 3);
    assert_said(&c, "penstock: rank 1 it was\n");
}

static void signals_are_forwarded(void **state) {
    (void)state;
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        child c = start_launcher(3, "run", "obey", 2000);
        assert_true(hear(&c, "ready", 3));
        uint64_t start = pst_monotonic_ns();
        kill(c.pid, signals[i]);
        assert_int_equal(finish(&c, start, 5000), 0);
        assert_true(hear(&c, "asked", 3));
    }
}

static void a_second_signal_kills(void **state) {
    (void)state;
    child c = start_launcher(3, "run", "deaf", 2000);
    assert_true(hear(&c, "ready", 3));
    kill(c.pid, SIGINT);
    usleep(100000);
    assert_int_equal(waitpid(c.pid, NULL, WNOHANG), 0);
    uint64_t start = pst_monotonic_ns();
    kill(c.pid, SIGINT);
    assert_int_equal(finish(&c, start, 5000), 130);
}

/* To one rank while it starts: the job is interrupted, and the others, which wait for that rank,
 * get no grace. */
static void a_signal_to_one_rank_ends_the_start(void **state) {
    (void)state;
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (int i = 0; i < 4; i++) {
        char way[16];
        snprintf(way, sizeof way, "%d", signals[i]);
        uint64_t start = pst_monotonic_ns();
        child c = start_launcher(3, "early", way, 20000);
        assert_int_equal(finish(&c, start, 10000), 128 + signals[i]);
        if (strstr(c.said, "penstock:"))
            fail_msg("signal %s: somebody is blamed:\n%s", way, c.said);
    }
}

static void ranks_die_with_the_launcher(void **state) {
    (void)state;
    child c = start_launcher(3, "run", "deaf", 2000);
    assert_true(hear(&c, "ready", 3));
    uint64_t start = pst_monotonic_ns();
    kill(c.pid, SIGKILL);
    /* the pipe closed: no rank holds it */
    assert_int_equal(finish(&c, start, 5000), 1000 + SIGKILL);
}

static char state_of(int pid) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    size_t got = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    char *at = got ? strrchr(line, ')') : NULL;
    return at && at[1] ? at[2] : 0;
}

static int becomes(int pid, char wanted) {
    for (int i = 0; i < 500; i++) {
        if (state_of(pid) == wanted) return 1;
        usleep(10000);
    }
    return 0;
}

/* What takes the two seconds that a rank may be silent, side by side: a rank is stopped while its
 * peers wait for it, another where nobody looks; the whole job is stopped for longer, which is no
 * fault; a rank asks for the job's end. */
static void stops(void **state) {
    (void)state;
    uint64_t start = pst_monotonic_ns();
    child stop = start_launcher(4, "wait", "stop", 2000),
          asleep = start_launcher(3, "run", "obey", 2000);
    child blind = start_launcher(3, "wait", "deaf", 100),
          abort_ = start_launcher(3, "wait", "abort", 500);
    assert_true(hear(&asleep, "ready", 3) && hear(&blind, "ready", 3));
    int pid = atoi(strstr(blind.said, "ready") + 6);
    kill(pid, SIGSTOP);
    kill(asleep.pid, SIGTSTP);
    assert_true(becomes(asleep.pid, 'T'));
    for (char *at = asleep.said; (at = strstr(at, "ready")); at++)
        assert_true(becomes(atoi(at + 6), 'T'));
    assert_int_equal(finish(&abort_, start, LIMIT_MS), 4);
    assert_said(&abort_, "requested the end of the job (no disk) during F chunk 2");
    assert_int_equal(finish(&stop, start, LIMIT_MS), 3);
    assert_said(&stop, "was stopped during F chunk 2 micro-batch 3\n");
    assert_said(&stop, "has sent no heartbeat for 2.0 s (last activity: F chunk 2 micro-batch 3)");
    assert_int_equal(finish(&blind, start, LIMIT_MS), 3);
    assert_said(&blind, "was stopped during");
    kill(asleep.pid, SIGCONT);
    usleep(200000);
    assert_int_equal(waitpid(asleep.pid, NULL, WNOHANG), 0);
    start = pst_monotonic_ns();
    kill(asleep.pid, SIGINT);
    assert_int_equal(finish(&asleep, start, 5000), 0);
}

/* The four ranks of a launcher share nothing that has a name. */
static void check_segments(pid_t launcher) {
    char path[64];
    int pid, n = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)launcher, (int)launcher);
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%d", &pid) == 1) {
        n++;
        assert_int_equal(rank_segments(pid), 0);
    }
    if (f) fclose(f);
    assert_int_equal(n, 4);
}

static void nothing_is_left_behind(void **state) {
    (void)state;
    char folder[] = "/tmp/test-launch-XXXXXX";
    assert_non_null(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    uint64_t start = pst_monotonic_ns();
    child c = start_launcher(4, "wait", "kill", 2000);
    assert_int_equal(finish(&c, start, LIMIT_MS), 3);
    c = start_launcher(4, "run", "deaf", 2000);
    assert_true(hear(&c, "ready", 4));
    check_segments(c.pid);
    start = pst_monotonic_ns();
    kill(c.pid, SIGKILL);
    finish(&c, start, 5000);
    unsetenv("TMPDIR");
    if (rmdir(folder)) fail_msg("%s: %s", folder, strerror(errno));
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "rank")) return rank_main(argv[2], argc > 3 ? argv[3] : "");
    if (argc > 5 && !strcmp(argv[1], "launch"))
        return launch((uint32_t)atoi(argv[2]), argv[3], argv[4], (uint32_t)atoi(argv[5]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_statuses_are_joined),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_failing_rank_gives_its_status),
        cmocka_unit_test(a_rank_that_leaves_with_0_is_named),
        cmocka_unit_test(a_survivor_does_not_abort),
        cmocka_unit_test(ranks_that_do_not_leave_are_killed),
        cmocka_unit_test(signals_are_forwarded),
        cmocka_unit_test(a_second_signal_kills),
        cmocka_unit_test(a_signal_to_one_rank_ends_the_start),
        cmocka_unit_test(ranks_die_with_the_launcher),
        cmocka_unit_test(stops),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(a_verdict_is_said_though_nobody_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
