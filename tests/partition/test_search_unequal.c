/* test: label=quick timeout=60
 * Stages with different numbers of tensor ranks: a list is taken as it is; where none is given and
 * not all can be tried, devices that no one number of them makes use of are used, and no layout is
 * below the bound; what would be split across a border is not; and what such stages hold and take
 * is their own. */
#include "partition/search/candidates.h"
#include "partition/search_case.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PST_OK) fail_msg("%s", pst_error());                                         \
    } while (0)

enum { ITEMS = 24 };

/* A chain of equal operators on one node, three stages, one replica. */
static search_case *chain(uint32_t devices) {
    search_case *k = case_open(ITEMS, 1, devices);
    for (uint32_t i = 0; i < ITEMS; i++) {
        k->f[i] = k->b[i] = k->w[i] = 12000;
        k->cross[i] = 100;
        k->stash[i] = 1000;
        k->elements[i] = 1200;
    }
    k->node[0].link[PST_LEVEL_DEVICE] = k->node[0].link[PST_LEVEL_NODE] =
        (pst_cluster_link){10, 1e12};
    k->node[0].node_bytes_per_s = 1e12;
    k->problem.pipeline = CHOICES(3);
    k->problem.data = CHOICES(1);
    return k;
}

static uint32_t degree_of(const pst_candidate *l, uint32_t stage) {
    return pst_grid_degree(pst_layout_grid(&l->layout), stage);
}

static void check_devices(const pst_candidate *l, uint32_t devices) {
    uint8_t used[CASE_DEVICES] = {0};
    for (uint32_t r = 0; r < pst_grid_size(pst_layout_grid(&l->layout)); r++) {
        assert_true(l->layout.device[r] < devices && !used[l->layout.device[r]]);
        used[l->layout.device[r]] = 1;
    }
}

static void a_list_is_taken(void **unused) {
    (void)unused;
    const uint32_t list[] = {4, 2, 1};
    search_case *k = chain(8);
    pst_search_result *r;
    k->problem.n_degree = 3;
    k->problem.degree = list;
    k->problem.tensor = CHOICES(4);
    MUST(pst_search(&k->problem, &r));
    assert_non_null(r->best);
    assert_int_equal(r->n_row, 1);
    for (uint32_t s = 0; s < 3; s++) assert_int_equal(degree_of(r->best, s), list[s]);
    check_devices(r->best, 8);
    /* work goes by how many share it, and memory by what each has */
    const uint32_t *first = r->best->layout.first_item;
    assert_true(first[1] >= 12 && first[1] <= 15 && ITEMS - first[2] <= 4);
    assert_true(r->bound_ns <= r->best->step_ns &&
                (double)r->bound_ns > 0.8 * (double)r->best->step_ns);
    pst_search_result_close(r);
    case_close(k);
}

static void devices_that_are_left_over_are_used(void **unused) {
    (void)unused;
    search_case *k = chain(8);
    pst_search_result *equal, *r;
    k->problem.tensor = CHOICES(1, 2, 4);
    k->problem.sequence = CHOICES(1);
    MUST(pst_search(&k->problem, &equal)); /* positions are split: every stage has as many */
    k->problem.sequence = CHOICES(0);
    MUST(pst_search(&k->problem, &r));
    assert_null(equal->best->layout.tensor_before);
    assert_non_null(r->best->layout.tensor_before);
    assert_int_equal(pst_grid_size(pst_layout_grid(&r->best->layout)), 8);
    check_devices(r->best, 8);
    assert_true((double)r->best->step_ns < 0.9 * (double)equal->best->step_ns);
    assert_true(r->bound_ns <= r->best->step_ns);
    /* all work, shared out over 8 devices */
    assert_true((double)r->bound_ns <= 8. * ITEMS * 36000 / 8);
    pst_search_result_close(equal);
    pst_search_result_close(r);
    case_close(k);
}

/* As tables are where an operator's output is split: only every fourth border is whole. */
static pst_status split_get(void *arg, const pst_search_key *key, const pst_cost_table **table) {
    search_case *k = arg;
    uint32_t before = k->n_table;
    PST_TRY(case_get(arg, key, table));
    for (uint32_t i = 0; i < ITEMS && k->n_table > before; i++)
        if (i % 4) k->made[before].table->cross[i] = 100 / key->tensor;
    return PST_OK;
}

static void borders_are_whole(void **unused) {
    (void)unused;
    const uint32_t list[] = {2, 1, 1};
    search_case *k = chain(4);
    pst_search_result *r;
    k->problem.table = split_get;
    k->problem.n_degree = 3;
    k->problem.degree = list;
    k->problem.tensor = CHOICES(2);
    for (uint32_t i = 0; i < ITEMS; i++) k->f[i] += 500 * (i % 3);
    MUST(pst_search(&k->problem, &r));
    assert_non_null(r->best);
    /* from two to one; the other border may be anywhere */
    assert_int_equal(r->best->layout.first_item[1] % 4, 0);
    pst_search_result_close(r);
    case_close(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_list_is_taken),
                                       cmocka_unit_test(devices_that_are_left_over_are_used),
                                       cmocka_unit_test(borders_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
