/* The text form: printing and parsing give the same graph again, and every error names its line. */
#include "graph/random_graph.h"
#include "models/model.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static char *print(const pst_graph *g) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    MUST(pst_graph_print(g, out));
    fclose(out);
    return text;
}

static void round_trip(pst_graph *g) {
    pst_graph *again;
    char *text = print(g);
    MUST(pst_graph_parse(text, "text", &again));
    MUST(pst_graph_check(again));
    char *text2 = print(again);
    assert_string_equal(text, text2);
    assert_true(pst_graph_hash(g) == pst_graph_hash(again));
    free(text);
    free(text2);
    pst_graph_close(again);
    pst_graph_close(g);
}

static void random_graphs(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(21);
    for (uint32_t round = 0; round < 300; round++) round_trip(random_graph(seed + round));
}

static void models(void **unused) {
    (void)unused;
    for (int infer = 0; infer < 2; infer++) {
        pst_model_config c = {
            .kind = "gpt", .preset = "nano", .micro_batch = 4, .dropout = 0.1f, .infer = infer};
        pst_graph *g;
        MUST(pst_model_gpt.preset(&c));
        MUST(pst_model_gpt.build(&c, &g));
        round_trip(g);
    }
    pst_model_config c = {.kind = "bert", .preset = "tiny", .micro_batch = 4, .dropout = 0.1f};
    pst_graph *g;
    MUST(pst_model_bert.preset(&c));
    MUST(pst_model_bert.build(&c, &g));
    round_trip(g);
}

/* A text with one wrong line, the line's number, and words of the message. */
static void errors(void **unused) {
    (void)unused;
#define HEAD                                                                                       \
    "penstock-graph 1\ngraph g micro_batch 2\nparam w [3,4] normal 0.02 decay\ndata t [2,3]\n"
    static const struct {
        const char *text, *where, *words;
    } bad[] = {
        {"", "f:1:", "ends without"},
        {"penstock-graph 2\n", "f:1:", "first line"},
        {"penstock-graph 1\n\n# so far\ngraph g\n", "f:4:", "micro_batch N"},
        {"penstock-graph 1\ngraph g micro_batch 0\n", "f:2:", "\"0\""},
        {"penstock-graph 1\ngraph g micro_batch 1 dtype\n", "f:2:", "dtype F32|TF32|BF16|F16|F8"},
        {"penstock-graph 1\ngraph g micro_batch 1 dtype I32\n", "f:2:", "\"I32\""},
        {"penstock-graph 1\ngraph g micro_batch 99999999999999999999999\n", "f:2:", "not a number"},
        {HEAD "data t [2,3]\n", "f:5:", "named t"},
        {HEAD "data u [3,3]\n", "f:5:", "micro-batch"},
        {HEAD "data u 2,3\n", "f:5:", "not a shape"},
        {HEAD "data u [2,,3]\n", "f:5:", "\"\""},
        {HEAD "data u [2,1,1,1,1]\n", "f:5:", "4 dimensions"},
        {HEAD "data u [2,-3]\n", "f:5:", "-3"},
        {HEAD "param w [3] zero\n", "f:5:", "named w"},
        {HEAD "param v [3] ones\n", "f:5:", "ones"},
        {HEAD "param v [3] normal nan\n", "f:5:", "nan"},
        {HEAD "param v [3] normal 1 decay more\n", "f:5:", "more"},
        {HEAD "param v [2147483647,2147483647] zero\n", "f:5:", "2^40"},
        {HEAD "node n embedding in t param v\n", "f:5:", "\"v\""},
        {HEAD "node n embedding in s param w\n", "f:5:", "\"s\""},
        {HEAD "node n convolution in t\n", "f:5:", "convolution"},
        {HEAD "node n embedding in t,t,t,t,t,t,t,t,t param w\n", "f:5:", "operands"},
        {HEAD "node n embedding in t param w size=3\n", "f:5:", "size"},
        {HEAD "node n embedding in t param w heads\n", "f:5:", "heads"},
        {HEAD "node n embedding in t param w bidirectional=yes\n", "f:5:", "yes"},
        {HEAD "node n embedding in t param w activation=step\n", "f:5:", "step"},
        {HEAD "node n embedding in t param w\nnode n embedding in t param w\n",
         "f:6:", "n: another"},
        {HEAD "node n embedding in t param w\nnode m linear in n.out param w features=4\n",
         "f:6:", "features is 4"},
        {HEAD "output t\n", "f:5:", "data"},
        {HEAD "output\n", "f:5:", "output TENSOR"},
        {HEAD "edge a b\n", "f:5:", "edge"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pst_graph *g = NULL;
        assert_int_equal(pst_graph_parse(bad[i].text, "f", &g), PST_EINPUT);
        assert_null(g);
        if (strncmp(pst_error(), bad[i].where, strlen(bad[i].where)) != 0 ||
            !strstr(pst_error(), bad[i].words))
            fail_msg("case %zu: \"%s\" lacks %s or \"%s\"", i, pst_error(), bad[i].where,
                     bad[i].words);
    }
}

/* Single changed, missing and doubled characters never do harm: an error, or a graph that passes
 * its check. */
static void damaged_texts(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(31), state = seed;
    for (uint32_t round = 0; round < 2000; round++) {
        pst_graph *g = random_graph(seed + round % 20), *again = NULL;
        char *text = print(g);
        size_t n = strlen(text), at = next_random(&state) % n;
        if (next_random(&state) % 2) text[at] = (char)(next_random(&state) % 127 + 1);
        else memmove(text + at, text + at + 1, n - at);
        if (pst_graph_parse(text, "damaged", &again) == PST_OK) MUST(pst_graph_check(again));
        else assert_int_equal(strncmp(pst_error(), "damaged:", 8), 0);
        free(text);
        pst_graph_close(again);
        pst_graph_close(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(models),
        cmocka_unit_test(errors),
        cmocka_unit_test(damaged_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
