/* test: label=quick timeout=90
 * precision: fp16 and loss scaling. The same bits in every layout, steps that overflow included;
 * scale and count of good steps go on with a checkpoint; a fixed scale that is a power of two
 * changes no bit; losses close to fp32's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/status.h"
#include "rank/scaler.h"
#include "run/runs_assert.h"
#include "skip.h"
#include <math.h>

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 12, batch: 6, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7, "    \
    "precision: fp16,\n"                                                                           \
    "        loss_scale_start: 16777216, loss_scale_interval: 2}\n"                                \
    "parallel: {transport: self}\n"                                                                \
    "checkpoint: {every: 5}\n"

enum { STEPS = 12 };
static run_result base;
static double base_scale[STEPS];

/* Loss scale and count of skipped steps in the line of every step. */
static int read_scales(const run_result *r, double scale[STEPS], int skipped[STEPS]) {
    char path[600], line[4096];
    int n = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->folder);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        json_t *j = json_loads(line, 0, NULL);
        if (!json_object_get(j, "event") && json_object_get(j, "loss_scale") && n < STEPS) {
            scale[n] = json_number_value(json_object_get(j, "loss_scale"));
            skipped[n++] = (int)json_integer_value(json_object_get(j, "skipped_steps"));
        }
        json_decref(j);
    }
    if (f) fclose(f);
    return n;
}

static void same(const run_result *r, const char *what) {
    double scale[STEPS];
    int skipped[STEPS];
    run_assert_same(r, &base, what);
    assert_int_equal(read_scales(r, scale, skipped), STEPS);
    assert_memory_equal(scale, base_scale, sizeof scale);
}

/* The first scale is far too large: it is halved until nothing overflows, then doubled now and
 * then. */
static void test_scale_is_found(void **state) {
    (void)state;
    int skipped[STEPS], all = 0, grown = 0;
    base = run_here(YAML, "base", 1, "", NULL, 0);
    assert_int_equal(base.exit_status, 0);
    assert_int_equal(base.steps, STEPS);
    assert_int_equal(read_scales(&base, base_scale, skipped), STEPS);
    assert_true(base_scale[0] == 16777216);
    assert_int_equal(skipped[0], 1);
    for (int i = 0, good = 0; i < STEPS; i++) {
        int overflowed = skipped[i] > all;
        all = skipped[i];
        good = overflowed ? 0 : good + 1;
        double next = good == 2 ? base_scale[i] * 2 : base_scale[i];
        if (overflowed) next = base_scale[i] / 2;
        if (good == 2) {
            good = 0;
            grown++;
        }
        if (i + 1 < STEPS) assert_true(base_scale[i + 1] == next);
    }
    assert_true(all >= 2 && all < STEPS && grown >= 1);
    assert_true(base.value[STEPS - 1] < base.value[0]);
}

static void test_every_layout(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "zb-v"};
    static const char *const ways[] = {"none", "selective", "full"};
    for (int n = 1; n <= 3; n++)
        for (int threads = 1; threads <= 2; threads++) {
            char a[64], b[64], c[64], name[64];
            const char *override[] = {a, b, c}, *schedule = schedules[(n + threads) % 4];
            snprintf(a, sizeof a, "parallel.schedule=%s", schedule);
            snprintf(b, sizeof b, "parallel.threads=%d", threads);
            snprintf(c, sizeof c, "parallel.recompute=%s", ways[(n + threads) % 3]);
            snprintf(name, sizeof name, "%s-%d-%d", schedule, n, threads);
            run_result r = run_here(YAML, name, n, "", override, 3);
            same(&r, name);
        }
}

static void test_resume(void **state) {
    (void)state;
    char command[1300], from[600];
    run_result r = run_here(YAML, "first", 1, "", NULL, 0);
    same(&r, "first");
    snprintf(command, sizeof command,
             "rm -r '%s/checkpoints/step-00000010' '%s/checkpoints/step-00000012'", r.folder,
             r.folder);
    assert_int_equal(system(command), 0);
    snprintf(from, sizeof from, "%s", r.folder);
    r = run_here(YAML, "second", 3, from, NULL, 0);
    same(&r, "resumed");
    const char *fp32[] = {"train.precision=fp32"};
    snprintf(command, sizeof command, "rm -r '%s/checkpoints/step-00000012'", r.folder);
    assert_int_equal(system(command), 0);
    r = run_here(YAML, "third", 1, from, fp32, 1);
    assert_int_equal(r.exit_status, 0);
}

static void test_fixed_scale(void **state) {
    (void)state;
    const char *plain[] = {"train.precision=fp32"},
               *scaled[] = {"train.precision=fp32", "train.loss_scale=1024"};
    run_result a = run_here(YAML, "plain", 1, "", plain, 1),
               b = run_here(YAML, "scaled", 2, "", scaled, 2);
    assert_int_equal(b.exit_status, 0);
    for (int i = 0; i < STEPS; i++) assert_string_equal(a.loss[i], b.loss[i]);
    assert_string_equal(a.hash, b.hash);
    /* one that is too large for fp16 is nobody's to lower */
    const char *high[] = {"train.loss_scale=16777216"};
    a = run_here(YAML, "high", 1, "", high, 1);
    assert_int_equal(a.exit_status, 2);
    assert_non_null(strstr(pst_error(), "training has diverged at step 1"));
    assert_non_null(strstr(pst_error(), "lower train.loss_scale (1.67772e+07)"));
}

static void test_loss_near_fp32(void **state) {
    (void)state;
    const char *fp16[] = {"train.loss_scale_start=1024"}, *fp32[] = {"train.precision=fp32"};
    run_result r = run_here(YAML, "near-fp16", 1, "", fp16, 1),
               exact = run_here(YAML, "near-fp32", 1, "", fp32, 1);
    assert_int_equal(r.exit_status, 0);
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(r.value[i] - exact.value[i]) < 0.01 * exact.value[i]))
            fail_msg("step %d: loss %g in fp16, %g in fp32", i + 1, r.value[i], exact.value[i]);
    assert_string_not_equal(r.loss[1], exact.loss[1]);
}

/* Plain C where nothing converts. */
static void test_generic(void **state) {
    (void)state;
    const char *few[] = {"train.steps=2", "train.loss_scale_start=1024"};
    run_result r = run_here(YAML, "isa", 1, "", few, 2);
    isa_lower("generic");
    run_result plain = run_here(YAML, "generic", 1, "", few, 2);
    isa_restore();
    assert_int_equal(plain.exit_status, 0);
    assert_true(fabs(plain.value[1] - r.value[1]) < 0.01 * r.value[1]);
}

/* The rule alone: bounds, and what is no overflow of the scale. */
static void test_rule(void **state) {
    (void)state;
    const char *override[] = {"train.loss_scale_start=2", "train.loss_scale_interval=1"};
    pst_config *c = NULL;
    assert_int_equal(pst_config_parse(YAML, "test", override, 2, &c), PST_OK);
    pst_scaler s;
    pst_scaler_open(c, &s);
    assert_true(s.dynamic && s.scale == 2);
    assert_int_equal(pst_scaler_step(&s, c, 0), 1);
    assert_true(s.scale == 1);
    assert_int_equal(pst_scaler_step(&s, c, 0), 0); /* at its least: not the scale's doing */
    assert_true(s.scale == 1);
    for (int i = 0; i < 40; i++) assert_int_equal(pst_scaler_step(&s, c, 1), 0);
    assert_true(s.scale == PST_SCALE_MAX);
    pst_config_close(c);
}

static int cleanup(void **state) {
    (void)state;
    run_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),         cmocka_unit_test(test_scale_is_found),
        cmocka_unit_test(test_every_layout), cmocka_unit_test(test_resume),
        cmocka_unit_test(test_fixed_scale),  cmocka_unit_test(test_loss_near_fp32),
        cmocka_unit_test(test_generic),
    };
    return cmocka_run_group_tests(tests, NULL, cleanup);
}
