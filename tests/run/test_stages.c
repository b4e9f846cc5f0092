/* test: label=full timeout=60
 * parallel.compress.stages: stages send packed activations and gradients of these. With the same
 * cut the same bits in every schedule, with every number of threads, with recomputation, and after
 * a resume; results are near those without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "prepare/prepare.h"
#include "run/runs_assert.h"

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 4, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 4, lr: 1.0e-2, warmup: 2, batch: 8, micro_batch: 1, seed: 7}\n"                \
    "parallel: {transport: self, threads: 1, compress: {links: all}}\n"                            \
    "checkpoint: {every: 2}\n"

/* The plan of a run, with another schedule and recomputation: where the model is cut depends on
 * these, unless a plan says it. ranks 2: chunks 2 and 3 are on ranks 0 and 1. */
static const char *replan(const run_result *of, int ranks, const char *schedule,
                          const char *recompute) {
    static char path[600];
    static int n;
    char command[2000];
    snprintf(path, sizeof path, "%s/plan-%d.yaml", run_folder(), n++);
    snprintf(
        command, sizeof command,
        "sed -e '/^predicted:/,$d' -e 's/schedule: .*/schedule: %s/' -e 's/ranks: 4 /ranks: %d /' "
        "-e 's/recompute: none/recompute: %s/' '%s/plan.yaml' >'%s'",
        schedule, ranks, recompute, of->folder, path);
    if (system(command) != 0) fail_msg("%s", command);
    snprintf(command, sizeof command,
             "sed -i -e 's/chunk: 2, rank: 2/chunk: 2, rank: 0/' -e 's/chunk: 3, rank: 3/chunk: 3, "
             "rank: 1/' '%s'",
             path);
    if (ranks == 2 && system(command) != 0) fail_msg("%s", command);
    return path;
}

static void same_bits(void **state) {
    (void)state;
    static const char *const codecs[] = {"int8 parallel.compress.block=32", "int8", "bf16"};
    /* two stages with two chunks each send each other as much as four stages */
    static const struct {
        int ranks;
        const char *schedule, *recompute, *keys;
    } layouts[] = {{4, "gpipe", "none", "parallel.threads=2"},
                   {4, "zb-h1", "full", "parallel.post_validation=true"},
                   {4, "zb-h2", "selective", ""},
                   {2, "interleaved", "none", ""},
                   {2, "interleaved", "full", ""}};
    run_result exact = run_with(YAML, "", 4, "parallel.pipeline=4");
    for (int i = 0; i < 3; i++) {
        char keys[600];
        snprintf(keys, sizeof keys, "parallel.pipeline=4 parallel.compress.stages=%s", codecs[i]);
        run_result one = run_with(YAML, "", 4, keys);
        assert_int_equal(one.exit_status, 0);
        assert_string_not_equal(one.hash, exact.hash);
        for (int k = 0; k < one.steps; k++)
            assert_true(fabs(one.value[k] - exact.value[k]) < 1e-2 * exact.value[k]);
        for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
            snprintf(keys, sizeof keys, "parallel.plan=%s parallel.compress.stages=%s %s",
                     replan(&one, layouts[l].ranks, layouts[l].schedule, layouts[l].recompute),
                     codecs[i], layouts[l].keys);
            run_result other = run_with(YAML, "", layouts[l].ranks, keys);
            run_assert_same(&other, &one, keys);
        }
        snprintf(keys, sizeof keys, "parallel.plan=%s parallel.compress.stages=%s",
                 replan(&one, 4, "zb-h1", "none"), codecs[i]);
        run_result again = run_with(YAML, run_copy_until(&one, 2), 4, keys);
        run_assert_same(&again, &one, keys);
        /* on one rank nothing is packed: other bits from there on */
        snprintf(keys, sizeof keys, "parallel.pipeline=1 parallel.compress.stages=%s", codecs[i]);
        run_result alone = run_with(YAML, run_copy_until(&one, 2), 1, keys);
        run_assert_ended(&alone, &one, keys);
        assert_string_not_equal(alone.hash, one.hash);
    }
}

/* With gradients that are packed, delayed, or of islands; two tensor ranks have the same values,
 * and pack them alike. */
static void with_others(void **state) {
    (void)state;
    static const char *const keys[] = {
        "parallel.data=2 parallel.compress.up=int8 parallel.compress.min_bytes=0",
        "parallel.data=2 parallel.update=delayed", "parallel.data=2 parallel.local.steps=2",
        "parallel.tensor=2 parallel.sequence=true"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[400];
        snprintf(text, sizeof text, "%s parallel.pipeline=2 parallel.compress.stages=int8",
                 keys[i]);
        run_result one = run_with(YAML, "", 4, text);
        assert_int_equal(one.exit_status, 0);
        snprintf(text, sizeof text, "%s parallel.pipeline=2", keys[i]);
        run_result exact = run_with(YAML, "", 4, text);
        assert_string_not_equal(one.hash, exact.hash);
        for (int k = 0; k < one.steps; k++)
            assert_true(fabs(one.value[k] - exact.value[k]) < 1e-2 * exact.value[k]);
    }
}

/* --- messages --------------------------------------------------------------------------------- */

static pst_prepared *prepared(const char *cluster, uint32_t n_rank, const char *parallel) {
    char yaml[1200];
    pst_config *c;
    pst_prepared *p;
    snprintf(yaml, sizeof yaml,
             "name: run\nmodel: {kind: gpt, layers: 4, heads: 2, channels: 64, context: 32, "
             "vocabulary: 256}\ndata: {kind: text, paths: [x]}\n"
             "train: {steps: 2, batch: 4, micro_batch: 1}\n"
             "parallel: {cluster: \"%s\", %s}\n",
             cluster, parallel);
    if (pst_config_parse(yaml, "test", NULL, 0, &c) != PST_OK) fail_msg("%s", pst_error());
    const pst_prepare_options options = {
        .n_rank = n_rank, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = 4};
    if (pst_prepare(c, &options, &p) != PST_OK) fail_msg("%s", pst_error());
    return p;
}

typedef struct {
    uint64_t together, apart; /* bytes between stages on one host, and on two */
    double ratio;             /* that the metrics show */
} traffic;

/* per_host: ranks of each host. */
static traffic sent(const char *cluster, uint32_t n_rank, uint32_t per_host, const char *parallel) {
    pst_prepared *p = prepared(cluster, n_rank, parallel);
    traffic t = {.ratio = p->compression};
    for (uint32_t r = 0; r < n_rank; r++)
        for (uint32_t i = 0; i < p->job->list[r].n_instr; i++) {
            const pst_instr *in = p->job->list[r].instr + i;
            if (in->opcode != PST_OP_SEND || in->local == PST_NONE || in->peer == r) continue;
            *(in->peer / per_host == r / per_host ? &t.together : &t.apart) += in->bytes;
        }
    pst_config *c = (pst_config *)(uintptr_t)p->config;
    pst_prepared_close(p);
    pst_config_close(c);
    return t;
}

static uint64_t as_int8(uint64_t bytes) { return bytes / 4 + bytes / 256; }

static void fewer_bytes(void **state) {
    (void)state;
    const char *two = "2x1 cpu ib:1Gb/s", *one = "1x2 cpu", *pairs = "2x2 cpu ib:1Gb/s";
    traffic plain = sent(two, 2, 1, "pipeline: 2");
    traffic t = sent(two, 2, 1, "pipeline: 2, compress: {stages: int8}");
    assert_true(plain.apart > 0 && plain.ratio == 1);
    assert_int_equal(t.apart, as_int8(plain.apart));
    assert_true(fabs(t.ratio - (double)plain.apart / (double)t.apart) < 1e-9);
    t = sent(two, 2, 1, "pipeline: 2, compress: {stages: bf16}");
    assert_int_equal(t.apart, plain.apart / 2);
    t = sent(one, 2, 2, "pipeline: 2, compress: {stages: int8}");
    assert_true(t.ratio == 1);
    t = sent(one, 2, 2, "pipeline: 2, compress: {stages: int8, links: all}");
    assert_true(fabs(t.ratio - 256.0 / 65) < 1e-9);
    plain = sent(pairs, 4, 2, "pipeline: 4");
    t = sent(pairs, 4, 2, "pipeline: 4, compress: {stages: int8}");
    assert_int_equal(t.apart, as_int8(plain.apart));
    assert_int_equal(t.together, plain.together);
    const double all = (double)(plain.apart + plain.together);
    assert_true(fabs(t.ratio - all / (double)(t.apart + t.together)) < 1e-9);
    plain = sent(two, 2, 1, "pipeline: 2, schedule: zb-v");
    t = sent(two, 2, 1, "pipeline: 2, schedule: zb-v, compress: {stages: int8}");
    assert_int_equal(t.apart, as_int8(plain.apart));
}

/* --- refusals --------------------------------------------------------------------------------- */

static void refuses(const char *keys, const char *why) {
    char text[300];
    snprintf(text, sizeof text, "parallel.pipeline=4 %s", keys);
    run_result r = run_with(YAML, "", 4, text);
    if (r.exit_status != 2 || !strstr(pst_error(), why))
        fail_msg("%s: status %d, %s", keys, r.exit_status, pst_error());
}

static void bad_input(void **state) {
    (void)state;
    refuses("parallel.compress.stages=int4", "expected one of none, int8, bf16");
    refuses("parallel.compress.stages=int8 parallel.reproducible.data=2",
            "parallel.reproducible needs parallel.compress.stages none");
    refuses("parallel.compress.stages=int8 train.precision=bf16",
            "parallel.compress.stages needs train.precision fp32");
    refuses("parallel.compress.stages=int8 parallel.compress.block=48",
            "expected a power of two from 32 to 4096, or 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(with_others),
                                       cmocka_unit_test(fewer_bytes), cmocka_unit_test(bad_input)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
