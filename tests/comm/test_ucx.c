/* test: label=quick */
/* Transport ucx between real processes, started by our own launcher: random traffic, sizes,
 * collectives, rank counts.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "comm/ranks.h"

enum { SEED = 4711, MESSAGES = 200 };

typedef struct {
    uint32_t from, to, channel;
    uint64_t bytes;
} message;

/* All ranks draw the same messages; small, around the eager limits, and a few large ones. */
static message draw(uint64_t key, uint32_t i, uint32_t n) {
    uint32_t word[4];
    pst_rng_words(key, 1, i, word);
    message m = {.from = word[0] % n, .to = word[1] % n, .channel = word[2] % 3};
    static const uint64_t limits[] = {1, 64, 8192, 65536, 700000};
    m.bytes = word[3] % (limits[i % 5] + 1) + (i % 40 == 4 ? 3000000 : 0);
    return m;
}

static void fill(uint8_t *mem, uint64_t bytes, uint32_t i) {
    for (uint64_t b = 0; b < bytes; b++) mem[b] = (uint8_t)(b * 7 + i);
}

/* Posts everything in an order of this rank's own, then waits for everything. */
static int random_traffic(rank_state *r) {
    uint64_t key = pst_rng_key(SEED, "traffic"), mine = key + r->world->rank;
    uint64_t request[2 * MESSAGES] = {0};
    uint8_t *mem[2 * MESSAGES] = {0};
    for (uint32_t j = 0; j < 2 * MESSAGES; j++) {
        uint32_t half = (uint32_t)pst_rng_permute(mine, 2 * MESSAGES, j), i = half / 2;
        int is_send = half % 2 == 0;
        message m = draw(key, i, r->world->size);
        if ((is_send ? m.from : m.to) != r->world->rank) continue;
        RANK_CHECK((mem[half] = calloc(1, m.bytes + 1)));
        if (is_send) fill(mem[half], m.bytes, i);
        RANK_CHECK(rank_post(r,
                             transfer_of(is_send ? PST_TRANSFER_SEND : PST_TRANSFER_RECV,
                                         is_send ? m.to : m.from, m.channel, i, mem[half], m.bytes),
                             &request[half]) == PST_OK);
    }
    for (uint32_t half = 0; half < 2 * MESSAGES; half++) {
        if (!mem[half]) continue;
        RANK_CHECK(rank_finish(r, request[half]) == PST_OK);
        message m = draw(key, half / 2, r->world->size);
        uint8_t *expected = malloc(m.bytes + 1);
        RANK_CHECK(expected);
        fill(expected, m.bytes, half / 2);
        if (half % 2) RANK_CHECK(!memcmp(expected, mem[half], m.bytes));
        free(expected);
        free(mem[half]);
    }
    return 0;
}

static int collectives(rank_state *r) {
    uint32_t n = r->world->size, rank = r->world->rank;
    enum { COUNT = 300001 };
    float *sum = malloc(COUNT * sizeof *sum);
    uint32_t all[64];
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < COUNT; i++) sum[i] = (float)(rank + 1) * (float)(i % 1000);
        RANK_CHECK(rank_collective(r, PST_COLL_ALL_REDUCE, sum, COUNT * 4, PST_F32, 0) == PST_OK);
        for (uint32_t i = 0; i < COUNT; i++)
            RANK_CHECK(sum[i] == (float)(n * (n + 1) / 2) * (float)(i % 1000));
        all[rank] = 100 * round + rank;
        RANK_CHECK(rank_collective(r, PST_COLL_ALL_GATHER, all, 4, PST_I32, 0) == PST_OK);
        for (uint32_t i = 0; i < n; i++) RANK_CHECK(all[i] == 100 * round + i);
        uint32_t word = rank == round % n ? round + 9 : 0;
        RANK_CHECK(rank_collective(r, PST_COLL_BROADCAST, &word, 4, PST_I32, round % n) == PST_OK);
        RANK_CHECK(word == round + 9);
        RANK_CHECK(rank_collective(r, PST_COLL_BARRIER, NULL, 0, PST_I32, 0) == PST_OK);
    }
    free(sum);
    return 0;
}

static int wrong_size(rank_state *r) {
    static uint8_t mem[100000];
    static const uint64_t sent[] = {8, 4, 100000, 90000}, expected[] = {4, 8, 90000, 100000};
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t request;
        if (r->world->rank == 0) {
            RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_SEND, 1, 0, i, mem, sent[i]),
                                 &request) == PST_OK);
            rank_finish(r, request);
        } else {
            RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_RECV, 0, 0, i, mem, expected[i]),
                                 &request) == PST_OK);
            RANK_CHECK(rank_finish(r, request) == PST_EINPUT);
            RANK_CHECK(strstr(pst_error(), "rank 1 expects"));
        }
    }
    return 0;
}

/* Two ends that disagree about the order: each message is taken for itself, the large one sent
 * first waits. Then all ranks in a ring, messages of unequal size, half of them posting what they
 * send first. */
static int crossed(rank_state *r) {
    enum { LARGE = 3 << 20, SMALL = 70000, RING = 3 };
    static uint8_t large[LARGE], small[LARGE];
    uint32_t n = r->world->size, rank = r->world->rank, to = (rank + 1) % n,
             from = (rank + n - 1) % n;
    uint64_t request[2];
    if (rank == 0) {
        RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_SEND, 1, 0, 0, large, LARGE),
                             &request[0]) == PST_OK);
        RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_SEND, 1, 0, 1, small, SMALL),
                             &request[1]) == PST_OK);
        RANK_CHECK(rank_finish(r, request[0]) == PST_OK && rank_finish(r, request[1]) == PST_OK);
    } else if (rank == 1) {
        RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_RECV, 0, 0, 1, small, SMALL),
                             &request[1]) == PST_OK);
        RANK_CHECK(rank_finish(r, request[1]) == PST_OK);
        RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_RECV, 0, 0, 0, large, LARGE),
                             &request[0]) == PST_OK);
        RANK_CHECK(rank_finish(r, request[0]) == PST_OK);
    }
    static const uint64_t bytes[] = {5, LARGE, 8200, 65536, 0, 1 << 20};
    for (uint32_t i = 0; i < 12; i++)
        for (uint32_t half = 0; half < 2; half++) {
            int is_send = (half + rank + i) % 2 == 0;
            RANK_CHECK(rank_post(r,
                                 transfer_of(is_send ? PST_TRANSFER_SEND : PST_TRANSFER_RECV,
                                             is_send ? to : from, RING, i, is_send ? large : small,
                                             bytes[((is_send ? rank : from) + i) % 6]),
                                 &request[half]) == PST_OK);
            if (half)
                RANK_CHECK(rank_finish(r, request[0]) == PST_OK &&
                           rank_finish(r, request[1]) == PST_OK);
        }
    return 0;
}

/* A receiver that sleeps is woken; nobody needs the 20 ms that pst_transport_wait sleeps at
 * most. */
static int wakes_up(rank_state *r) {
    uint64_t word = 0, request, start = pst_monotonic_ns();
    for (uint32_t i = 0; i < 100; i++) {
        int my_turn = i % 2 == r->world->rank;
        if (my_turn) usleep(500);
        RANK_CHECK(rank_post(r,
                             transfer_of(my_turn ? PST_TRANSFER_SEND : PST_TRANSFER_RECV,
                                         1 - r->world->rank, 1, i, &word, sizeof word),
                             &request) == PST_OK);
        RANK_CHECK(rank_finish(r, request) == PST_OK);
    }
    uint64_t took_ms = (pst_monotonic_ns() - start) / 1000000;
    if (took_ms > 1000) fprintf(stderr, "100 wake-ups took %llu ms\n", (unsigned long long)took_ms);
    return took_ms > 1000 ? 1 : 0;
}

/* With a message of a device's memory under way nobody sleeps on UCX; with others, and when it has
 * arrived, one may. */
static int of_device(rank_state *r) {
    static uint8_t mem[2][70000];
    const uint32_t other = 1 - r->world->rank;
    uint64_t request;
    for (uint32_t i = 0; i < 6; i++) {
        pst_transfer_kind kind = i % 2 == r->world->rank ? PST_TRANSFER_SEND : PST_TRANSFER_RECV;
        pst_transfer x = transfer_of(kind, other, 1, i, mem[i % 2], i < 4 ? 70000 : 8);
        int fd, receives = kind == PST_TRANSFER_RECV;
        x.of_device = i != 2;
        if (receives) RANK_CHECK(rank_post(r, x, &request) == PST_OK);
        for (int look = 0; receives && look < 100; look++) {
            pst_status armed = r->t->ops->arm(r->t, &fd);
            RANK_CHECK(x.of_device ? armed == PST_EINPUT : armed != PST_EINPUT);
            r->t->ops->progress(r->t);
        }
        RANK_CHECK(rank_collective(r, PST_COLL_BARRIER, NULL, 0, PST_I32, 0) == PST_OK);
        if (!receives) RANK_CHECK(rank_post(r, x, &request) == PST_OK);
        RANK_CHECK(rank_finish(r, request) == PST_OK);
        RANK_CHECK(r->t->ops->arm(r->t, &fd) != PST_EINPUT);
    }
    return 0;
}

/* Close is bounded while receives are open and a peer has gone. */
static int leaves_with_open_requests(rank_state *r) {
    static uint8_t mem[1 << 20];
    uint64_t request;
    if (r->world->rank == 0) return 0;
    RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_RECV, 0, 0, 0, mem, sizeof mem), &request) ==
               PST_OK);
    RANK_CHECK(rank_post(r, transfer_of(PST_TRANSFER_SEND, 0, 0, 1, mem, sizeof mem), &request) ==
               PST_OK);
    return 0;
}

static int rank_main(const char *scenario) {
    rank_state r;
    int result = 98;
    rank_open(&r);
    if (!strcmp(scenario, "traffic")) result = random_traffic(&r);
    if (!strcmp(scenario, "collectives")) result = collectives(&r);
    if (!strcmp(scenario, "size")) result = wrong_size(&r);
    if (!strcmp(scenario, "crossed")) result = crossed(&r);
    if (!strcmp(scenario, "wake")) result = wakes_up(&r);
    if (!strcmp(scenario, "device")) result = of_device(&r);
    if (!strcmp(scenario, "open")) result = leaves_with_open_requests(&r);
    rank_close(&r);
    return result;
}

static void traffic_of_2_and_5_ranks(void **state) {
    (void)state;
    printf("seed %d\n", SEED);
    assert_int_equal(launch(2, "traffic", NULL, 2000), 0);
    assert_int_equal(launch(5, "traffic", NULL, 2000), 0);
}

static void traffic_over_tcp(void **state) {
    (void)state;
    setenv("UCX_TLS", "tcp,self", 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
    assert_int_equal(launch(3, "traffic", NULL, 2000), 0);
    unsetenv("UCX_TLS");
    unsetenv("UCX_NET_DEVICES");
}

static void collectives_of_1_2_4_7_ranks(void **state) {
    (void)state;
    for (uint32_t n = 1; n <= 7; n += n == 4 ? 3 : n)
        assert_int_equal(launch(n, "collectives", NULL, 2000), 0);
}

static void sizes_that_differ(void **state) {
    (void)state;
    assert_int_equal(launch(2, "size", NULL, 2000), 0);
}

static void ends_in_another_order(void **state) {
    (void)state;
    assert_int_equal(launch(4, "crossed", NULL, 2000), 0);
}

static void sleepers_wake(void **state) {
    (void)state;
    assert_int_equal(launch(2, "wake", NULL, 2000), 0);
}

static void devices_wake_nobody(void **state) {
    (void)state;
    assert_int_equal(launch(2, "device", NULL, 2000), 0);
}

static void close_does_not_wait_for_ever(void **state) {
    (void)state;
    uint64_t start = pst_monotonic_ns();
    assert_int_equal(launch(3, "open", NULL, 2000), 0);
    assert_true(pst_monotonic_ns() - start < UINT64_C(15000000000));
}

int main(int argc, char **argv) {
    if (argc > 2 && !strcmp(argv[1], "rank")) return rank_main(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_of_2_and_5_ranks),
        cmocka_unit_test(traffic_over_tcp),
        cmocka_unit_test(collectives_of_1_2_4_7_ranks),
        cmocka_unit_test(sizes_that_differ),
        cmocka_unit_test(ends_in_another_order),
        cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(devices_wake_nobody),
        cmocka_unit_test(close_does_not_wait_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
