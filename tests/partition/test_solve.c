/* Plans from graphs: contiguous, balanced by the cost model, with the head's weight noticed; what
 * is refused. */
#include "graph/tape.h"
#include "models/model.h"
#include "partition/balance/balance.h"
#include "pipeline/layout/plan.h"
#include "pipeline/compile/cut.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const pst_costs nominal = {0};

static uint64_t step_ns(const pst_graph *g, const pst_tape_step *step) {
    return pst_costs_pass_ns(&nominal, g, g->node + step->node,
                             &(pst_costs_work){0, step->pass, step->flops, step->bytes});
}

static pst_graph *gpt(const char *preset, int infer) {
    pst_model_config c = {
        .kind = "gpt", .micro_batch = 2, .activation = PST_ACT_GELU_TANH, .infer = infer};
    pst_graph *g;
    strcpy(c.preset, preset);
    assert_int_equal(pst_model_gpt.preset(&c), PST_OK);
    assert_int_equal(pst_model_gpt.build(&c, &g), PST_OK);
    return g;
}

static const pst_balance_times modelled = {.costs = &nominal};

/* As the plan of a run with this cut. */
static pst_status solve_for(const pst_graph *g, const pst_balance_times *times,
                            const pst_schedule *s, const pst_recompute_way *recompute,
                            pst_plan **plan) {
    pst_layout l = {.pipeline = s->n_rank,
                    .data = 1,
                    .tensor = 1,
                    .micro_batch = g->micro_batch,
                    .n_micro = s->n_micro};
    strcpy(l.schedule, s->name);
    pst_status status = pst_balance_solve(g, times, s, recompute, &l);
    if (status == PST_OK) status = pst_plan_open(&l, pst_graph_hash(g), plan);
    pst_layout_close(&l);
    return status;
}

static pst_status try_solve(const pst_graph *g, const char *schedule, uint32_t n_rank,
                            pst_plan **plan) {
    pst_schedule *s;
    if (pst_schedule_generate(schedule, n_rank, 0, 8, &s) != PST_OK) fail_msg("%s", pst_error());
    pst_status status = solve_for(g, &modelled, s, NULL, plan);
    pst_schedule_close(s);
    return status;
}

static pst_plan *solve(const pst_graph *g, uint32_t n_rank) {
    pst_plan *plan;
    if (try_solve(g, "1f1b", n_rank, &plan) != PST_OK) fail_msg("%s", pst_error());
    return plan;
}

static uint32_t chunk_of(const pst_plan *plan, uint32_t node) {
    uint32_t c = 0;
    while (plan->layout.first_item[c + 1] <= node) c++;
    return c;
}

static void plans_are_sound(void **unused) {
    (void)unused;
    for (int infer = 0; infer < 2; infer++) {
        pst_graph *g = gpt("nano", infer);
        for (uint32_t n = 1; n <= g->n_node; n++) {
            pst_plan *plan = solve(g, n);
            if (pst_plan_check(plan, g) != PST_OK) fail_msg("%u ranks: %s", n, pst_error());
            pst_plan_close(plan);
        }
        pst_graph_close(g);
    }
}

/* The dearest chunk of gpt2 on 4 ranks is close to a quarter, although the head costs as much as
 * five blocks. */
static void balanced(void **unused) {
    (void)unused;
    pst_graph *g = gpt("gpt2", 0);
    pst_plan *plan = solve(g, 4);
    pst_tape *t;
    uint64_t ns[4] = {0}, all = 0, most = 0;
    assert_int_equal(pst_tape_build(g, 1, &t), PST_OK);
    for (uint32_t s = 0; s < t->n_step; s++)
        ns[chunk_of(plan, t->step[s].node)] += step_ns(g, t->step + s);
    for (int c = 0; c < 4; c++) {
        all += ns[c];
        most = ns[c] > most ? ns[c] : most;
    }
    assert_true(most < all / 4 * 115 / 100);
    /* logits never cross: the head and its loss stay together */
    assert_int_equal(chunk_of(plan, g->n_node - 1), chunk_of(plan, g->n_node - 2));
    pst_tape_close(t);
    pst_plan_close(plan);
    pst_graph_close(g);
}

/* Two chunks per rank, there and back. */
static void chunks_lie_as_the_schedule_wants(void **unused) {
    (void)unused;
    pst_graph *g = gpt("nano", 0);
    pst_plan *plan = NULL;
    static const uint32_t wanted[] = {0, 1, 2, 2, 1, 0};
    assert_int_equal(try_solve(g, "zb-v", 3, &plan), PST_OK);
    assert_int_equal(pst_plan_check(plan, g), PST_OK);
    assert_int_equal(plan->layout.n_chunk, 6);
    assert_memory_equal(plan->layout.rank_of_chunk, wanted, sizeof wanted);
    pst_plan_close(plan);
    pst_graph_close(g);
}

/* Of the dearest chunk, with what it computes again. */
static uint64_t dearest(const pst_graph *g, const pst_plan *plan,
                        const pst_recompute_way *recompute) {
    const pst_chooser chooser = {.recompute = recompute};
    uint64_t ns[8] = {0}, most = 0;
    pst_cut *cut;
    uint32_t *chunk = malloc(g->n_node * sizeof *chunk), n_chunk = plan->layout.n_chunk;
    assert_non_null(chunk);
    pst_layout_chunks(&plan->layout, chunk);
    assert_int_equal(pst_cut_build(&(pst_cut_spec){g, chunk, n_chunk, 1, 1, NULL}, &chooser, &cut),
                     PST_OK);
    free(chunk);
    for (uint32_t s = 0; s < cut->tape->n_step; s++) {
        const pst_tape_step *step = cut->tape->step + s;
        ns[chunk_of(plan, step->node)] += step_ns(g, step);
    }
    for (uint32_t c = 0; c < n_chunk; c++) most = ns[c] > most ? ns[c] : most;
    pst_cut_close(cut);
    return most;
}

/* Stages that compute F again get fewer operators; with the same for all, or nothing to do again,
 * the cut stays. */
static void recomputation_weighs(void **unused) {
    (void)unused;
    static const pst_recompute_way ways[][4] = {
        {PST_RECOMPUTE_FULL, PST_RECOMPUTE_FULL, PST_RECOMPUTE_NONE, PST_RECOMPUTE_NONE},
        {PST_RECOMPUTE_NONE, PST_RECOMPUTE_SELECTIVE, PST_RECOMPUTE_NONE, PST_RECOMPUTE_FULL},
        {PST_RECOMPUTE_LAYERS | 3 << 8, PST_RECOMPUTE_LAYERS | 2 << 8, PST_RECOMPUTE_NONE,
         PST_RECOMPUTE_NONE},
        {0}};
    pst_graph *g = gpt("gpt2", 0);
    pst_plan *without = solve(g, 4), *with;
    pst_schedule *s;
    assert_int_equal(pst_schedule_generate("1f1b", 4, 0, 8, &s), PST_OK);
    for (size_t i = 0; i < 4; i++) {
        if (solve_for(g, &modelled, s, ways[i], &with) != PST_OK) fail_msg("%s", pst_error());
        assert_int_equal(pst_plan_check(with, g), PST_OK);
        assert_memory_equal(with->layout.recompute, ways[i], sizeof ways[i]);
        if (i == 3)
            assert_memory_equal(with->layout.first_item, without->layout.first_item,
                                5 * sizeof *with->layout.first_item);
        else /* which layers a chunk recomputes is known after the cut only */
            assert_true(dearest(g, with, ways[i]) * 100 <
                        dearest(g, without, ways[i]) * (i == 2 ? 100 : 97));
        pst_plan_close(with);
    }
    pst_schedule_close(s);
    pst_plan_close(without);
    pst_graph_close(g);
}

/* Only the operators of the last two blocks take time. */
static uint64_t late_ns(void *arg, const pst_node *node, int extra, pst_pass pass, uint64_t flops,
                        uint64_t bytes) {
    (void)extra;
    (void)pass;
    (void)flops;
    (void)bytes;
    *(uint32_t *)arg += 1;
    return !strncmp(node->name, "h.10.", 5) || !strncmp(node->name, "h.11.", 5) ? 1000000000 : 1000;
}

/* What is known of durations moves the cut to where they are. */
static void predicted_durations_count(void **unused) {
    (void)unused;
    uint32_t asked = 0;
    const pst_chooser predict = {.arg = &asked, .ns = late_ns};
    const pst_balance_times times = {.costs = &nominal, .predict = &predict};
    pst_graph *g = gpt("gpt2", 0);
    pst_schedule *s;
    pst_plan *plan;
    assert_int_equal(pst_schedule_generate("1f1b", 2, 0, 8, &s), PST_OK);
    assert_int_equal(solve_for(g, &times, s, NULL, &plan), PST_OK);
    uint32_t cut = 0;
    while (chunk_of(plan, cut) == 0) cut++;
    if (strncmp(g->node[cut - 1].name, "h.10.", 5))
        fail_msg("the cut is behind %s", g->node[cut - 1].name);
    assert_true(asked > g->n_node);
    pst_plan_close(plan);
    pst_schedule_close(s);
    pst_graph_close(g);
}

static void refused(void **unused) {
    (void)unused;
    pst_graph *g = gpt("nano", 0);
    pst_plan *plan = NULL;
    assert_int_equal(try_solve(g, "1f1b", 41, &plan), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "41 ranks are more than the 40 operators"));
    assert_int_equal(try_solve(g, "zb-v", 21, &plan), PST_EINPUT);
    assert_non_null(
        strstr(pst_error(),
               "42 chunks on 21 ranks, but the model has 40 operators; use at most 20 ranks"));
    pst_schedule *s;
    assert_int_equal(pst_schedule_generate("interleaved", 2, 64, 8, &s), PST_OK);
    assert_int_equal(solve_for(g, &modelled, s, NULL, &plan), PST_EINPUT);
    assert_non_null(strstr(
        pst_error(),
        "128 chunks on 2 ranks, but the model has 40 operators; use at most 20 chunks per rank"));
    pst_schedule_close(s);
    assert_null(plan);
    pst_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_sound),
        cmocka_unit_test(balanced),
        cmocka_unit_test(chunks_lie_as_the_schedule_wants),
        cmocka_unit_test(recomputation_weighs),
        cmocka_unit_test(predicted_durations_count),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
