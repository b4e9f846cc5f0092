/* Stages with tensor and data degrees: against all plans of small graphs, and choices of ways
 * against all choices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/random_graph.h"
#include "partition/foreign/tensor.h"
#include <math.h>
#include <string.h>

enum { NODES = 5 };

static uint32_t below(uint64_t *state, uint32_t n) { return (uint32_t)(next_random(state) % n); }

static void random_way(pst_tensor_problem *p, uint32_t v, uint32_t t, uint32_t w, uint64_t *state) {
    pst_tensor_way *way = pst_tensor_way_of(p, v, t, w);
    if (below(state, 8) == 0) return; /* there is none */
    strcpy(way->name, w ? "again" : "keep");
    way->time = (1 + below(state, 8) + (w ? 2 : 0)) / (double)p->degree[t];
    way->parameters =
        w && below(state, 2) ? pst_tensor_way_of(p, v, t, 0)->parameters : below(state, 100);
    way->memory_a = below(state, w ? 5 : 20);
    way->memory_b = below(state, 20);
    for (uint32_t i = 0; i < p->first[v + 1] - p->first[v]; i++)
        pst_tensor_extra(p, v, t, w)[i] = below(state, 5);
}

static void random_problem(uint64_t *state, pst_tensor_problem *p) {
    const uint32_t micro_batches[] = {1, 2, 4, 6};
    *p = (pst_tensor_problem){
        .n_node = 1 + below(state, NODES), .n_degree = 1 + below(state, 2), .degree = {1, 2}};
    if (p->n_degree == 2 && below(state, 3) == 0) p->degree[1] = 3;
    p->devices = 1 + below(state, 6);
    p->micro_batches = micro_batches[below(state, 4)];
    p->memory = below(state, 4) ? 20 + below(state, 150) : INFINITY;
    p->bandwidth = 1 + below(state, 20);
    p->edge = calloc(NODES * NODES, sizeof *p->edge);
    p->way = calloc(NODES * 2 * PST_TENSOR_WAYS, sizeof *p->way);
    for (uint32_t a = 0; a < p->n_node; a++)
        for (uint32_t b = a + 1; b < p->n_node; b++)
            if (below(state, 2)) p->edge[p->n_edge++] = (pst_tensor_edge){a, b, below(state, 10)};
    MUST(pst_tensor_link(p));
    for (uint32_t v = 0; v < p->n_node; v++)
        for (uint32_t t = 0; t < p->n_degree; t++)
            for (uint32_t w = 0; w < PST_TENSOR_WAYS; w++) random_way(p, v, t, w, state);
}

/* --- all plans: parts of the nodes, then degrees of the stages, then ways --------------------- */

typedef struct {
    const pst_tensor_problem *p;
    pst_tensor_plan plan;
    uint32_t part_of[NODES], degree[NODES], data[NODES];
    uint8_t way[NODES];
    double load[NODES], best;
} all;

static void try_ways(all *a) {
    for (uint32_t ways = 0; ways < 1u << a->p->n_node; ways++) {
        for (uint32_t v = 0; v < a->p->n_node; v++) a->way[v] = ways >> v & 1;
        if (pst_tensor_evaluate(a->p, &a->plan, a->load) == PST_OK)
            a->best = fmin(a->best, a->plan.objective);
    }
}

static void try_degrees(all *a, uint32_t stage, uint32_t left) {
    if (stage == a->plan.n_part) {
        try_ways(a);
        return;
    }
    for (uint32_t t = 0; t < a->p->n_degree; t++)
        for (uint32_t d = 1; d * a->p->degree[t] <= left; d++) {
            if (a->p->micro_batches % d) continue;
            a->degree[stage] = a->p->degree[t];
            a->data[stage] = d;
            try_degrees(a, stage + 1, left - d * a->p->degree[t]);
        }
}

static void try_parts(all *a, uint32_t v) {
    if (v < a->p->n_node) {
        for (uint32_t part = 0; part < a->p->n_node; part++) {
            a->part_of[v] = part;
            try_parts(a, v + 1);
        }
        return;
    }
    uint32_t used = 0, n = 0;
    for (uint32_t i = 0; i < a->p->n_node; i++) used |= 1u << a->part_of[i];
    while (used >> n & 1) n++;
    if (used >> n) return; /* a number is left out */
    a->plan.n_part = n;
    try_degrees(a, 0, a->p->devices);
}

static void against_all_plans(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(7001);
    uint32_t without = 0, cases = 400;
    for (uint32_t i = 0; i < cases; i++) {
        uint64_t state = seed + i;
        pst_tensor_problem p;
        pst_tensor_plan plan = {0};
        random_problem(&state, &p);
        all a = {.p = &p, .best = INFINITY};
        a.plan = (pst_tensor_plan){
            .part_of = a.part_of, .way = a.way, .degree = a.degree, .data = a.data};
        try_parts(&a, 0);
        MUST(pst_tensor_solve(&p, 1000, 60, &plan));
        double found = plan.n_part ? plan.objective : INFINITY;
        if (isinf(found) != isinf(a.best) ||
            (isfinite(found) && fabs(found - a.best) > 2e-9 * a.best))
            fail_msg("seed %llu: %.12g, all plans: %.12g", (unsigned long long)(seed + i), found,
                     a.best);
        if (plan.n_part)
            assert_true(plan.lower_bound >= found * (1 - 2e-9) && plan.lower_bound <= found);
        without += !plan.n_part;
        pst_tensor_plan_close(&plan);
        pst_tensor_problem_close(&p);
    }
    printf("%u problems, %u of them without a plan\n", cases, without);
    assert_true(without > 0 && without < cases / 2);
}

static void choices_against_all(void **unused) {
    (void)unused;
    enum { ITEMS = 8 };
    uint64_t state = test_seed(7002);
    for (uint32_t round = 0; round < 5000; round++) {
        pst_tensor_item item[ITEMS];
        pst_tensor_swap swap[ITEMS];
        uint8_t way[ITEMS];
        uint32_t n = 1 + below(&state, ITEMS), range = 1 + below(&state, 12);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t w = 0; w < 2; w++) {
                item[i].cost[w] = w || below(&state, 9) ? below(&state, range) : INFINITY;

                item[i].bytes[w] = below(&state, range);
            }
        double limit = below(&state, n * range), memory = below(&state, n * range);
        int possible = 0;
        for (uint32_t set = 0; set < 1u << n; set++) {
            double cost = 0, bytes = 0;
            for (uint32_t i = 0; i < n; i++) {
                cost += item[i].cost[set >> i & 1];
                bytes += item[i].bytes[set >> i & 1];
            }
            possible |= cost <= limit && bytes <= memory;
        }
        pst_tensor_fit fit = pst_tensor_pack(item, n, limit, memory, swap, way);
        assert_int_equal(fit, possible ? PST_TENSOR_FITS : PST_TENSOR_NEVER);
        double cost = 0, bytes = 0;
        for (uint32_t i = 0; possible && i < n; i++) {
            cost += item[i].cost[way[i]];
            bytes += item[i].bytes[way[i]];
        }
        assert_true(!possible || (cost <= limit && bytes <= memory));
    }
}

static void memory_that_would_do(void **unused) {
    (void)unused;
    uint64_t state = test_seed(7003);
    for (uint32_t round = 0; round < 50; round++) {
        pst_tensor_problem p;
        double memory = 0;
        random_problem(&state, &p);
        p.memory = 1;
        MUST(pst_tensor_least_memory(&p, 60, &memory));
        pst_tensor_plan plan = {0};
        if (isfinite(memory) && memory > 2) {
            p.memory = memory;
            MUST(pst_tensor_solve(&p, 1000, 60, &plan));
            assert_true(plan.n_part > 0);
            pst_tensor_plan_close(&plan);
            p.memory = memory * 0.999;
            MUST(pst_tensor_solve(&p, 1000, 60, &plan));
            assert_int_equal(plan.n_part, 0);
        }
        pst_tensor_plan_close(&plan);
        pst_tensor_problem_close(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_all_plans),
        cmocka_unit_test(choices_against_all),
        cmocka_unit_test(memory_that_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
