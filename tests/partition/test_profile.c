/* Profile files: what is printed is read back to the byte; profiles of one machine are joined; what
 * they do not have, what is of another machine and what is no profile is said with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "partition/cost/profile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                                       \
    "machine: {cpu: \"A CPU\", isa: avx2, cpus: 4, threads: 1, ranks: 4}\nprecision: "             \
    "fp32\noptimizer: adamw\n"
#define GOOD                                                                                       \
    HEAD "operators:\n  - {op: \"linear F 4x8\", ns: 100, busy_ns: 160}\n  - {op: \"linear W "     \
         "4x8\", busy_ns: 50}\n"                                                                   \
         "messages:\n  - {bytes: 100, ns: 1000}\n  - {bytes: 300, ns: 2000}\n  - {parts: 2, "      \
         "bytes: 64, ns: 9}\n"                                                                     \
         "work:\n  - {work: norm, elements: 10, ns: 5}\n  - {work: launch, ns: 7}\n"

static pst_profile *parse(const char *text) {
    pst_profile *p = NULL;
    pst_status status = pst_profile_parse(text, strlen(text), "p.yaml", &p);
    if (status != PST_OK) fail_msg("%s", pst_error());
    return p;
}

static char *print(const pst_profile *p) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_int_equal(pst_profile_print(p, f), PST_OK);
    fclose(f);
    return text;
}

static void printed_is_read_back(void **unused) {
    (void)unused;
    pst_profile *p = parse(GOOD);
    char *text = print(p);
    pst_profile *again = parse(text);
    char *twice = print(again);
    assert_string_equal(text, twice);
    assert_non_null(strstr(text, "{op: \"linear F 4x8\", ns: 100, busy_ns: 160}"));
    free(text);
    free(twice);
    pst_profile_close(p);
    pst_profile_close(again);
}

static void sizes_lie_on_lines(void **unused) {
    (void)unused;
    pst_profile *p = parse(GOOD);
    assert_int_equal(pst_profile_ns(p, PST_PROFILE_MESSAGE, 8, 1), 1000);
    assert_int_equal(pst_profile_ns(p, PST_PROFILE_MESSAGE, 200, 1), 1500);
    assert_int_equal(pst_profile_ns(p, PST_PROFILE_MESSAGE, 300, 1), 2000);
    assert_int_equal(pst_profile_ns(p, PST_PROFILE_MESSAGE, 600, 1), 4000);
    assert_int_equal(pst_profile_exchange_ns(p, 2, 128), 18);
    assert_int_equal(pst_profile_exchange_ns(p, 4, 128), 0);
    assert_int_equal(pst_profile_ns(p, PST_PROFILE_NORM, 1000, 4), 500);
    assert_int_equal(pst_profile_ns(p, PST_PROFILE_NORM, 2, 4), 1);
    assert_int_equal(pst_profile_ns(p, PST_PROFILE_STEP, 1000, 4), 0);
    assert_int_equal(pst_profile_ns(NULL, PST_PROFILE_NORM, 1000, 4), 0);
    pst_profile_close(p);
}

/* A graph of one operator, "linear F 4x8 w 3x8", and its passes. */
static void busy_is_between(void **unused) {
    (void)unused;
    pst_graph *g;
    uint32_t x, w, y, targets, loss;
    char text[PST_PROFILE_TEXT];
    const uint64_t in[] = {1, 4, 8}, row[] = {1, 4};
    const pst_param weight = {.name = "w", .n_dim = 2, .dim = {3, 8}};
    assert_int_equal(pst_graph_open("g", 1, &g), PST_OK);
    assert_int_equal(pst_graph_data(g, "tokens", 3, in, &x), PST_OK);
    assert_int_equal(pst_graph_data(g, "targets", 2, row, &targets), PST_OK);
    assert_int_equal(pst_graph_param(g, &weight, &w), PST_OK);
    g->tensor[x].dtype = PST_F32;
    pst_attr attr = {.features = 3, .activation = PST_ACT_RELU};
    assert_int_equal(pst_graph_add(g, &(pst_new_node){"linear", "l", &attr, &x, 1, &w, 1}, &y),
                     PST_OK);
    const uint32_t ends[] = {y, targets};
    assert_int_equal(
        pst_graph_add(g, &(pst_new_node){"cross_entropy", "c", &(pst_attr){0}, ends, 2, NULL, 0},
                      &loss),
        PST_OK);
    assert_string_equal(pst_profile_shape(g, g->node, 0, PST_PASS_F, text),
                        "linear F 1x4x8 w 3x8 relu");

    pst_profile *p = parse(
        HEAD "operators: [{op: \"linear F 1x4x8 w 3x8 relu\", ns: 100, busy_ns: 160},"
             " {op: \"linear W 1x4x8 w 3x8 relu\", busy_ns: 50}]\nwork: [{work: launch, ns: 7}]\n");
    assert_int_equal(pst_profile_pass_ns(p, g, g->node, 0, PST_PASS_F, 0), 107);
    assert_int_equal(pst_profile_pass_ns(p, g, g->node, 0, PST_PASS_F, 1), 107);
    assert_int_equal(pst_profile_pass_ns(p, g, g->node, 0, PST_PASS_F, 2), 127);
    assert_int_equal(pst_profile_pass_ns(p, g, g->node, 0, PST_PASS_F, 9), 167);
    assert_int_equal(pst_profile_pass_ns(p, g, g->node, 0, PST_PASS_W, 1), 57);
    assert_int_equal(pst_profile_pass_ns(p, g, g->node, 0, PST_PASS_B, 1), 0);
    g->micro_batch = 2;
    g->tensor[x].dim[0] = 2; /* twice as much */
    assert_int_equal(pst_profile_pass_ns(p, g, g->node, 0, PST_PASS_F, 1), 207);
    g->micro_batch = 1;
    g->tensor[x].dim[0] = 1;
    uint32_t missing, steps;
    char list[600];
    assert_int_equal(pst_profile_missing(p, g, &missing, &steps, list, sizeof list), PST_OK);
    assert_int_equal(steps, 5);
    assert_int_equal(missing, 3); /* the loss, F and B, and B of relu, whose slope W reads */
    assert_non_null(strstr(list, "cross_entropy F 1x4x3 1x4"));
    pst_profile_close(p);
    pst_graph_close(g);
}

static void merged_is_of_one_machine(void **unused) {
    (void)unused;
    pst_profile *p = parse(GOOD),
                *other =
                    parse(HEAD "operators: [{op: \"linear F 4x8\", ns: 90}, {op: add, ns: 3}]\n");
    assert_int_equal(pst_profile_merge(p, other), PST_OK);
    char *text = print(p);
    assert_non_null(strstr(text, "{op: \"linear F 4x8\", ns: 90, busy_ns: 160}"));
    assert_non_null(strstr(text, "{op: \"add\", ns: 3}"));
    free(text);
    pst_profile_close(other);
    other = parse(
        "machine: {cpu: \"A CPU\", isa: avx2, cpus: 4, threads: 2, ranks: 2}\nprecision: fp32\n"
        "optimizer: adamw\noperators: []\n");
    assert_int_equal(pst_profile_merge(p, other), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "threads"));
    pst_profile_close(p);
    pst_profile_close(other);
}

static void damage_is_said(void **unused) {
    (void)unused;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "empty"},
        {"machine: 3\n", "p.yaml:1:"},
        {HEAD, "missing key: operators"},
        {HEAD "operators: [{op: a, ns: -1}]\n", "expected a number from 0.001"},
        {HEAD "operators: [{op: a, ns: .nan}]\n", "expected a number"},
        {HEAD "operators: [{op: a}]\n", "missing key: ns"},
        {HEAD "operators: [{op: a, ns: 1}, {op: a, ns: 2}]\n", "given twice"},
        {HEAD "operators: [{op: a, us: 1}]\n", "is not a key of a profile"},
        {HEAD "operators: [{op: a, ns: 1", "p.yaml:"},
        {HEAD "operators: []\nwork: [{work: norm, ns: 1}]\n", "missing key: elements"},
        {HEAD "operators: []\nwork: [{work: lunch, ns: 1}]\n", "norm, step, reduce"},
        {HEAD "operators: []\nwork: [{work: launch, elements: 3, ns: 1}]\n",
         "not allowed for launch"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pst_profile *p = NULL;
        assert_int_equal(pst_profile_parse(bad[i].text, strlen(bad[i].text), "p.yaml", &p),
                         PST_EINPUT);
        assert_null(p);
        if (!strstr(pst_error(), bad[i].says))
            fail_msg("'%s' does not say '%s'", pst_error(), bad[i].says);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printed_is_read_back), cmocka_unit_test(sizes_lie_on_lines),
        cmocka_unit_test(busy_is_between), cmocka_unit_test(merged_is_of_one_machine),
        cmocka_unit_test(damage_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
