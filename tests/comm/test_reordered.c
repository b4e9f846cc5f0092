/* A world whose ranks have changed places: values, messages and collectives are among the new
 * ranks, and every process is the rank that it was told to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "comm/ranks.h"

static const uint32_t process_of[] = {2, 0, 1};

/* Every rank says which process it is, in the world and in a collective. */
static int change_places(rank_state *r) {
    uint32_t launched[3], *told;
    size_t bytes;
    RANK_CHECK(pst_world_pmix.open(&r->world) == PST_OK);
    uint32_t mine = r->world->rank;
    RANK_CHECK(pst_world_reorder(&r->world, process_of) == PST_OK);
    RANK_CHECK(process_of[r->world->rank] == mine && r->world->local_rank == mine);
    RANK_CHECK(r->world->ops->put(r->world, "mine", &mine, sizeof mine) == PST_OK);
    RANK_CHECK(r->world->ops->fence(r->world) == PST_OK);
    for (uint32_t k = 0; k < 3; k++) {
        RANK_CHECK(r->world->ops->get(r->world, k, "mine", (void **)&told, &bytes) == PST_OK);
        RANK_CHECK(bytes == sizeof mine && *told == process_of[k]);
        free(told);
    }
    RANK_CHECK(pst_heartbeat_open(r->world, &r->heartbeat) == PST_OK);
    RANK_CHECK(pst_transport_ucx.open(r->world, NULL, &r->t) == PST_OK);
    RANK_CHECK(pst_coll_open(r->t, NULL, 0, PST_CHANNEL_COLLECTIVE, &r->coll) == PST_OK);
    launched[r->world->rank] = mine;
    RANK_CHECK(rank_collective(r, PST_COLL_ALL_GATHER, launched, sizeof mine, PST_F32, 0) ==
               PST_OK);
    RANK_CHECK(!memcmp(launched, process_of, sizeof launched));
    rank_close(r);
    return 0;
}

static void ranks_change_places(void **state) {
    (void)state;
    assert_int_equal(launch(3, "places", NULL, 1000), 0);
}

int main(int argc, char **argv) {
    rank_state r = {0};
    if (argc > 2 && !strcmp(argv[1], "rank")) return change_places(&r);
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_change_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
