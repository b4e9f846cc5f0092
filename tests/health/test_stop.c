/* test: label=full timeout=240 isa=any
 * What signals do to a training run, to one process and to ranks that the program starts: SIGINT,
 * SIGTERM and SIGHUP save and stop with a status that says so, SIGUSR1 saves, SIGQUIT ends at once.
 * Other launchers: signals.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/job.h"

static int has_step(const job *j, int step) {
    char checkpoint[700];
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/step-%08d/index.json", j->folder, step);
    return !access(checkpoint, F_OK);
}

/* rank: who gets the signal; -1: the launcher. */
static void stop_softly(const char *name, int n, int rank, int signal, int expected) {
    job j = start_job(ENDLESS(0), name, n, 3);
    kill(rank < 0 ? j.p.pid : j.rank[rank], signal);
    int status = process_wait(&j.p, LIMIT_S);
    if (status != expected) fail_msg("%s: exit status %d: %s", name, status, process_said(&j.p));
    if (strstr(process_said(&j.p), "penstock: rank "))
        fail_msg("%s: blames: %s", name, process_said(&j.p));
    if (!has_step(&j, process_steps(j.folder))) fail_msg("%s: its last step is not saved", name);
    check_nothing_left(&j);
}

/* Saved; only what a person has typed is a success. */
static void test_interrupt(void **state) {
    (void)state;
    stop_softly("interrupt-1", 1, -1, SIGINT, 0);
    stop_softly("interrupt-3", 3, -1, SIGINT, 0);
    stop_softly("interrupt-rank", 3, 1, SIGINT, 0);
    stop_softly("terminate-1", 1, -1, SIGTERM, 143);
    stop_softly("terminate-2", 2, -1, SIGTERM, 143);
    stop_softly("terminate-rank", 3, 2, SIGTERM, 143);
    stop_softly("hangup-1", 1, -1, SIGHUP, 129);
    stop_softly("hangup-2", 2, -1, SIGHUP, 129);
    stop_softly("hangup-rank", 3, 0, SIGHUP, 129);
}

/* Whether this is in some line of metrics.jsonl. */
static int noted(const job *j, const char *what) {
    char path[700], line[4096];
    int found = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", j->folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) found |= strstr(line, what) != NULL;
    if (f) fclose(f);
    return found;
}

/* What is left is to evaluate and to save: the run is complete, whatever was asked. */
static void in_the_last_step(const char *name, int n, int signal) {
    const char *yaml =
        MODEL(4, 192, 128) "train: {steps: 2, batch: 32, micro_batch: 2, warmup: 0}\n"
                           "checkpoint: {every: 0}\neval: {tokens: 1024}\n";
    job j = start_job(yaml, name, n, 1);
    kill(j.p.pid, signal);
    int status = process_wait(&j.p, 4 * LIMIT_S);
    if (status) fail_msg("%s: exit status %d: %s", name, status, process_said(&j.p));
    assert_true(has_step(&j, 2));
    assert_true(noted(&j, "\"validation\""));
    assert_true(noted(&j, "\"done\""));
}

static void test_last_step(void **state) {
    (void)state;
    in_the_last_step("last-hangup-1", 1, SIGHUP);
    in_the_last_step("last-terminate-2", 2, SIGTERM);
}

/* UCX has handlers of its own for whatever signal its variables name. */
static void test_ucx_signals(void **state) {
    (void)state;
    setenv("UCX_DEBUG_SIGNO", "SIGTERM", 1);
    setenv("UCX_ERROR_SIGNALS", "SIGINT,SIGHUP,SIGSEGV", 1);
    stop_softly("ucx-1", 1, -1, SIGTERM, 143);
    stop_softly("ucx-2", 2, 1, SIGHUP, 129);
    unsetenv("UCX_DEBUG_SIGNO");
    unsetenv("UCX_ERROR_SIGNALS");
}

/* A closed terminal sends several. */
static void test_hangups(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++) {
        char name[32];
        snprintf(name, sizeof name, "hangups-%d", n);
        job j = start_job(ENDLESS(0), name, n, 3);
        for (int i = 0; i < 4; i++) {
            kill(j.p.pid, SIGHUP);
            process_sleep_ms(60);
        }
        int status = process_wait(&j.p, LIMIT_S);
        if (status != 129) fail_msg("%s: exit status %d: %s", name, status, process_said(&j.p));
        assert_true(has_step(&j, process_steps(j.folder)));
    }
}

/* As nohup starts it: SIGHUP is nothing, to the launcher and to its ranks. */
static void test_nohup(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++) {
        char name[32];
        snprintf(name, sizeof name, "nohup-%d", n);
        signal(SIGHUP, SIG_IGN);
        job j = start_job(ENDLESS(0), name, n, 3);
        signal(SIGHUP, SIG_DFL);
        kill(j.p.pid, SIGHUP);
        for (int i = 0; i < n && n > 1; i++) kill(j.rank[i], SIGHUP);
        int steps = process_steps(j.folder);
        if (!process_reaches(&j.p, j.folder, steps + 10, 60))
            fail_msg("%s has ended: %s", name, process_said(&j.p));
        kill(j.p.pid, SIGTERM);
        assert_int_equal(process_wait(&j.p, LIMIT_S), 143);
    }
}

/* As a script starts it in its background, or after trap '' TERM: the same holds for these. */
static void test_ignored(void **state) {
    (void)state;
    const int signals[] = {SIGINT, SIGQUIT, SIGTERM};
    for (int n = 1; n <= 2; n++) {
        char name[32];
        snprintf(name, sizeof name, "ignored-%d", n);
        for (int i = 0; i < 3; i++) signal(signals[i], SIG_IGN);
        job j = start_job(ENDLESS(0), name, n, 3);
        for (int i = 0; i < 3; i++) signal(signals[i], SIG_DFL);
        for (int i = 0; i < 3; i++) {
            kill(j.p.pid, signals[i]);
            kill(n > 1 ? j.rank[1] : j.p.pid, signals[i]);
        }
        int steps = process_steps(j.folder);
        if (!process_reaches(&j.p, j.folder, steps + 10, 60))
            fail_msg("%s has ended: %s", name, process_said(&j.p));
        kill(j.p.pid, SIGHUP);
        assert_int_equal(process_wait(&j.p, LIMIT_S), 129);
    }
}

/* One line, by rank 0, that says what comes: also where the signal was another rank's. */
static void said_once(const char *name, int n, int rank, int signal, const char *text) {
    pid_t child[PROCESS_MAX_CHILD];
    char folder[600], ranks[16];
    snprintf(folder, sizeof folder, "%s/%s/run", run_folder(), name);
    snprintf(ranks, sizeof ranks, "%d", n);
    const char *words[] = {"-n", ranks, "parallel.threads=1", NULL};
    process p = process_train(ENDLESS(0), name, words);
    if (!process_reaches(&p, folder, 3, 60)) fail_msg("%s has ended: %s", name, process_said(&p));
    int found = process_children(p.pid, child);
    pid_t pid = p.pid;
    for (int i = 0; i < found && rank >= 0; i++)
        if (process_rank(child[i]) == rank) pid = child[i];
    kill(pid, signal);
    process_wait(&p, LIMIT_S);
    const char *at = strstr(process_said(&p), text);
    if (!at || strstr(at + strlen(text), "stopping after"))
        fail_msg("%s: not '%s' once: %s", name, text, process_said(&p));
}

static void test_said(void **state) {
    (void)state;
    said_once("said-interrupt", 1, -1, SIGINT,
              "\nstopping after this step (a second signal stops at once, without saving)\n");
    said_once("said-hangup", 2, -1, SIGHUP, "\nstopping after this step, saving\n");
    said_once("said-rank", 2, 1, SIGTERM, "\nstopping after this step, saving\n");
}

static int checkpoints_of(const job *j) {
    char folder[700];
    snprintf(folder, sizeof folder, "%s/checkpoints", j->folder);
    return access(folder, F_OK) ? 0 : entries(folder);
}

/* SIGUSR1 saves, and the run goes on: one checkpoint, whoever is told. */
static void test_save(void **state) {
    (void)state;
    for (int n = 1; n <= 3; n++) {
        char name[32];
        snprintf(name, sizeof name, "save-%d", n);
        job j = start_job(ENDLESS(0), name, n, 3);
        kill(n == 3 ? j.rank[1] : j.p.pid, SIGUSR1);
        for (double end = process_now() + LIMIT_S; checkpoints_of(&j) < 1 && process_now() < end;)
            process_sleep_ms(5);
        int steps = process_steps(j.folder);
        if (!process_reaches(&j.p, j.folder, steps + 10, 60))
            fail_msg("%s has ended: %s", name, process_said(&j.p));
        assert_int_equal(checkpoints_of(&j), 1);
        kill(j.p.pid, SIGTERM);
        assert_int_equal(process_wait(&j.p, LIMIT_S), 143);
        assert_true(has_step(&j, process_steps(j.folder)));
    }
}

/* At once: nothing is saved, and nobody takes it for success. */
static void test_quit(void **state) {
    (void)state;
    for (int n = 1; n <= 3; n++) {
        char name[32];
        snprintf(name, sizeof name, "quit-%d", n);
        job j = start_job(ENDLESS(0), name, n, 3);
        kill(n == 3 ? j.rank[1] : j.p.pid, SIGQUIT);
        int status = process_wait(&j.p, LIMIT_S);
        if (status != 128 + SIGQUIT)
            fail_msg("%s: exit status %d: %s", name, status, process_said(&j.p));
        assert_int_equal(checkpoints_of(&j), 0);
        check_nothing_left(&j);
    }
}

/* A step takes long; the second signal does not wait for its end. */
static void test_interrupt_twice(void **state) {
    (void)state;
    const char *slow = MODEL(
        4, 384,
        256) "train: {steps: 100, batch: 32, micro_batch: 2, warmup: 0}\ncheckpoint: {every: 0}\n";
    for (int n = 1; n <= 2; n++) {
        char name[32];
        snprintf(name, sizeof name, "twice-%d", n);
        job j = start_job(slow, name, n, 1);
        kill(j.p.pid, SIGINT);
        process_sleep_ms(300);
        kill(j.p.pid, SIGINT);
        int status = process_wait(&j.p, LIMIT_S);
        char path[700];
        snprintf(path, sizeof path, "%s/checkpoints", j.folder);
        if (access(path, F_OK) == 0) {
            printf("%s: the step was over before the second signal\n", name);
            continue;
        }
        if (status != 128 + SIGINT)
            fail_msg("%s: exit status %d: %s", name, status, process_said(&j.p));
        check_nothing_left(&j);
    }
}

/* --- as a library ----------------------------------------------------------------------------- */

static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGQUIT};
enum { N_CAUGHT = sizeof caught / sizeof *caught };
static volatile sig_atomic_t own_calls;

static void own_handler(int number) { own_calls += number > 0; }

/* A child that sends a signal to this process, once its run has made three steps. */
static pid_t signal_later(const char *name, int number) {
    char folder[600];
    snprintf(folder, sizeof folder, "%s/%s/run", run_folder(), name);
    pid_t parent = getpid(), pid = fork();
    if (pid) return pid;
    for (double end = process_now() + 60; process_steps(folder) < 3 && process_now() < end;)
        process_sleep_ms(2);
    kill(parent, number);
    _exit(0);
}

/* size: of the options, as this or an earlier version has them. */
static pst_status train_here(const char *name, const char *yaml, size_t size, int *stopped) {
    char runs[300];
    pst_config *c = NULL;
    snprintf(runs, sizeof runs, "%s/%s", run_folder(), name);
    pst_train_options o = {.size = size, .ranks = 2, .runs = runs, .quiet = 1, .stopped = stopped};
    const char *self[] = {"parallel.transport=self"};
    assert_int_equal(pst_config_parse(yaml, "test.yaml", self, 1, &c), PST_OK);
    pst_status status = pst_train(c, &o);
    pst_config_close(c);
    return status;
}

static void check_own_handlers(void) {
    own_calls = 0;
    for (int i = 0; i < N_CAUGHT; i++) raise(caught[i]);
    assert_int_equal(own_calls, N_CAUGHT);
}

/* The caller is told, and its handlers are put back. */
static void test_library(void **state) {
    (void)state;
    const int asks[] = {SIGINT, SIGTERM, SIGHUP};
    const char *brief = MODEL(2, 32, 24) "train: {steps: 2, batch: 4, micro_batch: 1, warmup: 0}\n";
    int stopped = -1;
    for (int i = 0; i < N_CAUGHT; i++) signal(caught[i], own_handler);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "library-%d", i);
        pid_t child = signal_later(name, asks[i]);
        assert_int_equal(train_here(name, ENDLESS(0), sizeof(pst_train_options), &stopped), PST_OK);
        waitpid(child, NULL, 0);
        assert_int_equal(stopped, asks[i]);
        check_own_handlers();
    }
    assert_int_equal(train_here("library-all", brief, sizeof(pst_train_options), &stopped), PST_OK);
    assert_int_equal(stopped, 0);
    stopped = -1;
    assert_int_equal(
        train_here("library-old", brief, offsetof(pst_train_options, stopped), &stopped), PST_OK);
    assert_int_equal(stopped, -1);
    for (int i = 0; i < N_CAUGHT; i++) signal(caught[i], SIG_DFL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interrupt), cmocka_unit_test(test_ucx_signals),
        cmocka_unit_test(test_hangups),   cmocka_unit_test(test_last_step),
        cmocka_unit_test(test_ignored),   cmocka_unit_test(test_said),
        cmocka_unit_test(test_nohup),     cmocka_unit_test(test_save),
        cmocka_unit_test(test_quit),      cmocka_unit_test(test_interrupt_twice),
        cmocka_unit_test(test_library),
    };
    return cmocka_run_group_tests(tests, job_open, job_close);
}
