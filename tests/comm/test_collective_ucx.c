/* test: label=full timeout=180 */
/* Collectives among processes over ucx: random ones of all ranks and of groups side by side, each
 * algorithm; and a rank that dies amid one, which the others notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "comm/collect.h"
#include "comm/ranks.h"
#include <signal.h>

enum { SEED = 99, GROUPS = 3, ROUNDS = 60, MOST = 600000 };

/* All ranks from the last to the first; every second one; neighbours in twos: the one that rank
 * `me` is in. */
static uint32_t members_of(uint32_t group, uint32_t me, uint32_t n,
                           uint32_t member[COLLECT_MEMBERS]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t r = group ? i : n - 1 - i;
        if (!group || (group == 1 ? r % 2 == me % 2 : r / 2 == me / 2)) member[count++] = r;
    }
    return count;
}

static uint32_t index_of(const uint32_t *member, uint32_t n, uint32_t rank) {
    uint32_t i = 0;
    while (i < n && member[i] != rank) i++;
    return i;
}

static pst_status wait_all(rank_state *r, pst_coll **coll) {
    for (;;) {
        uint32_t busy = 0;
        for (uint32_t g = 0; g < GROUPS; g++) {
            pst_status status = pst_coll_test(coll[g]);
            if (status != PST_OK && status != PST_BUSY) return status;
            busy += status == PST_BUSY;
        }
        if (!busy) return PST_OK;
        PST_TRY(pst_heartbeat_check(r->heartbeat));
        pst_transport_wait(r->t, 20);
    }
}

static pst_status wait_one(rank_state *r) {
    pst_status status;
    while ((status = pst_coll_test(r->coll)) == PST_BUSY) pst_transport_wait(r->t, 20);
    return status;
}

/* What a group does depends on its first member, so that groups side by side do different
 * things. */
static int sweep(rank_state *r) {
    uint32_t n = r->world->size, rank = r->world->rank, member[GROUPS][COLLECT_MEMBERS],
             count[GROUPS];
    uint32_t host[COLLECT_MEMBERS];
    pst_coll *coll[GROUPS];
    int shares = n % 2; /* else they seem to be on several hosts */
    for (uint32_t i = 0; i < n; i++) host[i] = shares ? 0 : i / 3;
    for (uint32_t g = 0; g < GROUPS; g++) {
        count[g] = members_of(g, rank, n, member[g]);
        RANK_CHECK(pst_coll_open(r->t, member[g], count[g], PST_CHANNEL_COLLECTIVE + 1 + g,
                                 &coll[g]) == PST_OK);
        RANK_CHECK(pst_coll_hosts(coll[g], host) == PST_OK);
        RANK_CHECK(pst_coll_share(coll[g]) == PST_OK);
    }
    RANK_CHECK(wait_all(r, coll) == PST_OK);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        collect what[GROUPS];
        uint8_t *mem[GROUPS];
        for (uint32_t k = 0; k < GROUPS; k++) {
            uint32_t g = (k + rank) % GROUPS;
            uint64_t key = pst_rng_key(SEED + n, "ucx") + 100 * g + member[g][0];
            what[g] = collect_draw(key, round, count[g], MOST);
            RANK_CHECK((mem[g] = malloc(collect_bytes(&what[g]) + COLLECT_GUARD)));
            collect_fill(&what[g], index_of(member[g], count[g], rank), mem[g]);
            RANK_CHECK(collect_start(&what[g], coll[g], mem[g]) == PST_OK);
        }
        RANK_CHECK(wait_all(r, coll) == PST_OK);
        for (uint32_t g = 0; g < GROUPS; g++) {
            const char *wrong =
                collect_check(&what[g], index_of(member[g], count[g], rank), mem[g]);
            if (wrong) {
                fprintf(stderr, "group %u, %s: ", g, wrong);
                collect_print(&what[g]);
            }
            RANK_CHECK(!wrong);
            free(mem[g]);
        }
    }
    for (uint32_t g = 0; g < GROUPS; g++) pst_coll_close(coll[g]);
    return 0;
}

/* The last rank dies once it has begun. */
static int lost(rank_state *r, const char *algorithm) {
    enum { COUNT = 4 << 20 };
    float *mem = calloc(COUNT, sizeof *mem);
    RANK_CHECK(mem);
    RANK_CHECK(pst_coll_share(r->coll) == PST_OK);
    RANK_CHECK(wait_one(r) == PST_OK);
    RANK_CHECK(pst_coll_force(r->coll, algorithm) == PST_OK);
    for (int i = 0; i < 2; i++) {
        if (i && r->world->rank == r->world->size - 1) {
            RANK_CHECK(pst_coll_start(r->coll, PST_COLL_ALL_REDUCE, mem, COUNT * sizeof *mem,
                                      PST_F32, 0) == PST_OK);
            for (int k = 0; k < 3; k++) pst_coll_test(r->coll);
            raise(SIGKILL);
        }
        pst_status status =
            rank_collective(r, PST_COLL_ALL_REDUCE, mem, COUNT * sizeof *mem, PST_F32, 0);
        RANK_CHECK(status == PST_EPEER || (!i && status == PST_OK));
        if (status != PST_OK)
            break; /* it may have been through the first one before this rank was */
    }
    pst_coll_break(r->coll, PST_EPEER);
    RANK_CHECK(pst_coll_test(r->coll) == PST_EPEER);
    return rank_give_up(r, PST_EPEER);
}

static int rank_main(const char *scenario, const char *argument) {
    rank_state r;
    rank_open(&r);
    if (!strcmp(scenario, "lost")) return lost(&r, argument);
    int result = sweep(&r);
    rank_close(&r);
    return result;
}

static void random_collectives_of_2_3_5_9_ranks(void **state) {
    (void)state;
    static const uint32_t ranks[] = {2, 3, 5, 9};
    printf("seed %d\n", SEED);
    for (int i = 0; i < 4; i++) assert_int_equal(launch(ranks[i], "sweep", NULL, 2000), 0);
}

static void random_collectives_over_tcp(void **state) {
    (void)state;
    setenv("UCX_TLS", "tcp,self", 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
    assert_int_equal(launch(4, "sweep", NULL, 2000), 0);
    unsetenv("UCX_TLS");
    unsetenv("UCX_NET_DEVICES");
}

static void a_lost_rank_is_noticed(void **state) {
    (void)state;
    for (int a = 1; a < COLLECT_ALGORITHMS - 1; a++) {
        uint64_t start = pst_monotonic_ns();
        assert_int_equal(launch(3, "lost", collect_algorithm[a], 2000), 3);
        assert_true(pst_monotonic_ns() - start < UINT64_C(30000000000));
    }
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "rank")) return rank_main(argv[2], argc > 3 ? argv[3] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_collectives_of_2_3_5_9_ranks),
        cmocka_unit_test(random_collectives_over_tcp),
        cmocka_unit_test(a_lost_rank_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
