/* Cost tables of long models are made from short ones, whose layers are the same: to the byte and
 * ns as from all layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "planning/planning.h"
#include <stdio.h>

static void same(const char *what, const uint64_t *a, const uint64_t *b, uint32_t n) {
    if (!a != !b) fail_msg("%s: only one table has it", what);
    for (uint32_t i = 0; a && i < n; i++)
        if (a[i] != b[i])
            fail_msg("%s of operator %u: %llu, of all layers %llu", what, i,
                     (unsigned long long)a[i], (unsigned long long)b[i]);
}

static void same_tables(const pst_cost_table *a, const pst_cost_table *b) {
    assert_int_equal(a->n, b->n);
    same("F", a->f_ns, b->f_ns, a->n);
    same("B", a->b_ns, b->b_ns, a->n);
    same("W", a->w_ns, b->w_ns, a->n);
    same("exchanges", a->exchange_ns, b->exchange_ns, a->n);
    same("scratch", a->scratch, b->scratch, a->n);
    same("scratch of B and W apart", a->scratch_split, b->scratch_split, a->n);
    same("cross", a->cross, b->cross, a->n);
    same("elements", a->elements, b->elements, a->n);
    same("accumulated", a->accumulated, b->accumulated, a->n);
    same("kept", a->kept, b->kept, a->n);
    for (int mode = 0; mode < PST_RECOMPUTE_COUNT; mode++) {
        same("again", a->again_ns[mode], b->again_ns[mode], a->n);
        same("stash", a->stash[mode], b->stash[mode], a->n);
        same("late", a->stash_to_w[mode], b->stash_to_w[mode], a->n);
        same("apart", a->b_to_w[mode], b->b_to_w[mode], a->n);
        same("apart, made again", a->recomputed_to_w[mode], b->recomputed_to_w[mode], a->n);
        same("enter", a->enter[mode], b->enter[mode], a->n);
        same("held", a->recomputed[mode], b->recomputed[mode], a->n);
    }
    assert_true(a->norm_ns == b->norm_ns && a->step_ns == b->step_ns &&
                a->reduce_ns == b->reduce_ns);
}

static void check(const char *kind, uint32_t layers, const char *more) {
    static const struct {
        uint32_t tensor, sequence, micro_batch;
    } of[] = {{1, 0, 1}, {1, 0, 2}, {2, 0, 1}, {2, 1, 1}, {2, 0, 4}, {4, 0, 2}, {4, 1, 1}};
    char text[600];
    pst_config *c;
    snprintf(text, sizeof text,
             "model: {kind: %s, layers: %u, channels: 32, context: 16, vocabulary: 256%s}\n"
             "data: {kind: text, paths: [x]}\ntrain: {batch: 8, precision: bf16}\n"
             "parallel: {pipeline: 1, data: 1, tensor: 1, cluster: \"1x4 h100\"}\n",
             kind, layers, more);
    if (pst_config_parse(text, "test", NULL, 0, &c) != PST_OK)
        fail_msg("%s\n%s", pst_error(), text);
    const pst_plan_run_options options = {.cluster = "", .profile = "", .plan = "", .report = ""};
    pst_planning x = {.config = c, .options = &options, .open = ""};
    if (pst_planning_search(&x) != PST_OK) fail_msg("%s", pst_error());
    assert_true(x.layers < layers);
    const uint32_t few = x.layers;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const pst_cost_table *table[2];
        for (int all = 0; all < 2; all++) {
            x.layers = all ? layers : few;
            const pst_search_key key = {.tensor = of[i].tensor,
                                        .sequence = of[i].sequence,
                                        .micro_batch = of[i].micro_batch};
            if (pst_planning_table(&x, &key, &table[all]) != PST_OK) fail_msg("%s", pst_error());
        }
        same_tables(table[0], table[1]);
    }
    pst_planning_close(&x);
    pst_config_close(c);
}

static void of_gpt(void **unused) {
    (void)unused;
    check("gpt", 12, ", heads: 4");
    check("gpt", 13, ", heads: 4");
    check("gpt", 24, ", heads: 4, dropout: 0.1");
}

static void of_mlp(void **unused) {
    (void)unused;
    check("mlp", 12, "");
    check("mlp", 15, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_gpt), cmocka_unit_test(of_mlp)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
