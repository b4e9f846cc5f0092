/* test: label=full timeout=120 isa=any
 * parallel.update: async and bounded. Servers apply each worker's gradient by itself; a recorded
 * order gives the same bits with other numbers of servers, stages, schedules and threads, and in
 * processes that are held up at random; checkpoints are resumed in other layouts; what does not go
 * with it, and orders of other runs, are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/embedding.h"
#include "run/runs_assert.h"
#include <math.h>
#include <sys/stat.h>

#define COMMON                                                                                     \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 6, lr: 1.0e-2, warmup: 2, batch: 8, micro_batch: 1, seed: 7}\n"                \
    "checkpoint: {every: 3, keep: 20}\n"
#define YAML COMMON "parallel: {transport: self, threads: 1, data: 2, servers: 1, update: async}\n"
#define PROCESSES                                                                                  \
    COMMON "parallel: {threads: 1, data: 3, servers: 1, update: async, replicas: [4, 2, 2]}\n"

enum { MOST = 256 * 24 }; /* elements of the token embedding */

static run_result base;

static run_result train(const char *resume, int ranks, const char *keys) {
    return run_with(YAML, resume, ranks, keys);
}

static int open_base(void **state) {
    (void)state;
    base = train("", 3, "");
    return base.exit_status;
}

static int close_base(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

/* --- the update ------------------------------------------------------------------------------- */

#define PLAIN                                                                                      \
    "train.optimizer=sgd train.momentum=0 train.weight_decay=0 train.clip=0 train.warmup=0 "       \
    "train.decay=none model.dropout=0 checkpoint.every=1 "

/* Two updates of SGD, each with the mean over the samples of one of two workers and both with the
 * same weights, are an update with the mean over all and twice the rate. In the second step, whose
 * gradients are of the same weights again, likewise. */
static void each_gradient_is_an_update(void **state) {
    (void)state;
    static float was[MOST], is[MOST], before[MOST];
    run_result async = train("", 3, PLAIN "train.lr=0.1"),
               sync = train("", 2, PLAIN "train.lr=0.2 parallel.update=sync parallel.servers=0");
    for (int step = 1; step <= 2; step++) {
        double most = 0, moved = 0;
        read_embedding(&sync, step, was, MOST);
        read_embedding(&async, step, is, MOST);
        for (int i = 0; i < MOST; i++) {
            most = fmax(most, fabs((double)was[i] - (double)is[i]));
            moved = fmax(moved, step > 1 ? fabs((double)is[i] - (double)before[i]) : 1);
        }
        memcpy(before, is, sizeof is);
        assert_true(most < 1e-6 && moved > 1e-4);
    }
}

/* --- orders ----------------------------------------------------------------------------------- */

/* Another order: three steps are one period, and worker 1 is first. */
static void write_order(char path[600], const char *name) {
    char text[4000], *at;
    snprintf(path, 600, "%s/order.txt", base.folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    assert_non_null(at = strstr(text, "steps 0 1\n"));
    snprintf(at, sizeof text - (size_t)(at - text),
             "steps 0 3\n 1 1 0 0 1 0\nsteps 3 4\n 0 1\nsteps 4 5\n 1 0\nsteps 5 6\n 0 1\n");
    snprintf(path, 600, "%s/%s", run_folder(), name);
    run_write_file(path, text);
}

/* In processes, which need not take steps together. */
static run_result replay(const char *file, int ranks, const char *keys) {
    static int n;
    char name[20], arguments[1400];
    snprintf(name, sizeof name, "replay-%d", n++);
    snprintf(arguments, sizeof arguments, "parallel.transport=auto %s --replay '%s' -n %d", keys,
             file, ranks);
    return run_program(PST_BINARY, YAML, name, arguments);
}

static void orders_are_repeated(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *keys;
    } layouts[] = {{3, "parallel.threads=2 parallel.recompute=full"},
                   {4, "parallel.servers=2"},
                   {6, "parallel.schedule=gpipe parallel.servers=2"},
                   {6, "parallel.schedule=zb-h1 parallel.servers=2"}};
    char path[600], same[600];
    write_order(path, "other.txt");
    run_result other = replay(path, 3, "");
    assert_int_equal(other.exit_status, 0);
    assert_string_not_equal(other.hash, base.hash);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        run_result r = replay(path, layouts[i].ranks, layouts[i].keys);
        run_assert_same(&r, &other, layouts[i].keys);
    }
    snprintf(same, sizeof same, "%s/order.txt", base.folder);
    run_result r = replay(same, 3, "");
    run_assert_same(&r, &base, "its own order");
}

/* The order of a run that is ended early: the same weights, with the learning rates of all steps.
 */
static void orders_of_ended_runs(void **state) {
    (void)state;
    char order[600];
    const char *long_run = "train.steps=100000 log.trace=1";
    char keys[200];
    snprintf(keys, sizeof keys, "parallel.transport=auto %s train.time_limit=1.5 -n 3", long_run);
    run_result ended = run_program(PST_BINARY, YAML, "ended", keys);
    assert_int_equal(ended.exit_status, 0);
    assert_true(ended.steps > 1);
    snprintf(order, sizeof order, "%s/order.txt", ended.folder);
    snprintf(keys, sizeof keys, "%s parallel.servers=2", long_run);
    run_result again = replay(order, 4, keys);
    assert_int_equal(again.exit_status, 0);
    run_assert_same(&again, &ended, "the order of a run that was ended");
}

/* The steps of workers in processes take different times; one run in five is replayed with others.
 */
static void processes_repeat_orders(void **state) {
    (void)state;
    char arguments[900], name[30];
    const char *keys[] = {"parallel.update=async train.steps=20",
                          "parallel.update=bounded train.steps=20 parallel.servers=2"};
    for (int k = 0; k < 2; k++) {
        snprintf(arguments, sizeof arguments, "-n %d %s 'parallel.throttle=[9, 30, 3, 1%s]'", 4 + k,
                 keys[k], k ? ", 1" : "");
        snprintf(name, sizeof name, "recorded-%d", k);
        run_result recorded = run_program(PST_BINARY, PROCESSES, name, arguments);
        assert_int_equal(recorded.exit_status, 0);
        for (int i = 0; i < 3; i++) {
            snprintf(arguments, sizeof arguments,
                     "-n %d %s --replay '%s/order.txt' 'parallel.throttle=[%d, 7, %d, %d%s]'",
                     4 + k, keys[k], recorded.folder, 1 + 20 * i, 40 - 15 * i, 1 + i,
                     k ? ", 1" : "");
            snprintf(name, sizeof name, "repeated-%d-%d", k, i);
            run_result r = run_program(PST_BINARY, PROCESSES, name, arguments);
            run_assert_same(&r, &recorded, arguments);
        }
    }
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static void checkpoints_are_resumed(void **state) {
    (void)state;
    run_result same = train(run_copy_until(&base, 3), 3, "");
    run_assert_same(&same, &base, "resumed");
    run_result sync = train(run_copy_until(&base, 3), 4, "parallel.update=sync parallel.servers=0");
    run_result servers = train(run_copy_until(&base, 3), 4, "parallel.servers=2");
    assert_true(!sync.exit_status && !servers.exit_status);
    run_result start = train("", 4, "parallel.update=sync parallel.servers=0");
    run_result back = train(run_copy_until(&start, 3), 3, "");
    assert_true(!back.exit_status && back.steps == 6);
}

static long size_of(const run_result *r, const char *name) {
    char path[700];
    struct stat is;
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    return stat(path, &is) ? -1 : (long)is.st_size;
}

/* Of a run that went on with another layout, the order of the first steps is kept. */
static void orders_are_not_lost(void **state) {
    (void)state;
    run_result same = train(run_copy_until(&base, 3), 3, "");
    assert_int_equal(size_of(&same, "order.txt"), size_of(&base, "order.txt"));
    assert_int_equal(size_of(&same, "order-before-3.txt"), -1);
    run_result other = train(run_copy_until(&base, 3), 3, "parallel.update=bounded");
    assert_int_equal(other.exit_status, 0);
    assert_int_equal(size_of(&other, "order-before-3.txt"), size_of(&base, "order.txt"));
    assert_true(size_of(&other, "order.txt") < size_of(&base, "order.txt"));
}

/* --- bad input -------------------------------------------------------------------------------- */

static void refuses(int ranks, const char *keys, const char *why) {
    run_result r = train("", ranks, keys);
    if (r.exit_status != 2 || !strstr(pst_error(), why))
        fail_msg("%s: status %d, %s", keys, r.exit_status, pst_error());
}

static void bad_input(void **state) {
    (void)state;
    refuses(2, "parallel.servers=0", "set parallel.servers");
    refuses(3, "parallel.zero=2", "use parallel.zero=1");
    refuses(6, "parallel.tensor=2 parallel.servers=2", "parallel.tensor");
    refuses(3, "parallel.gradients=bf16", "use parallel.gradients=fp32");
    refuses(3, "parallel.reproducible.data=2", "use parallel.reproducible.data=0");
    refuses(3, "parallel.post_validation=true", "not supported together");
    refuses(3, "parallel.compress.up=int8", "use parallel.compress.up=none");
    refuses(3, "parallel.local.steps=2", "use one of the two");
    refuses(3, "train.precision=fp16", "give train.loss_scale a number");
    refuses(3, "train.non_finite=skip", "use train.non_finite=stop");
    refuses(3, "train.spike=rewind", "use train.spike=warn or off");
    refuses(3, "train.batch_warmup.from=4 train.batch_warmup.tokens=100", "not supported together");
    refuses(2, "parallel.data=1", "parallel.data of 2 or more");
}

static void refuses_order(const char *file, const char *keys, const char *why) {
    pst_config *c;
    const char *override[4];
    size_t n = 0;
    char text[200], *rest = text;
    snprintf(text, sizeof text, "%s", keys);
    for (char *key; (key = strsep(&rest, " "));)
        if (*key) override[n++] = key;
    assert_int_equal(pst_config_parse(YAML, "test", override, n, &c), PST_OK);
    const pst_train_options o = {
        .size = sizeof o, .runs = run_folder(), .quiet = 1, .replay = file};
    if (pst_train(c, &o) != PST_EINPUT || !strstr(pst_error(), why))
        fail_msg("%s: %s", keys, pst_error());
    pst_config_close(c);
}

/* The first `bytes` of an order. Returns 0 if that is the order of a run that was ended early. */
static int cut_order(const char *from, char path[600], size_t bytes) {
    static char text[8000];
    FILE *f = fopen(from, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    assert_true(bytes < n);
    const int whole = bytes && text[bytes - 1] == '\n' && !strncmp(text + bytes, "steps ", 6);
    text[bytes] = 0;
    snprintf(path, 600, "%s/cut.txt", run_folder());
    run_write_file(path, text);
    return !whole || !strstr(text, "steps ");
}

static void damaged_orders(void **state) {
    (void)state;
    char order[600], cut[600];
    snprintf(order, sizeof order, "%s/order.txt", base.folder);
    refuses_order(order, "parallel.data=4", "with workers 2, but this run has 4");
    refuses_order(order, "model.channels=48", "the same model");
    refuses_order(order, "train.batch=16", "with batch 8, but this run has 16");
    refuses_order(order, "parallel.replicas=[6,2]", "set parallel.replicas");
    refuses_order(order, "parallel.update=bounded", "with staleness 0, but this run has 1");
    refuses_order(order, "parallel.update=sync parallel.servers=0", "parallel.update=async");
    refuses_order("/nowhere/order.txt", "", "/nowhere/order.txt");
    write_order(cut, "longer.txt");
    refuses_order(cut, "", "another parallel.transport");
    refuses_order(cut, "checkpoint.every=2", "checkpoint.every all workers must meet after step 2");
    refuses_order(cut, "eval.every=1", "eval.every all workers must meet after step 1");
    refuses_order(cut, "log.trace=3", "use the log.trace of the run");
    refuses_order(cut, "train.steps=1 ", "no period of the order ends with step 1");
    FILE *f = fopen(order, "r");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(f);
    fclose(f);
    for (size_t n = 0; n < bytes; n++) { /* cut at any place but behind a period */
        if (!cut_order(order, cut, n)) continue;
        refuses_order(cut, "", "cut.txt");
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {cmocka_unit_test(each_gradient_is_an_update),
                                              cmocka_unit_test(orders_are_repeated),
                                              cmocka_unit_test(orders_of_ended_runs),
                                              cmocka_unit_test(processes_repeat_orders),
                                              cmocka_unit_test(checkpoints_are_resumed),
                                              cmocka_unit_test(orders_are_not_lost),
                                              cmocka_unit_test(bad_input),
                                              cmocka_unit_test(damaged_orders)};
    return cmocka_run_group_tests(tests, open_base, close_base);
}
