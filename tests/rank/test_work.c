/* Kinds of work: every operator has its own, shares are ordered and add up. */
#include "rank/work.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void every_operator_has_a_kind_of_its_own(void **state) {
    (void)state;
    uint32_t n;
    const pst_op_row *const *rows = pst_op_rows(&n);
    assert_int_equal(n + 5, pst_work_count()); /* else raise PST_WORK_MAX */
    for (uint32_t i = 0; i < n; i++) {
        pst_node node = {.op = rows[i]};
        const pst_graph graph = {.node = &node, .n_node = 1};
        const pst_step step = {.node = 0}, sum = {.node = 0, .extra = PST_EXTRA_SUM};
        assert_int_equal(pst_work_of_step(&graph, &step), i);
        assert_string_equal(pst_work_name(i), rows[i]->name);
        assert_string_equal(pst_work_name(pst_work_of_step(&graph, &sum)), "sum");
    }
    for (uint32_t i = 0; i < pst_work_count(); i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(pst_work_name(i), pst_work_name(k));
}

static void the_flush_has_kinds(void **state) {
    (void)state;
    for (int op = 0; op < PST_OP_COUNT; op++) {
        const pst_instr instr = {.opcode = (uint8_t)op};
        uint32_t kind = pst_work_of_flush(&instr);
        int computes = op == PST_OP_PACK || op == PST_OP_UNPACK || op == PST_OP_REDUCE ||
                       op == PST_OP_NORM || op == PST_OP_GATHER || op == PST_OP_STEP ||
                       op == PST_OP_VALIDATE || op == PST_OP_OUTER;
        assert_int_equal(kind != PST_NONE, computes);
        if (op == PST_OP_STEP) assert_string_equal(pst_work_name(kind), "optimizer");
    }
}

static void shares_are_ordered_and_add_up(void **state) {
    (void)state;
    pst_work work = {{0}};
    char text[300];
    work.ns[1] = 100;
    work.ns[2] = 700;
    work.ns[pst_work_count() - 1] = 150;
    pst_work_text(&work, 1000, text, sizeof text);
    char want[300];
    snprintf(want, sizeof want, "%s 70.0%%, optimizer 15.0%%, %s 10.0%%, waiting 5.0%%",
             pst_work_name(2), pst_work_name(1));
    assert_string_equal(text, want);
    char small[20]; /* cut, not overrun */
    pst_work_text(&work, 1000, small, sizeof small);
    assert_int_equal(strlen(small), sizeof small - 1);
    pst_work_text(&(pst_work){{0}}, 0, text, sizeof text);
    assert_string_equal(text, "waiting 0.0%");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_a_kind_of_its_own),
        cmocka_unit_test(the_flush_has_kinds),
        cmocka_unit_test(shares_are_ordered_and_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
