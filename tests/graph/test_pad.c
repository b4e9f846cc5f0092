/* Which rows get gaps (pst_graph_pad): logits that only losses read, where their width does not
 * divide by 16 bytes; shapes, parameters and the graph's hash stay. Room for weights of 8 bits. */
#include "graph/random_graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    pst_dtype dtype;
    uint64_t outputs;
    pst_activation act;
    int bias, other; /* other: somebody else reads it, too */
} form;

static uint32_t param(pst_graph *g, const char *name, uint32_t n_dim, uint64_t d0, uint64_t d1) {
    pst_param p = {.n_dim = n_dim, .dim = {d0, d1}, .init = PST_INIT_ONE};
    uint32_t index;
    strcpy(p.name, name);
    MUST(pst_graph_param(g, &p, &index));
    return index;
}

/* Tokens, their embedding tied to the logits', a loss. Returns the logits. */
static uint32_t open_form(const form *f, pst_graph **graph) {
    pst_graph *g;
    uint32_t tokens, targets, x, y, losses;
    MUST(pst_graph_open("pad", 2, &g));
    pst_graph_compute(g, f->dtype);
    uint64_t t = f->dtype == PST_F8 ? 8 : 3, c = f->dtype == PST_F8 ? 16 : 12;
    MUST(pst_graph_data(g, "tokens", 2, (uint64_t[]){2, t}, &tokens));
    MUST(pst_graph_data(g, "targets", 2, (uint64_t[]){2, t}, &targets));
    uint32_t both[] = {param(g, "table", 2, f->outputs, c), param(g, "bias", 1, f->outputs, 0)};
    pst_attr attr = {.activation = f->act};
    MUST(pst_graph_add(g, &(pst_new_node){"embedding", "x", NULL, &tokens, 1, both, 1}, &x));
    MUST(pst_graph_add(g, &(pst_new_node){"linear", "y", &attr, &x, 1, both, f->bias ? 2u : 1u},
                       &y));
    uint32_t in[] = {y, targets}, twice[] = {y, y};
    MUST(pst_graph_add(g, &(pst_new_node){"cross_entropy", "loss", NULL, in, 2, NULL, 0}, &losses));
    if (f->other)
        MUST(pst_graph_add(g, &(pst_new_node){"add", "other", NULL, twice, 2, NULL, 0}, &x));
    *graph = g;
    return y;
}

static void check(form f, uint64_t pitch) {
    pst_graph *g;
    uint32_t y = open_form(&f, &g);
    uint64_t before = pst_graph_hash(g), size = pst_dtype_bytes(f.dtype);
    pst_graph_pad(g);
    assert_true(pst_graph_hash(g) == before);
    MUST(pst_graph_check(g));
    assert_int_equal(g->tensor[y].pitch, pitch);
    assert_int_equal(pst_tensor_elements(g->tensor + y), 6 * f.outputs);
    assert_int_equal(pst_tensor_bytes(g->tensor + y), 6 * size * (pitch ? pitch : f.outputs));
    uint64_t more = pitch ? pitch - f.outputs : 0;
    assert_int_equal(pst_param_bytes(g, g->param), f.outputs * 12 * size);
    assert_int_equal(pst_param_pad_bytes(g, g->param), more * 12 * size);
    assert_int_equal(pst_param_pad_bytes(g, g->param + 1), f.bias ? more * size : 0);
    for (uint32_t t = 0; t < g->n_tensor; t++)
        if (t != y) assert_int_equal(g->tensor[t].pitch, 0);
    pst_graph_close(g);
}

static void logits(void **state) {
    (void)state;
    check((form){PST_BF16, 50257, PST_ACT_NONE, 0, 0}, 50304);
    check((form){PST_BF16, 50257, PST_ACT_NONE, 1, 0}, 50304);
    check((form){PST_F16, 3, PST_ACT_NONE, 0, 0}, 64);
    check((form){PST_F32, 257, PST_ACT_NONE, 0, 0}, 320);
}

static void no_others(void **state) {
    (void)state;
    check((form){PST_F32, 260, PST_ACT_NONE, 0, 0}, 0); /* 4 fp32 are 16 bytes */
    check((form){PST_BF16, 264, PST_ACT_NONE, 1, 0}, 0);
    check((form){PST_BF16, 257, PST_ACT_RELU, 1, 0}, 0); /* what it saves has none */
    check((form){PST_BF16, 257, PST_ACT_NONE, 0, 1}, 0);
}

/* Room for two weights of 8 bits, where one product alone reads it. */
static void weights_of_8_bits(void **state) {
    (void)state;
    pst_graph *g;
    form f = {PST_F8, 32, PST_ACT_NONE, 1, 0};
    for (int twice = 0; twice < 2; twice++) {
        open_form(&f, &g);
        uint32_t out, tied[] = {0};
        uint32_t x = g->node[1].in[0];
        pst_attr attr = {.activation = PST_ACT_NONE};
        pst_new_node again = {"linear", "again", &attr, &x, 1, tied, 1};
        if (twice) MUST(pst_graph_add(g, &again, &out));
        pst_graph_pad(g);
        assert_int_equal(pst_param_pad_bytes(g, g->param), twice ? 0 : 32 * 16 * 2);
        assert_int_equal(g->param[1].pad, 0);
        pst_graph_close(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits), cmocka_unit_test(no_others),
                                       cmocka_unit_test(weights_of_8_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
