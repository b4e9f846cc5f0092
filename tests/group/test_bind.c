/* How cores are shared out, on machines made of text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "group/bind.h"
#include "group/placement.h"
#include <stdio.h>
#include <string.h>

/* The processors that each of n ranks gets on `machine`, of those in `allowed` (NULL: all), as
 * "0-1|2-3"; or why not. */
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
        assert_int_equal(pst_bind_share(t, from, &(pst_bind_sharers){n, i, threads}, &set, &why),
                         PST_OK);
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

/* --- ranks that somebody has bound ------------------------------------------------------------ */

/* "0/1/0-1@b": a place for each, of host a or the one behind @; "-": not known. */
static uint32_t places(const char *text, pst_rank_place *place) {
    uint32_t n = 0;
    for (const char *at = text; *at; at += strspn(at, "/"), n++) {
        unsigned from = 0, to = 0;
        place[n] = (pst_rank_place){.host = "a"};
        int given = sscanf(at, "%u-%u", &from, &to);
        for (unsigned i = from; given > 0 && i <= (given == 2 ? to : from); i++)
            CPU_SET(i, &place[n].mask);
        size_t length = strcspn(at, "/");
        const char *host = memchr(at, '@', length);
        if (host) place[n].host[0] = host[1];
        at += length;
    }
    return n;
}

static void expect_group(const char *text, uint32_t rank, uint32_t ranks, uint32_t processors) {
    pst_rank_place place[8];
    uint32_t n = places(text, place);
    pst_sharing g = pst_placement_sharing(place, n, rank);
    if (g.ranks != ranks || g.processors != processors)
        fail_msg("%s, rank %u: %u ranks on %u processors, not %u on %u", text, rank, g.ranks,
                 g.processors, ranks, processors);
}

static void groups_of_ranks(void **state) {
    (void)state;
    expect_group("0/1", 0, 1, 1); /* Open MPI with two ranks */
    expect_group("0/1", 1, 1, 1);
    expect_group("0-1/0-1", 0, 2, 2);
    expect_group("0/0/1", 0, 2, 1);
    expect_group("0/0/1", 2, 1, 1);
    expect_group("0-3/0-3/4-7/4-7", 3, 2, 4); /* by socket */
    expect_group("0-1/1-2/2-3/4", 0, 3, 4);   /* by way of others */
    expect_group("0/0@b/0@b", 0, 1, 1);
    expect_group("0/0@b/0@b", 1, 2, 1);
    expect_group("0/-", 0, 0, 0);
}

static void the_most_crowded(void **state) {
    pst_rank_place place[8];
    (void)state;
    uint32_t n = places("0/1-2/1-2/1-2/3@b", place);
    pst_sharing g = pst_placement_worst(place, n, 0);
    assert_int_equal(g.ranks, 3);
    assert_int_equal(g.processors, 2);
}

static void threads_of_a_group(void **state) {
    pst_world w = {.size = 4, .local_size = 4, .sharing = 2, .processors = 2, .host_processors = 8};
    (void)state;
    assert_int_equal(pst_placement_threads(&w, 4), 1);
    w.sharing = 4;
    assert_int_equal(pst_placement_threads(&w, 4), 1);
    assert_true(pst_placement_processors(&w).n == 8 && !pst_placement_processors(&w).bound);
    w.sharing = 1;
    assert_true(pst_placement_processors(&w).bound);
    assert_true(pst_placement_processors(NULL).n == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_cores_in_order), cmocka_unit_test(within_what_is_allowed),
        cmocka_unit_test(not_when_too_few),     cmocka_unit_test(groups_of_ranks),
        cmocka_unit_test(the_most_crowded),     cmocka_unit_test(threads_of_a_group)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
