/* Hugging Face folders of Llama, Qwen 2 and Mistral: sizes and weights out and in again, to the
 * bit; shards; what does not fit is named, all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/rng.h"
#include "checkpoint/hf.h"
#include "checkpoint/safetensors.h"

/* A model and its weights. */
typedef struct {
    pst_model_config config;
    pst_graph *graph;
    float **weight;
} model;

static pst_model_config sizes(void) {
    return (pst_model_config){.kind = "llama",
                              .tokenizer = "byte",
                              .layers = 2,
                              .heads = 4,
                              .channels = 16,
                              .context = 8,
                              .vocabulary = 11,
                              .micro_batch = 1,
                              .llama = {.kv_heads = 2,
                                        .intermediate = 12,
                                        .norm_eps = 1e-6f,
                                        .tied = PST_NO,
                                        .bias = PST_NO,
                                        .rope = {.theta = 5e5f}}};
}

static model random_model(pst_model_config config, uint64_t seed) {
    model m = {.config = config};
    if (pst_model_llama.build(&m.config, &m.graph) != PST_OK) fail_msg("%s", pst_error());
    m.weight = calloc(m.graph->n_param, sizeof *m.weight);
    for (uint32_t i = 0; i < m.graph->n_param; i++) {
        const pst_param *p = &m.graph->param[i];
        m.weight[i] = calloc(pst_param_elements(p), sizeof **m.weight);
        pst_rng_normal(pst_rng_key(seed, p->name), 0, 1, m.weight[i], pst_param_elements(p));
    }
    return m;
}

static void model_free(model *m) {
    for (uint32_t i = 0; i < m->graph->n_param; i++) free(m->weight[i]);
    free(m->weight);
    pst_graph_close(m->graph);
}

static pst_status give(void *arg, const pst_param *param, float *out) {
    model *m = arg;
    memcpy(out, m->weight[param - m->graph->param], pst_param_elements(param) * sizeof *out);
    return PST_OK;
}

static pst_status export_to(const char *folder, model *m, int32_t end) {
    const pst_hf_model hf = {&m->config, &pst_model_llama, m->graph, end};
    return pst_hf_export(folder, &hf, give, m);
}

static pst_status import_from(const char *folder, model *m) {
    return pst_hf_import(folder, &pst_model_llama, m->graph,
                         &(pst_hf_weights){.held = m->graph, .weight = m->weight});
}

static char *contents(const char *path, long *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    fseek(f, 0, SEEK_END);
    *n = ftell(f);
    rewind(f);
    char *text = calloc(1, (size_t)*n + 1);
    assert_int_equal(fread(text, 1, (size_t)*n, f), *n);
    fclose(f);
    return text;
}

static void expect_text(const char *path, const char *words) {
    long n;
    char *text = contents(path, &n);
    if (!strstr(text, words)) fail_msg("%s lacks %s: %s", path, words, text);
    free(text);
}

static void same_files(const char *a, const char *b) {
    long n, m;
    char *x = contents(a, &n), *y = contents(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    free(x);
    free(y);
}

/* Out, in and out again. */
static void check_round(pst_model_config config, const char *class) {
    pst_model_config back;
    model a = random_model(config, 1), b = random_model(config, 2);
    if (export_to("one", &a, 7) != PST_OK) fail_msg("%s", pst_error());
    expect_text("one/config.json", class);
    expect_text("one/generation_config.json", "\"eos_token_id\": 7");
    if (pst_hf_config("one", &back) != PST_OK) fail_msg("%s", pst_error());
    back.micro_batch = 1;
    assert_int_equal(back.llama.trained, config.context);
    back.llama.trained = 0;
    assert_true(back.layers == config.layers && back.heads == config.heads &&
                back.channels == config.channels && back.context == config.context &&
                back.vocabulary == config.vocabulary);
    assert_memory_equal(&back.llama, &config.llama, sizeof config.llama);
    if (import_from("one", &b) != PST_OK) fail_msg("%s", pst_error());
    assert_int_equal(export_to("two", &b, 7), PST_OK);
    same_files("one/model.safetensors", "two/model.safetensors");
    same_files("one/config.json", "two/config.json");
    model_free(&a);
    model_free(&b);
}

static void test_round(void **state) {
    (void)state;
    pst_model_config c = sizes();
    check_round(c, "LlamaForCausalLM");
    c.llama.rope = (pst_rope){5e5f, PST_ROPE_LLAMA3, 8, 1, 4, 0, 4};
    check_round(c, "LlamaForCausalLM");
    c.llama.rope = (pst_rope){1e4f, PST_ROPE_YARN, 4, 1, 32, 1.25f, 4};
    check_round(c, "LlamaForCausalLM");
    c.llama.rope = (pst_rope){1e4f, PST_ROPE_LINEAR, 2, 0, 0, 0, 0};
    c.llama.bias = c.llama.tied = PST_YES;
    check_round(c, "Qwen2ForCausalLM");
    c.llama.bias = PST_NO;
    c.llama.window = 3;
    check_round(c, "MistralForCausalLM");
    c.llama.bias = PST_YES;
    model m = random_model(c, 1);
    assert_int_equal(export_to("both", &m, -1), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "both biases"));
    model_free(&m);
}

/* --- shards and damage ------------------------------------------------------------------------ */

typedef int (*choose_fn)(const char *name);
static int first_half(const char *name) { return strstr(name, "layers.0") != NULL; }
static int second_half(const char *name) { return !first_half(name); }
static int no_up(const char *name) {
    return !strstr(name, "up_proj") && !strstr(name, "norm.weight");
}

/* Copies the chosen tensors of one/model.safetensors; extra: a tensor that no model has; flat: all
 * shapes have one dimension. */
static void copy_tensors(const char *path, choose_fn choose, const char *extra, int flat) {
    pst_safetensors_file *f;
    pst_safetensors_decl decl[64];
    const pst_safetensors_entry *entry[64];
    pst_safetensors_writer *w;
    uint32_t n = 0;
    assert_int_equal(pst_safetensors_open("one/model.safetensors", &f), PST_OK);
    for (uint32_t i = 0; i < f->n_entry; i++) {
        const pst_safetensors_entry *e = &f->entry[i];
        if (!choose(e->name)) continue;
        decl[n] = (pst_safetensors_decl){.name = e->name, .dtype = PST_F32, .n_dim = e->n_dim};
        memcpy(decl[n].dim, e->dim, sizeof decl[n].dim);
        if (flat && e->n_dim == 2) {
            decl[n].n_dim = 1;
            decl[n].dim[0] = e->bytes / 4;
        }
        entry[n++] = e;
    }
    if (extra) {
        decl[n] = (pst_safetensors_decl){extra, PST_F32, 1, {16}};
        entry[n++] = pst_safetensors_find(f, "model.norm.weight");
    }
    assert_int_equal(pst_safetensors_create(path, decl, n, NULL, &w), PST_OK);
    for (uint32_t i = 0; i < n; i++) {
        float value[1024];
        assert_int_equal(pst_safetensors_read_f32(f, entry[i], value, entry[i]->bytes / 4, 0),
                         PST_OK);
        assert_int_equal(pst_safetensors_write(w, value, entry[i]->bytes), PST_OK);
    }
    assert_int_equal(pst_safetensors_finish(w), PST_OK);
    pst_safetensors_close(f);
}

static void put_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void expect_refused(const char *folder, model *m, const char *words) {
    assert_int_equal(import_from(folder, m), PST_EINPUT);
    if (!strstr(pst_error(), words)) fail_msg("\"%s\" lacks \"%s\"", pst_error(), words);
}

static void test_shards(void **state) {
    (void)state;
    model a = random_model(sizes(), 3), b = random_model(sizes(), 4);
    assert_int_equal(export_to("one", &a, -1), PST_OK);
    mkdir("shards", 0777);
    copy_tensors("shards/a.safetensors", first_half, NULL, 0);
    copy_tensors("shards/b.safetensors", second_half, NULL, 0);
    put_text("shards/model.safetensors.index.json",
             "{\"weight_map\": {\"x\": \"a.safetensors\", \"y\": \"b.safetensors\", "
             "\"z\": \"a.safetensors\"}}");
    if (import_from("shards", &b) != PST_OK) fail_msg("%s", pst_error());
    for (uint32_t i = 0; i < a.graph->n_param; i++)
        assert_memory_equal(a.weight[i], b.weight[i],
                            pst_param_elements(&a.graph->param[i]) * sizeof(float));
    put_text("shards/model.safetensors.index.json", "{\"weight_map\": {\"x\": \"../one/x\"}}");
    expect_refused("shards", &b, "tensor x is not a name in the same folder");
    put_text("shards/model.safetensors.index.json", "{}");
    expect_refused("shards", &b, "weight_map is missing");
    put_text("shards/model.safetensors.index.json", "{\"weight_map\": {\"x\": \"a.safetensors\"}}");
    expect_refused("shards", &b, "tensor model.norm.weight is missing");
    model_free(&a);
    model_free(&b);
}

static void test_misfits(void **state) {
    (void)state;
    model m = random_model(sizes(), 3);
    assert_int_equal(export_to("one", &m, -1), PST_OK);
    mkdir("bad", 0777);
    copy_tensors("bad/model.safetensors", no_up, "model.layers.7.extra", 0);
    expect_refused("bad", &m, "8 tensors do not fit");
    assert_non_null(strstr(pst_error(), "tensor model.layers.7.extra is not part of the model"));
    assert_non_null(strstr(pst_error(), "tensor model.layers.0.mlp.up_proj.weight is missing"));
    assert_non_null(strstr(pst_error(), "tensor model.layers.1.mlp.up_proj.weight is missing"));
    copy_tensors("bad/model.safetensors", second_half, NULL, 1);
    expect_refused("bad", &m, "lm_head.weight has shape [176], but the model needs [11,16]");
    assert_non_null(strstr(pst_error(), "layers.0.self_attn.k_proj.weight is missing"));
    m.config.llama.rope.theta = 4;
    model_free(&m);
    pst_model_config other = sizes();
    other.llama.rope.theta = 4;
    m = random_model(other, 1);
    expect_refused("one", &m, "rope_theta");
    model_free(&m);
    other = sizes();
    other.llama.window = 2;
    m = random_model(other, 1);
    expect_refused("one", &m, "sliding_window is 0, but the model has model.window 2");
    model_free(&m);
}

/* --- config.json ------------------------------------------------------------------------------ */

#define SIZES                                                                                      \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"hidden_size\": 16, "                  \
    "\"intermediate_size\": 12, \"vocab_size\": 11, \"max_position_embeddings\": 8"

static void test_config(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"{\"model_type\": \"qwen3\", \"architectures\": [\"Qwen3ForCausalLM\"]}",
         "model_type is qwen3 (Qwen3ForCausalLM); supported are gpt2, llama, qwen2, mistral and "
         "bert; "
         "did "
         "you mean qwen2"},
        {"{\"model_type\": \"llama\"}", "num_hidden_layers is missing"},
        {"{\"model_type\": \"llama\", " SIZES ", \"num_key_value_heads\": 3}",
         "num_key_value_heads 3 does not divide num_attention_heads 4"},
        {"{\"model_type\": \"llama\", " SIZES ", \"hidden_act\": \"gelu\"}", "only silu"},
        {"{\"model_type\": \"llama\", " SIZES ", \"attention_bias\": true}", "attention_bias"},
        {"{\"model_type\": \"qwen2\", " SIZES ", \"use_sliding_window\": true}",
         "use_sliding_window"},
        {"{\"model_type\": \"llama\", " SIZES ", \"head_dim\": 8}", "head_dim is 8"},
        {"{\"model_type\": \"llama\", " SIZES ", \"rope_theta\": -1}", "rope_theta"},
        {"{\"model_type\": \"llama\", " SIZES ", \"rope_scaling\": {\"rope_type\": \"dynamic\"}}",
         "rope_type dynamic is not supported"},
        {"{\"model_type\": \"llama\", " SIZES ", \"rope_scaling\": {\"rope_type\": \"llama3\", "
         "\"low_freq_factor\": 4}}",
         "low_freq_factor is 4; expected less than high_freq_factor, 4"},
    };
    pst_model_config c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(pst_hf_parse_config(bad[i].text, strlen(bad[i].text), "c.json", &c),
                         PST_EINPUT);
        if (!strstr(pst_error(), bad[i].words))
            fail_msg("\"%s\" lacks \"%s\"", pst_error(), bad[i].words);
    }
    static const char five[] =
        "{\"model_type\": \"mistral\", " SIZES
        ", \"num_key_value_heads\": 2, \"sliding_window\": 5, "
        "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 7, \"factor\": 8, "
        "\"original_max_position_embeddings\": 4}}";
    assert_int_equal(pst_hf_parse_config(five, strlen(five), "c.json", &c), PST_OK);
    assert_true(c.llama.window == 5 && c.llama.kv_heads == 2 && c.llama.rope.theta == 7 &&
                c.llama.rope.factor == 8 && c.llama.rope.high == 4 && c.llama.rope.context == 4);
}

/* Tokens that end a text. */
static void test_ends(void **state) {
    (void)state;
    static const struct {
        const char *generation, *config;
        uint32_t n;
        int32_t first;
    } good[] = {{"{}", "{\"eos_token_id\": 5}", 1, 5},
                {"{\"eos_token_id\": [7, -1, 9]}", "{\"eos_token_id\": 5}", 2, 7},
                {"{\"eos_token_id\": null}", "{\"eos_token_id\": [6]}", 1, 6},
                {"{}", "{}", 0, 0}};
    pst_hf_ends ends;
    mkdir("ends", 0777);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        put_text("ends/generation_config.json", good[i].generation);
        put_text("ends/config.json", good[i].config);
        assert_int_equal(pst_hf_read_ends("ends", &ends), PST_OK);
        assert_int_equal(ends.n, good[i].n);
        if (ends.n) assert_int_equal(ends.id[0], good[i].first);
    }
    put_text("ends/generation_config.json", "{\"eos_token_id\": \"</s>\"}");
    assert_int_equal(pst_hf_read_ends("ends", &ends), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "ends/generation_config.json: eos_token_id must be"));
    put_text("ends/generation_config.json",
             "{\"eos_token_id\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]}");
    assert_int_equal(pst_hf_read_ends("ends", &ends), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "eos_token_id has more than 16 tokens"));
}

static int setup(void **state) {
    static char folder[] = "/tmp/pst-hf-llama-XXXXXX";
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    char here[512];
    char command[600];
    if (!getcwd(here, sizeof here) || chdir("/tmp")) return -1;
    snprintf(command, sizeof command, "rm -rf '%s'", here);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round), cmocka_unit_test(test_shards),
                                       cmocka_unit_test(test_misfits),
                                       cmocka_unit_test(test_config), cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
