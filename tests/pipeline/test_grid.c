/* test: label=quick
 * What the grid of ranks and a rank's place in it are called, in run headers, timelines and reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "pipeline/grid.h"

static void one_pipeline_has_no_names(void **state) {
    (void)state;
    char text[PST_GRID_TEXT];
    assert_string_equal(pst_grid_text((pst_grid){4, 1, 1}, text), "");
    assert_string_equal(pst_grid_place_text((pst_grid){4, 1, 1}, 3, text), "");
}

static void degrees_above_one_are_named(void **state) {
    (void)state;
    char text[PST_GRID_TEXT];
    assert_string_equal(pst_grid_text((pst_grid){2, 3, 4}, text), "2 stages x 3 replicas x 4 tensor ranks");
    assert_string_equal(pst_grid_text((pst_grid){1, 3, 1}, text), "3 replicas");
    assert_string_equal(pst_grid_place_text((pst_grid){2, 3, 4}, 23, text), "stage 1, replica 2, tensor rank 3");
    assert_string_equal(pst_grid_place_text((pst_grid){2, 1, 2}, 2, text), "stage 1, tensor rank 0");
    pst_grid largest = {UINT32_MAX, UINT32_MAX, 2};
    assert_string_equal(pst_grid_text(largest, text), "4294967295 stages x 4294967295 replicas x 2 tensor ranks");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_pipeline_has_no_names),
                                       cmocka_unit_test(degrees_above_one_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
