/* GPT-2 and BERT in Hugging Face's format: config.json and weights in, the same out, to the bit;
 * what is neither is refused. */
#include "base/folder.h"
#include "base/rng.h"
#include "checkpoint/durable.h"
#include "checkpoint/hf.h"
#include "checkpoint/safetensors.h"
#include "skip.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#define FIXTURE                                                                                    \
    PST_SOURCE_DIR "/tests/parity/fixture" /* written by Python, with names that have no prefix */
/* A model and its weights. */
typedef struct {
    pst_model_config config;
    const pst_model_row *row;
    pst_graph *graph;
    float **weight;
} model;

static model model_of(pst_model_config config) {
    model m = {.config = config,
               .row = strcmp(config.kind, "bert") ? &pst_model_gpt : &pst_model_bert};
    m.config.micro_batch = 1;
    if (m.row->build(&m.config, &m.graph) != PST_OK) fail_msg("%s", pst_error());
    m.weight = calloc(m.graph->n_param, sizeof *m.weight);
    for (uint32_t i = 0; i < m.graph->n_param; i++)
        m.weight[i] = calloc(pst_param_elements(&m.graph->param[i]), sizeof **m.weight);
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

static pst_model_config small(void) {
    return (pst_model_config){.kind = "gpt",
                              .tokenizer = "byte",
                              .layers = 2,
                              .heads = 2,
                              .channels = 6,
                              .context = 5,
                              .vocabulary = 11,
                              .dropout = 0.1f,
                              .attention_dropout = 0.2f,
                              .activation = PST_ACT_GELU_TANH};
}

static model random_model_of(pst_model_config config, uint64_t seed) {
    model m = model_of(config);
    for (uint32_t i = 0; i < m.graph->n_param; i++) {
        const pst_param *p = &m.graph->param[i];
        pst_rng_normal(pst_rng_key(seed, p->name), 0, 1, m.weight[i], pst_param_elements(p));
    }
    return m;
}

static model random_model(uint64_t seed) { return random_model_of(small(), seed); }

static void export_to(const char *folder, model *m) {
    if (pst_hf_export(folder, &(pst_hf_model){&m->config, m->row, m->graph, -1}, give, m) != PST_OK)
        fail_msg("%s", pst_error());
}

static void expect_same(const model *a, const model *b) {
    for (uint32_t i = 0; i < a->graph->n_param; i++)
        assert_memory_equal(a->weight[i], b->weight[i],
                            pst_param_elements(&a->graph->param[i]) * sizeof(float));
}

static void test_round_trip(void **state) {
    (void)state;
    model a = random_model(1), b = model_of(small());
    pst_model_config config;
    export_to("out", &a);
    assert_true(pst_hf_is("out") && pst_hf_is("out/model.safetensors") && !pst_hf_is("."));
    assert_int_equal(pst_hf_config("out", &config), PST_OK);
    assert_true(config.layers == 2 && config.heads == 2 && config.channels == 6 &&
                config.context == 5);
    assert_string_equal(config.tokenizer, "byte");
    assert_true(config.vocabulary == 11 && config.dropout == 0.1f &&
                config.attention_dropout == 0.2f && config.activation == PST_ACT_GELU_TANH);
    assert_int_equal(pst_hf_import("out", &pst_model_gpt, b.graph,
                                   &(pst_hf_weights){.held = b.graph, .weight = b.weight}),
                     PST_OK);
    expect_same(&a, &b);
    float *wanted = b.weight[3];
    memset(wanted, 0, sizeof *wanted);
    float **some = calloc(b.graph->n_param, sizeof *some); /* one rank's share */
    some[3] = wanted;
    assert_int_equal(pst_hf_import("out/model.safetensors", &pst_model_gpt, b.graph,
                                   &(pst_hf_weights){.held = b.graph, .weight = some}),
                     PST_OK);
    expect_same(&a, &b);
    free(some);
    model_free(&a);
    model_free(&b);
}

/* Conv1D weights stand transposed in the file, others do not. */
static void test_layout(void **state) {
    (void)state;
    model m = random_model(2);
    pst_safetensors_file *f;
    float value[6 * 18];
    export_to("layout", &m);
    assert_int_equal(pst_safetensors_open("layout/model.safetensors", &f), PST_OK);
    assert_string_equal(pst_safetensors_meta(f, "format"), "pt");
    assert_null(pst_safetensors_find(f, "lm_head.weight"));
    const pst_safetensors_entry *e = pst_safetensors_find(f, "transformer.h.1.attn.c_attn.weight");
    assert_true(e && e->dim[0] == 6 && e->dim[1] == 18);
    assert_int_equal(pst_safetensors_read_f32(f, e, value, 6 * 18, 0), PST_OK);
    const float *own = m.weight[pst_graph_find_param(m.graph, "h.1.attn.c_attn.weight")];
    for (int n = 0; n < 18; n++)
        for (int c = 0; c < 6; c++) assert_true(value[c * 18 + n] == own[n * 6 + c]);
    e = pst_safetensors_find(f, "transformer.wpe.weight");
    assert_true(e && e->dim[0] == 5 && e->dim[1] == 6);
    pst_safetensors_close(f);
    model_free(&m);
}

/* Rewrites out/model.safetensors as y.safetensors: tensor `from` is named `to` ("": dropped),
 * `extra` is a copy of wte with its last element scaled, prefix: names keep "transformer.". */
static void rewrite(const char *from, const char *to, const char *extra, float scale, int prefix) {
    pst_safetensors_file *f;
    pst_safetensors_decl decl[64];
    const pst_safetensors_entry *entry[64];
    uint32_t n = 0;
    assert_int_equal(pst_safetensors_open("out/model.safetensors", &f), PST_OK);
    for (uint32_t i = 0; i < f->n_entry; i++) {
        const char *name = f->entry[i].name + (prefix ? 0 : strlen("transformer."));
        if (from && !strcmp(name, from)) name = to;
        if (!*name) continue;
        decl[n] =
            (pst_safetensors_decl){.name = name, .dtype = PST_F32, .n_dim = f->entry[i].n_dim};
        memcpy(decl[n].dim, f->entry[i].dim, sizeof decl[n].dim);
        entry[n++] = &f->entry[i];
    }
    if (extra) {
        decl[n] = (pst_safetensors_decl){extra, PST_F32, 2, {11, 6}};
        entry[n++] = pst_safetensors_find(f, "transformer.wte.weight");
    }
    pst_safetensors_writer *w;
    assert_int_equal(pst_safetensors_create("y.safetensors", decl, n, NULL, &w), PST_OK);
    for (uint32_t i = 0; i < n; i++) {
        float value[1024];
        assert_int_equal(pst_safetensors_read_f32(f, entry[i], value, entry[i]->bytes / 4, 0),
                         PST_OK);
        if (extra && i == n - 1) value[65] *= scale;
        assert_int_equal(pst_safetensors_write(w, value, entry[i]->bytes), PST_OK);
    }
    assert_int_equal(pst_safetensors_finish(w), PST_OK);
    pst_safetensors_close(f);
}

static void expect(model *m, const char *source, const char *sentence) {
    pst_status status = pst_hf_import(source, m->row, m->graph,
                                      &(pst_hf_weights){.held = m->graph, .weight = m->weight});
    if (!sentence && status != PST_OK) fail_msg("%s", pst_error());
    if (!sentence) return;
    assert_int_equal(status, PST_EINPUT);
    if (!strstr(pst_error(), sentence)) fail_msg("\"%s\" is not in \"%s\"", sentence, pst_error());
}

static void test_variants(void **state) {
    (void)state;
    model a = random_model(3), b = model_of(small());
    export_to("out", &a);
    rewrite(NULL, NULL, NULL, 1, 0);
    expect(&b, "y.safetensors", NULL);
    expect_same(&a, &b);
    rewrite(NULL, NULL, "lm_head.weight", 1, 1);
    expect(&b, "y.safetensors", NULL);
    rewrite(NULL, NULL, "lm_head.weight", 2, 0);
    expect(&b, "y.safetensors", "lm_head.weight differs from wte.weight");
    rewrite(NULL, NULL, "h.0.attn.bias", 1, 0);
    expect(&b, "y.safetensors", NULL);
    rewrite(NULL, NULL, "transformer.h.1.attn.masked_bias", 1, 0);
    expect(&b, "y.safetensors", NULL);
    rewrite(NULL, NULL, "h.2.attn.stranger", 1, 0);
    expect(&b, "y.safetensors", "tensor h.2.attn.stranger is not part of the model");
    rewrite(NULL, NULL, "transformer.wte.weight", 1, 0);
    expect(&b, "y.safetensors", "with and without the prefix");
    rewrite("h.1.mlp.c_fc.bias", "", NULL, 1, 0);
    expect(&b, "y.safetensors", "tensor h.1.mlp.c_fc.bias is missing");
    expect(&b, "nowhere.safetensors", "nowhere.safetensors: cannot read");
    pst_model_config other = small();
    other.context = 4; /* the first 4 of 5 */
    model c = model_of(other);
    expect(&c, "out", NULL);
    const uint32_t wpe = pst_graph_find_param(c.graph, "wpe.weight");
    assert_memory_equal(c.weight[wpe], a.weight[wpe], 4 * 6 * sizeof(float));
    model_free(&c);
    other.context = 6;
    c = model_of(other);
    expect(&c, "out", "wpe.weight has shape [5,6], but the model needs [6,6]");
    other.context = 5;
    other.heads = 3;
    model d = model_of(other);
    expect(&d, "out", "n_head is 2, but the model has 3 heads");
    model_free(&a);
    model_free(&b);
    model_free(&c);
    model_free(&d);
}

static void expect_config(const char *text, const char *sentence) {
    pst_model_config c;
    assert_int_equal(pst_hf_parse_config(text, strlen(text), "x.json", &c), PST_EINPUT);
    if (!strstr(pst_error(), sentence) || strncmp(pst_error(), "x.json", 6))
        fail_msg("\"%s\" is not in \"%s\"", sentence, pst_error());
}

#define SIZES                                                                                      \
    "\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":2,\"n_embd\":4,\"n_positions\":8,\"vocab_"   \
    "size\":9"

static void test_config(void **state) {
    (void)state;
    pst_model_config c;
    const char *plain = "{" SIZES "}",
               *erf = "{" SIZES ",\"activation_function\":\"gelu\",\"resid_pdrop\":0}";
    assert_int_equal(pst_hf_parse_config(plain, strlen(plain), "x.json", &c), PST_OK);
    assert_true(c.layers == 2 && c.vocabulary == 9 && c.dropout == 0.1f &&
                c.activation == PST_ACT_GELU_TANH);
    assert_int_equal(pst_hf_parse_config(erf, strlen(erf), "x.json", &c), PST_OK);
    assert_true(c.activation == PST_ACT_GELU_ERF && c.dropout == 0);
    expect_config("{", "x.json:1:1: not JSON");
    expect_config("[]", "model_type is missing");
    expect_config("{\"model_type\":\"t5\"}", "model_type is t5; supported are gpt2, ");
    expect_config("{\"model_type\":\"gpt2\",\"n_layer\":0}",
                  "n_layer is missing or not an integer from 1 to 2^31 - 1");
    expect_config("{\"model_type\":\"gpt2\",\"n_layer\":4294967296}",
                  "n_layer is missing or not an integer from 1 to 2^31 - 1");
    expect_config("{" SIZES ",\"n_inner\":5}", "n_inner");
    expect_config("{" SIZES ",\"layer_norm_epsilon\":1e-6}", "layer_norm_epsilon must be 1e-05");
    expect_config("{" SIZES ",\"activation_function\":\"silu\"}",
                  "activation_function silu is unknown");
    expect_config("{" SIZES ",\"tie_word_embeddings\":false}", "tie_word_embeddings must be true");
    expect_config("{" SIZES ",\"scale_attn_by_inverse_layer_idx\":true}", "must be false");
    expect_config("{" SIZES ",\"resid_pdrop\":1}", "resid_pdrop");
    expect_config(
        "{\"model_type\":\"gpt2\",\"n_layer\":1,\"n_head\":3,\"n_embd\":4,\"n_positions\":8,"
        "\"vocab_size\":9}",
        "n_head 3 does not divide n_embd 4");
}

/* The disk fills up at any operation: the sentence, and no half-written model where a whole one is
 * expected. */
static void test_full_disk(void **state) {
    (void)state;
    model a = random_model(4), b = model_of(small());
    for (uint64_t n = 1;; n++) {
        pst_durable_remove("full");
        pst_durable_fail_after(n);
        pst_status status = pst_hf_export(
            "full", &(pst_hf_model){&a.config, &pst_model_gpt, a.graph, -1}, give, &a);
        pst_durable_fail_after(0);
        if (status == PST_OK) break;
        assert_int_equal(status, PST_ENOMEM);
        assert_non_null(strstr(pst_error(), "No space left on device"));
        assert_true(access("full/.tmp-model", F_OK) && access("full/.tmp-config", F_OK));
        if (access("full/model.safetensors", F_OK) == 0) expect(&b, "full", NULL);
    }
    expect(&b, "full", NULL);
    expect_same(&a, &b);
    model_free(&a);
    model_free(&b);
}

static void put_other_kind(const char *folder) {
    char path[100];
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_int_equal(symlink(FIXTURE "/model.safetensors", path), 0);
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("{\"model_type\": \"t5\", \"hidden_size\": 32}\n", f);
    assert_int_equal(fclose(f), 0);
}

/* A file that another program wrote in and out again: every tensor's bytes are equal. */
static void test_foreign(void **state) {
    (void)state;
    const char *source = FIXTURE;
    pst_model_config config;
    pst_safetensors_file *before, *after;
    assert_int_equal(pst_hf_config(source, &config), PST_OK);
    assert_true(config.layers == 2 && config.heads == 2 && config.channels == 32 &&
                config.context == 16);
    model m = model_of(config);
    expect(&m, source, NULL);
    export_to("out", &m);
    assert_int_equal(pst_safetensors_open(FIXTURE "/model.safetensors", &before), PST_OK);
    assert_int_equal(pst_safetensors_open("out/model.safetensors", &after), PST_OK);
    assert_int_equal(before->n_entry, after->n_entry);
    for (uint32_t i = 0; i < before->n_entry; i++) {
        const pst_safetensors_entry *a = &before->entry[i], *b = &after->entry[i];
        assert_string_equal(a->name, b->name + strlen("transformer."));
        assert_true(a->bytes == b->bytes && a->n_dim == b->n_dim &&
                    !memcmp(a->dim, b->dim, sizeof a->dim));
        uint8_t *x = malloc(a->bytes), *y = malloc(a->bytes);
        assert_int_equal(pst_safetensors_read_bytes(before, a, 0, x, a->bytes), PST_OK);
        assert_int_equal(pst_safetensors_read_bytes(after, b, 0, y, a->bytes), PST_OK);
        assert_memory_equal(x, y, a->bytes);
        free(x);
        free(y);
    }
    pst_safetensors_close(before);
    pst_safetensors_close(after);
    put_other_kind("t5");
    expect(&m, "t5", "config.json: model_type is t5");
    expect(&m, "t5/model.safetensors", "model_type is t5");
    assert_int_equal(pst_hf_config("t5", &config), PST_EINPUT);
    model_free(&m);
}

/* --- BERT ------------------------------------------------------------------------------------- */

static pst_model_config small_bert(int next_sentence) {
    pst_model_config c = {.kind = "bert",
                          .layers = 2,
                          .heads = 2,
                          .channels = 6,
                          .context = 5,
                          .vocabulary = 11,
                          .dropout = 0.1f,
                          .attention_dropout = 0.3f,
                          .activation = PST_ACT_GELU_ERF,
                          .bert = {.token_types = 2, .next_sentence = next_sentence}};
    assert_int_equal(pst_model_bert.preset(&c), PST_OK);
    return c;
}

/* labels: their number; 0: no labels. */
static pst_model_config bert_of(uint32_t context, uint32_t labels, char *const *name) {
    pst_model_config c = small_bert(0);
    c.context = context;
    c.bert.labels = labels;
    c.bert.label_name = name;
    c.bert.intermediate = 16;
    c.bert.norm_eps = 1e-5f;
    assert_int_equal(pst_model_bert.preset(&c), PST_OK);
    return c;
}

static void free_names(char **name, uint32_t n) {
    for (uint32_t i = 0; name && i < n; i++) free(name[i]);
    free(name);
}

/* A model that classifies: its labels with and without names; in again; and from a model without
 * its head and with more positions. */
static void test_labels(void **state) {
    (void)state;
    static char *const names[] = {"low", "in \"between\"", "high"};
    char **name;
    uint32_t n;
    model a = random_model_of(bert_of(4, 3, names), 5), b = model_of(bert_of(4, 3, NULL)),
          other = model_of(bert_of(4, 2, NULL)), longer = random_model_of(bert_of(7, 0, NULL), 6);
    export_to("labels", &a);
    assert_int_equal(pst_hf_read_labels("labels", &name, &n), PST_OK);
    assert_true(n == 3 && !strcmp(name[1], names[1]) && !strcmp(name[2], names[2]));
    free_names(name, n);
    expect(&b, "labels", NULL);
    for (uint32_t i = 0; i < a.graph->n_param; i++)
        assert_memory_equal(a.weight[i], b.weight[i],
                            pst_param_elements(a.graph->param + i) * sizeof(float));
    expect(&other, "labels", "2 tensors do not fit: tensor classifier.weight has shape");
    export_to("plain", &b);
    assert_int_equal(pst_hf_read_labels("plain", &name, &n), PST_OK);
    assert_true(n == 3 && !name);
    export_to("longer", &longer);
    assert_int_equal(pst_hf_read_labels("longer", &name, &n), PST_OK);
    assert_true(n == 0 && !name);
    expect(&b, "longer", NULL); /* its first 4 positions, and a new head */
    const uint32_t wpe = pst_graph_find_param(b.graph, "wpe.weight"),
                   pooler = pst_graph_find_param(b.graph, "pooler.weight");
    assert_memory_equal(b.weight[wpe], longer.weight[wpe], 4 * 6 * sizeof(float));
    for (int i = 0; i < 36; i++) assert_true(fabsf(b.weight[pooler][i]) < 0.2f);
    model_free(&longer);
    longer = model_of(bert_of(9, 3, NULL));
    expect(&longer, "labels", "bert.embeddings.position_embeddings.weight has shape [4,6], but");
    model_free(&a);
    model_free(&b);
    model_free(&other);
    model_free(&longer);
}

/* Under the names of transformers, queries, keys and values one by one; and in again. */
static void test_bert(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t dim[2];
    } known[] = {{"bert.embeddings.word_embeddings.weight", {11, 6}},
                 {"bert.embeddings.token_type_embeddings.weight", {2, 6}},
                 {"bert.embeddings.LayerNorm.bias", {6, 0}},
                 {"bert.encoder.layer.1.attention.self.key.weight", {6, 6}},
                 {"bert.encoder.layer.0.attention.self.value.bias", {6, 0}},
                 {"bert.encoder.layer.1.attention.output.dense.weight", {6, 6}},
                 {"bert.encoder.layer.1.attention.output.LayerNorm.weight", {6, 0}},
                 {"bert.encoder.layer.1.intermediate.dense.weight", {24, 6}},
                 {"bert.encoder.layer.0.output.dense.weight", {6, 24}},
                 {"bert.encoder.layer.0.output.LayerNorm.bias", {6, 0}},
                 {"bert.pooler.dense.weight", {6, 6}},
                 {"cls.seq_relationship.weight", {2, 6}},
                 {"cls.predictions.transform.dense.weight", {6, 6}},
                 {"cls.predictions.transform.LayerNorm.weight", {6, 0}},
                 {"cls.predictions.bias", {11, 0}}};
    model a = random_model_of(small_bert(1), 5), b = model_of(small_bert(1)),
          masked = model_of(small_bert(0)), gpt = model_of(small());
    pst_model_config config;
    pst_safetensors_file *f;
    float key[36];
    export_to("bert", &a);
    assert_int_equal(pst_hf_config("bert", &config), PST_OK);
    assert_true(config.layers == 2 && config.heads == 2 && config.channels == 6 &&
                config.context == 5 && config.vocabulary == 11 && config.dropout == 0.1f &&
                config.attention_dropout == 0.3f);
    assert_true(config.bert.token_types == 2 && config.bert.next_sentence == 1);
    assert_string_equal(config.kind, "bert");
    assert_int_equal(pst_safetensors_open("bert/model.safetensors", &f), PST_OK);
    assert_int_equal(f->n_entry, 3 + 2 + 2 * 16 + 2 * 2 + 2 * 2 + 1);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const pst_safetensors_entry *e = pst_safetensors_find(f, known[i].name);
        if (!e) fail_msg("%s is not there", known[i].name);
        assert_true(e->dim[0] == known[i].dim[0] &&
                    (e->n_dim == 1 || e->dim[1] == known[i].dim[1]));
    }
    const float *fused = a.weight[pst_graph_find_param(a.graph, "h.1.attn.c_attn.weight")];
    assert_int_equal(
        pst_safetensors_read_f32(f, pst_safetensors_find(f, known[3].name), key, 36, 0), PST_OK);
    assert_memory_equal(key, fused + 36, sizeof key);
    pst_safetensors_close(f);
    expect(&b, "bert", NULL);
    expect_same(&a, &b);
    expect(&masked, "bert", NULL); /* without the head for the next sentence */
    export_to("masked", &masked);
    assert_int_equal(pst_hf_config("masked", &config), PST_OK);
    assert_int_equal(config.bert.next_sentence, 0);
    expect(&b, "masked", "tensor bert.pooler.dense.weight is missing");
    expect(&gpt, "bert", "a model of kind bert, but model.kind is gpt");
    export_to("out", &gpt);
    expect(&b, "out", "a model of kind gpt, but model.kind is bert");
    model_free(&a);
    model_free(&b);
    model_free(&masked);
    model_free(&gpt);
}

#define BERT_SIZES                                                                                 \
    "\"model_type\":\"bert\",\"num_hidden_layers\":2,\"num_attention_heads\":2,\"hidden_size\":4," \
    "\"max_position_embeddings\":8,\"vocab_size\":9,\"type_vocab_size\":2,"

static void test_bert_config(void **state) {
    (void)state;
    pst_model_config c;
    const char *plain = "{" BERT_SIZES "\"intermediate_size\":16}";
    assert_int_equal(pst_hf_parse_config(plain, strlen(plain), "x.json", &c), PST_OK);
    assert_true(c.layers == 2 && c.vocabulary == 9 && c.dropout == 0.1f &&
                c.activation == PST_ACT_GELU_ERF && !c.bert.next_sentence);
    expect_config("{\"model_type\":\"bert\"}", "num_hidden_layers is missing");
    const char *other = "{" BERT_SIZES "\"intermediate_size\":7,\"layer_norm_eps\":1e-5}";
    assert_int_equal(pst_hf_parse_config(other, strlen(other), "x.json", &c), PST_OK);
    assert_true(c.bert.intermediate == 7 && c.bert.norm_eps == 1e-5f && !c.bert.labels);
#define CLASSIFIES                                                                                 \
    "{" BERT_SIZES "\"intermediate_size\":16,\"architectures\":"                                   \
    "[\"BertForSequenceClassification\"],"
    const char *two = CLASSIFIES "\"problem_type\":null}";
    assert_int_equal(pst_hf_parse_config(two, strlen(two), "x.json", &c), PST_OK);
    assert_int_equal(c.bert.labels, 2);
    expect_config(CLASSIFIES "\"id2label\":{\"0\":\"a\",\"2\":\"b\"}}",
                  "id2label has 2 labels, but no name for the number 1");
    expect_config(CLASSIFIES "\"id2label\":{\"0\":\"a\"}}", "id2label has 1 label; expected 2");
    expect_config(CLASSIFIES "\"problem_type\":\"regression\"}", "problem_type is regression");
    expect_config("{" BERT_SIZES "\"hidden_act\":\"gelu\"}", "intermediate_size is missing");
    expect_config("{" BERT_SIZES "\"intermediate_size\":16,\"hidden_act\":\"gelu_new\"}",
                  "hidden_act is gelu_new; only gelu is supported");
    expect_config("{" BERT_SIZES "\"intermediate_size\":16,\"position_embedding_type\":"
                  "\"relative_key\"}",
                  "position_embedding_type is relative_key");
    expect_config("{" BERT_SIZES "\"intermediate_size\":16,\"layer_norm_eps\":0}",
                  "layer_norm_eps must be above 0");
    expect_config("{" BERT_SIZES "\"intermediate_size\":16,\"is_decoder\":true}",
                  "is_decoder must be false");
    expect_config("{" BERT_SIZES "\"intermediate_size\":16,\"hidden_dropout_prob\":1}",
                  "hidden_dropout_prob");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_layout),
        cmocka_unit_test(test_variants),   cmocka_unit_test(test_config),
        cmocka_unit_test(test_full_disk),  cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_bert),       cmocka_unit_test(test_bert_config),
        cmocka_unit_test(test_labels)};
    return cmocka_run_group_tests(tests, folder_open, folder_close);
}
