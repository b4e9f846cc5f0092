/* test: label=quick
 * What the grid of ranks and a rank's place in it are called, in run headers, timelines and
 * reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "pipeline/layout/grid.h"

static void one_pipeline_has_no_names(void **state) {
    (void)state;
    char text[PST_GRID_TEXT];
    assert_string_equal(pst_grid_text((pst_grid){4, 1, 1, NULL, 0}, text), "");
    assert_string_equal(pst_grid_place_text((pst_grid){4, 1, 1, NULL, 0}, 3, text), "");
}

static void degrees_above_one_are_named(void **state) {
    (void)state;
    char text[PST_GRID_TEXT];
    assert_string_equal(pst_grid_text((pst_grid){2, 3, 4, NULL, 0}, text),
                        "2 stages x 3 replicas x 4 tensor ranks");
    assert_string_equal(pst_grid_text((pst_grid){1, 3, 1, NULL, 0}, text), "3 replicas");
    assert_string_equal(pst_grid_place_text((pst_grid){2, 3, 4, NULL, 0}, 23, text),
                        "stage 1, replica 2, tensor rank 3");
    assert_string_equal(pst_grid_place_text((pst_grid){2, 1, 2, NULL, 0}, 2, text),
                        "stage 1, tensor rank 0");
    assert_string_equal(pst_grid_text((pst_grid){2, 2, 1, NULL, 1}, text),
                        "2 stages x 2 replicas + 2 servers");
    assert_string_equal(pst_grid_place_text((pst_grid){2, 2, 1, NULL, 1}, 5, text),
                        "stage 1, server 0");
    pst_grid largest = {UINT32_MAX, UINT32_MAX, 2, NULL, 0};
    assert_string_equal(pst_grid_text(largest, text),
                        "4294967295 stages x 4294967295 replicas x 2 tensor ranks");
}

/* Stages of 3, 1 and 2 tensor ranks, two replicas. */
static void stages_may_differ(void **state) {
    (void)state;
    char text[PST_GRID_TEXT];
    const uint32_t degree[] = {3, 1, 2};
    uint32_t before[4], seen = 0;
    pst_grid g = {.pipeline = 3, .data = 2, .tensor_before = before};
    g.tensor = pst_grid_prefix_sums(degree, 3, before);
    assert_int_equal(g.tensor, 3);
    assert_int_equal(pst_grid_size(g), 12);
    for (uint32_t s = 0; s < 3; s++)
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t t = 0; t < degree[s]; t++, seen++) {
                pst_grid_place at = pst_grid_at(g, seen);
                assert_int_equal(pst_grid_rank(g, s, k, t), seen);
                assert_true(at.stage == s && at.replica == k && at.tensor == t);
                assert_int_equal(pst_grid_in_lane(g, s, pst_grid_lane(g, seen)), seen);
            }
    assert_string_equal(pst_grid_text(g, text), "3 stages x 2 replicas x 1 to 3 tensor ranks");
    assert_string_equal(pst_grid_place_text(g, 8, text), "stage 2, replica 0, tensor rank 0");
}

/* Every rank has each value from one rank of the other stage: the one that its lane goes
 * through. */
static void values_come_once(void **state) {
    (void)state;
    uint32_t before[3];
    for (uint32_t a = 1; a <= 5; a++)
        for (uint32_t b = 1; b <= 5; b++) {
            const uint32_t degree[] = {a, b};
            pst_grid g = {.pipeline = 2, .data = 2, .tensor_before = before};
            uint32_t from[20];
            memset(from, 0xff, sizeof from);
            g.tensor = pst_grid_prefix_sums(degree, 2, before);
            for (uint32_t r = 0; r < pst_grid_first(g, 1); r++) {
                uint32_t lane = pst_grid_receiver(g, 1, pst_grid_lane(g, r));
                for (; lane != PST_GRID_NO_LANE; lane = pst_grid_next_receiver(g, 0, 1, lane)) {
                    uint32_t to = pst_grid_in_lane(g, 1, lane);
                    assert_int_equal(from[to], UINT32_MAX);
                    from[to] = r;
                }
            }
            for (uint32_t r = pst_grid_first(g, 1); r < pst_grid_size(g); r++)
                assert_int_equal(from[r], pst_grid_in_lane(g, 0, pst_grid_lane(g, r)));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_pipeline_has_no_names), cmocka_unit_test(degrees_above_one_are_named),
        cmocka_unit_test(stages_may_differ), cmocka_unit_test(values_come_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
