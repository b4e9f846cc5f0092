/* test: label=quick timeout=120
 * parallel.gradients: bf16. Half the bytes of gradients travel; sums have the same bits in every
 * pipeline and, with zero 0 and 1, whoever adds them; losses stay near those of fp32. Rounding in
 * place loses nothing else. Over links that have much on the way messages are longer, with the same
 * bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/dtype.h"
#include "base/rng.h"
#include "prepare/prepare.h"
#include "run/runs_assert.h"
#include <math.h>

#define YAML                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 2, heads: 2, channels: 24, context: 20, vocabulary: 256, "         \
    "dropout: 0.1}\n"                                                                              \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 6, batch: 8, micro_batch: 1, lr: 1.0e-2, warmup: 2, clip: 0.05, seed: 7}\n"    \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 0}\n"

/* Parameters of several pieces for each replica. */
#define WIDE                                                                                       \
    "name: run\n"                                                                                  \
    "model: {kind: gpt, layers: 1, heads: 2, channels: 256, context: 4, vocabulary: 12000}\n"      \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"], validation: 0}\n"            \
    "train: {steps: 2, batch: 4, micro_batch: 1, lr: 1.0e-3, warmup: 0, seed: 7}\n"                \
    "parallel: {transport: self, threads: 1}\n"                                                    \
    "checkpoint: {every: 0}\n"

enum { SEED = 23, N = 1000 };

static void in_place(void **state) {
    (void)state;
    static float x[N], rounded[N];
    uint32_t word[4];
    printf("seed %d\n", SEED);
    for (uint32_t n = 1; n <= N; n = n * 3 + 1) {
        for (uint32_t i = 0; i < n; i++) {
            pst_rng_words(pst_rng_key(SEED, "in place"), n, i, word);
            memcpy(&x[i], word, sizeof *x);
            if (isnan(x[i])) x[i] = INFINITY;
            rounded[i] = pst_f32_from_bf16(pst_bf16_from_f32(x[i]));
        }
        uint16_t sent[N];
        pst_bf16_pack(x, n);
        memcpy(sent, x, n * sizeof *sent);
        memset(x, 0x55, sizeof x);
        memcpy((uint8_t *)x + n * sizeof *sent, sent, n * sizeof *sent);
        pst_bf16_unpack(x, n);
        assert_memory_equal(x, rounded, n * sizeof *x);
        pst_bf16_round(x, n);
        assert_memory_equal(x, rounded, n * sizeof *x);
    }
}

static run_result train(const char *name, uint32_t stages, uint32_t replicas, int zero,
                        const char *type) {
    static int n;
    char of[3][64], folder[40];
    const char *override[] = {of[0], of[1], of[2]};
    snprintf(folder, sizeof folder, "%s-%d", name, n++);
    snprintf(of[0], sizeof of[0], "parallel.data=%u", replicas);
    snprintf(of[1], sizeof of[1], "parallel.zero=%d", zero);
    snprintf(of[2], sizeof of[2], "parallel.gradients=%s", type);
    run_result r = run_here(YAML, folder, (int)(stages * replicas), "", override, 3);
    if (r.exit_status) fail_msg("%s: exit status %d", name, r.exit_status);
    return r;
}

/* Also which messages there are: the longest one's numbers. */
static run_result train_wide(const char *name, int zero, const char *cluster, uint64_t *longest) {
    char of[2][80];
    const char *override[] = {of[0], of[1], "parallel.data=2"};
    pst_config *c;
    pst_prepared *p;
    snprintf(of[0], sizeof of[0], "parallel.zero=%d", zero);
    snprintf(of[1], sizeof of[1], "parallel.cluster=%s", cluster);
    run_result r = run_here(WIDE, name, 2, "", override, 3);
    if (r.exit_status) fail_msg("%s: exit status %d", name, r.exit_status);
    for (int k = 0; k < 2; k++)
        if (!r.peak[k] || r.peak[k] > r.predicted[k])
            fail_msg("%s: rank %d has written other memory than its arena", name, k);
    const pst_prepare_options options = {
        .n_rank = 2, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = 4};
    if (pst_config_parse(WIDE, "test", override, 3, &c) != PST_OK ||
        pst_prepare(c, &options, &p) != PST_OK)
        fail_msg("%s", pst_error());
    *longest = 0;
    for (uint32_t i = 0; i < p->job->list->n_instr; i++)
        if (p->job->list->instr[i].param != PST_NONE && p->job->list->instr[i].n > *longest)
            *longest = p->job->list->instr[i].n;
    pst_prepared_close(p);
    pst_config_close(c);
    return r;
}

static void longer_messages(void **state) {
    (void)state;
    for (int zero = 0; zero < 3; zero++) {
        char name[2][40];
        uint64_t longest[2];
        snprintf(name[0], sizeof name[0], "pieces-%d", zero);
        snprintf(name[1], sizeof name[1], "longer-%d", zero);
        run_result pieces = train_wide(name[0], zero, "", &longest[0]),
                   longer = train_wide(name[1], zero, "1x2 cpu nvlink:450GB/s", &longest[1]);
        run_assert_same(&longer, &pieces, name[1]);
        assert_int_equal(longest[0], PST_PIECE);
        assert_true(longest[1] > 2 * PST_PIECE);
    }
}

static void same_bits(void **state) {
    (void)state;
    for (uint32_t d = 2; d <= 4; d += 2) {
        run_result exact = train("exact", 1, d, 1, "fp32");
        for (int zero = 0; zero < 3; zero++) {
            run_result one = train("one", 1, d, zero < 2 ? 1 : 2, "bf16"),
                       two = train("two", 2, d, zero, "bf16");
            run_assert_same(&two, &one, "two stages");
            assert_string_not_equal(one.hash, exact.hash);
            for (int i = 0; i < one.steps; i++)
                if (fabs(one.value[i] - exact.value[i]) > 2e-3 * exact.value[i])
                    fail_msg("%u replicas, zero %d, step %d: loss %.9g, in fp32 %.9g", d, zero,
                             i + 1, one.value[i], exact.value[i]);
        }
    }
}

static pst_status prepare(const char *parallel, pst_config **c, pst_prepared **p) {
    char yaml[1000];
    snprintf(yaml, sizeof yaml, "%sparallel: {%s}\n", YAML, parallel);
    char *first = strstr(yaml, "parallel:");
    memmove(first, strchr(first, '\n') + 1, strlen(strchr(first, '\n') + 1) + 1);
    if (pst_config_parse(yaml, "test", NULL, 0, c) != PST_OK) fail_msg("%s", pst_error());
    const pst_prepare_options options = {
        .n_rank = 2, .threads = 1, .isa = pst_cpu_isa(), .n_eval_micro = 8};
    return pst_prepare(*c, &options, p);
}

/* Of gradients on their way to who adds them. */
static uint64_t sent(const char *parallel) {
    pst_config *c;
    pst_prepared *p;
    uint64_t bytes = 0;
    if (prepare(parallel, &c, &p) != PST_OK) fail_msg("%s", pst_error());
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < p->job->list[r].n_instr; i++) {
            const pst_instr *in = p->job->list[r].instr + i;
            if (in->opcode == PST_OP_SEND && in->param != PST_NONE && in->use != PST_NONE)
                bytes += in->bytes;
        }
    pst_prepared_close(p);
    pst_config_close(c);
    return bytes;
}

static void half_the_bytes(void **state) {
    (void)state;
    for (int zero = 1; zero < 3; zero++) {
        char text[2][80];
        for (int k = 0; k < 2; k++)
            snprintf(text[k], sizeof text[k], "data: 2, zero: %d, gradients: %s", zero,
                     k ? "bf16" : "fp32");
        assert_true(sent(text[0]) > 0 && sent(text[0]) == 2 * sent(text[1]));
    }
    pst_config *c;
    pst_prepared *p;
    assert_int_equal(prepare("data: 2, gradients: bf16, reproducible: 4", &c, &p), PST_EINPUT);
    pst_config_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_place), cmocka_unit_test(same_bits),
                                       cmocka_unit_test(half_the_bytes),
                                       cmocka_unit_test(longer_messages)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
