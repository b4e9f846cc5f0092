/* Models: parameter counts of the presets, GPT-2's structure and names, what contradictions say. */
#include "graph/optim.h"
#include "graph/tape.h"
#include "models/model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static pst_graph *gpt(const char *preset, pst_model_config c) {
    pst_graph *g;
    strcpy(c.kind, "gpt");
    strcpy(c.preset, preset);
    c.micro_batch = 2;
    c.activation = PST_ACT_GELU_TANH;
    assert_int_equal(pst_model_gpt.preset(&c), PST_OK);
    if (pst_model_gpt.build(&c, &g) != PST_OK) fail_msg("%s", pst_error());
    return g;
}

static pst_graph *built(const pst_model_row *row, pst_dtype dtype, int wide) {
    pst_graph *g;
    pst_model_config c = {.layers = 2,
                          .heads = 2,
                          .channels = 8,
                          .context = 6,
                          .vocabulary = 11,
                          .dropout = 0.1f,
                          .micro_batch = 2,
                          .activation = PST_ACT_GELU_ERF,
                          .dtype = dtype,
                          .wide = wide};
    if (row->build(&c, &g) != PST_OK) fail_msg("%s: %s", row->name, pst_error());
    assert_int_equal(pst_graph_check(g), PST_OK);
    return g;
}

/* What additions read first and write is the stream; products and attention have 16 bits; no
 * gradient of the stream is rounded on its way from the last addition to the embedding. */
static void wide_streams(void **unused) {
    (void)unused;
    static const pst_model_row *const rows[] = {&pst_model_gpt, &pst_model_bert};
    static const pst_dtype types[] = {PST_BF16, PST_F16, PST_F8};
    for (int i = 0; i < 6; i++) {
        const pst_model_row *row = rows[i % 2];
        pst_graph *g = built(row, types[i / 2], 1), *same = built(row, types[i / 2], 0);
        uint32_t additions = 0, node = PST_NONE;
        for (uint32_t n = 0; n < g->n_node; n++) {
            const pst_node *d = &g->node[n];
            int product = !strcmp(d->op->name, "linear") || !strcmp(d->op->name, "attention");
            const pst_dtype in = g->tensor[d->in[0]].dtype, out = g->tensor[d->out[0]].dtype;
            if (product) assert_true(in == g->dtype && out == g->dtype);
            if (strcmp(d->op->name, "add") != 0) continue;
            assert_true(in == PST_F32 && out == PST_F32);
            assert_int_equal(g->tensor[d->in[1]].dtype, g->dtype);
            node = n;
            additions++;
        }
        assert_int_equal(additions, 4);
        while (g->node[node].n_in && g->tensor[g->node[node].in[0]].producer != PST_NONE) {
            assert_int_equal(g->tensor[g->node[node].in[0]].dtype, PST_F32);
            node = g->tensor[g->node[node].in[0]].producer;
        }
        assert_string_equal(g->node[node].op->name, "embedding");
        assert_true(pst_graph_hash(g) != pst_graph_hash(same));
        for (uint32_t t = 0; t < same->n_tensor; t++)
            assert_true(same->tensor[t].role != PST_TENSOR_ACTIVATION ||
                        same->tensor[t].dtype == same->dtype);
        pst_graph_close(g);
        pst_graph_close(same);
    }
    for (int i = 0; i < 4; i++) { /* nothing to widen */
        pst_graph *g = built(rows[i % 2], i < 2 ? PST_F32 : PST_TF32, 1),
                  *same = built(rows[i % 2], i < 2 ? PST_F32 : PST_TF32, 0);
        assert_true(pst_graph_hash(g) == pst_graph_hash(same));
        pst_graph_close(g);
        pst_graph_close(same);
    }
}

static uint64_t count(const pst_graph *g) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < g->n_param; i++) n += pst_param_elements(&g->param[i]);
    return n;
}

static void preset_sizes(void **unused) {
    (void)unused;
    static const struct {
        const char *preset;
        uint64_t count;
    } known[] = {
        {"gpt2", 124439808},
        {"gpt2-medium", 354823168},
        {"gpt2-large", 774030080},
        {"gpt2-xl", 1557611200},
        {"nano", 0},
        {"gpt3-13b", 0},
        {"gpt3-175b", 0}, /* 0: by formula only */
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        pst_graph *g = gpt(known[i].preset, (pst_model_config){0});
        uint64_t C = 0, L = 0; /* the formula, from the block's shapes: 12 C^2 + 13 C each */
        for (uint32_t p = 0; p < g->n_param; p++) {
            L += strstr(g->param[p].name, "ln_1.bias") != NULL;
            if (strcmp(g->param[p].name, "ln_f.bias") == 0) C = g->param[p].dim[0];
        }
        uint64_t tables = pst_param_elements(&g->param[pst_graph_find_param(g, "wte.weight")]) +
                          pst_param_elements(&g->param[pst_graph_find_param(g, "wpe.weight")]);
        assert_true(count(g) == tables + L * (12 * C * C + 13 * C) + 2 * C);
        if (known[i].count) assert_true(count(g) == known[i].count);
        assert_int_equal(pst_graph_check(g), PST_OK);
        pst_graph_close(g);
    }
}

/* The published numbers of parameters, as transformers counts them. */
static void llama_sizes(void **unused) {
    (void)unused;
    static const struct {
        const char *preset;
        uint64_t count;
    } known[] = {
        {"llama-tiny", 803968},        {"tinyllama-1.1b", 1100048384},
        {"llama-2-7b", 6738415616},    {"llama-2-13b", 13015864320},
        {"llama-2-70b", 68976648192},  {"llama-3-8b", 8030261248},
        {"llama-3-70b", 70553706496},  {"llama-3.1-405b", 405853388800},
        {"qwen-2.5-0.5b", 494032768},  {"qwen-2.5-1.5b", 1543714304},
        {"qwen-2.5-3b", 3085938688},   {"qwen-2.5-7b", 7615616512},
        {"qwen-2.5-14b", 14770033664}, {"qwen-2.5-32b", 32763876352},
        {"qwen-2.5-72b", 72706203648}, {"mistral-7b", 7241732096},
    };
    assert_int_equal(sizeof known / sizeof *known, pst_model_llama.n_preset);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        pst_model_config c = {.kind = "llama", .micro_batch = 1};
        pst_graph *g = NULL;
        pst_tape *t;
        strcpy(c.preset, known[i].preset);
        assert_int_equal(pst_model_llama.preset(&c), PST_OK);
        if (pst_model_llama.build(&c, &g) != PST_OK) fail_msg("%s", pst_error());
        assert_int_equal(pst_graph_weights(g), known[i].count);
        assert_int_equal(pst_graph_check(g), PST_OK);
        assert_int_equal(pst_tape_build(g, 1, &t), PST_OK);
        assert_int_equal(pst_tape_check_gradients(t, g), PST_OK);
        pst_tape_close(t);
        pst_graph_close(g);
    }
}

/* What the run file sets wins over the preset, and "none" over its scaling. */
static void llama_options(void **unused) {
    (void)unused;
    pst_model_config c = {.kind = "llama",
                          .preset = "llama-3.1-405b",
                          .layers = 1,
                          .micro_batch = 1,
                          .llama = {.rope = {.factor = 1}, .tied = PST_YES}};
    assert_int_equal(pst_model_llama.preset(&c), PST_OK);
    assert_int_equal(c.llama.rope.scaling, PST_ROPE_PLAIN);
    assert_true(c.llama.rope.theta == 5e5f && c.llama.rope.factor == 0);
    assert_true(c.llama.kv_heads == 8 && c.llama.tied == PST_YES && c.llama.bias == PST_NO);
    c = (pst_model_config){.kind = "llama", .layers = 1, .heads = 4, .channels = 8, .context = 4};
    assert_int_equal(pst_model_llama.preset(&c), PST_OK);
    assert_true(c.llama.kv_heads == 4 && c.llama.rope.theta == 1e4f);
    c = (pst_model_config){.kind = "llama", .preset = "qwen-2.5-72b"};
    assert_int_equal(pst_model_llama.preset(&c), PST_OK);
    assert_true(c.llama.bias == PST_YES && c.llama.rope.theta == 1e6f);
}

/* As published: transformers' BertForPreTraining has 110,106,428 and 336,226,108 parameters. */
static void bert_sizes(void **unused) {
    (void)unused;
    static const struct {
        const char *preset;
        uint64_t L, C, T, V, published;
    } known[] = {{"tiny", 2, 128, 64, 257, 0},
                 {"base", 12, 768, 512, 30522, 110106428},
                 {"large", 24, 1024, 512, 30522, 336226108}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        pst_model_config c = {
            .kind = "bert", .micro_batch = 2, .bert = {.token_types = 2, .next_sentence = -1}};
        uint64_t C = known[i].C, lengths = 0;
        pst_graph *g;
        strcpy(c.preset, known[i].preset);
        assert_int_equal(pst_model_bert.preset(&c), PST_OK);
        if (pst_model_bert.build(&c, &g) != PST_OK) fail_msg("%s", pst_error());
        assert_int_equal(pst_graph_check(g), PST_OK);
        if (known[i].published) assert_int_equal(count(g), known[i].published);
        else
            assert_true(count(g) == (known[i].T + known[i].V + 2 + 2) * C + known[i].V +
                                        known[i].L * (12 * C * C + 13 * C) + C * C + 3 * C);
        for (uint32_t k = 0; k < g->n_node; k++)
            lengths += g->node[k].attr.bidirectional && g->node[k].n_in == 2 &&
                       g->node[k].in[1] == pst_graph_find_tensor(g, "lengths");
        assert_int_equal(lengths, known[i].L);
        pst_graph_close(g);
    }
}

/* The logits of all positions and, of pairs, those of the two classes. */
static void bert_inference(void **unused) {
    (void)unused;
    for (int next = 0; next < 2; next++) {
        pst_model_config c = {.kind = "bert",
                              .preset = "tiny",
                              .micro_batch = 2,
                              .infer = 1,
                              .dropout = 0.5f,
                              .bert = {.token_types = 2, .next_sentence = next}};
        pst_graph *g;
        uint32_t outputs = 0, data = 0;
        assert_int_equal(pst_model_bert.preset(&c), PST_OK);
        if (pst_model_bert.build(&c, &g) != PST_OK) fail_msg("%s", pst_error());
        for (uint32_t t = 0; t < g->n_tensor; t++) {
            outputs += g->tensor[t].role == PST_TENSOR_OUTPUT;
            data += g->tensor[t].role == PST_TENSOR_DATA;
        }
        assert_true(outputs == 1u + (uint32_t)next && data == 3);
        const pst_tensor *logits = &g->tensor[pst_graph_find_tensor(g, "lm_head.out")];
        assert_true(logits->role == PST_TENSOR_OUTPUT && logits->dim[1] == 64 &&
                    logits->dim[2] == 257);
        pst_graph_close(g);
    }
}

/* Logits of the predictions alone, or of all positions; without types, and without segments. */
static void bert_options(void **unused) {
    (void)unused;
    for (int i = 0; i < 8; i++) {
        const int all = i & 1, types = i >> 1 & 1, next = i >> 2 & 1;
        pst_model_config c = {.kind = "bert",
                              .preset = "base",
                              .context = 128,
                              .micro_batch = 2,
                              .bert = {.token_types = types ? 2 : 0,
                                       .predictions = all ? 128 : 0,
                                       .next_sentence = next}};
        pst_graph *g;
        assert_int_equal(pst_model_bert.preset(&c), PST_OK);
        assert_int_equal(c.bert.predictions, all ? 0 : 20);
        if (pst_model_bert.build(&c, &g) != PST_OK) fail_msg("%s", pst_error());
        const uint32_t logits = pst_graph_find_tensor(g, "lm_head.out");
        assert_int_equal(g->tensor[logits].dim[1], all ? 128 : 20);
        assert_int_equal(pst_graph_find_tensor(g, "positions") != PST_NONE, !all);
        assert_int_equal(pst_graph_find_tensor(g, "types") != PST_NONE, types);
        assert_int_equal(pst_graph_find_param(g, "wtt.weight") != PST_NONE, types);
        assert_int_equal(pst_graph_find_param(g, "pooler.weight") != PST_NONE, next);
        assert_int_equal(pst_graph_find_tensor(g, "next_sentence") != PST_NONE, next);
        pst_graph_close(g);
    }
}

/* The label of a sample, from the pooled first position; the width of the MLP is free. */
static void bert_labels(void **unused) {
    (void)unused;
    pst_model_config c = {.kind = "bert",
                          .preset = "base",
                          .context = 128,
                          .micro_batch = 2,
                          .bert = {.token_types = 2,
                                   .next_sentence = -1,
                                   .labels = 5,
                                   .intermediate = 96,
                                   .norm_eps = 1e-5f}};
    pst_graph *g;
    assert_int_equal(pst_model_bert.preset(&c), PST_OK);
    if (pst_model_bert.build(&c, &g) != PST_OK) fail_msg("%s", pst_error());
    const pst_tensor *logits = &g->tensor[pst_graph_find_tensor(g, "classifier.out")];
    assert_true(logits->dim[0] == 2 && logits->dim[1] == 1 && logits->dim[2] == 5);
    const uint32_t hits = pst_graph_find_tensor(g, "loss.out1");
    assert_true(hits != PST_NONE && pst_tensor_has_hits(g, hits));
    assert_false(pst_tensor_has_hits(g, pst_graph_find_tensor(g, "loss.out")));
    assert_int_equal(g->tensor[pst_graph_find_tensor(g, "targets")].dim[1], 1);
    assert_int_equal(g->param[pst_graph_find_param(g, "h.3.mlp.c_fc.weight")].dim[0], 96);
    assert_int_equal(pst_graph_find_param(g, "lm_head.bias"), PST_NONE);
    assert_int_equal(pst_graph_find_param(g, "nsp.weight"), PST_NONE);
    assert_true(g->node[0].op && pst_loss_kinds_of(g).hits && !pst_loss_kinds_of(g).samples);
    for (uint32_t i = 0; i < g->n_node; i++)
        if (!strcmp(g->node[i].op->name, "layer_norm")) assert_true(g->node[i].attr.eps == 1e-5f);
    pst_graph_close(g);
}

static void given_sizes_win(void **unused) {
    (void)unused;
    pst_graph *g = gpt("nano", (pst_model_config){.layers = 2, .channels = 64});
    assert_int_equal(g->param[pst_graph_find_param(g, "h.1.mlp.c_fc.weight")].dim[0], 256);
    assert_int_equal(pst_graph_find_param(g, "h.2.ln_1.weight"), PST_NONE);
    pst_graph_close(g);
}

static void structure(void **unused) {
    (void)unused;
    pst_graph *g = gpt("nano", (pst_model_config){0}),
              *dropped = gpt("nano", (pst_model_config){.dropout = 0.1f});
    const pst_param *wte = &g->param[pst_graph_find_param(g, "wte.weight")];
    const pst_param *proj = &g->param[pst_graph_find_param(g, "h.0.mlp.c_proj.weight")];
    assert_int_equal(wte->n_use, 2); /* embedding, then the head */
    assert_true(wte->decay && fabsf(proj->std - 0.02f / sqrtf(8)) < 1e-9f);
    assert_int_equal(g->n_node, 1 + 4 * 9 + 3);
    assert_int_equal(dropped->n_node, g->n_node + 1 + 2 * 4);
    for (uint32_t i = 0; i < g->n_param; i++)
        assert_int_equal(g->param[i].decay, g->param[i].n_dim >= 2);
    const pst_tensor *loss = &g->tensor[g->node[g->n_node - 1].out[0]];
    assert_int_equal(loss->role, PST_TENSOR_OUTPUT);
    assert_string_equal(g->tensor[0].name, "tokens");
    assert_string_equal(g->tensor[1].name, "targets");
    pst_graph_close(g);
    pst_graph_close(dropped);
}

static void inference(void **unused) {
    (void)unused;
    pst_graph *g = gpt("nano", (pst_model_config){.infer = 1, .dropout = 0.5f});
    const pst_tensor *logits = &g->tensor[g->n_tensor - 1];
    assert_int_equal(logits->role, PST_TENSOR_OUTPUT);
    assert_int_equal(logits->dim[2], 256);
    for (uint32_t i = 0; i < g->n_node; i++)
        assert_string_not_equal(g->node[i].op->name, "dropout");
    for (uint32_t i = 0; i < g->n_tensor; i++)
        assert_string_not_equal(g->tensor[i].name, "targets");
    pst_graph_close(g);
}

/* F of one token costs about 2 FLOPs per weight of the matrix products, plus attention. */
static void flops(void **unused) {
    (void)unused;
    pst_graph *g = gpt("nano", (pst_model_config){0});
    pst_tape *t;
    assert_int_equal(pst_tape_build(g, 1, &t), PST_OK);
    uint64_t linear[PST_PASS_COUNT] = {0}, tokens = 2 * 64;
    for (uint32_t s = 0; s < t->n_step; s++)
        if (strcmp(g->node[t->step[s].node].op->name, "linear") == 0)
            linear[t->step[s].pass] += t->step[s].flops;
    for (int pass = 0; pass < PST_PASS_COUNT; pass++)
        assert_true(linear[pass] == 2 * tokens * (4 * 12 * 128 * 128 + 256 * 128));
    pst_tape_close(t);
    pst_graph_close(g);
}

static void hugging_face_names(void **unused) {
    (void)unused;
    pst_graph *g = gpt("nano", (pst_model_config){.layers = 1});
    uint32_t n_transposed = 0;
    for (uint32_t i = 0; i < g->n_param; i++) {
        char buffer[PST_NAME_MAX];
        int transposed = -1;
        assert_string_equal(pst_model_gpt.hf_name(&g->param[i], buffer, &transposed),
                            g->param[i].name);
        n_transposed += (uint32_t)transposed;
        if (transposed) assert_int_equal(g->param[i].n_dim, 2);
    }
    assert_int_equal(n_transposed, 4);
    pst_graph_close(g);
}

/* Numbers of weights as torchvision has them, and of the paper's nets for CIFAR with projections
 * where shapes change. */
static void resnet(void **unused) {
    (void)unused;
    static const struct {
        const char *preset;
        uint32_t image, depth, classes;
        uint64_t weights, out; /* out: height of what the last stage makes */
    } known[] = {{"resnet18", 224, 3, 1000, 11689512, 7},
                 {"resnet50", 224, 3, 1000, 25557032, 7},
                 {"resnet152", 64, 3, 10, 58164298, 2},
                 {"resnet20", 32, 3, 10, 272474, 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        pst_model_config c = {.kind = "resnet",
                              .micro_batch = 2,
                              .image = known[i].image,
                              .depth = known[i].depth,
                              .vocabulary = known[i].classes};
        strcpy(c.preset, known[i].preset);
        pst_graph *g = NULL;
        pst_tape *t;
        assert_int_equal(pst_model_resnet.preset(&c), PST_OK);
        if (pst_model_resnet.build(&c, &g) != PST_OK) fail_msg("%s", pst_error());
        assert_int_equal(pst_graph_weights(g), known[i].weights);
        const pst_tensor *last = &g->tensor[g->node[g->n_node - 4].out[0]];
        assert_int_equal(last->dim[1], known[i].out);
        assert_int_equal(pst_graph_check(g), PST_OK);
        assert_int_equal(pst_tape_build(g, 1, &t), PST_OK);
        assert_int_equal(pst_tape_check_gradients(t, g), PST_OK);
        for (uint32_t s = 0; s < t->n_step; s++) /* the images need no gradient */
            assert_false(t->step[s].pass == PST_PASS_B &&
                         !strcmp(g->node[t->step[s].node].name, "conv1"));
        pst_tape_close(t);
        pst_graph_close(g);
    }
}

static void refuse(const pst_model_row *row, pst_model_config c, const char *words) {
    pst_graph *g = NULL;
    pst_status status = row->preset(&c);
    if (status == PST_OK) status = row->build(&c, &g);
    assert_int_equal(status, PST_EINPUT);
    assert_null(g);
    if (!strstr(pst_error(), words)) fail_msg("\"%s\" lacks \"%s\"", pst_error(), words);
}

static void contradictions(void **unused) {
    (void)unused;
    refuse(&pst_model_gpt, (pst_model_config){.kind = "gpt", .preset = "gpt5"},
           "nano, gpt2, gpt2-medium");
    refuse(&pst_model_gpt,
           (pst_model_config){.kind = "gpt", .preset = "nano", .heads = 3, .micro_batch = 1},
           "heads is 3");
    refuse(&pst_model_bert, (pst_model_config){.kind = "bert", .preset = "huge"},
           "tiny, base, large");
    refuse(&pst_model_bert,
           (pst_model_config){.kind = "bert", .preset = "tiny", .heads = 3, .micro_batch = 1},
           "heads is 3");
    refuse(&pst_model_gpt, (pst_model_config){.kind = "gpt", .micro_batch = 1},
           "model.kind gpt: set model.preset (nano");
    pst_model_config llama = {.kind = "llama", .preset = "llama-tiny", .micro_batch = 1};
    llama.llama.kv_heads = 3;
    refuse(&pst_model_llama, llama, "model.kv_heads is 3, which does not divide model.heads 4");
    llama.llama.kv_heads = 0;
    llama.channels = 4;
    refuse(&pst_model_llama, llama, "is odd");
    refuse(&pst_model_llama,
           (pst_model_config){.layers = 1,
                              .heads = 2,
                              .channels = 8,
                              .context = 4,
                              .vocabulary = 9,
                              .micro_batch = 1},
           "model.intermediate is 0");
    refuse(&pst_model_mlp, (pst_model_config){.kind = "mlp", .layers = 2, .micro_batch = 1},
           "model.kind mlp: set model.preset (tiny), or layers, channels and context");
    refuse(&pst_model_resnet, (pst_model_config){.kind = "resnet", .micro_batch = 1},
           "or layers and channels");
    refuse(&pst_model_gpt, (pst_model_config){.kind = "gpt", .preset = "nano"}, "micro_batch");
    refuse(&pst_model_gpt, (pst_model_config){.preset = "nano", .micro_batch = 1, .dropout = 1},
           "dropout");
    refuse(&pst_model_gpt,
           (pst_model_config){.preset = "nano", .micro_batch = 1, .vocabulary = UINT32_MAX},
           "wte.weight");
    refuse(&pst_model_mlp, (pst_model_config){.kind = "mlp", .preset = "nano"},
           "expected one of tiny");
    pst_model_config image = {.preset = "resnet20", .micro_batch = 1, .vocabulary = 10, .depth = 3};
    refuse(&pst_model_resnet, image, "model.image is 0");
    image.image = 32;
    image.layers = 21;
    refuse(&pst_model_resnet, image, "layers is 21");
    image.layers = 0;
    image.dropout = 0.1f;
    refuse(&pst_model_resnet, image, "dropout");
    image.dropout = 0;
    image.context = 2;
    refuse(&pst_model_resnet, image, "one class");
    refuse(&pst_model_resnet,
           (pst_model_config){
               .preset = "resnet18", .micro_batch = 1, .vocabulary = 10, .depth = 3, .image = 16},
           "one value per channel");
}

static void mlp(void **unused) {
    (void)unused;
    for (int infer = 0; infer < 2; infer++) {
        pst_model_config c = {
            .preset = "tiny", .micro_batch = 3, .activation = PST_ACT_RELU, .infer = infer};
        pst_graph *g;
        assert_int_equal(pst_model_mlp.preset(&c), PST_OK);
        assert_int_equal(pst_model_mlp.build(&c, &g), PST_OK);
        assert_int_equal(pst_graph_check(g), PST_OK);
        assert_int_equal(count(g), 256 * 64 + 2 * (64 * 64 + 64) + 64 * 256 + 256);
        assert_int_equal(g->n_node, infer ? 4 : 5);
        pst_graph_close(g);
    }
}

static int is_matrix(const pst_graph *g, const char *name) {
    uint32_t p = pst_graph_find_param(g, name);
    assert_int_not_equal(p, PST_NONE);
    assert_int_equal(g->param[p].whole, g->param[p].matrix);
    return g->param[p].matrix;
}

/* Which parameters optimizers update as a whole, and how many states each has. */
static void whole_parameters(void **unused) {
    (void)unused;
    const pst_optim_row *muon = pst_optim_find("muon"), *lamb = pst_optim_find("lamb");
    pst_graph *g = gpt("nano", (pst_model_config){0});
    assert_int_equal(pst_optim_assign(muon, g), PST_OK);
    assert_true(is_matrix(g, "h.0.attn.c_attn.weight") && is_matrix(g, "h.3.mlp.c_proj.weight"));
    assert_false(is_matrix(g, "wte.weight") || is_matrix(g, "wpe.weight")); /* and the output */
    assert_false(is_matrix(g, "h.0.ln_1.weight") || is_matrix(g, "h.0.mlp.c_fc.bias"));
    uint32_t two = 0, one = 0;
    for (uint32_t i = 0; i < g->n_param; i++) {
        two += pst_optim_states(muon, g->param + i) == 2;
        one += pst_optim_states(muon, g->param + i) == 1;
    }
    assert_int_equal(one, 4 * 4);
    assert_int_equal(one + two, g->n_param);
    pst_graph_close(g);
    g = gpt("nano", (pst_model_config){0});
    assert_int_equal(pst_optim_assign(lamb, g), PST_OK);
    for (uint32_t i = 0; i < g->n_param; i++) {
        assert_int_equal(g->param[i].whole, g->param[i].decay);
        assert_int_equal(pst_optim_states(lamb, g->param + i), 2);
    }
    pst_graph_close(g);
    pst_model_config c = {.preset = "resnet20", .micro_batch = 2, .vocabulary = 10, .image = 32};
    c.depth = 3;
    assert_int_equal(pst_model_resnet.preset(&c), PST_OK);
    assert_int_equal(pst_model_resnet.build(&c, &g), PST_OK);
    assert_int_equal(pst_optim_assign(muon, g), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "has no matrix between hidden layers; use adamw"));
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(preset_sizes),
        cmocka_unit_test(bert_sizes),
        cmocka_unit_test(bert_labels),
        cmocka_unit_test(llama_sizes),
        cmocka_unit_test(llama_options),
        cmocka_unit_test(bert_options),
        cmocka_unit_test(bert_inference),
        cmocka_unit_test(given_sizes_win),
        cmocka_unit_test(structure),
        cmocka_unit_test(wide_streams),
        cmocka_unit_test(inference),
        cmocka_unit_test(flops),
        cmocka_unit_test(hugging_face_names),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(mlp),
        cmocka_unit_test(resnet),
        cmocka_unit_test(whole_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
