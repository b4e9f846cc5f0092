/* Frozen parameters and adapters: what the tape leaves out, what an adapted graph computes, what is
 * refused. That gradients are right on tensor ranks: test_split.c; beside PyTorch:
 * tests/verify/test_torch_optimizers.sh. */
#include "graph/adapt.h"
#include "graph/tape.h"
#include "models/model.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MUST(call) assert_int_equal(call, PST_OK)
#define TEXT(x) ((char *)(uintptr_t)(x))

static pst_graph *gpt(void) {
    const pst_model_config c = {.kind = "gpt",
                                .layers = 3,
                                .heads = 2,
                                .channels = 8,
                                .context = 4,
                                .vocabulary = 11,
                                .activation = PST_ACT_GELU_TANH,
                                .micro_batch = 2};
    pst_graph *g;
    MUST(pst_model_gpt.build(&c, &g));
    return g;
}

/* Whether the tape has this pass of the operator. */
static int has(const pst_graph *g, const pst_tape *t, const char *node, pst_pass pass) {
    for (uint32_t s = 0; s < t->n_step; s++)
        if (t->step[s].pass == pass && !t->extra[s] && !strcmp(g->node[t->step[s].node].name, node))
            return 1;
    return 0;
}

static uint32_t count(const pst_tape *t, pst_pass pass) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < t->n_step; s++) n += t->step[s].pass == pass;
    return n;
}

static void frozen_layers_have_no_backward(void **unused) {
    (void)unused;
    char *below[] = {TEXT("wpe.*"), TEXT("h.0.*"), TEXT("h.1.*"), TEXT("h.2.ln_1.*")};
    pst_graph *g = gpt();
    pst_tape *t;
    MUST(pst_graph_set_frozen(g, below, 4, 0));
    MUST(pst_tape_build(g, 1, &t));
    MUST(pst_tape_check_gradients(t, g));
    assert_true(has(g, t, "embedding", PST_PASS_W)); /* wte is trained */
    assert_true(has(g, t, "h.0.mlp.c_fc", PST_PASS_B));
    assert_false(has(g, t, "h.0.mlp.c_fc", PST_PASS_W));
    assert_true(has(g, t, "h.2.ln_1", PST_PASS_B));
    assert_false(has(g, t, "h.2.ln_1", PST_PASS_W));
    assert_true(has(g, t, "h.2.attn.c_attn", PST_PASS_W));
    pst_tape_close(t);
    char *also[] = {TEXT("w?e.*"), TEXT("h.0.*"), TEXT("h.1.*"), TEXT("h.2.ln_1.*")};
    MUST(pst_graph_set_frozen(g, also, 4, 0));
    MUST(pst_tape_build(g, 1, &t));
    assert_false(has(g, t, "embedding", PST_PASS_W));
    assert_false(has(g, t, "h.1.mlp.c_proj", PST_PASS_B));
    assert_false(has(g, t, "h.2.ln_1", PST_PASS_B));
    assert_false(has(g, t, "h.2.attn.c_attn", PST_PASS_B)); /* its input depends on nothing trained
                                                             */
    assert_true(has(g, t, "h.2.attn.c_attn", PST_PASS_W));
    assert_true(has(g, t, "lm_head", PST_PASS_B));
    assert_false(has(g, t, "lm_head", PST_PASS_W)); /* tied to wte */
    pst_tape_close(t);
    pst_graph_close(g);
}

/* The lowest trained layer has an activation: its B has to compute what its W reads. */
static void activation_of_the_lowest_layer(void **unused) {
    (void)unused;
    char *on[] = {TEXT("*"), TEXT("!h.2.mlp.*")};
    pst_graph *g = gpt();
    pst_tape *t;
    MUST(pst_graph_set_frozen(g, on, 2, 0));
    MUST(pst_tape_build(g, 1, &t));
    MUST(pst_tape_check_gradients(t, g));
    assert_int_equal(count(t, PST_PASS_W), 2);
    assert_true(has(g, t, "h.2.mlp.c_fc", PST_PASS_B));
    assert_false(has(g, t, "h.2.ln_2", PST_PASS_B));
    pst_tape_close(t);
    pst_graph_close(g);
}

/* Its weight's gradient goes where nobody reads it. */
static void biases_alone(void **unused) {
    (void)unused;
    char *weights[] = {TEXT("*.weight")};
    pst_graph *g = gpt();
    pst_tape *t;
    uint32_t unread = 0;
    MUST(pst_graph_set_frozen(g, weights, 1, 0));
    MUST(pst_tape_build(g, 1, &t));
    MUST(pst_tape_check_gradients(t, g));
    for (uint32_t s = 0; s < t->n_step; s++)
        for (uint32_t i = 0; i < t->step[s].n_operand; i++) {
            const pst_operand *o = &t->step[s].operand[i];
            if (o->kind == PST_OPERAND_DPARAM) assert_false(g->param[o->index].frozen);
            if (o->kind == PST_OPERAND_UNREAD) assert_true(g->param[o->index].frozen);
            unread += o->kind == PST_OPERAND_UNREAD;
        }
    assert_int_equal(unread, count(t, PST_PASS_W));
    pst_tape_close(t);
    pst_graph_close(g);
}

static pst_graph *adapted(const char *on, uint32_t rank, float alpha) {
    char *list[] = {TEXT(on)};
    const pst_adapt spec = {rank, alpha, list, 1};
    pst_graph *g = gpt(), *out;
    MUST(pst_graph_adapt(g, &spec, &out));
    pst_graph_close(g);
    MUST(pst_graph_check(out));
    return out;
}

static void adapters_alone_are_trained(void **unused) {
    (void)unused;
    pst_graph *g = adapted("attention", 2, 4), *plain = gpt();
    pst_tape *t;
    uint64_t trained = 0;
    MUST(pst_graph_set_frozen(g, NULL, 0, 1));
    MUST(pst_tape_build(g, 1, &t));
    MUST(pst_tape_check_gradients(t, g));
    for (uint32_t i = 0; i < g->n_param; i++)
        if (!g->param[i].frozen) trained += pst_param_elements(&g->param[i]);
    assert_int_equal(trained, 3 * (2 * (8 + 24) + 2 * (8 + 8))); /* rank (inputs + outputs) */
    assert_int_equal(count(t, PST_PASS_W), 12);
    assert_false(has(g, t, "h.0.attn.c_attn", PST_PASS_B));
    assert_true(has(g, t, "h.0.attn.c_proj", PST_PASS_B));
    assert_int_not_equal(pst_graph_find_param(g, "h.0.attn.c_attn.lora_A.weight"), PST_NONE);
    assert_int_equal(g->param[pst_graph_find_param(g, "h.0.attn.c_attn.lora_B.weight")].init,
                     PST_INIT_ZERO);
    assert_true(pst_graph_hash(g) != pst_graph_hash(plain));
    pst_tape_close(t);
    pst_graph_close(g);
    pst_graph_close(plain);
}

static const pst_node *find(const pst_graph *g, const char *name) {
    for (uint32_t i = 0; i < g->n_node; i++)
        if (!strcmp(g->node[i].name, name)) return &g->node[i];
    fail_msg("no operator %s", name);
    return NULL;
}

/* The activation follows the sum; without a factor of its own there is no scale. */
static void parts_of_an_adapter(void **unused) {
    (void)unused;
    pst_graph *g = adapted("h.*.mlp.c_fc.weight", 4, 8);
    assert_int_equal(find(g, "h.1.mlp.c_fc")->attr.activation, PST_ACT_NONE);
    assert_int_equal(find(g, "h.1.mlp.c_fc.act")->attr.activation, PST_ACT_GELU_TANH);
    assert_true(find(g, "h.1.mlp.c_fc.lora_scale")->attr.factor == 2);
    assert_string_equal(g->tensor[find(g, "h.1.mlp.c_proj")->in[0]].name, "h.1.mlp.c_fc.act.out");
    assert_ptr_equal(pst_adapt_base(g, find(g, "h.1.mlp.c_fc.lora_B")), find(g, "h.1.mlp.c_fc"));
    assert_int_equal(pst_adapt_role_of(g, find(g, "h.1.mlp.c_fc.lora_add")), PST_ADAPT_ADD);
    assert_int_equal(pst_adapt_role_of(g, find(g, "h.1.mlp.add")), PST_ADAPT_NONE);
    pst_graph_close(g);
    g = adapted("h.*.mlp.c_fc.weight", 4, 4);
    for (uint32_t i = 0; i < g->n_node; i++) assert_string_not_equal(g->node[i].op->name, "scale");
    pst_graph_close(g);
}

static void text_keeps_frozen(void **unused) {
    (void)unused;
    pst_graph *g = adapted("mlp", 2, 3), *again;
    char *text = NULL;
    size_t bytes;
    MUST(pst_graph_set_frozen(g, NULL, 0, 1));
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    MUST(pst_graph_print(g, f));
    fclose(f);
    MUST(pst_graph_parse(text, "graph.txt", &again));
    assert_true(pst_graph_hash(again) == pst_graph_hash(g));
    assert_true(again->param[0].frozen);
    free(text);
    pst_graph_close(again);
    pst_graph_close(g);
}

/* Any part of the matrix, by the formula. */
static void merging(void **unused) {
    (void)unused;
    enum { ROWS = 5, COLUMNS = 7, RANK = 3 };
    float up[ROWS * RANK], down[RANK * COLUMNS], weight[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * RANK; i++) up[i] = (float)(i - 6) / 8;
    for (int i = 0; i < RANK * COLUMNS; i++) down[i] = (float)(3 - i) / 4;
    const pst_adapter a = {up, down, RANK, COLUMNS, 2};
    for (uint64_t at = 0; at < ROWS * COLUMNS; at += 4)
        for (uint64_t n = 0; at + n <= ROWS * COLUMNS; n += 9) {
            for (int i = 0; i < ROWS * COLUMNS; i++) weight[i] = 1;
            pst_adapter_merge(&a, at, n, weight);
            for (uint64_t i = 0; i < ROWS * COLUMNS; i++) {
                float want = 1; /* the numbers are exact */
                const uint64_t row = (at + i) / COLUMNS, column = (at + i) % COLUMNS;
                for (int r = 0; i < n && r < RANK; r++)
                    want += 2 * up[row * RANK + r] * down[r * COLUMNS + column];
                assert_true(weight[i] == want);
            }
        }
}

static void refuse(const char *on, uint32_t rank, const char *why) {
    char *list[] = {TEXT(on)};
    const pst_adapt spec = {rank, 1, list, 1};
    pst_graph *g = gpt(), *out = NULL;
    assert_int_equal(pst_graph_adapt(g, &spec, &out), PST_EINPUT);
    if (!strstr(pst_error(), why)) fail_msg("%s", pst_error());
    assert_null(out);
    pst_graph_close(g);
}

static void refused(void **unused) {
    (void)unused;
    refuse("conv", 2,
           "'conv' names no linear layer; the model has h.*.attn.c_attn.weight, "
           "h.*.attn.c_proj.weight, h.*.mlp.c_fc.weight, h.*.mlp.c_proj.weight;");
    refuse("wte.weight", 2, "names no linear layer"); /* also the output layer */
    refuse("attention", 9, "h.0.attn.c_attn.weight is a matrix of 24 by 8; expected 1 to 8");
    refuse("attention", 0, "the rank is 0");
    char *all[] = {TEXT("*")}, *none[] = {TEXT("h.7.*")};
    pst_graph *g = gpt();
    assert_int_equal(pst_graph_set_frozen(g, all, 1, 0), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "every parameter of the model is frozen"));
    assert_int_equal(pst_graph_set_frozen(g, none, 1, 0), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "matches 'h.7.*'"));
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_layers_have_no_backward),
        cmocka_unit_test(activation_of_the_lowest_layer),
        cmocka_unit_test(biases_alone),
        cmocka_unit_test(adapters_alone_are_trained),
        cmocka_unit_test(parts_of_an_adapter),
        cmocka_unit_test(text_keeps_frozen),
        cmocka_unit_test(merging),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
