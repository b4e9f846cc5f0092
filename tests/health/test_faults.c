/* test: label=full timeout=240 isa=any
 * What happens to a training run when a rank is killed or stopped, the launcher dies or the disk
 * fills up: the right exit status and sentence, nobody left behind, and a run that goes on from its
 * last good checkpoint to the very same weights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/job.h"
#include <sys/mount.h>
#include <sys/resource.h>

/* --- ranks ------------------------------------------------------------------------------------ */

/* how often a survivor told where the other one was; how to go on was said */
static int n_told, n_noted;

/* The rank is named with its host and its last instruction, in one line. */
static void check_named(const job *j, int rank, const char *what) {
    char start[64], host[64] = "", line[1024] = "";
    gethostname(host, sizeof host - 1);
    snprintf(start, sizeof start, "penstock: rank %d on ", rank);
    const char *at = strstr(process_said(&j->p), start);
    if (!at) fail_msg("rank %d is not named: %s", rank, process_said(&j->p));
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    if (!strstr(line, what) || !strstr(line, host) || !strstr(line, " during "))
        fail_msg("what happened is not said: %s", line);
    if (strstr(at + 1, "penstock: rank "))
        fail_msg("more than one is blamed: %s", process_said(&j->p));
    n_told += strstr(line, "; rank ") && strstr(line, " step ");
    n_noted += strstr(at, "\npenstock: resume with: penstock train --resume ") != NULL;
}

static void lose_rank(const char *name, int n, int rank, int signal, const char *what) {
    job j = start_job(ENDLESS(4), name, n, 12);
    double began = process_now();
    assert_int_equal(kill(j.rank[rank], signal), 0);
    int status = process_wait(&j.p, LIMIT_S);
    if (status != 3) fail_msg("%s: exit status %d: %s", name, status, process_said(&j.p));
    printf("%s: over after %.2f s\n", name, process_now() - began);
    check_named(&j, rank, what);
    check_nothing_left(&j);
}

static void test_killed(void **state) {
    (void)state;
    lose_rank("killed-first", 2, 0, SIGKILL, "was killed by signal 9");
    lose_rank("killed-middle", 4, 2, SIGKILL, "was killed by signal 9");
    lose_rank("killed-last", 3, 2, SIGUSR2, "was killed by signal 12");
    lose_rank("aborted", 3, 1, SIGABRT, "was killed by signal 6");
    for (int i = 0; i < 6; i++) { /* amid transfers */
        char name[32];
        snprintf(name, sizeof name, "killed-again-%d", i);
        lose_rank(name, 2, i % 2, SIGKILL, "was killed by signal 9");
    }
    printf("told %d times, noted %d times\n", n_told, n_noted);
    assert_true(n_told > 0 && n_noted > 0); /* not each time: a survivor may not have come to it */
}

static void test_stopped(void **state) {
    (void)state;
    lose_rank("stopped", 3, 1, SIGSTOP, "was stopped");
}

static void test_launcher_killed(void **state) {
    (void)state;
    job j = start_job(ENDLESS(10), "no-launcher", 3, 12);
    kill(j.p.pid, SIGKILL);
    assert_int_equal(process_wait(&j.p, LIMIT_S), 128 + SIGKILL);
    double end = process_now() + LIMIT_S;
    for (int i = 0; i < j.n; i++) {
        while (process_alive(j.rank[i]) && process_now() < end) process_sleep_ms(10);
        assert_false(process_alive(j.rank[i]));
    }
    char command[1300];
    /* a killed launcher cleans nothing */
    snprintf(command, sizeof command, "rm -rf '%s' && mkdir '%s'", temporary, temporary);
    assert_int_equal(system(command), 0);
}

/* --- disks ------------------------------------------------------------------------------------ */

/* Something stands where the checkpoints should go: the run goes on without, and says so. */
static void test_no_folder(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++) {
        char name[32], path[700], moved[720];
        snprintf(name, sizeof name, "no-folder-%d", n);
        job j = start_job(ENDLESS(5), name, n, 7);
        snprintf(path, sizeof path, "%s/checkpoints", j.folder);
        snprintf(moved, sizeof moved, "%s.moved", path);
        while (rename(path, moved)) process_sleep_ms(1);
        run_write_file(path, "no folder\n");
        int steps = process_steps(j.folder);
        assert_true(process_reaches(&j.p, j.folder, steps + 20, 60));
        kill(j.p.pid, SIGINT);
        int status = process_wait(&j.p, LIMIT_S);
        /* its weights are lost */
        if (status != 4) fail_msg("%s: exit status %d: %s", name, status, process_said(&j.p));
        check_said(&j, "cannot write the checkpoint of step");
        check_said(&j, "training continues");
        assert_true(entries(moved) >= 1);
        check_nothing_left(&j);
    }
}

/* The disk is full after a while: the last good checkpoint stays, and a resume from it works. */
static void fill_up(const char *name, const char *folder, int n, rlim_t file_bytes) {
    struct rlimit before, small = {.rlim_cur = file_bytes, .rlim_max = RLIM_INFINITY};
    char file[400], ranks[16], run[800];
    snprintf(file, sizeof file, "%s/%s.yaml", run_folder(), name);
    snprintf(ranks, sizeof ranks, "%d", n);
    run_write_file(file, MODEL(3, 32, 24) "train: {steps: 30, batch: 4, micro_batch: 1, warmup: "
                                          "0}\ncheckpoint: {every: 5, keep: 50}\n");
    const char *argv[] = {PST_BINARY, "train", file, "--runs", folder, "-q", "-n", ranks, NULL};
    getrlimit(RLIMIT_FSIZE, &before);
    if (file_bytes) {
        small.rlim_max = before.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    }
    process p = process_start(argv, name);
    setrlimit(RLIMIT_FSIZE, &before);
    int status = process_wait(&p, 60);
    const char *said = process_said(&p);
    if (status != 4 || !strstr(said, "cannot write the checkpoint of step") ||
        !strstr(said, "training continues"))
        fail_msg("%s: exit status %d: %s", name, status, said);
    snprintf(run, sizeof run, "%s/run", folder);
    /* a line of the metrics may meet a disk that a checkpoint fills just then */
    if (process_steps(run) != 30 && !strstr(said, "training continues without metrics"))
        fail_msg("%s: %d steps in the metrics: %s", name, process_steps(run), said);
}

static void test_full_disk(void **state) {
    (void)state;
    char folder[400], run[400], words[600];
    snprintf(folder, sizeof folder, "%s/small", run_folder());
    mkdir(folder, 0700);
    if (mount("tmpfs", folder, "tmpfs", 0, "size=2m")) {
        printf("no small file system to be had\n");
        return;
    }
    fill_up("full-disk", folder, 2, 0);
    snprintf(run, sizeof run, "%s/full", run_folder());
    char command[1000];
    snprintf(command, sizeof command, "cp -r '%s/run' '%s'", folder, run);
    int copied = system(command);
    umount2(folder, MNT_DETACH);
    assert_int_equal(copied, 0);
    snprintf(words, sizeof words, "-q -n 1 train.steps=31 --resume '%s'", run);
    run_result r = run_program(
        PST_BINARY, MODEL(3, 32, 24) "train: {steps: 30, batch: 4, micro_batch: 1, warmup: 0}\n",
        "full-again", words);
    assert_int_equal(r.exit_status, 0);
    assert_int_equal(process_steps(run), 31);
}

/* `ulimit -f`: metrics fit, and the tensors' bytes, which are compared before the run starts
 * (cli.limits), but not the header of their file. */
static void test_file_limit(void **state) {
    (void)state;
    char folder[600];
    snprintf(folder, sizeof folder, "%s/file-limit", run_folder());
    fill_up("file-limit", folder, 1, 567000); /* one rank: UCX's shared memory are files, too */
}

/* --- crashes ---------------------------------------------------------------------------------- */

#define CRASHY                                                                                     \
    MODEL(2, 24, 20)                                                                               \
    "train: {steps: 60, batch: 4, micro_batch: 1, warmup: 0, lr: 1.0e-3}\ncheckpoint: {every: 1, " \
    "keep: 2}\n"

static void remove_folder(const char *path) {
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/* The first one is written while the second step is made. */
static int has_checkpoint(const char *folder) {
    char path[700];
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    int n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) n += !strncmp(e->d_name, "step-", 5);
    if (dir) closedir(dir);
    if (!n) assert_true(process_steps(folder) <= 2);
    return n > 0;
}

/* The run is killed again and again, at any moment, writing checkpoints all the time; it ends with
 * the same weights. */
static void test_crashes(void **state) {
    (void)state;
    const char *self[] = {"parallel.transport=self"};
    run_result calm = run_here(CRASHY, "calm", 1, "", self, 1);
    assert_int_equal(calm.exit_status, 0);
    char folder[600], ranks[16];
    int crashes = 0, status = -1;
    snprintf(folder, sizeof folder, "%s/crashy/run", run_folder());
    for (int i = 0; status && i < 40; i++) {
        const char *fresh[] = {"-q", "-n", ranks, NULL},
                   *again[] = {"-q", "-n", ranks, "--resume", folder, NULL};
        snprintf(ranks, sizeof ranks, "%d", 1 + i % 3);
        int before = process_steps(folder);
        if (!has_checkpoint(folder)) {
            remove_folder(folder);
            before = 0;
        }
        process p = process_train(CRASHY, "crashy", before ? again : fresh);
        if (i < 12 && process_reaches(&p, folder, before + 1 + i % 5, 30)) {
            process_sleep_ms(i % 4);
            kill(p.pid, SIGKILL);
            crashes++;
        }
        status = process_wait(&p, 60);
        if (status && status != 128 + SIGKILL)
            fail_msg("after %d crashes: exit status %d: %s", crashes, status, process_said(&p));
    }
    run_result r = {.exit_status = status};
    snprintf(r.folder, sizeof r.folder, "%s/crashy/run", run_folder());
    run_read(&r);
    printf("%d crashes\n", crashes);
    assert_int_equal(r.steps, 60);
    assert_string_equal(r.hash, calm.hash);
    for (int i = 0; i < 60; i++) assert_string_equal(r.loss[i], calm.loss[i]);
}

static int clean(void **state) {
    char small[600];
    snprintf(small, sizeof small, "%s/small", run_folder());
    umount2(small, MNT_DETACH); /* should a test have failed with it */
    return job_close(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),          cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_launcher_killed), cmocka_unit_test(test_no_folder),
        cmocka_unit_test(test_full_disk),       cmocka_unit_test(test_file_limit),
        cmocka_unit_test(test_crashes),
    };
    return cmocka_run_group_tests(tests, job_open, clean);
}
