/* The tape: every value has one writer that comes first, gradients are complete when they are read
 * and contributions arrive in reverse node order. Gradients are followed as numbers: each (node,
 * input) gets a random factor, so that a lost, doubled or misplaced contribution changes the
 * sum. */
#include "graph/tape.h"
#include "graph/random_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The factor by which the backward of `node` scales what it hands to input i; odd, arithmetic is
 * modulo 2^64. */
static uint64_t factor(uint32_t node, uint32_t i) {
    uint64_t state = UINT64_C(1000003) * node + i;
    return next_random(&state) | 1;
}

static int is_loss(const pst_node *d) { return strcmp(d->op->name, "cross_entropy") == 0; }

/* What the gradient of each tensor must be, from the chain rule alone; has[t]: whether it has
 * one. */
static void expected_gradients(const pst_graph *g, uint64_t *grad, uint8_t *has) {
    memset(grad, 0, g->n_tensor * sizeof(*grad));
    memset(has, 0, g->n_tensor);
    for (uint32_t n = g->n_node; n-- > 0;) {
        const pst_node *d = &g->node[n];
        for (uint32_t i = 0; i < d->n_in; i++) {
            if (g->tensor[d->in[i]].role == PST_TENSOR_DATA || (!is_loss(d) && !has[d->out[0]]))
                continue;
            int hands_on = d->op->pass_through && !(i && d->attr.narrows);
            uint64_t scale = hands_on ? 1 : factor(n, i);
            grad[d->in[i]] += is_loss(d) ? scale : scale * grad[d->out[0]];
            has[d->in[i]] = 1;
        }
    }
}

/* Runs one step on numbers and checks what it reads. */
static void run_step(const pst_graph *g, const pst_tape *t, uint32_t s, uint64_t *number,
                     const uint64_t *grad) {
    const pst_tape_step *step = &t->step[s];
    const pst_node *d = &g->node[step->node];
    uint64_t sum = 0, a[PST_MAX_ARG] = {0};
    pst_arg arg[PST_MAX_ARG];
    for (uint32_t i = 0; i < step->n_operand; i++) {
        const pst_operand *o = &step->operand[i];
        if (o->kind != PST_OPERAND_VALUE) continue;
        assert_true(o->index < t->n_value);
        if (o->access & PST_READ)
            assert_true(t->value[o->index].def_step == PST_NONE || t->value[o->index].def_step < s);
        a[i] = number[o->index];
    }
    if (t->extra[s]) {
        number[step->operand[2].index] = a[0] + a[1];
        return;
    }
    assert_int_equal(d->op->args(d, step->pass, arg), step->n_operand);
    if (step->pass == PST_PASS_F) return;
    for (uint32_t i = 0; i < step->n_operand; i++) {
        if (arg[i].kind == PST_ARG_DOUT)
            assert_true(a[i] == grad[d->out[arg[i].index]]); /* complete */
        if (arg[i].kind == PST_ARG_SUM) sum = a[i];
        if (arg[i].kind == PST_ARG_DIN)
            number[step->operand[i].index] =
                sum + factor(step->node, arg[i].index) * (is_loss(d) ? 1 : grad[d->out[0]]);
    }
}

/* One writer per value; written operands are the value's definition; steps in the promised
 * order. */
static void check_structure(const pst_graph *g, const pst_tape *t) {
    uint32_t *writers = calloc(t->n_value, sizeof(*writers));
    for (uint32_t s = 0; s < t->n_step; s++) {
        const pst_tape_step *step = &t->step[s];
        for (uint32_t i = 0; i < step->n_operand; i++) {
            const pst_operand *o = &step->operand[i];
            if (o->share >= 0) assert_true(step->operand[o->share].kind != PST_OPERAND_NULL);
            if (o->kind != PST_OPERAND_VALUE || !(o->access & PST_WRITE)) continue;
            assert_int_equal(t->value[o->index].def_step, s);
            writers[o->index]++;
        }
        if (s == 0) continue;
        const pst_tape_step *before = &t->step[s - 1];
        if (step->pass == PST_PASS_F)
            assert_true(before->pass == PST_PASS_F && before->node < step->node);
        if (step->pass == PST_PASS_W && before->node == step->node)
            assert_true(before->pass == PST_PASS_B);
        if (step->pass != PST_PASS_F && before->pass != PST_PASS_F)
            assert_true(before->node >= step->node);
    }
    for (uint32_t v = 0; v < t->n_value; v++) {
        assert_int_equal(writers[v], t->value[v].def_step == PST_NONE ? 0 : 1);
        if (t->value[v].kind == PST_VALUE_GRAD)
            assert_int_not_equal(g->tensor[t->value[v].tensor].role, PST_TENSOR_DATA);
    }
    free(writers);
}

/* W exists exactly for nodes with parameters that lead to a loss. */
static void check_weights(const pst_graph *g, const pst_tape *t, const uint8_t *has) {
    uint32_t *w = calloc(g->n_node, sizeof(*w));
    for (uint32_t s = 0; s < t->n_step; s++) w[t->step[s].node] += t->step[s].pass == PST_PASS_W;
    for (uint32_t n = 0; n < g->n_node; n++)
        assert_int_equal(w[n], g->node[n].n_param > 0 && has[g->node[n].out[0]] ? 1 : 0);
    free(w);
}

static void random_graphs_differentiate(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(1);
    for (uint32_t round = 0; round < 300; round++) {
        pst_graph *g = random_graph(seed + round);
        pst_tape *t;
        MUST(pst_graph_check(g));
        MUST(pst_tape_build(g, 1, &t));
        uint64_t *grad = calloc(g->n_tensor, sizeof(*grad)),
                 *number = calloc(t->n_value, sizeof(*number));
        uint8_t *has = calloc(g->n_tensor, 1);
        expected_gradients(g, grad, has);
        check_structure(g, t);
        check_weights(g, t, has);
        for (uint32_t s = 0; s < t->n_step; s++) run_step(g, t, s, number, grad);
        free(grad);
        free(number);
        free(has);
        pst_tape_close(t);
        pst_graph_close(g);
    }
}

/* A stream x that a layer norm (has SUM), a linear (has none) and two additions read. */
static pst_graph *forked_graph(void) {
    pst_graph *g;
    uint32_t tokens, targets, x, a, b, sum, logits, loss, p[4];
    MUST(pst_graph_open("forked", 1, &g));
    MUST(pst_graph_data(g, "tokens", 2, (uint64_t[]){1, 2}, &tokens));
    MUST(pst_graph_data(g, "targets", 2, (uint64_t[]){1, 2}, &targets));
    pst_param row[] = {{.name = "table", .n_dim = 2, .dim = {5, 4}},
                       {.name = "gain", .n_dim = 1, .dim = {4}},
                       {.name = "shift", .n_dim = 1, .dim = {4}},
                       {.name = "square", .n_dim = 2, .dim = {4, 4}}};
    for (uint32_t i = 0; i < 4; i++) MUST(pst_graph_param(g, &row[i], &p[i]));
    MUST(pst_graph_add(g, &(pst_new_node){"embedding", "x", NULL, &tokens, 1, &p[0], 1}, &x));
    MUST(pst_graph_add(
        g,
        &(pst_new_node){"linear", "lin", &(pst_attr){.activation = PST_ACT_RELU}, &x, 1, &p[3], 1},
        &a));
    MUST(pst_graph_add(
        g, &(pst_new_node){"layer_norm", "norm", &(pst_attr){.eps = 1}, &x, 1, &p[1], 2}, &b));
    MUST(pst_graph_add(g, &(pst_new_node){"add", "inner", NULL, (uint32_t[]){a, b}, 2, NULL, 0},
                       &sum));
    MUST(pst_graph_add(g, &(pst_new_node){"add", "outer", NULL, (uint32_t[]){x, sum}, 2, NULL, 0},
                       &sum));
    MUST(pst_graph_add(g, &(pst_new_node){"linear", "head", NULL, &sum, 1, &p[0], 1}, &logits));
    MUST(pst_graph_add(
        g,
        &(pst_new_node){"cross_entropy", "loss", NULL, (uint32_t[]){logits, targets}, 2, NULL, 0},
        &loss));
    return g;
}

static void sums_are_in_reverse_node_order(void **unused) {
    (void)unused;
    static const char *const expected[] = {
        "0 F x: tokens table =x.out",
        "1 F lin: x.out square =lin.out =saved(lin)0",
        "2 F norm: x.out gain shift =norm.out =saved(norm)0",
        "3 F inner: lin.out norm.out =inner.out@1",
        "4 F outer: x.out inner.out =outer.out@1",
        "5 F head: outer.out table =head.out",
        "6 F loss: head.out targets =loss.out =saved(loss)0",
        "7 B loss: head.out targets saved(loss)0 =d(head.out)v0!@0",
        "8 B head: table d(head.out)v0 =d(outer.out)v0",
        "9 W head: outer.out d(head.out)v0 +d(table)1",
        "10 B norm: x.out gain saved(norm)0 d(outer.out)v0 d(outer.out)v0 =d(x.out)v0@4",
        "11 W norm: x.out saved(norm)0 d(outer.out)v0 +d(gain)0 +d(shift)0",
        "12 B lin: square saved(lin)0 d(outer.out)v0 =saved(lin)1@2 =d(x.out)v1",
        "13 B sum lin: d(x.out)v0 d(x.out)v1 =d(x.out)v2@1",
        "14 W lin: x.out saved(lin)1 +d(square)0",
        "15 W x: tokens d(x.out)v2 +d(table)0",
    };
    pst_graph *g = forked_graph();
    pst_tape *t;
    char *text = NULL, *rest = NULL;
    size_t size;
    MUST(pst_tape_build(g, 1, &t));
    FILE *out = open_memstream(&text, &size);
    MUST(pst_tape_print(t, g, out));
    fclose(out);
    uint32_t n = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
        *strstr(line, " | ") = 0;
        assert_string_equal(line, expected[n]);
    }
    assert_int_equal(n, 16);
    free(text);
    pst_tape_close(t);
    pst_graph_close(g);
}

static void forward_only(void **unused) {
    (void)unused;
    pst_graph *g = forked_graph();
    pst_tape *t;
    MUST(pst_tape_build(g, 0, &t));
    assert_int_equal(t->n_step, g->n_node);
    for (uint32_t s = 0; s < t->n_step; s++) assert_int_equal(t->step[s].pass, PST_PASS_F);
    pst_tape_close(t);
    pst_graph_close(g);
}

/* Two losses on the same logits would overwrite them twice. */
static void overwritten_input_is_refused(void **unused) {
    (void)unused;
    pst_graph *g = forked_graph();
    const pst_node *loss = &g->node[g->n_node - 1];
    uint32_t in[] = {loss->in[0], loss->in[1]}, out;
    pst_tape *t = NULL;
    MUST(pst_graph_add(g, &(pst_new_node){"cross_entropy", "again", NULL, in, 2, NULL, 0}, &out));
    assert_int_equal(pst_tape_build(g, 1, &t), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "again"));
    assert_null(t);
    pst_graph_close(g);
}

/* A head that no loss looks at: nobody would write its gradient. */
static void parameter_without_loss_is_refused(void **unused) {
    (void)unused;
    pst_graph *g = forked_graph();
    const pst_node *head = &g->node[g->n_node - 2];
    pst_tape *t;
    MUST(pst_tape_build(g, 1, &t));
    MUST(pst_tape_check_gradients(t, g));
    pst_tape_close(t);
    uint32_t in = head->in[0], out, param[] = {head->param[0], PST_NONE};
    pst_attr attr = {.features = head->attr.features};
    MUST(pst_graph_add(g, &(pst_new_node){"linear", "unheard", &attr, &in, 1, param, 1}, &out));
    MUST(pst_tape_build(g, 1, &t));
    assert_int_equal(pst_tape_check_gradients(t, g), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "has a use that does not affect the loss"));
    pst_tape_close(t);
    pst_param idle = {.name = "idle", .n_dim = 1, .dim = {3}};
    MUST(pst_graph_param(g, &idle, &out));
    pst_graph_close(g);
    g = forked_graph();
    MUST(pst_graph_param(g, &idle, &out));
    MUST(pst_tape_build(g, 1, &t));
    assert_int_equal(pst_tape_check_gradients(t, g), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "idle is used by no operator"));
    pst_tape_close(t);
    pst_graph_close(g);
}

static void costs(void **unused) {
    (void)unused;
    pst_graph *g = forked_graph();
    pst_tape *t;
    MUST(pst_tape_build(g, 1, &t));
    for (uint32_t s = 0; s < t->n_step; s++) {
        if (strcmp(g->node[t->step[s].node].name, "head") == 0)
            assert_int_equal(t->step[s].flops, 2 * 2 * 4 * 5);
        assert_true(t->step[s].bytes > 0);
    }
    pst_tape_close(t);
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_differentiate),
        cmocka_unit_test(sums_are_in_reverse_node_order),
        cmocka_unit_test(forward_only),
        cmocka_unit_test(overwritten_input_is_refused),
        cmocka_unit_test(parameter_without_loss_is_refused),
        cmocka_unit_test(costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
