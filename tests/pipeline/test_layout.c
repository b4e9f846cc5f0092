/* Layouts: random ones pass their check, end where their last buffer ends, and hold what the rank
 * holds and no more. */
#include "base/arena.h"
#include "models/model.h"
#include "pipeline/case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void random_layouts_pass(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(1);
    for (uint32_t i = 0; i < 300; i++) {
        uint64_t state = seed * 1000 + i;
        pst_graph *g = random_graph(state);
        test_case t = random_case(g, &state);
        for (uint32_t r = 0; r < t.n_rank; r++) {
            MUST(pst_memory_map_check(t.layout[r], t.cut, t.slots));
            MUST(pst_memory_map_check(t.layout[r], t.eval_cut, t.eval_slots));
        }
        close_case(&t);
        pst_graph_close(g);
    }
}

/* Weights and state of all ranks add up to one model plus the tied copy; gradients to one
 * accumulator per use. */
static void ranks_add_up_to_the_model(void **unused) {
    (void)unused;
    pst_model_config config = {
        .kind = "gpt", .preset = "nano", .micro_batch = 1, .activation = PST_ACT_GELU_TANH};
    pst_graph *g;
    MUST(pst_model_gpt.preset(&config));
    MUST(pst_model_gpt.build(&config, &g));
    uint64_t model = 0, uses = 0, tied = 0;
    for (uint32_t p = 0; p < g->n_param; p++) {
        uint64_t bytes = pst_param_elements(g->param + p) * sizeof(float);
        model += bytes;
        uses += bytes * g->param[p].n_use;
        tied += g->param[p].n_use > 1 ? bytes : 0;
    }
    for (uint32_t p = 1; p <= 4; p++) {
        test_case t = {.g = g};
        uint64_t state = p, weights = 0, gradients = 0;
        build_case(&t, p, 1, 4, &state);
        for (uint32_t r = 0; r < p; r++) {
            weights += t.layout[r]->bytes[PST_REGION_WEIGHT];
            gradients += t.layout[r]->bytes[PST_REGION_GRAD];
            assert_true(
                t.layout[r]->bytes[PST_REGION_STATE] % t.layout[r]->bytes[PST_REGION_WEIGHT] == 0);
        }
        /* nano's sizes are multiples of 64 bytes */
        assert_int_equal(weights, model + (p > 1 ? tied : 0));
        assert_int_equal(gradients, uses);
        close_case(&t);
    }
    pst_graph_close(g);
}

/* The check is not blind. */
static void damage_is_found(void **unused) {
    (void)unused;
    uint64_t state = 5;
    pst_model_config config = {
        .kind = "mlp", .preset = "tiny", .micro_batch = 1, .activation = PST_ACT_GELU_TANH};
    pst_graph *g;
    MUST(pst_model_mlp.preset(&config));
    MUST(pst_model_mlp.build(&config, &g));
    test_case t = {.g = g};
    build_case(&t, 2, 0, 3, &state);
    pst_memory_map *x = t.layout[0];
    x->weight[1] -= PST_ARENA_ALIGN;
    assert_int_equal(pst_memory_map_check(x, t.cut, t.slots), PST_EINTERNAL);
    x->weight[1] += PST_ARENA_ALIGN;
    x->total += 1;
    assert_int_equal(pst_memory_map_check(x, t.cut, t.slots), PST_EINTERNAL);
    x->total -= 1;
    uint32_t moved = 0;
    for (uint32_t i = 0; i < t.cut->chunk[0].n_buffer; i++) /* two scratch buffers into one place */
        if (t.cut->chunk[0].buffer[i].place == PST_PLACE_SCRATCH) {
            t.cut->chunk[0].buffer[i].offset = 0;
            moved++;
        }
    if (moved > 1) assert_int_equal(pst_memory_map_check(x, t.cut, t.slots), PST_EINTERNAL);
    close_case(&t);
    pst_graph_close(g);
}

/* Evaluation and the join buffer lie over slots and scratch: the arena is as long as the longest of
 * them. */
static void phases_share_memory(void **unused) {
    (void)unused;
    uint64_t state = 9;
    pst_model_config config = {
        .kind = "gpt", .preset = "nano", .micro_batch = 2, .activation = PST_ACT_GELU_TANH};
    pst_graph *g;
    MUST(pst_model_gpt.preset(&config));
    MUST(pst_model_gpt.build(&config, &g));
    test_case t = {.g = g};
    build_case(&t, 2, 1, 8, &state);
    for (uint32_t r = 0; r < 2; r++) {
        pst_memory_map *alone;
        const pst_memory_map *x = t.layout[r];
        const pst_memory_map_spec train = {.g = g,
                                           .cut = t.cut,
                                           .job = t.job,
                                           .slots = t.slots,
                                           .optim = pst_optim_find("adamw"),
                                           .rank = r};
        MUST(pst_memory_map_build(&train, &alone));
        MUST(pst_memory_map_check(alone, t.cut, t.slots));
        if (x->bytes[PST_REGION_STATE] == alone->bytes[PST_REGION_STATE])
            assert_int_equal(alone->total, x->total);
        pst_memory_map_close(alone);
        const pst_memory_map_spec infer = {
            .g = g, .cut = t.eval_cut, .job = t.eval, .slots = t.eval_slots, .rank = r};
        MUST(pst_memory_map_build(&infer, &alone));
        assert_int_equal(alone->bytes[PST_REGION_GRAD] + alone->bytes[PST_REGION_STATE] +
                             alone->bytes[PST_REGION_CONTROL],
                         0);
        assert_true(alone->total < x->total);
        pst_memory_map_close(alone);
    }
    close_case(&t);
    pst_graph_close(g);
}

/* Of an elastic run: what a step changes has a second side, and is where the first one is without
 * it; a map that says otherwise is refused. */
static void state_has_two_sides(void **unused) {
    (void)unused;
    uint64_t state = 9;
    pst_model_config config = {
        .kind = "gpt", .preset = "nano", .micro_batch = 2, .activation = PST_ACT_GELU_TANH};
    pst_graph *g;
    MUST(pst_model_gpt.preset(&config));
    MUST(pst_model_gpt.build(&config, &g));
    pst_graph_set_frozen(g, (char *[]){"wpe.*"}, 1, 0);
    test_case t = {.g = g};
    build_case(&t, 2, 1, 8, &state);
    for (uint32_t r = 0; r < 2; r++) {
        pst_memory_map *x;
        const pst_memory_map_spec spec = {.g = g,
                                          .cut = t.cut,
                                          .job = t.job,
                                          .slots = t.slots,
                                          .optim = pst_optim_find("adamw"),
                                          .twins = 1,
                                          .rank = r};
        MUST(pst_memory_map_build(&spec, &x));
        MUST(pst_memory_map_check(x, t.cut, t.slots));
        assert_true(x->bytes[PST_REGION_TWIN] >= x->bytes[PST_REGION_STATE]);
        assert_int_equal(pst_memory_map_side(x, x->twin_from, 1), x->twin);
        assert_int_equal(pst_memory_map_side(x, x->twin_to, 1), x->twin_to);
        assert_int_equal(pst_memory_map_side(x, x->twin_from, 0), x->twin_from);
        uint64_t *const value[] = {&x->twin, &x->twin_to, &x->twin_from,
                                   &x->bytes[PST_REGION_TWIN]};
        for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
            const uint64_t before = *value[i];
            *value[i] += PST_MEMORY_PAGE;
            assert_int_equal(pst_memory_map_check(x, t.cut, t.slots), PST_EINTERNAL);
            *value[i] = before;
        }
        pst_memory_map_close(x);
    }
    close_case(&t);
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layouts_pass), cmocka_unit_test(ranks_add_up_to_the_model),
        cmocka_unit_test(damage_is_found),     cmocka_unit_test(phases_share_memory),
        cmocka_unit_test(state_has_two_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
