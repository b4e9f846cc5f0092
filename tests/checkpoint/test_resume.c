/* test: label=full isa=any timeout=180
 * Going on: an interrupt during a long validation is heard and leaves a checkpoint; what is resumed
 * must be ours alone, of the same seed, and not finished; `best` is the checkpoint of the best
 * validation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/process.h"
#include <math.h>
#include <sys/file.h>
#include <sys/resource.h>

#define SLOW                                                                                       \
    "name: run\nmodel: {kind: gpt, layers: 4, heads: 4, channels: 192, context: 64}\n"             \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/**/*.c\"], validation: 0.95}\n"           \
    "train: {steps: 1000, batch: 2, micro_batch: 1, warmup: 0, validate_every: 1}\ncheckpoint: "   \
    "{every: 0}\n"
#define SMALL                                                                                      \
    "name: run\nmodel: {kind: gpt, layers: 2, heads: 2, channels: 16, context: 16}\n"              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/s*.[ch]\"], validation: 0.2}\n"      \
    "train: {steps: 24, batch: 4, micro_batch: 1, warmup: 0, lr: 5.0e-2, validate_every: 2}\n"     \
    "checkpoint: {every: 0, keep: 1}\n"

enum { LIMIT_S = 30 };

static char folder[600];

static int is_there(const char *name) {
    char path[800];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static int has_event(const char *event) {
    char path[800], text[100], line[4096];
    int found = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    snprintf(text, sizeof text, "\"event\":\"%s\"", event);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) found |= strstr(line, text) != NULL;
    if (f) fclose(f);
    return found;
}

static void test_interrupted_validation(void **state) {
    (void)state;
    for (int n = 1; n <= 2; n++) {
        char name[32], ranks[16];
        const char *words[] = {"-q", "-n", ranks, "parallel.threads=1", NULL};
        snprintf(ranks, sizeof ranks, "%d", n);
        snprintf(name, sizeof name, "validation-%d", n);
        snprintf(folder, sizeof folder, "%s/%s/run", run_folder(), name);
        process p = process_train(SLOW, name, words);
        if (!process_reaches(&p, folder, 1, 60))
            fail_msg("%s: no step: %s", name, process_said(&p));
        process_sleep_ms(300);
        kill(p.pid, SIGINT);
        int status = process_wait(&p, LIMIT_S);
        if (status) fail_msg("%s: exit status %d: %s", name, status, process_said(&p));
        assert_int_equal(process_steps(folder), 1);
        assert_true(has_event("end") && !has_event("validation"));
        assert_true(is_there("checkpoints/step-00000001/index.json") &&
                    !is_there("checkpoints/best"));
    }
}

static void expect(const char *name, const char *words, int status, const char *sentence) {
    char log[700], text[4096], arguments[1200];
    snprintf(arguments, sizeof arguments, "-n 1 --resume '%s' %s", folder, words);
    run_result r = run_program(PST_BINARY, SMALL, name, arguments);
    snprintf(log, sizeof log, "%s/%s.log", run_folder(), name);
    FILE *f = fopen(log, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    if (r.exit_status != status || !strstr(text, sentence))
        fail_msg("%s: exit status %d: %s", name, r.exit_status, text);
}

/* The step whose validation loss is the lowest, the earliest of equals. */
static long best_step(void) {
    char path[800], line[4096];
    double lowest = INFINITY;
    long best = -1;
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *j = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(j, "event"));
        double loss = json_number_value(json_object_get(j, "loss"));
        if (event && !strcmp(event, "validation") && loss < lowest) {
            lowest = loss;
            best = (long)json_integer_value(json_object_get(j, "step"));
        }
        json_decref(j);
    }
    if (f) fclose(f);
    return best;
}

static void test_best(void **state) {
    (void)state;
    char path[800], target[64] = "", expected[64];
    run_result r = run_program(PST_BINARY, SMALL, "small", "-q -n 2");
    assert_int_equal(r.exit_status, 0);
    snprintf(folder, sizeof folder, "%s", r.folder);
    snprintf(path, sizeof path, "%s/checkpoints/best", folder);
    assert_true(readlink(path, target, sizeof target - 1) > 0);
    snprintf(expected, sizeof expected, "step-%08ld", best_step());
    assert_string_equal(target, expected);
    assert_true(is_there("checkpoints/best/index.json") &&
                is_there("checkpoints/step-00000024/index.json"));
    printf("best of %s: %s\n", folder, target);
}

/* Of the run that test_best left. */
static void test_refused(void **state) {
    (void)state;
    expect("seed", "train.seed=5", 2, "was trained with train.seed 1, not 5");
    expect("done", "", 0, "no steps left to train");
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    expect("locked", "train.steps=30", 2, "another process is training in");
    close(fd);
    char path[800];
    snprintf(path, sizeof path, "%s/checkpoints/.tmp-step-00000099", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    expect("free", "train.steps=30", 0, "done after step 30");
    assert_false(is_there("checkpoints/.tmp-step-00000099"));
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

static char *text_of(const char *name, size_t *bytes) {
    char path[800], *text = malloc(1 << 20);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_true(text && f);
    *bytes = fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

/* No room to write down again what the metrics keep: they stay as they were. */
static void test_no_room_for_metrics(void **state) {
    (void)state;
    const char *first[] = {"train.steps=16"};
    struct rlimit before, small;
    size_t bytes, now;
    run_result r = run_here(SMALL, "room", 1, "", first, 1);
    assert_int_equal(r.exit_status, 0);
    snprintf(folder, sizeof folder, "%s", r.folder);
    char *text = text_of("metrics.jsonl", &bytes);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){bytes / 2, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    r = run_here(SMALL, "again", 1, folder, NULL, 0);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_DFL);
    char *kept = text_of("metrics.jsonl", &now);
    if (r.exit_status != 4 || now != bytes)
        fail_msg("exit status %d, %zu of %zu bytes kept", r.exit_status, now, bytes);
    assert_memory_equal(kept, text, bytes);
    assert_false(is_there("metrics.jsonl.new"));
    free(text);
    free(kept);
    r = run_here(SMALL, "again", 1, folder, NULL, 0);
    assert_int_equal(r.exit_status, 0);
    assert_int_equal(r.steps, 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_best), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_interrupted_validation),
                                       cmocka_unit_test(test_no_room_for_metrics)};
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
