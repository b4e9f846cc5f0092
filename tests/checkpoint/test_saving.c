/* test: label=full timeout=240 isa=any
 * Checkpoints while training goes on, in one process and in two: they hold the weights of the step
 * that they name, however slow the disk; whichever operation fails, once or from then on, the old
 * or the new one is there and whole; a run that is killed amid one goes on from the one before and
 * ends as if nothing had been. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "checkpoint/checkpoint.h"
#include "checkpoint/durable.h"
#include "run/process.h"
#include <dirent.h>
#include <math.h>

/* Several pieces, so that STEP meets checkpoints that are half taken; steps of a few
 * milliseconds. */
#define YAML                                                                                       \
    "name: run\nmodel: {kind: gpt, layers: 2, heads: 4, channels: 128, context: 8}\n"              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"], validation: 0}\n"            \
    "train: {steps: 8, batch: 2, micro_batch: 1, warmup: 0, decay: none, lr: 1.0e-3, hang_slack: " \
    "20}\n"                                                                                        \
    "parallel: {threads: 1}\ncheckpoint: {every: 2, keep: 10}\n"
#define TINY                                                                                       \
    "name: run\nmodel: {kind: gpt, layers: 2, heads: 2, channels: 12, context: 8}\n"               \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"], validation: 0}\n"            \
    "train: {steps: 6, batch: 2, micro_batch: 1, warmup: 0, decay: none, lr: 1.0e-3, hang_slack: " \
    "20}\n"                                                                                        \
    "parallel: {threads: 1}\ncheckpoint: {every: 2, keep: 10}\n"

static const char *const self[] = {"parallel.transport=self"};

/* --- what a folder holds
 * ---------------------------------------------------------------------------------------- */

/* The hash of all weights in a checkpoint, every tensor read and compared with its own hash. */
static uint64_t read_all(const char *folder, uint64_t *step) {
    pst_ckpt *c;
    uint64_t sum = 0;
    if (pst_ckpt_open(folder, &c) != PST_OK) fail_msg("%s", pst_error());
    for (uint32_t i = 0; i < c->n_tensor; i++) {
        float *value = malloc(c->tensor[i].elements * sizeof *value);
        assert_non_null(value);
        if (pst_ckpt_read(c, c->tensor[i].name, value, c->tensor[i].elements) != PST_OK)
            fail_msg("%s", pst_error());
        free(value);
        sum = sum * 31 + c->tensor[i].part->xxh3; /* sorted by name */
    }
    *step = c->info.step;
    pst_ckpt_close(c);
    return sum;
}

/* Opens every checkpoint of a run that is there: as its step should be. Returns the highest
 * step. */
static uint64_t expect_whole(const char *run, const uint64_t *expected) {
    char path[700], one[1000];
    uint64_t step, most = 0;
    snprintf(path, sizeof path, "%s/checkpoints", run);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        if (!strncmp(e->d_name, ".tmp", 4)) fail_msg("%s/%s is left", path, e->d_name);
        if (strncmp(e->d_name, "step-", 5)) continue;
        snprintf(one, sizeof one, "%s/%.60s", path, e->d_name);
        uint64_t sum = read_all(one, &step);
        if (sum != expected[step])
            fail_msg("%s holds other weights than those of step %d", one, (int)step);
        if (step > most) most = step;
    }
    closedir(dir);
    return most;
}

/* The sums of a run that stops at each step, its last checkpoint written while nothing else goes
 * on. */
static void reference(const char *yaml, uint64_t *expected, int steps) {
    for (int k = 2; k <= steps; k += 2) {
        char name[32], word[40], folder[700];
        const char *words[] = {self[0], word, "checkpoint.every=0"};
        uint64_t step;
        snprintf(name, sizeof name, "%zu-to-%d", strlen(yaml), k);
        snprintf(word, sizeof word, "train.steps=%d", k);
        run_result r = run_here(yaml, name, 1, "", words, 3);
        assert_int_equal(r.exit_status, 0);
        snprintf(folder, sizeof folder, "%s/checkpoints/step-%08d", r.folder, k);
        expected[k] = read_all(folder, &step);
    }
}

static uint64_t tiny[16], small[16];

static void copy(const char *from, const char *to) {
    char command[4000];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", to, from, to);
    assert_int_equal(system(command), 0);
}

/* --- the bits of the step
 * --------------------------------------------------------------------------------------- */

static double held_s(const char *folder) {
    char path[700], line[4096];
    double held = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *j = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(j, "event"));
        if (event && !strcmp(event, "checkpoint")) {
            assert_true(json_integer_value(json_object_get(j, "bytes")) > 1000000);
            assert_true(json_number_value(json_object_get(j, "mb_per_s")) > 0);
            held += json_number_value(json_object_get(j, "held_s"));
        }
        json_decref(j);
    }
    if (f) fclose(f);
    return held;
}

static void test_bits(void **state) {
    (void)state;
    reference(YAML, small, 8);
    for (int ranks = 1; ranks <= 3; ranks++)
        for (int slow_ms = 0; slow_ms <= 40; slow_ms += 20) {
            char name[32];
            snprintf(name, sizeof name, "bits-%d-%d", ranks, slow_ms);
            pst_durable_slow((uint64_t)slow_ms * 1000000);
            run_result r = run_here(YAML, name, ranks, "", self, 1);
            pst_durable_slow(0);
            assert_int_equal(r.exit_status, 0);
            assert_int_equal(expect_whole(r.folder, small), 8);
            printf("%s: steps were held %.3f s\n", name, held_s(r.folder));
        }
}

/* Twice as many as can be written: none is left out. */
static void test_every_step(void **state) {
    (void)state;
    const char *words[] = {self[0], "checkpoint.every=1"};
    pst_durable_slow(10000000);
    run_result r = run_here(TINY, "every", 2, "", words, 2);
    pst_durable_slow(0);
    assert_int_equal(r.exit_status, 0);
    for (int k = 1; k <= 6; k++) {
        char path[700];
        uint64_t step;
        snprintf(path, sizeof path, "%s/checkpoints/step-%08d", r.folder, k);
        read_all(path, &step);
        assert_int_equal(step, k);
    }
}

/* What a run says, whose checkpoints come faster than they can be written; the caller's. */
static char *said_by(const char *name, const char *const *words, size_t n) {
    char path[700], runs[300], *text = calloc(1, 1 << 16);
    pst_config *c = NULL;
    snprintf(path, sizeof path, "%s/%s.said", run_folder(), name);
    snprintf(runs, sizeof runs, "%s/%s", run_folder(), name);
    int before = dup(STDERR_FILENO), fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    pst_train_options o = {.size = sizeof o, .ranks = 1, .runs = runs};
    assert_int_equal(pst_config_parse(TINY, "test.yaml", words, n, &c), PST_OK);
    assert_true(text && before >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    pst_durable_slow(40000000);
    pst_status status = pst_train(c, &o);
    pst_durable_slow(0);
    dup2(before, STDERR_FILENO);
    assert_int_equal(status, PST_OK);
    assert_true(pread(fd, text, (1 << 16) - 1, 0) >= 0);
    close(before);
    close(fd);
    pst_config_close(c);
    return text;
}

/* Who waits is told what both checkpoints are for, and to change checkpoint.every only where that
 * helps. */
static void test_waited(void **state) {
    (void)state;
    const char *const often[] = {self[0], "checkpoint.every=1"};
    const char *const best[] = {self[0], "checkpoint.every=5000", "eval.every=1",
                                "data.validation=0.1", "steps=30"};
    char *text = said_by("waited-often", often, 2);
    const char *every =
        "to start the checkpoint of step 2 (checkpoint.every) until the checkpoint of step 1 "
        "(checkpoint.every) was "
        "written; increase checkpoint.every: writing a checkpoint takes longer than these steps\n";
    if (!strstr(text, every)) fail_msg("'%s' is not in: %s", every, text);
    free(text);
    text = said_by("waited-best", best, 5);
    if (!strstr(text, "training waited") && getenv("PENSTOCK_MODULE")) { /* there evaluations take
                                                                            longer than that */
        free(text);
        return;
    }
    const char *at =
        strstr(text, " (the lowest validation loss so far) until the checkpoint of step ");
    if (!at || !strstr(at, " (the lowest validation loss so far) was written\n"))
        fail_msg("not the cause: %s", text);
    if (strstr(text, "checkpoint.every")) fail_msg("it is not checkpoint.every: %s", text);
    free(text);
}

/* --- every n-th operation
 * --------------------------------------------------------------------------------------- */

static int arm(int lasts, uint64_t n) {
    (lasts ? pst_durable_full_after : pst_durable_fail_after)(n);
    return 0;
}

static void test_full_disk(void **state) {
    (void)state;
    const char *first[] = {self[0], "train.steps=2"};
    char base[700], again[900];
    reference(TINY, tiny, 6);
    run_result old = run_here(TINY, "old", 1, "", first, 2);
    snprintf(base, sizeof base, "%s", old.folder);
    snprintf(again, sizeof again, "%s/again", run_folder());
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int lasts = 0; lasts < 2; lasts++) {
            int failed = 0, n = 0, newer = 0;
            for (run_result r = {.exit_status = 4}; n < 200; n++) {
                copy(base, again);
                arm(lasts, (uint64_t)n + 1);
                r = run_here(TINY, "again", ranks, again, self, 1);
                uint64_t newest = (arm(0, 0), expect_whole(again, tiny));
                if (r.exit_status == 0) {
                    assert_int_equal(newest, 6);
                    char log[1000];
                    snprintf(log, sizeof log, "grep -q checkpoint_failed '%s/metrics.jsonl'",
                             again);
                    if (system(log)) break; /* nothing has failed: n is beyond the last operation */
                } else {
                    assert_int_equal(r.exit_status, 4);
                }
                failed++;
                newer += newest > 2;
            }
            printf("%d ranks, %s: %d failures, %d with a newer checkpoint\n", ranks,
                   lasts ? "lasting" : "once", failed, newer);
            assert_true(n < 200 && failed > 20 && newer > 5 && (!lasts || newer < failed));
        }
}

/* --- processes -------------------------------------------------------------------------------- */

/* This program as the rank of a job: "rank YAML RUNS RESUME RANKS BAD LASTS N SLOW_MS": the N-th
 * operation of rank BAD fails. */
enum { WORDS = 10 };

static int be_rank(int argc, char **argv) {
    const char *rank = getenv("PMIX_RANK");
    pst_config *c = NULL;
    int ranks = atoi(argv[5]);
    if (argc != WORDS) return 9;
    pst_train_options o = {.size = sizeof o,
                           .ranks = ranks,
                           .runs = argv[3],
                           .resume = argv[4],
                           .quiet = 1,
                           .argv = argv};
    if (rank ? atoi(rank) == atoi(argv[6]) : ranks == 1) {
        arm(atoi(argv[7]), strtoull(argv[8], NULL, 10));
        pst_durable_slow(strtoull(argv[9], NULL, 10) * 1000000);
    }
    pst_status status = pst_config_load(argv[2], NULL, 0, &c);
    if (status == PST_OK) status = pst_train(c, &o);
    if (status != PST_OK && *pst_error()) fprintf(stderr, "%s\n", pst_error());
    pst_config_close(c);
    return pst_status_exit(status);
}

/* ranks, which of them goes wrong, whether for good, from which operation on, how slow in ms. */
static process start_job(const char *yaml, const char *resume, const int value[5]) {
    static char file[600], runs[600], number[5][16];
    const char *argv[WORDS + 1] = {"/proc/self/exe", "rank", file, runs, resume};
    snprintf(file, sizeof file, "%s/job.yaml", run_folder());
    snprintf(runs, sizeof runs, "%s/job", run_folder());
    run_write_file(file, yaml);
    for (int i = 0; i < 5; i++) {
        snprintf(number[i], sizeof number[i], "%d", value[i]);
        argv[5 + i] = number[i];
    }
    return process_start(argv, "job");
}

static void test_processes(void **state) {
    (void)state;
    const char *first[] = {self[0], "train.steps=2"};
    char base[700], again[900];
    int done = 0;
    run_result old = run_here(TINY, "old-2", 1, "", first, 2);
    snprintf(base, sizeof base, "%s", old.folder);
    snprintf(again, sizeof again, "%s/processes", run_folder());
    for (int bad = 0; bad < 2; bad++)
        for (int n = 1; n <= 22 - 10 * bad; n += 1 + bad) {
            copy(base, again);
            process p = start_job(TINY, again, (int[]){2, bad, n % 2, n, 0});
            int status = process_wait(&p, 60);
            if (status != 0 && status != 4)
                fail_msg("rank %d, n %d: status %d: %s", bad, n, status, process_said(&p));
            uint64_t newest = expect_whole(again, tiny);
            assert_true(status == 4 || newest == 6);
            done++;
        }
    printf("%d jobs\n", done);
}

/* Killed while the checkpoint of step 4 is on its way. */
static void test_killed(void **state) {
    (void)state;
    const char *first[] = {self[0], "train.steps=2"};
    char base[700], again[900], unfinished[1000];
    run_result old = run_here(YAML, "old-3", 1, "", first, 2);
    snprintf(base, sizeof base, "%s", old.folder);
    snprintf(again, sizeof again, "%s/killed", run_folder());
    snprintf(unfinished, sizeof unfinished, "%s/checkpoints/.tmp-step-00000004", again);
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int i = 0; i < 3; i++) {
            copy(base, again);
            process p = start_job(YAML, again, (int[]){ranks, ranks - 1, 0, 0, 100});
            for (double end = process_now() + 30; access(unfinished, F_OK) && process_now() < end;)
                process_sleep_ms(1);
            process_sleep_ms(i * 20);
            kill(p.pid, SIGKILL);
            assert_int_equal(process_wait(&p, 30), 128 + SIGKILL);
            run_result r = {.exit_status = -1};
            for (int k = 0; k < 100 && r.exit_status; k++) {
                /* ranks whose launcher was killed need a moment */
                r = run_here(YAML, "killed", 3 - ranks, again, self, 1);
                if (r.exit_status) process_sleep_ms(50);
            }
            assert_int_equal(r.exit_status, 0);
            assert_int_equal(expect_whole(again, small), 8);
        }
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "rank")) return be_rank(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),      cmocka_unit_test(test_every_step),
        cmocka_unit_test(test_waited),    cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_processes), cmocka_unit_test(test_killed)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
