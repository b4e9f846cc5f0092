/* test: label=full timeout=240
 * parallel.compress: replicas send packed gradients. The same bits in every pipeline, schedule and
 * with every number of threads, whoever adds, with and without recomputation and post-validation,
 * after a resume and with a fixed loss scale. What is left out of two steps is in the checkpoint,
 * to the rounding of a sum; a skipped step leaves it as it was; other replicas share it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "checkpoint/checkpoint.h"
#include "prepare/prepare.h"
#include "run/runs_assert.h"
#include "skip.h"
#include <math.h>

#define RUN(train, compress)                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {" train ", batch: 8, micro_batch: 1, seed: 7}\n"                                      \
    "parallel: {transport: self, threads: 1, data: 2,\n"                                           \
    "  compress: {" compress ", links: all, min_bytes: 1K, block: 64}}\n"                          \
    "checkpoint: {every: 3}\n"
#define YAML RUN("steps: 6, lr: 1.0e-2, warmup: 2, clip: 0.05", "up: int8")

static run_result base;

static void open_base(void) { base = run_with(YAML, "", 2, ""); }

/* --- bits ------------------------------------------------------------------------------------- */

static void same_bits(void **state) {
    (void)state;
    static const struct {
        int ranks;
        const char *keys;
    } layouts[] = {{2, "parallel.zero=0"},
                   {2, "parallel.threads=2 parallel.recompute=full"},
                   {4, "parallel.schedule=gpipe"},
                   {4, "parallel.zero=0 parallel.schedule=zb-h1"},
                   {6, "parallel.recompute=selective"},
                   {4, "parallel.schedule=zb-v parallel.post_validation=true"},
                   {2, "parallel.post_validation=true parallel.zero=0"},
                   {4, "train.loss_scale=1024"}};
    open_base();
    assert_int_equal(base.exit_status, 0);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        run_result r = run_with(YAML, "", layouts[i].ranks, layouts[i].keys);
        run_assert_same(&r, &base, layouts[i].keys);
    }
    run_result exact = run_with(YAML, "", 2, "parallel.compress.up=none"),
               coarse = run_with(YAML, "", 2, "parallel.compress.up=int4");
    assert_string_not_equal(base.hash, exact.hash);
    run_result fine = run_with(YAML, "", 2, "parallel.compress.up=bf16"),
               deep = run_with(YAML, "", 4, "parallel.compress.up=bf16 parallel.zero=0");
    run_assert_same(&deep, &fine, "bf16");
    assert_string_not_equal(fine.hash, exact.hash);
    assert_string_not_equal(base.hash, coarse.hash);
    static const char *const sparse[] = {
        "parallel.compress.up=2bit",
        "parallel.compress.up=2bit parallel.compress.threshold=1e-4",
        "parallel.compress.up=topk parallel.compress.rate=0.1",
        "parallel.compress.up=topk parallel.compress.rate=0.02 parallel.compress.warmup=4",
        "parallel.compress.up=topk parallel.compress.moments=owner parallel.compress.rate=0.1",
        "parallel.compress.up=powersgd parallel.compress.rank=2",
        "parallel.compress.up=powersgd parallel.compress.rank=2 "
        "parallel.compress.warm_start=false"};
    for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++) {
        char keys[200];
        run_result one = run_with(YAML, "", 2, sparse[i]);
        assert_string_not_equal(one.hash, exact.hash);
        snprintf(keys, sizeof keys, "%s parallel.zero=0 parallel.threads=2", sparse[i]);
        run_result two = run_with(YAML, "", 4, keys);
        run_assert_same(&two, &one, keys);
        snprintf(keys, sizeof keys, "%s parallel.schedule=zb-h1 parallel.recompute=full",
                 sparse[i]);
        run_result again = run_with(YAML, run_copy_until(&one, 3), 4, keys);
        run_assert_same(&again, &one, keys);
        assert_true(one.value[one.steps - 1] < one.value[0]);
    }
    for (int i = 0; i < base.steps; i++) {
        assert_true(fabs(base.value[i] - exact.value[i]) < 1e-3 * exact.value[i]);
        assert_true(fabs(fine.value[i] - exact.value[i]) < 1e-3 * exact.value[i]);
        assert_true(fabs(coarse.value[i] - exact.value[i]) < 2e-2 * exact.value[i]);
    }
}

/* Weights come back as changes of a copy that all replicas read. Bits as above, also after a resume
 * with another pipeline and without other replicas; the copy is not the weight; what is left out of
 * changes does not grow. */
static void changes_of_weights(void **state) {
    (void)state;
    static const char *const codecs[] = {"parallel.compress.down=int8",
                                         "parallel.compress.up=none parallel.compress.down=int4",
                                         "parallel.compress.up=2bit parallel.compress.down=int8",
                                         "parallel.compress.up=none parallel.compress.down=bf16"};
    run_result exact = run_with(YAML, "", 2, "parallel.compress.up=none");
    for (int i = 0; i < 4; i++) {
        char keys[300];
        run_result one = run_with(YAML, "", 2, codecs[i]);
        assert_int_equal(one.exit_status, 0);
        assert_string_not_equal(one.hash, exact.hash);
        snprintf(keys, sizeof keys, "%s parallel.threads=2 parallel.recompute=full", codecs[i]);
        run_result two = run_with(YAML, "", 4, keys);
        run_assert_same(&two, &one, keys);
        snprintf(keys, sizeof keys, "%s parallel.schedule=zb-v parallel.post_validation=true",
                 codecs[i]);
        run_result three = run_with(YAML, "", 4, keys);
        run_assert_same(&three, &one, keys);
        snprintf(keys, sizeof keys, "%s eval.every=1 eval.tokens=200", codecs[i]);
        run_result seen = run_with(YAML, "", 4, keys); /* evaluations change nothing */
        assert_string_equal(seen.hash, one.hash);
        run_result again = run_with(YAML, run_copy_until(&one, 3), 6, codecs[i]);
        run_assert_same(&again, &one, codecs[i]);
        for (int k = 0; k < one.steps; k++)
            assert_true(fabs(one.value[k] - exact.value[k]) <
                        (i == 2 ? 0.2 : 2e-2) * exact.value[k]);
        snprintf(keys, sizeof keys, "%s parallel.data=4", codecs[i]);
        run_result more = run_with(YAML, "", 4, keys);
        snprintf(keys, sizeof keys, "%s parallel.data=4 parallel.schedule=gpipe", codecs[i]);
        run_result deep = run_with(YAML, "", 8, keys);
        run_assert_same(&deep, &more, keys);
    }
}

/* The compression in the metrics of a step; 1: none. */
static double compression_of(const run_result *r, int step) {
    char path[700], line[4000], *at;
    double found = 1;
    snprintf(path, sizeof path, "%s/metrics.jsonl", r->folder);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        char number[40];
        snprintf(number, sizeof number, "{\"step\":%d,\"loss\"", step);
        if (!strncmp(line, number, strlen(number)) && (at = strstr(line, "\"compression\":")))
            found = atof(at + strlen("\"compression\":"));
    }
    fclose(f);
    return found;
}

/* The first steps are those without codecs; then the same bits again in every layout, whether or
 * not the run is resumed, before or behind the change. */
static void packs_after_some_steps(void **state) {
    (void)state;
    static const char *const codecs[] = {
        "parallel.compress.down=int8 parallel.compress.after=3",
        "parallel.compress.up=topk parallel.compress.rate=0.02 parallel.compress.after=2 "
        "parallel.compress.warmup=3 parallel.compress.moments=owner",
        "parallel.compress.up=none parallel.compress.down=int4 parallel.compress.after=4",
        "parallel.compress.up=powersgd parallel.compress.after=2"};
    static const int after[] = {3, 2, 4, 2};
    run_result exact = run_with(YAML, "", 2, "parallel.compress.up=none");
    for (int i = 0; i < 4; i++) {
        char keys[300];
        run_result one = run_with(YAML, "", 2, codecs[i]);
        assert_int_equal(one.exit_status, 0);
        assert_string_not_equal(one.hash, exact.hash);
        for (int k = 0; k <= after[i]; k++) assert_true(one.value[k] == exact.value[k]);
        for (int step = 1; step <= 6; step++)
            assert_int_equal(compression_of(&one, step) > 1, step > after[i]);
        snprintf(keys, sizeof keys, "%s parallel.schedule=zb-h1 parallel.threads=2", codecs[i]);
        run_result two = run_with(YAML, "", 4, keys);
        run_assert_same(&two, &one, keys);
        run_result again = run_with(YAML, run_copy_until(&one, 3), 4, codecs[i]);
        run_assert_same(&again, &one, codecs[i]);
        if (i != 1) continue; /* a quarter, a sixteenth for two steps, and the rate */
        assert_true(compression_of(&one, 3) < compression_of(&one, 4));
        assert_true(compression_of(&one, 4) == compression_of(&one, 5));
        assert_true(compression_of(&one, 5) < compression_of(&one, 6));
    }
}

/* With three and more replicas a rank also adds gradients of others, one of which it has to unpack
 * first. */
static void several_replicas(void **state) {
    (void)state;
    for (int d = 3; d <= 5; d++)
        for (int four = 0; four < 2; four++) {
            char keys[4][100];
            for (int k = 0; k < 4; k++)
                snprintf(keys[k], sizeof keys[k],
                         "parallel.data=%d parallel.zero=%d parallel.compress.up=int%d "
                         "train.steps=3",
                         d, k % 2, four ? 4 : 8);
            run_result one = run_with(YAML, "", d, keys[0]), two = run_with(YAML, "", d, keys[1]),
                       deep = run_with(YAML, "", 2 * d, keys[2]);
            assert_int_equal(one.exit_status, 0);
            run_assert_same(&two, &one, keys[1]);
            run_assert_same(&deep, &one, keys[2]);
        }
    const char *up = "parallel.data=4 parallel.compress.up=powersgd parallel.compress.rank=3";
    run_result one = run_with(YAML, "", 4, up);
    char keys[200];
    snprintf(keys, sizeof keys, "%s parallel.zero=0", up);
    run_result deep = run_with(YAML, "", 8, keys);
    run_assert_same(&deep, &one, keys);
}

/* Plain C and AVX2 unpack to the same sums; products differ, so only replicas are compared. */
static void other_instruction_sets(void **state) {
    (void)state;
    static const char *const level[] = {"generic", "avx2"};
    for (int i = 0; i < 2; i++) {
        isa_lower(level[i]);
        run_result one = run_with(YAML, "", 2, "train.steps=2"),
                   two = run_with(YAML, "", 4, "train.steps=2 parallel.zero=0");
        isa_restore();
        run_assert_same(&two, &one, level[i]);
    }
}

/* --- residuals -------------------------------------------------------------------------------- */

enum { MOST = 256 * 24 };

static pst_ckpt *open_step(const run_result *r, int step) {
    char path[700];
    pst_ckpt *c = NULL;
    snprintf(path, sizeof path, "%s/checkpoints/step-%08d", r->folder, step);
    if (pst_ckpt_open(path, &c) != PST_OK) fail_msg("%s", pst_error());
    return c;
}

static void read_tensor(const pst_ckpt *c, const char *tensor, float *out) {
    const pst_ckpt_tensor *t = pst_ckpt_tensor_find(c, tensor);
    if (!t) fail_msg("%s lacks %s", c->path, tensor);
    assert_true(t->elements <= MOST);
    if (pst_ckpt_read(c, tensor, out, t->elements) != PST_OK) fail_msg("%s", pst_error());
}

/* The sum of the replicas' residuals of a parameter. */
static void read_left(const pst_ckpt *c, const char *param, uint32_t replicas, float *sum) {
    static float one[MOST];
    char name[PST_CKPT_NAME];
    memset(sum, 0, MOST * sizeof *sum);
    for (uint32_t k = 0; k < replicas; k++) {
        read_tensor(c, pst_ckpt_residual_name(param, k, name), one);
        for (int i = 0; i < MOST; i++) sum[i] += one[i];
    }
    assert_null(pst_ckpt_tensor_find(c, pst_ckpt_residual_name(param, replicas, name)));
}

/* After a step, the copy differs from the weight by at most half of what int8 rounds to, in each
 * block of 64 by the largest change: which is at most that of the step, and of what was left out
 * before. Steps that are not applied change neither. */
static void the_copy_follows(void **state) {
    (void)state;
    static float weight[MOST], copy[MOST], before[2][MOST], first[MOST];
    char name[PST_CKPT_NAME];
    const char *yaml = RUN("steps: 32, lr: 1.0e-4, warmup: 0, spike: skip, spike_factor: 1.0e-3",
                           "up: int8, down: int8");
    run_result r = run_with(yaml, "", 2, "checkpoint.every=1 checkpoint.keep=40");
    assert_int_equal(r.exit_status, 0);
    int skipped = 0, different = 0;
    for (int step = 1; step <= 32; step++) {
        pst_ckpt *c = open_step(&r, step);
        read_tensor(c, "h.0.mlp.c_fc.weight", weight);
        read_tensor(c, pst_ckpt_copy_name("h.0.mlp.c_fc.weight", name), copy);
        const uint64_t n = pst_ckpt_tensor_find(c, name)->elements;
        const int same = step > 1 && !memcmp(before[0], weight, sizeof weight);
        if (same) assert_memory_equal(before[1], copy, sizeof copy);
        skipped += same;
        for (uint64_t i = 0; i < n && step > 1 && !same; i++) {
            const double off = fabs((double)weight[i] - (double)copy[i]);
            different += off > 0;
            assert_true(off < 3e-4 / 127); /* AdamW's steps are at most about lr */
        }
        if (step == 1) memcpy(first, copy, sizeof copy);
        memcpy(before[0], weight, sizeof weight);
        memcpy(before[1], copy, sizeof copy);
        pst_ckpt_close(c);
    }
    assert_memory_not_equal(first, copy, sizeof copy);
    printf("%d steps were skipped; %d elements of copies were not those of the weight\n", skipped,
           different);
    assert_true(different > 100 && skipped > 0 && skipped < 12);
}

#define SGD                                                                                        \
    RUN("steps: 1, lr: 0.5, warmup: 0, clip: 0, optimizer: sgd, momentum: 0, weight_decay: 0, "    \
        "decay: none",                                                                             \
        "up: int4")

/* Of SGD without momentum, a step is -lr times the gradient. With packed gradients it is that of
 * what was sent: the gradient, and what was left out before, but not what is left out now. The
 * gradient at the same weights comes from a run that packs nothing. Takes step `step` on `replicas`
 * after the step of `before`, of which there were `had` (NULL: none). */
static const char *up = "int4";

static run_result check_step(int step, const run_result *before, uint32_t had, uint32_t replicas) {
    static const char *const names[] = {"wte.weight", "h.0.attn.c_attn.weight",
                                        "h.1.mlp.c_proj.weight"};
    static float packed[MOST], exact[MOST], was[MOST], is[MOST];
    char from[2][600] = {"", ""}, keys[2][120];
    for (int k = 0; before && k < 2; k++)
        snprintf(from[k], sizeof from[k], "%s", run_copy_until(before, step - 1));
    for (int k = 0; k < 2; k++)
        snprintf(keys[k], sizeof keys[k],
                 "checkpoint.every=1 train.steps=%d parallel.data=%u parallel.compress.up=%s", step,
                 replicas, k ? "none" : up);
    run_result with = run_with(SGD, from[0], (int)replicas, keys[0]),
               without = run_with(SGD, from[1], (int)replicas, keys[1]);
    assert_true(!with.exit_status && !without.exit_status);
    pst_ckpt *a = open_step(&with, step), *b = open_step(&without, step),
             *c = before ? open_step(before, step - 1) : NULL;
    for (int n = 0; n < 3; n++) {
        const uint64_t elements = pst_ckpt_tensor_find(a, names[n])->elements;
        double most = 0, off = 0;
        memset(was, 0, sizeof was);
        if (c) read_left(c, names[n], had, was);
        read_tensor(a, names[n], packed);
        read_tensor(b, names[n], exact);
        read_left(a, names[n], replicas, is);
        for (uint64_t i = 0; i < elements; i++) {
            const double want = 0.5 * ((double)is[i] - (double)was[i]);
            most = fmax(most, fabs(want));
            off = fmax(off, fabs((double)packed[i] - (double)exact[i] - want));
        }
        printf("step %d, %u replicas, %s: off by %g of %g\n", step, replicas, names[n], off, most);
        assert_true(most > 1e-5 && off < 2e-3 * most);
    }
    pst_ckpt_close(a);
    pst_ckpt_close(b);
    pst_ckpt_close(c);
    return with;
}

/* Other replicas get equal parts of the sum of the residuals. */
static void steps_add_up(void **state) {
    (void)state;
    run_result first = check_step(1, NULL, 0, 2), second = check_step(2, &first, 2, 2);
    check_step(3, &second, 2, 4);
    check_step(3, &second, 2, 3);
    run_result alone =
        run_with(SGD, run_copy_until(&second, 2), 1, "train.steps=3 parallel.data=1");
    assert_int_equal(alone.exit_status, 0);
}

/* Overflows of fp16, the first ones at once. */
static void steps_of_other_codecs_add_up(void **state) {
    (void)state;
    static const char *const codecs[] = {"2bit", "2bit parallel.compress.threshold=3e-3", "topk",
                                         "powersgd"};
    for (int i = 0; i < 4; i++) {
        up = codecs[i];
        run_result first = check_step(1, NULL, 0, 2);
        check_step(2, &first, 2, 3);
    }
    up = "int4";
}

static void a_skipped_step_leaves_them(void **state) {
    (void)state;
    static float was[MOST], is[MOST];
    const char *yaml = RUN("steps: 12, lr: 1.0e-2, warmup: 2, precision: fp16, "
                           "loss_scale_start: 16777216, loss_scale_interval: 2",
                           "up: int8");
    run_result r = run_with(yaml, "", 2, "checkpoint.every=1 checkpoint.keep=20"),
               two = run_with(yaml, "", 4, "parallel.zero=0");
    run_assert_same(&two, &r, "two stages");
    uint64_t skipped = 0;
    int kept = 0, changed = 0;
    memset(was, 0, sizeof was);
    for (int step = 1; step <= 12; step++) {
        pst_ckpt *c = open_step(&r, step);
        memset(is, 0, sizeof is);
        read_tensor(c, "wte.weight.residual1", is);
        const int same = !memcmp(was, is, sizeof is);
        assert_int_equal(same, c->info.skipped > skipped);
        kept += same;
        changed += !same;
        skipped = c->info.skipped;
        memcpy(was, is, sizeof was);
        pst_ckpt_close(c);
    }
    printf("%d steps were skipped, %d were not\n", kept, changed);
    assert_true(kept >= 2 && changed >= 2);
}

static void resume_has_the_same_bits(void **state) {
    (void)state;
    open_base();
    run_result r = run_with(YAML, run_copy_until(&base, 3), 4, "parallel.zero=0");
    run_assert_same(&r, &base, "resumed");
}

/* --- second moments of replicas --------------------------------------------------------------- */

#define TOPK                                                                                       \
    "parallel.compress.up=topk parallel.compress.rate=0.1 checkpoint.every=1 checkpoint.keep=9"
static const char *const attention = "h.0.attn.c_attn.weight";

/* The second moments after a step are at least beta2 (0.95) times those of before. */
static void at_least(const pst_ckpt *c, uint32_t replicas, const float *before) {
    static float now[MOST];
    char name[PST_CKPT_NAME];
    for (uint32_t k = 0; k < replicas; k++) {
        int grown = 0;
        read_tensor(c, pst_ckpt_moments_name(attention, k, name), now);
        for (int i = 0; i < 24 * 72; i++) {
            assert_true(now[i] >= 0.9499f * before[i]);
            grown += now[i] > 0.951f * before[i];
        }
        assert_true(grown > 100);
    }
    assert_null(pst_ckpt_tensor_find(c, pst_ckpt_moments_name(attention, replicas, name)));
}

/* Each replica has its own, in checkpoints; they are divided among others; a run of before, without
 * them, gives the optimizer's. The same bits in other layouts. */
static void replicas_have_moments(void **state) {
    (void)state;
    static float one[MOST], mean[MOST];
    char name[PST_CKPT_NAME], keys[200];
    run_result two = run_with(YAML, "", 2, TOPK),
               deep = run_with(YAML, "", 4,
                               TOPK " parallel.schedule=zb-v parallel.zero=0 "
                                    "parallel.post_validation=true");
    assert_int_equal(two.exit_status, 0);
    run_assert_same(&deep, &two, "zb-v");
    pst_ckpt *c = open_step(&two, 3);
    read_tensor(c, pst_ckpt_moments_name(attention, 0, name), mean);
    read_tensor(c, pst_ckpt_moments_name(attention, 1, name), one);
    assert_memory_not_equal(one, mean, sizeof one);
    for (int i = 0; i < MOST; i++) mean[i] = (mean[i] + one[i]) / 2;
    pst_ckpt_close(c);
    snprintf(keys, sizeof keys, TOPK " parallel.data=4 train.steps=4");
    run_result four = run_with(YAML, run_copy_until(&two, 3), 4, keys),
               wide = run_with(YAML, run_copy_until(&two, 3), 8,
                               TOPK " parallel.data=4 train.steps=4 parallel.zero=0");
    run_assert_same(&wide, &four, "four replicas");
    c = open_step(&four, 4);
    at_least(c, 4, mean);
    pst_ckpt_close(c);
    run_result exact =
        run_with(YAML, "", 2, "parallel.compress.up=none checkpoint.every=1 checkpoint.keep=9");
    c = open_step(&exact, 3);
    snprintf(name, sizeof name, "%s.v", attention);
    read_tensor(c, name, mean);
    pst_ckpt_close(c);
    run_result later = run_with(YAML, run_copy_until(&exact, 3), 2, TOPK " train.steps=4");
    c = open_step(&later, 4);
    at_least(c, 2, mean);
    pst_ckpt_close(c);
    run_result owner = run_with(YAML, run_copy_until(&two, 3), 2,
                                TOPK " parallel.compress.moments=owner train.steps=4"),
               plain = run_with(YAML, run_copy_until(&two, 3), 2,
                                "parallel.compress.up=none train.steps=4");
    assert_true(!owner.exit_status && !plain.exit_status);
    c = open_step(&owner, 4);
    assert_null(pst_ckpt_tensor_find(c, pst_ckpt_moments_name(attention, 0, name)));
    pst_ckpt_close(c);
}

/* A step that overflows is not applied, and makes no second moment infinite. */
static void moments_stay_finite(void **state) {
    (void)state;
    static float one[MOST];
    char name[PST_CKPT_NAME];
    const char *yaml = RUN("steps: 8, lr: 1.0e-2, warmup: 2, precision: fp16, "
                           "loss_scale_start: 16777216, loss_scale_interval: 2",
                           "up: topk, rate: 0.1");
    run_result r = run_with(yaml, "", 2, "checkpoint.every=8"),
               two = run_with(yaml, "", 4, "parallel.zero=0");
    run_assert_same(&two, &r, "two stages");
    pst_ckpt *c = open_step(&r, 8);
    assert_true(c->info.skipped > 0);
    read_tensor(c, pst_ckpt_moments_name(attention, 1, name), one);
    double sum = 0;
    for (int i = 0; i < 24 * 72; i++) sum += (double)one[i];
    assert_true(isfinite(sum) && sum > 0);
    pst_ckpt_close(c);
}

/* --- bases of powersgd ------------------------------------------------------------------------ */

#define POWERSGD                                                                                   \
    "parallel.compress.up=powersgd parallel.compress.rank=2 checkpoint.every=1 checkpoint.keep=20"
enum { BASIS = 2 * 24 }; /* of `attention`: 72 rows of 24 elements */

static void read_basis(const pst_ckpt *c, uint32_t replica, float out[BASIS]) {
    char name[PST_CKPT_NAME];
    const pst_ckpt_tensor *t =
        pst_ckpt_tensor_find(c, pst_ckpt_basis_name(attention, replica, 0, name));
    if (!t) fail_msg("%s lacks %s", c->path, name);
    assert_int_equal(t->elements, BASIS);
    read_tensor(c, name, out);
}

static int has_basis(const run_result *r, int step, uint32_t replica) {
    char name[PST_CKPT_NAME];
    pst_ckpt *c = open_step(r, step);
    const int has =
        pst_ckpt_tensor_find(c, pst_ckpt_basis_name(attention, replica, 0, name)) != NULL;
    pst_ckpt_close(c);
    return has;
}

/* Each replica has its own, in checkpoints. Without it, the next step has other bits; others take
 * them in turns; another rank begins without. Steps that are not applied leave it. */
static void replicas_have_bases(void **state) {
    (void)state;
    static float one[BASIS], other[BASIS];
    run_result two = run_with(YAML, "", 2, POWERSGD);
    assert_int_equal(two.exit_status, 0);
    pst_ckpt *c = open_step(&two, 3);
    read_basis(c, 0, one);
    read_basis(c, 1, other);
    pst_ckpt_close(c);
    assert_memory_not_equal(one, other, sizeof one);
    assert_false(has_basis(&two, 3, 2));
    run_result cold = run_with(YAML, run_copy_until(&two, 3), 2,
                               POWERSGD " parallel.compress.warm_start=false"),
               three = run_with(YAML, run_copy_until(&two, 3), 3, POWERSGD " parallel.data=3"),
               deep = run_with(YAML, run_copy_until(&two, 3), 6,
                               POWERSGD " parallel.data=3 parallel.zero=0"),
               larger = run_with(YAML, run_copy_until(&two, 3), 2,
                                 POWERSGD " parallel.compress.rank=3 train.steps=4");
    assert_true(!cold.exit_status && !larger.exit_status);
    assert_string_not_equal(cold.hash, two.hash);
    run_assert_same(&deep, &three, "three replicas");
    assert_false(has_basis(&cold, 6, 0));
    assert_true(has_basis(&three, 6, 2));
}

static void a_skipped_step_leaves_the_basis(void **state) {
    (void)state;
    static float was[BASIS], is[BASIS];
    const char *yaml = RUN("steps: 12, lr: 1.0e-2, warmup: 2, precision: fp16, "
                           "loss_scale_start: 16777216, loss_scale_interval: 2",
                           "up: int8");
    run_result r = run_with(yaml, "", 2, POWERSGD),
               two = run_with(yaml, "", 4, POWERSGD " parallel.zero=0");
    run_assert_same(&two, &r, "two stages");
    uint64_t skipped = 0;
    int kept = 0;
    for (int step = 1; step <= 12; step++) {
        pst_ckpt *c = open_step(&r, step);
        read_basis(c, 1, is);
        const int same = !memcmp(was, is, sizeof is);
        assert_int_equal(same, c->info.skipped > skipped);
        kept += same;
        skipped = c->info.skipped;
        memcpy(was, is, sizeof was);
        pst_ckpt_close(c);
    }
    assert_true(kept >= 2 && kept <= 10);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void refuses(const char *keys, const char *why) {
    run_result r = run_with(YAML, "", 2, keys);
    if (r.exit_status != 2 || !strstr(pst_error(), why))
        fail_msg("%s: status %d, %s", keys, r.exit_status, pst_error());
}

static void bad_input(void **state) {
    (void)state;
    refuses("parallel.zero=0 parallel.compress.down=int8", "use parallel.zero=1");
    refuses("parallel.zero=2 parallel.compress.up=none parallel.compress.down=int8",
            "use parallel.zero=1");
    refuses("train.precision=fp16 parallel.compress.down=int8",
            "parallel.compress.down needs train.precision fp32");
    refuses("parallel.compress.up=none parallel.compress.down=int8 parallel.reproducible.data=2",
            "parallel.reproducible needs parallel.compress.down none");
    refuses("parallel.compress.down=topk", "expected one of none, int8, int4, bf16");
    refuses("parallel.compress.down=powersgd", "expected one of none, int8, int4, bf16");
    refuses("parallel.compress.rank=0", "expected a whole number from 1 to 64");
    refuses("parallel.compress.warm_start=yes", "expected one of true, false");
    refuses("parallel.compress.min_rate=0.5", "expected a number from 1 to 1000000");
    refuses("parallel.zero=2", "parallel.zero=2 sends those of every micro-batch; use "
                               "parallel.zero=1");
    refuses("parallel.reproducible.data=2",
            "parallel.reproducible needs parallel.compress.up none");
    refuses("parallel.gradients=bf16", "use parallel.gradients=fp32");
    refuses("parallel.compress.block=48", "expected a power of two from 32 to 4096, or 0");
    refuses("parallel.compress.block=16", "expected a power of two from 32 to 4096, or 0");
    refuses("parallel.compress.up=int7", "expected one of none, int8, int4, 2bit, topk, "
                                         "powersgd, bf16");
    refuses("parallel.compress.threshold=-1", "expected a number from 0 to 1000000, or auto");
    refuses("parallel.compress.up=topk parallel.compress.after=2",
            "use parallel.compress.warmup instead, or parallel.compress.moments=owner");
    refuses("parallel.compress.up=topk parallel.compress.moments=replica train.optimizer=sgd",
            "needs train.optimizer adamw; with sgd use parallel.compress.moments=owner");
    refuses("parallel.compress.up=topk train.optimizer_state=bf16",
            "use train.optimizer_state=fp32 or parallel.compress.moments=owner");
    refuses("parallel.compress.moments=none", "expected one of auto, replica, owner");
    refuses("parallel.compress.rate=0", "expected a number > 0 and <= 0.5");
    refuses("parallel.compress.rate=0.7", "expected a number > 0 and <= 0.5"); /* more bytes */
}

/* --- messages --------------------------------------------------------------------------------- */

/* Bytes over those of fp32 that rank 0 sends of gradients to their owners. */
static double sent(const char *cluster, const char *compress, double *compression) {
    char yaml[1200];
    pst_config *c;
    pst_prepared *p;
    uint64_t plain = 0, bytes = 0;
    snprintf(yaml, sizeof yaml,
             "name: run\nmodel: {kind: gpt, layers: 1, heads: 2, channels: 256, context: 4, "
             "vocabulary: 12000}\ndata: {kind: text, paths: [x]}\n"
             "train: {steps: 2, batch: 4, micro_batch: 1}\n"
             "parallel: {data: 2, cluster: \"%s\", compress: {%s}}\n",
             cluster, compress);
    if (pst_config_parse(yaml, "test", NULL, 0, &c) != PST_OK) fail_msg("%s", pst_error());
    const pst_prepare_options options = {
        .n_rank = 2, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = 4};
    if (pst_prepare(c, &options, &p) != PST_OK) fail_msg("%s", pst_error());
    for (uint32_t i = 0; i < p->job->list->n_instr; i++) {
        const pst_instr *in = p->job->list->instr + i;
        if (in->opcode != PST_OP_SEND || in->param == PST_NONE || in->use == PST_NONE) continue;
        plain += in->n * sizeof(float);
        bytes += in->bytes;
    }
    *compression = pst_job_compression(p->job, (const pst_cut *const *)p->cuts);
    pst_prepared_close(p);
    pst_config_close(c);
    return (double)bytes / (double)plain;
}

static void fewer_bytes(void **state) {
    (void)state;
    double ratio;
    const char *apart = "2x1 cpu ib:1Gb/s", *together = "1x2 cpu";
    assert_true(sent(apart, "up: none", &ratio) == 1 && ratio == 1);
    double part = sent(apart, "up: int8", &ratio);
    assert_true(part > 0.2539 && part < 0.256); /* (1 + 4 / 256) / 4, and what is small */
    assert_true(ratio > 1.5 && ratio < 1.6);    /* weights come back in fp32 */
    part = sent(apart, "up: int4", &ratio);
    assert_true(part > 0.1328 && part < 0.135);
    sent(apart, "up: int8, down: int8", &ratio);
    assert_true(ratio > 3.7 && ratio < 3.95);
    sent(apart, "up: none, down: int4", &ratio);
    assert_true(ratio > 1.7 && ratio < 1.8);
    sent(together, "up: none, down: int4", &ratio);
    assert_true(ratio == 1);
    part = sent(apart, "up: 2bit", &ratio);
    assert_true(part > 0.0664 && part < 0.068);
    part = sent(apart, "up: topk", &ratio); /* 10 of 1,024 elements, of 6 bytes each */
    assert_true(part > 0.0146 && part < 0.0165);
    part = sent(apart, "up: topk, rate: 0.25, block: 64", &ratio);
    assert_true(part > 0.375 && part < 0.377);
    part = sent(apart, "up: powersgd", &ratio); /* 16 bytes per row and column */
    assert_true(part > 0.0195 && part < 0.0217);
    assert_true(sent(apart, "up: powersgd, min_rate: 60", &ratio) == 1);
    part = sent(apart, "up: bf16", &ratio);
    assert_true(part > 0.5 && part < 0.502);
    part = sent(apart, "up: int8, block: 4096, min_bytes: 0", &ratio);
    assert_true(part > 0.25 && part < 0.2505);
    assert_true(sent(together, "up: int8", &ratio) == 1 && ratio == 1);
    assert_true(sent(together, "up: int8, links: all", &ratio) < 0.256);
    assert_true(sent(apart, "up: int8, min_bytes: 1G", &ratio) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits),
                                       cmocka_unit_test(changes_of_weights),
                                       cmocka_unit_test(the_copy_follows),
                                       cmocka_unit_test(packs_after_some_steps),
                                       cmocka_unit_test(several_replicas),
                                       cmocka_unit_test(other_instruction_sets),
                                       cmocka_unit_test(steps_add_up),
                                       cmocka_unit_test(steps_of_other_codecs_add_up),
                                       cmocka_unit_test(resume_has_the_same_bits),
                                       cmocka_unit_test(a_skipped_step_leaves_them),
                                       cmocka_unit_test(replicas_have_moments),
                                       cmocka_unit_test(moments_stay_finite),
                                       cmocka_unit_test(replicas_have_bases),
                                       cmocka_unit_test(a_skipped_step_leaves_the_basis),
                                       cmocka_unit_test(bad_input),
                                       cmocka_unit_test(fewer_bytes)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
