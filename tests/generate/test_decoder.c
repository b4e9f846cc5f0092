/* test: label=quick timeout=60 */
/* The logits of a decoder with a cache are those of the whole window, for sequences of different
 * lengths at a time, in a pipeline, and after the window has moved; of gpt and of llama. Those of
 * tensor ranks are, too, also if they are more than the heads of keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "generate/decoder.h"
#include "run/runs.h"
#include <math.h>

#define YAML(model)                                                                                \
    "name: run\nmodel: {layers: 3, channels: 32, context: 70, " model "}\n"                        \
    "data: {kind: text, paths: [\"" PST_SOURCE_DIR "/src/base/*.h\"]}\n"                           \
    "train: {steps: 3, batch: 4, micro_batch: 2, lr: 1.0e-2, warmup: 0}\n"                         \
    "parallel: {threads: 2}\ncheckpoint: {every: 0}\n"
enum { N = 3, LENGTH = 120 };

static int32_t token_at(uint64_t sequence, uint64_t i) {
    return (int32_t)((i * i * 31 + i * 7 + sequence * 101 + 13) % 256);
}

/* Appends one token to each sequence after each run that has given its logits. logits: those
 * before token i of a sequence, [N][LENGTH][256]; NaN: not computed. */
static void decode(const char *folder, const pst_decoder_options *o, const uint64_t *prompt,
                   float *logits) {
    pst_source source;
    pst_decoder d;
    pst_sequence s[N] = {0};
    if (pst_source_open(folder, NULL, &source) != PST_OK) fail_msg("%s", pst_error());
    if (pst_decoder_open(&source, o, &d) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(d.cache, !o->no_cache);
    assert_int_equal(d.vocabulary, 256);
    for (uint32_t i = 0; i < o->sequences; i++) {
        s[i].token = malloc(LENGTH * sizeof(int32_t));
        for (uint64_t k = 0; k < LENGTH; k++) s[i].token[k] = token_at(i, k);
        s[i].n = prompt[i];
    }
    for (uint64_t k = 0; k < (uint64_t)N * LENGTH * 256; k++) logits[k] = NAN;
    for (int left = 1; left;) {
        if (pst_decoder_run(&d, s) != PST_OK) fail_msg("%s", pst_error());
        left = 0;
        for (uint32_t i = 0; i < o->sequences; i++) {
            if (s[i].logits)
                memcpy(logits + (i * LENGTH + s[i].n) * 256, s[i].logits, 256 * sizeof *logits);
            if (s[i].logits && !s[i].done && ++s[i].n == LENGTH) s[i].done = 1;
            left += !s[i].done;
        }
    }
    for (uint32_t i = 0; i < o->sequences; i++) free(s[i].token);
    pst_decoder_close(&d, PST_OK);
    pst_source_close(&source);
}

static double difference(const float *a, const float *b, uint64_t *n) {
    double most = 0;
    *n = 0;
    for (uint64_t i = 0; i < (uint64_t)N * LENGTH * 256; i++) {
        if (isnan(a[i]) && isnan(b[i])) continue;
        assert_false(isnan(a[i]) || isnan(b[i]));
        most = fmax(most, fabs((double)a[i] - b[i]));
        ++*n;
    }
    return most;
}

#define LLAMA "kind: llama, heads: 4, intermediate: 40, "
static char gpt[] = YAML("kind: gpt, heads: 2"),
            shared[] = YAML(LLAMA "kv_heads: 2, rope_scaling: llama3, rope_factor: 4, "
                                  "rope_context: 20, bias: \"true\""),
            window[] = YAML(LLAMA "kv_heads: 1, rope_scaling: yarn, rope_factor: 4, "
                                  "rope_context: 20, window: 19, tied: \"true\"");

/* *state: the run file. Each has a folder of its own. */
static void with_and_without(void **state) {
    static const uint64_t prompt[N] = {1, 70, 23};
    char name[40];
    snprintf(name, sizeof name, "model-%zu", strlen(*state));
    run_result r = run_here(*state, name, 1, "", NULL, 0);
    assert_int_equal(r.exit_status, 0);
    uint64_t n;
    float *whole = malloc((size_t)N * LENGTH * 256 * sizeof *whole);
    float *other = malloc((size_t)N * LENGTH * 256 * sizeof *other);
    decode(r.folder, &(pst_decoder_options){.sequences = N, .no_cache = 1}, prompt, whole);
    decode(r.folder, &(pst_decoder_options){.sequences = N}, prompt, other);
    assert_true(difference(whole, other, &n) < 1e-5);
    assert_int_equal(n, (119 + 50 + 97) * 256); /* each token from the prompt's end on */
    /* the stages of a pipeline compute the same bits */
    decode(r.folder, &(pst_decoder_options){.sequences = N, .ranks = 2}, prompt, whole);
    assert_true(difference(whole, other, &n) == 0);
    /* tensor ranks: with as many heads of keys as ranks, or fewer; and with a pipeline */
    decode(r.folder, &(pst_decoder_options){.sequences = N, .ranks = 4, .tensor = 2}, prompt,
           whole);
    assert_true(difference(whole, other, &n) < 1e-5);
    assert_int_equal(n, (119 + 50 + 97) * 256);
    if (*state != gpt) /* which has two heads */
        decode(r.folder, &(pst_decoder_options){.sequences = N, .ranks = 3, .tensor = 3}, prompt,
               whole);
    assert_true(difference(whole, other, &n) < 1e-5);
    decode(r.folder, &(pst_decoder_options){.sequences = N, .ranks = 2, .tensor = 2, .no_cache = 1},
           prompt, whole);
    assert_true(difference(whole, other, &n) < 1e-5);
    /* a sequence alone */
    decode(r.folder, &(pst_decoder_options){.sequences = 1}, prompt, whole);
    for (uint64_t i = 0; i < LENGTH * 256; i++)
        if (!isnan(other[i])) assert_true(fabsf(whole[i] - other[i]) < 1e-5f);
    free(whole);
    free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        {"gpt", with_and_without, NULL, NULL, gpt},
        {"llama: shared heads, scaling of Llama 3", with_and_without, NULL, NULL, shared},
        {"llama: a window, YaRN", with_and_without, NULL, NULL, window},
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    run_folder_remove();
    return failed;
}
