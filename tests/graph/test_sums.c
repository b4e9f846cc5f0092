/* test: label=quick timeout=60
 * Layer norms whose B leaves sums over parts of the rows for W (pst_graph_leave_sums): how many
 * parts there are, what W reads then, and that the graph's hash stays. */
#include "graph/tape.h"
#include "graph/random_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 12 };

/* Tokens or pixels, a layer norm "norm", of pixels their mean, and a loss. */
static pst_graph *open_norm(uint64_t rows, int pixels) {
    pst_graph *g;
    uint32_t x, table, targets, weight, bias, y, losses;
    const uint64_t shape[] = {1, rows, 1, WIDTH};
    MUST(pst_graph_open("sums", 1, &g));
    MUST(pst_graph_data(g, "data", pixels ? 4 : 2, shape, &x));
    MUST(pst_graph_data(g, "targets", 2, (uint64_t[]){1, pixels ? 1 : rows}, &targets));
    if (pixels) {
        MUST(pst_graph_add_pixels(g, "x", x, &x));
    } else {
        MUST(pst_graph_add_param(g, "table", 2, (uint64_t[]){7, WIDTH}, PST_INIT_NORMAL, 1, 0,
                                 &table));
        MUST(pst_graph_add_embedding(g, "x", x, table, PST_NONE, &x));
    }
    MUST(pst_graph_add_param(g, "weight", 1, (uint64_t[]){WIDTH}, PST_INIT_ONE, 0, 0, &weight));
    MUST(pst_graph_add_param(g, "bias", 1, (uint64_t[]){WIDTH}, PST_INIT_ZERO, 0, 0, &bias));
    MUST(pst_graph_add_layer_norm(g, "norm", x, weight, bias, 1e-5f, &y));
    if (pixels) MUST(pst_graph_add_average_pool(g, "mean", y, &y));
    MUST(pst_graph_add_cross_entropy(g, "loss", y, targets, &losses));
    return g;
}

static uint32_t norm_of(const pst_graph *g) {
    uint32_t i = 0;
    while (strcmp(g->node[i].name, "norm") != 0) i++;
    return i;
}

static const pst_tape_step *step_of(const pst_tape *tape, uint32_t node, pst_pass pass) {
    for (uint32_t s = 0; s < tape->n_step; s++)
        if (tape->step[s].node == node && tape->step[s].pass == pass) return tape->step + s;
    return NULL;
}

static void parts(void **state) {
    (void)state;
    static const struct {
        uint64_t rows, parts;
    } cases[] = {{1, 1}, {8, 1}, {9, 2}, {2112, 264}, {2113, 235}, {16384, 261}, {1000000, 264}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pst_graph *g = open_norm(cases[i].rows, 0);
        pst_node *norm = g->node + norm_of(g);
        uint64_t hash = pst_graph_hash(g);
        pst_graph_leave_sums(g);
        assert_int_equal(norm->attr.sum_parts, cases[i].parts);
        assert_int_equal(norm->n_saved, 2);
        assert_int_equal(norm->saved[1].elements, cases[i].parts * 2 * WIDTH);
        uint64_t each = (cases[i].rows + cases[i].parts - 1) / cases[i].parts;
        assert_true(each * (cases[i].parts - 1) < cases[i].rows); /* none of them is empty */
        assert_int_equal(pst_graph_hash(g), hash);
        assert_int_equal(pst_graph_check(g), PST_OK);
        pst_graph_close(g);
    }
}

/* W reads what B has left, and fewer bytes are moved than by rows. */
static void operands(void **state) {
    (void)state;
    uint64_t bytes[2];
    for (int sums = 0; sums < 2; sums++) {
        pst_graph *g = open_norm(4096, 0);
        pst_tape *tape;
        uint32_t norm = norm_of(g);
        if (sums) pst_graph_leave_sums(g);
        MUST(pst_tape_build(g, 1, &tape));
        MUST(pst_tape_check_gradients(tape, g));
        const pst_tape_step *b = step_of(tape, norm, PST_PASS_B),
                            *w = step_of(tape, norm, PST_PASS_W);
        assert_true(b && w);
        assert_int_equal(w->n_operand, sums ? 3 : 5);
        const pst_value *first = tape->value + w->operand[0].index;
        assert_int_equal(first->kind, sums ? PST_VALUE_SAVED : PST_VALUE_TENSOR);
        if (sums) assert_ptr_equal(tape->step + first->def_step, b);
        bytes[sums] = b->bytes + w->bytes;
        pst_tape_close(tape);
        pst_graph_close(g);
    }
    assert_true(bytes[1] < bytes[0]);
}

/* Nobody wants a gradient of the input: there is no B that could leave anything. */
static void no_backward(void **state) {
    (void)state;
    pst_graph *g = open_norm(20, 1);
    pst_tape *tape;
    uint32_t norm = norm_of(g);
    pst_graph_leave_sums(g);
    assert_int_equal(g->node[norm].attr.sum_parts, 0);
    MUST(pst_tape_build(g, 1, &tape));
    assert_null(step_of(tape, norm, PST_PASS_B));
    assert_int_equal(step_of(tape, norm, PST_PASS_W)->n_operand, 5);
    pst_tape_close(tape);
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(operands),
                                       cmocka_unit_test(no_backward)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
