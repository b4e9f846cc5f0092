/* Splits of DAGs: the best of all that there are, on small workloads; bounds and limits on larger
 * ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "brute_force.h"
#include <math.h>

static void against_brute_force(void **unused) {
    (void)unused;
    brute_compare(test_seed(6001), 300);
}

static void all_downsets_are_found(void **unused) {
    (void)unused;
    uint64_t state = test_seed(6002);
    for (uint32_t round = 0; round < 200; round++) {
        pst_downset_edge edge[64];
        uint32_t n = 1 + brute_below(&state, 10), n_edge = 0, wanted = 0;
        for (uint32_t a = 0; a < n; a++)
            for (uint32_t b = a + 1; b < n; b++)
                if (brute_below(&state, n) < 2) edge[n_edge++] = (pst_downset_edge){a, b};
        for (uint32_t set = 0; set < 1u << n; set++) {
            int closed = 1;
            for (uint32_t i = 0; i < n_edge; i++)
                closed &= !(set >> edge[i].to & 1) || (set >> edge[i].from & 1);
            wanted += (uint32_t)closed;
        }
        pst_downset_list list;
        MUST(pst_downset_list_open(n, edge, n_edge, 2000, &list));
        assert_int_equal(list.n, wanted);
        pst_downset_list_close(&list);
        MUST(pst_downset_list_open(n, edge, n_edge, wanted - 1, &list)); /* one more than allowed */
        assert_int_equal(list.n, 0);
    }
}

/* The search for many devices finds a split at the best objective and none below it. */
static void the_fewest_devices(void **unused) {
    (void)unused;
    uint64_t seed = test_seed(6007);
    uint32_t compared = 0;
    for (uint32_t i = 0; i < 300; i++) {
        uint64_t state = seed + i;
        pst_import *im = brute_workload(&state);
        pst_downset_problem p = {0};
        pst_downset_plan plan = {0}, again = {0};
        pst_downset_list list = {0};
        pst_downset_grid grid;
        double weight[PST_DOWNSET_KINDS];
        uint32_t item_of[64];
        int found = 0;
        MUST(pst_import_contract(im, &p, item_of));
        for (uint32_t k = 0; k < p.n_kind; k++)
            p.kind[k].replicas = 1 + brute_below(&state, p.kind[k].count + 1);
        for (uint32_t v = 0; v < p.n_item; v++) p.exchange[v] = brute_below(&state, 20);
        MUST(pst_downset_solve(&p, 10000, 60, &plan));
        MUST(pst_downset_list_open(p.n_item, p.edge, p.n_edge, 10000, &list));
        pst_downset_grid_of(&p, 1000, &grid);
        assert_true(grid.exact);
        double bound = pst_downset_bound(&p, weight),
               limit = plan.n_part ? plan.objective * (1 + 1e-9) : 1e9;
        pst_downset_range range = {
            .floor = bound, .limit = limit, .until_ns = UINT64_MAX, .weight = weight};
        MUST(pst_downset_fewest(&p, &list, &range, &grid, &found, &again));
        if (found != (plan.n_part > 0) ||
            (found && fabs(again.objective - plan.objective) > 1e-9 * plan.objective) ||
            (found && bound > plan.objective))
            fail_msg("seed %llu: found %d, %.12g, expected %.12g, bound %.12g",
                     (unsigned long long)(seed + i), found, again.objective, plan.objective, bound);
        pst_downset_plan_close(&again);
        range.limit = plan.objective * (1 - 1e-6);
        if (plan.n_part && plan.objective > 0) {
            MUST(pst_downset_fewest(&p, &list, &range, &grid, &found, &again));
            assert_false(found);
            compared++;
        }
        pst_downset_plan_close(&plan);
        pst_downset_list_close(&list);
        pst_downset_problem_close(&p);
        pst_import_close(im);
    }
    assert_true(compared > 50);
}

static void a_cycle_is_refused(void **unused) {
    (void)unused;
    const pst_downset_edge edge[] = {{0, 1}, {1, 2}, {2, 1}};
    pst_downset_list list;
    uint32_t order[3];
    assert_int_equal(pst_downset_list_open(3, edge, 3, 100, &list), PST_EINPUT);
    assert_int_equal(pst_downset_order(3, edge, 3, order), PST_EINPUT);
}

/* n items in `rows` chains beside each other, of random times. */
static pst_import *chains(uint32_t n, uint32_t rows, uint32_t devices, uint64_t *state) {
    pst_import *im = calloc(1, sizeof *im);
    int64_t *label = calloc(n, sizeof *label);
    MUST(pst_import_allocate(im, n, n, 1));
    im->unit = "ms";
    im->n_edge = 0;
    for (uint32_t v = 0; v < n; v++) {
        im->id[v] = label[v] = v;
        im->time[v] = 1 + brute_below(state, 1000);
        im->transfer[v] = brute_below(state, 100);
        if (v >= rows) im->edge[im->n_edge++] = (pst_import_edge){v - rows, v};
    }
    im->kind[0].name = "device";
    im->kind[0].count = devices;
    im->kind[0].memory = INFINITY;
    im->kind[0].pays = 1;
    MUST(pst_import_classes(im, label));
    free(label);
    return im;
}

static void too_many_downsets_leave_a_bounded_gap(void **unused) {
    (void)unused;
    uint64_t state = test_seed(6003);
    pst_import *im = chains(100, 10, 4, &state); /* 11^10 downsets */
    pst_import_plan plan;
    MUST(pst_import_solve(im, 60, &plan));
    assert_int_equal(plan.complete, 0);
    assert_true(plan.lower_bound > 0 && plan.lower_bound <= plan.objective);
    assert_true(plan.objective < 1.5 * plan.lower_bound);
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

/* Three kinds of two hundred devices each, replicas of parts: within a few percent of the bound, in
 * seconds. */
static void hundreds_of_devices_of_three_kinds(void **unused) {
    (void)unused;
    uint64_t state = test_seed(6008);
    pst_import *im = chains(150, 1, 200, &state);
    im->format = PST_IMPORT_PIPEDREAM;
    im->bandwidth = 1;
    im->n_kind = 3;
    im->time = realloc(im->time, 3 * 150 * sizeof *im->time);
    for (uint32_t k = 1; k < 3; k++) {
        im->kind[k] = im->kind[0];
        for (uint32_t v = 0; v < 150; v++) im->time[k * 150 + v] = im->time[v] * (k + 1);
    }
    for (uint32_t v = 0; v < 150; v++) {
        im->transfer[v] = 0;
        im->parameters[v] = brute_below(&state, 20);
    }
    pst_import_plan plan;
    MUST(pst_import_solve(im, 60, &plan));
    assert_true(plan.lower_bound > 0 && plan.lower_bound <= plan.objective);
    assert_true(plan.objective < 1.1 * plan.lower_bound);
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

static void a_chain_of_thousands(void **unused) {
    (void)unused;
    uint64_t state = test_seed(6004);
    pst_import *im = chains(2000, 1, 8, &state);
    pst_import_plan plan;
    MUST(pst_import_solve(im, 60, &plan));
    assert_int_equal(plan.n_downset, 2001);
    assert_true(plan.complete && plan.lower_bound >= plan.objective * (1 - 1e-9));
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

static void time_is_limited(void **unused) {
    (void)unused;
    uint64_t state = test_seed(6005);
    pst_import *im = chains(400, 2, 6, &state);
    pst_import_plan plan;
    pst_status status = pst_import_solve(im, 1e-9, &plan);
    if (status == PST_OK) {
        assert_true(plan.lower_bound <= plan.objective);
        pst_import_plan_close(&plan);
    } else {
        assert_int_equal(status, PST_EINPUT);
        assert_non_null(strstr(pst_error(), "increase --time-limit"));
    }
    pst_import_close(im);
}

/* Without any time: a split into blocks, with a bound. */
static void thousands_of_items_on_a_thousand_devices(void **unused) {
    (void)unused;
    uint64_t state = test_seed(6009);
    pst_import *im = chains(6000, 3, 1000, &state);
    pst_import_plan plan;
    MUST(pst_import_solve(im, 1e-9, &plan));
    assert_true(!plan.complete && plan.lower_bound > 0 && plan.lower_bound <= plan.objective);
    assert_true(plan.objective < 10 * plan.lower_bound);
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

static void too_little_memory_says_how_much_would_do(void **unused) {
    (void)unused;
    uint64_t state = test_seed(6006);
    pst_import *im = chains(6, 1, 2, &state);
    for (uint32_t v = 0; v < 6; v++) im->size[v] = 10;
    pst_import_plan plan;
    im->kind[0].memory = 29;
    assert_int_equal(pst_import_solve(im, 60, &plan), PST_ENOMEM);
    assert_non_null(strstr(pst_error(), "29 bytes per device; 30 bytes would be enough"));
    im->kind[0].memory = 30;
    MUST(pst_import_solve(im, 60, &plan));
    pst_import_plan_close(&plan);
    pst_import_close(im);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_brute_force),
        cmocka_unit_test(all_downsets_are_found),
        cmocka_unit_test(the_fewest_devices),
        cmocka_unit_test(a_cycle_is_refused),
        cmocka_unit_test(too_many_downsets_leave_a_bounded_gap),
        cmocka_unit_test(hundreds_of_devices_of_three_kinds),
        cmocka_unit_test(a_chain_of_thousands),
        cmocka_unit_test(time_is_limited),
        cmocka_unit_test(thousands_of_items_on_a_thousand_devices),
        cmocka_unit_test(too_little_memory_says_how_much_would_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
