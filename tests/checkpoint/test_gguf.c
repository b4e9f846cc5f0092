/* GGUF files, read back by a reader of their own: header, alignment, keys, names, types and shapes
 * of tensors, and their numbers in the order that llama.cpp expects; what cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/rng.h"
#include "checkpoint/export.h"
#include "checkpoint/llmc.h"

enum { HEADS = 4, KV_HEADS = 2, CHANNELS = 16, VOCABULARY = 259, ALIGN = 32 };
enum { TEXT = 8, ARRAY = 9, BF16 = 30 };

static pst_model_config sizes(void) {
    return (pst_model_config){.kind = "llama",
                              .tokenizer = "byte",
                              .layers = 2,
                              .heads = HEADS,
                              .channels = CHANNELS,
                              .context = 8,
                              .vocabulary = VOCABULARY,
                              .micro_batch = 1,
                              .llama = {.kv_heads = KV_HEADS,
                                        .intermediate = 12,
                                        .window = 5,
                                        .norm_eps = 1e-6f,
                                        .tied = PST_NO,
                                        .bias = PST_NO,
                                        .rope = {.theta = 5e5f,
                                                 .scaling = PST_ROPE_LLAMA3,
                                                 .factor = 8,
                                                 .low = 1,
                                                 .high = 4,
                                                 .context = 16}}};
}

static float weight_of(const pst_param *p, uint64_t i) {
    float out;
    pst_rng_normal(pst_rng_key(1, p->name), i, 1, &out, 1);
    return out;
}

static pst_status give(void *arg, const pst_param *p, float *out) {
    (void)arg;
    for (uint64_t i = 0; i < pst_param_elements(p); i++) out[i] = weight_of(p, i);
    return PST_OK;
}

static pst_status write_it(const pst_model_config *c, pst_dtype type, pst_export_fn write,
                           pst_graph **graph) {
    const pst_model_row *row = strcmp(c->kind, "gpt") ? &pst_model_llama : &pst_model_gpt;
    if (row->build(c, graph) != PST_OK) fail_msg("%s", pst_error());
    const pst_export e = {{c, row, *graph, -1}, NULL, give, NULL};
    const pst_export_to to = {"model", type};
    return write(&e, &to);
}

/* A file in memory; `at` is where it is read next. */
typedef struct {
    uint8_t *bytes;
    uint64_t n, at;
} file;

static file read_file(const char *path) {
    file f = {0};
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    fseek(in, 0, SEEK_END);
    f.n = (uint64_t)ftell(in);
    rewind(in);
    f.bytes = malloc(f.n);
    assert_int_equal(fread(f.bytes, 1, f.n, in), f.n);
    fclose(in);
    return f;
}

static uint64_t number(file *f, uint32_t bytes) {
    uint64_t value = 0;
    assert_true(f->at + bytes <= f->n);
    memcpy(&value, f->bytes + f->at, bytes);
    f->at += bytes;
    return value;
}

static void text(file *f, char out[64]) {
    const uint64_t n = number(f, 8);
    assert_true(n < 64 && f->at + n <= f->n);
    memcpy(out, f->bytes + f->at, n);
    out[n] = 0;
    f->at += n;
}

/* Skips a value; *out: the number, or the number of elements. */
static void value(file *f, uint32_t type, uint64_t *out, char words[64]) {
    static const uint32_t size[] = {1, 1, 2, 2, 4, 4, 4, 1};
    if (type == TEXT) {
        text(f, words);
        return;
    }
    if (type != ARRAY) {
        assert_true(type < sizeof size / sizeof *size);
        *out = number(f, size[type]);
        return;
    }
    const uint32_t inner = (uint32_t)number(f, 4);
    const uint64_t n = number(f, 8);
    uint64_t ignored;
    for (uint64_t i = 0; i < n; i++) value(f, inner, &ignored, words);
    *out = n;
}

typedef struct {
    const char *key;
    uint64_t number;
    const char *text;
    int seen;
} expected;

static void check_keys(file *f, uint64_t n, expected *list, size_t n_list) {
    for (uint64_t i = 0; i < n; i++) {
        char key[64], words[64] = "";
        uint64_t got = 0;
        text(f, key);
        value(f, (uint32_t)number(f, 4), &got, words);
        for (size_t k = 0; k < n_list; k++) {
            if (strcmp(list[k].key, key)) continue;
            list[k].seen++;
            if (list[k].text) assert_string_equal(words, list[k].text);
            else assert_int_equal(got, list[k].number);
        }
    }
    for (size_t k = 0; k < n_list; k++)
        if (list[k].seen != 1) fail_msg("key %s occurs %d times", list[k].key, list[k].seen);
}

typedef struct {
    char name[64];
    uint32_t n_dim, type;
    uint64_t dim[4], offset;
} tensor;

static const tensor *find(const tensor *list, uint64_t n, const char *name) {
    for (uint64_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) return &list[i];
    fail_msg("there is no tensor %s", name);
    return NULL;
}

static void check_queries(const file *f, uint64_t data, const tensor *t, const pst_graph *g) {
    const pst_param *p = &g->param[pst_graph_find_param(g, "layers.1.self_attn.q_proj.weight")];
    const uint64_t size = CHANNELS / HEADS;
    assert_true(t->n_dim == 2 && t->type == BF16 && t->dim[0] == CHANNELS);
    for (uint64_t h = 0; h < HEADS; h++)
        for (uint64_t i = 0; i < size / 2; i++)
            for (uint64_t side = 0; side < 2; side++) {
                const uint64_t row = h * size + 2 * i + side, own = h * size + side * size / 2 + i;
                uint16_t got;
                memcpy(&got, f->bytes + data + t->offset + row * CHANNELS * 2, sizeof got);
                assert_int_equal(got, pst_bf16_from_f32(weight_of(p, own * CHANNELS)));
            }
}

static void llama_is_read_back(void **state) {
    (void)state;
    const pst_model_config c = sizes();
    pst_graph *graph;
    if (write_it(&c, PST_BF16, pst_export_gguf, &graph) != PST_OK) fail_msg("%s", pst_error());
    file f = read_file("model");
    assert_memory_equal(f.bytes, "GGUF", 4);
    f.at = 4;
    assert_int_equal(number(&f, 4), 3);
    const uint64_t n = number(&f, 8), n_key = number(&f, 8);
    assert_int_equal(n, graph->n_param + 1);
    expected list[] = {{"general.architecture", 0, "llama", 0},
                       {"general.alignment", ALIGN, NULL, 0},
                       {"general.file_type", 32, NULL, 0},
                       {"llama.block_count", 2, NULL, 0},
                       {"llama.context_length", 5, NULL, 0},
                       {"llama.attention.head_count_kv", KV_HEADS, NULL, 0},
                       {"llama.rope.dimension_count", CHANNELS / HEADS, NULL, 0},
                       {"tokenizer.ggml.model", 0, "gpt2", 0},
                       {"tokenizer.ggml.pre", 0, "gpt-2", 0},
                       {"tokenizer.ggml.tokens", VOCABULARY, NULL, 0},
                       {"tokenizer.ggml.token_type", VOCABULARY, NULL, 0},
                       {"tokenizer.ggml.merges", 0, NULL, 0},
                       {"tokenizer.ggml.add_bos_token", 0, NULL, 0}};
    check_keys(&f, n_key, list, sizeof list / sizeof *list);
    tensor *t = calloc(n, sizeof *t);
    for (uint64_t i = 0; i < n; i++) {
        text(&f, t[i].name);
        t[i].n_dim = (uint32_t)number(&f, 4);
        assert_in_range(t[i].n_dim, 1, 2);
        for (uint32_t d = 0; d < t[i].n_dim; d++) t[i].dim[d] = number(&f, 8);
        t[i].type = (uint32_t)number(&f, 4);
        t[i].offset = number(&f, 8);
        assert_int_equal(t[i].offset % ALIGN, 0);
        if (t[i].n_dim == 1) assert_int_equal(t[i].type, 0);
    }
    const uint64_t data = (f.at + ALIGN - 1) / ALIGN * ALIGN;
    check_queries(&f, data, find(t, n, "blk.1.attn_q.weight"), graph);
    /* waves longer than the context become `factor` times as long */
    const tensor *freqs = find(t, n, "rope_freqs.weight");
    float factor[CHANNELS / HEADS / 2];
    assert_int_equal(freqs->dim[0], CHANNELS / HEADS / 2);
    memcpy(factor, f.bytes + data + freqs->offset, sizeof factor);
    assert_float_equal(factor[1], 8, 1e-4);
    const tensor *embedding = find(t, n, "token_embd.weight");
    assert_true(embedding->dim[0] == CHANNELS && embedding->dim[1] == VOCABULARY);
    find(t, n, "output.weight");
    find(t, n, "blk.0.ffn_gate.weight");
    free(t);
    free(f.bytes);
    pst_graph_close(graph);
}

static void refuse(const pst_model_config *c, pst_dtype type, pst_export_fn write,
                   const char *words) {
    pst_graph *graph;
    unlink("model");
    assert_int_equal(write_it(c, type, write, &graph), PST_EINPUT);
    if (!strstr(pst_error(), words)) fail_msg("%s", pst_error());
    assert_int_not_equal(access("model", F_OK), 0);
    pst_graph_close(graph);
}

static void what_cannot_be_written(void **state) {
    (void)state;
    pst_model_config c = sizes();
    refuse(&c, PST_F32, pst_llmc_export, "checkpoints of llm.c are of gpt");
    *c.tokenizer = 0;
    refuse(&c, PST_F32, pst_export_gguf, "tokenizer of the model is unknown");
    c = sizes();
    c.vocabulary = 200;
    refuse(&c, PST_F32, pst_export_gguf, "the tokenizer has 256 tokens, but the model has 200");
    c = sizes();
    c.llama.rope = (pst_rope){
        .theta = 1e4f, .scaling = PST_ROPE_YARN, .factor = 4, .low = 2, .high = 32, .context = 16};
    refuse(&c, PST_F32, pst_export_gguf, "model.rope_low 1");
    c = sizes();
    strcpy(c.kind, "gpt");
    c.activation = PST_ACT_RELU;
    refuse(&c, PST_F32, pst_export_gguf, "gelu_tanh only");
    refuse(&c, PST_F32, pst_llmc_export, "gelu_tanh only");
    c.activation = PST_ACT_GELU_TANH;
    refuse(&c, PST_F16, pst_llmc_export, "have f32 or bf16");
}

static int folder_of_its_own(void **state) {
    static char path[] = "/tmp/pst-gguf-XXXXXX";
    *state = path;
    return mkdtemp(path) && chdir(path) == 0 ? 0 : -1;
}

static int folder_removed(void **state) {
    unlink("model");
    return chdir("/") == 0 && rmdir(*state) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(llama_is_read_back),
                                       cmocka_unit_test(what_cannot_be_written)};
    return cmocka_run_group_tests(tests, folder_of_its_own, folder_removed);
}
