/* How cores are shared out, on machines made of text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/bind.h"
#include <stdio.h>
#include <string.h>

/* The processors that each of n ranks gets on `machine`, of those in `allowed` (NULL: all), as "0-1|2-3"; or why
 * not. */
static const char *shares(const char *machine, const char *allowed, uint32_t n, uint32_t threads) {
    static char text[256];
    hwloc_topology_t t;
    hwloc_bitmap_t from;
    size_t used = 0;
    assert_int_equal(hwloc_topology_init(&t), 0);
    assert_int_equal(hwloc_topology_set_synthetic(t, machine), 0);
    assert_int_equal(hwloc_topology_load(t), 0);
    from = hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(t));
    if (allowed) assert_int_equal(hwloc_bitmap_list_sscanf(from, allowed), 0);
    for (uint32_t i = 0; i < n; i++) {
        hwloc_bitmap_t set = NULL;
        const char *why;
        assert_int_equal(pst_bind_share(t, from, n, i, threads, &set, &why), PST_OK);
        if (why) {
            assert_null(set);
            snprintf(text, sizeof text, "%s", why);
            break;
        }
        if (i) text[used++] = '|';
        used += (size_t)hwloc_bitmap_list_snprintf(text + used, sizeof text - used, set);
        hwloc_bitmap_free(set);
    }
    hwloc_bitmap_free(from);
    hwloc_topology_destroy(t);
    return text;
}

static void whole_cores_in_order(void **state) {
    (void)state;
    assert_string_equal(shares("numa:2 core:2 pu:2", NULL, 2, 0), "0-3|4-7");
    assert_string_equal(shares("numa:2 core:2 pu:2", NULL, 4, 0), "0-1|2-3|4-5|6-7");
    assert_string_equal(shares("numa:2 core:4 pu:1", NULL, 3, 0), "0-1|2-4|5-7");
    assert_string_equal(shares("numa:1 core:2 pu:1", NULL, 2, 1), "0|1");
}

/* What a launcher has left is divided; half a core stays half a core. */
static void within_what_is_allowed(void **state) {
    (void)state;
    assert_string_equal(shares("numa:2 core:4 pu:1", "4-7", 2, 0), "4-5|6-7");
    assert_string_equal(shares("numa:2 core:2 pu:2", "2-5", 2, 0), "2-3|4-5");
}

static void not_when_too_few(void **state) {
    (void)state;
    assert_string_equal(shares("numa:1 core:2 pu:2", NULL, 3, 0), "fewer cores than ranks");
    assert_string_equal(shares("numa:1 core:4 pu:1", NULL, 2, 3), "fewer cores than threads");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_cores_in_order), cmocka_unit_test(within_what_is_allowed),
                                       cmocka_unit_test(not_when_too_few)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
