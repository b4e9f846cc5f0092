/* test: label=full timeout=60
 * parallel.local.compress: islands send packed differences to the owners of outer steps. The same
 * bits in every pipeline, schedule, ZeRO stage and with every number of threads, and after a
 * resume. The outer step is that of the differences without what is left out, which the next one
 * has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "checkpoint/checkpoint.h"
#include "run/runs_assert.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 7, lr: 1.0e-2, warmup: 2, batch: 8, micro_batch: 1, seed: 7}\n"                \
    "parallel: {transport: self, threads: 1, data: 2, local: {steps: 3, compress: int8}}\n"        \
    "checkpoint: {every: 1, keep: 20}\n"

static void same_bits(void **state) {
    (void)state;
    static const struct {
        const char *codec;
        int ranks;
        const char *keys;
    } layouts[] = {{"int8", 2, "parallel.threads=2 parallel.recompute=full"},
                   {"int8", 4, "parallel.schedule=zb-h1 parallel.zero=1"},
                   {"int4 parallel.compress.block=32", 4, "parallel.schedule=gpipe"},
                   {"bf16", 6, ""},
                   {"int4", 4, "parallel.pipeline=1 parallel.tensor=2 parallel.schedule=gpipe"}};
    run_result exact = run_with(YAML, "", 2, "parallel.local.compress=none");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char keys[300], more[400];
        const int tensor = strstr(layouts[i].keys, "tensor") != NULL;
        snprintf(keys, sizeof keys, "parallel.local.compress=%s", layouts[i].codec);
        if (tensor) strcat(keys, " parallel.tensor=2");
        run_result one = run_with(YAML, "", 2 + 2 * tensor, keys);
        assert_int_equal(one.exit_status, 0);
        assert_string_not_equal(one.hash, exact.hash);
        for (int k = 0; k < one.steps; k++)
            assert_true(fabs(one.value[k] - exact.value[k]) < 2e-2 * exact.value[k]);
        snprintf(more, sizeof more, "%s %s", keys, layouts[i].keys);
        run_result other = run_with(YAML, "", layouts[i].ranks, more);
        run_assert_same(&other, &one, more);
        run_result inner = run_with(YAML, run_copy_until(&one, 2), layouts[i].ranks, more);
        run_assert_same(&inner, &one, more);
        run_result outer = run_with(YAML, run_copy_until(&one, 4), layouts[i].ranks, more);
        run_assert_same(&outer, &one, more);
    }
}

/* More islands, islands of replicas, fragments. */
static void other_islands(void **state) {
    (void)state;
    static const char *const cases[] = {"parallel.data=3",
                                        "parallel.data=4 parallel.local.islands=2",
                                        "parallel.data=4 parallel.local.islands=2 parallel.zero=1",
                                        "parallel.data=2 parallel.local.fragments=3",
                                        "parallel.data=2 parallel.zero=1 "
                                        "train.precision=fp16 train.loss_scale=256"};
    static const int data[] = {3, 4, 4, 2, 2};
    for (int i = 0; i < 5; i++) {
        char keys[300];
        run_result one = run_with(YAML, "", data[i], cases[i]);
        assert_int_equal(one.exit_status, 0);
        snprintf(keys, sizeof keys, "%s parallel.schedule=zb-v parallel.threads=2", cases[i]);
        run_result deep = run_with(YAML, "", 2 * data[i], keys);
        run_assert_same(&deep, &one, keys);
        run_result again = run_with(YAML, run_copy_until(&one, 5), 2 * data[i], keys);
        run_assert_same(&again, &one, keys);
    }
}

/* --- what is sent ----------------------------------------------------------------------------- */

enum { MOST = 256 * 24 };
static const char *const names[] = {"wte.weight", "h.0.attn.c_attn.weight", "ln_f.weight"};

/* Elements of a tensor of the checkpoint; with `left` the mean of the residuals of both islands. */
static uint64_t read_mean(const run_result *r, int step, const char *param, int left, float *out) {
    char path[700], name[PST_CKPT_NAME];
    static float one[MOST];
    pst_ckpt *c = NULL;
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d", r->folder, step);
    if (pst_ckpt_open(path, &c) != PST_OK) fail_msg("%s", pst_error());
    const uint64_t n = pst_ckpt_tensor_find(c, param)->elements;
    assert_true(n <= MOST);
    if (!left && pst_ckpt_read(c, param, out, n) != PST_OK) fail_msg("%s", pst_error());
    for (uint64_t i = 0; left && i < n; i++) out[i] = 0;
    for (uint32_t k = 0; left && k < 2; k++) {
        pst_ckpt_island_name(param, k, PST_CKPT_LEFT_NAME, name);
        if (pst_ckpt_read(c, name, one, n) != PST_OK) fail_msg("%s", pst_error());
        for (uint64_t i = 0; i < n; i++) out[i] += one[i] / 2;
    }
    pst_ckpt_close(c);
    return n;
}

/* With outer learning rate 1 and no momentum the new weights are the old ones minus the mean of
 * what was sent: the differences, and what was left out before, but not what is left out now. The
 * differences come from a run that packs nothing from the same weights on. */
static run_result check_step(int step, const run_result *before) {
    static float packed[MOST], exact[MOST], was[MOST], is[MOST];
    char keys[300], from[2][600] = {"", ""};
    for (int k = 0; before && k < 2; k++)
        snprintf(from[k], sizeof from[k], "%s", run_copy_until(before, step - 3));
    run_result r[2];
    for (int k = 0; k < 2; k++) {
        snprintf(keys, sizeof keys,
                 "train.steps=%d parallel.local.outer.lr=1 parallel.local.outer.momentum=0 "
                 "train.decay=none parallel.local.compress=%s",
                 step, k ? "none" : "int4");
        r[k] = run_with(YAML, from[k], 2, keys);
        assert_int_equal(r[k].exit_status, 0);
    }
    for (int n = 0; n < 3; n++) {
        const uint64_t elements = read_mean(&r[0], step, names[n], 0, packed);
        double most = 0, off = 0;
        read_mean(&r[1], step, names[n], 0, exact);
        read_mean(&r[0], step, names[n], 1, is);
        memset(was, 0, sizeof was);
        if (before) read_mean(before, step - 3, names[n], 1, was);
        for (uint64_t i = 0; i < elements; i++) {
            const double want = (double)is[i] - (double)was[i];
            most = fmax(most, fabs(want));
            off = fmax(off, fabs((double)packed[i] - (double)exact[i] - want));
        }
        printf("step %d, %s: off by %g of %g\n", step, names[n], off, most);
        assert_true(most > 1e-5 && off < 2e-3 * most);
    }
    return r[0];
}

static void outer_steps_add_up(void **state) {
    (void)state;
    run_result first = check_step(3, NULL), second = check_step(6, &first);
    check_step(9, &second);
}

/* Residuals are dropped where differences are not packed, or the islands are others. */
static void other_runs_resume(void **state) {
    (void)state;
    static const char *const keys[] = {"parallel.local.compress=none", "parallel.data=4",
                                       "parallel.data=1"};
    static const int ranks[] = {2, 4, 1};
    run_result one = run_with(YAML, "", 2, "");
    for (int i = 0; i < 3; i++) {
        run_result other = run_with(YAML, run_copy_until(&one, 4), ranks[i], keys[i]);
        run_assert_ended(&other, &one, keys[i]);
        assert_string_not_equal(other.hash, one.hash);
    }
    run_result exact = run_with(YAML, "", 2, "parallel.local.compress=none");
    run_result later = run_with(YAML, run_copy_until(&exact, 4), 2, "");
    run_assert_ended(&later, &one, "packed from step 5 on");
}

static void bad_input(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"parallel.local.delay=1", "use parallel.local.delay=0"},
        {"parallel.local.compress=topk", "expected one of none, int8, int4, bf16"},
        {"parallel.compress.block=48", "expected a power of two from 32 to 4096, or 0"}};
    for (int i = 0; i < 3; i++) {
        run_result r = run_with(YAML, "", 2, cases[i][0]);
        if (r.exit_status != 2 || !strstr(pst_error(), cases[i][1]))
            fail_msg("%s: status %d, %s", cases[i][0], r.exit_status, pst_error());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(other_islands),
                                       cmocka_unit_test(outer_steps_add_up),
                                       cmocka_unit_test(other_runs_resume),
                                       cmocka_unit_test(bad_input)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
