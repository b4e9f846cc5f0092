/* test: wrap=pst_monotonic_ns
 * The NCCL transport with a library that is made up (fake_nccl.h), over transport self: messages in
 * any order of posting, which must not wait for each other in circles, ends that disagree, a
 * communicator that dies, what a tensor group exchanges, what all that takes of the GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "skip.h"
#ifdef PST_NCCL
#include "base/log.h"
#include "comm/transport/transport.h"
#include "cuda/fake.h"
#include "cuda/fake_nccl.h"
#include "kernels/cuda/nccl/nccl.h"
#include "penstock/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, MESSAGES = 400, MOST = 3000, TAKES = 1000 };

static pst_self_hub *hub;
static pst_cuda_device device[RANKS];
static pst_transport *t[RANKS];

static void progress_all(void) {
    for (int i = 0; i < RANKS; i++) t[i]->ops->progress(t[i]);
    fake.now += 1000;
}

static void begin_all(int slow, uint32_t n_member, const uint8_t *talks) {
    static const uint32_t member[2][2] = {{0, 1}, {2, 3}};
    fake_reset();
    fake_nccl_reset();
    fake_nccl.slow = slow;
    fake_nccl.takes = TAKES;
    fake.count = RANKS;
    assert_int_equal(pst_self_hub_open(RANKS, NULL, &hub), PST_OK);
    for (int i = 0; i < RANKS; i++) {
        device[i] = (pst_cuda_device){.ordinal = i, .processors = 132};
        assert_int_equal(
            cudaStreamCreateWithFlags(&device[i].stream[PST_Q_COMPUTE], cudaStreamNonBlocking),
            cudaSuccess);
        const pst_direct_config config = {.inner = pst_self_hub_endpoint(hub, (uint32_t)i),
                                          .device = &device[i].base,
                                          .talks = talks,
                                          .member = member[i / 2],
                                          .n_member = n_member,
                                          .sums = n_member != 0};
        assert_int_equal(pst_direct_nccl.open(&config, &t[i]), PST_OK);
    }
}

static void connect_all(uint64_t bytes[RANKS]) {
    int left = RANKS;
    for (int rounds = 0; left; rounds++) {
        progress_all();
        left = 0;
        for (int i = 0; i < RANKS; i++) {
            pst_status status = pst_direct_nccl.connect(t[i], &bytes[i]);
            assert_true(status == PST_OK || status == PST_BUSY);
            left += status == PST_BUSY;
        }
        if (rounds > 1000) fail_msg("%d ranks are never connected", left);
    }
}

static void open_all(int slow) {
    uint64_t bytes[RANKS];
    begin_all(slow, 0, NULL);
    connect_all(bytes);
}

static void close_all(void) {
    for (int i = 0; i < RANKS; i++) {
        t[i]->ops->close(t[i]);
        cudaStreamDestroy(device[i].stream[PST_Q_COMPUTE]);
    }
    pst_self_hub_close(hub);
    assert_int_equal(fake_nccl.live, 0);
    assert_int_equal(fake_nccl.unlike, 0);
    assert_int_equal(fake.live, 0);
}

typedef struct {
    pst_transfer transfer;
    uint32_t rank;
    uint64_t id;
    int done;
    uint8_t mem[MOST];
} end;

static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 8;
}

/* Half the ends are posted before anything moves, the others one by one, in an order of chance, and
 * ranks get to do something in such an order, too: what is queued may not wait in a circle. */
static void any_order(void **state) {
    (void)state;
    static end ends[2 * MESSAGES];
    for (uint64_t seed = 1; seed <= 6; seed++) {
        uint64_t chance = seed * 0x9e3779b97f4a7c15;
        open_all((int)(seed % 3));
        for (uint32_t m = 0; m < MESSAGES; m++) {
            uint32_t from = (uint32_t)(draw(&chance) % RANKS),
                     to = (from + 1 + (uint32_t)(draw(&chance) % (RANKS - 1))) % RANKS;
            uint64_t bytes = draw(&chance) % 7 ? draw(&chance) % MOST : 0;
            for (int k = 0; k < 2; k++) {
                end *e = ends + 2 * m + (uint32_t)k;
                *e = (end){.rank = k ? to : from};
                e->transfer = (pst_transfer){.kind = k ? PST_TRANSFER_RECV : PST_TRANSFER_SEND,
                                             .peer = k ? from : to,
                                             .channel = m % 5,
                                             .seq = m / 5,
                                             .mem = e->mem,
                                             .bytes = bytes};
                memset(e->mem, k ? 0 : (int)(m % 251 + 1), MOST);
            }
        }
        uint32_t order[2 * MESSAGES], n = 0, left = 2 * MESSAGES;
        for (uint32_t i = 0; i < 2 * MESSAGES; i++) order[i] = i;
        for (uint32_t i = 2 * MESSAGES; i-- > 1;) {
            uint32_t k = (uint32_t)(draw(&chance) % (i + 1)), swap = order[i];
            order[i] = order[k];
            order[k] = swap;
        }
        for (int rounds = 0; left; rounds++) {
            for (; n < 2 * MESSAGES && (n < MESSAGES || n < MESSAGES + (uint32_t)rounds); n++) {
                end *e = ends + order[n];
                assert_int_equal(t[e->rank]->ops->post(t[e->rank], &e->transfer, &e->id), PST_OK);
            }
            for (int i = 0; i < RANKS; i++) {
                pst_transport *some = t[draw(&chance) % RANKS];
                some->ops->progress(some);
            }
            fake.now += 1000;
            for (uint32_t k = 0; k < n; k++) {
                end *e = ends + order[k];
                uint64_t at;
                if (e->done) continue;
                pst_status status = t[e->rank]->ops->test(t[e->rank], e->id, &at);
                if (status == PST_BUSY) continue;
                assert_int_equal(status, PST_OK);
                e->done = 1;
                left--;
                for (uint64_t b = 0; b < MOST; b++)
                    if (e->mem[b] != (e->transfer.kind == PST_TRANSFER_SEND || b < e->transfer.bytes
                                          ? (uint8_t)((order[k] / 2) % 251 + 1)
                                          : 0))
                        fail_msg("seed %d, message %u: byte %u is wrong", (int)seed, order[k] / 2,
                                 (unsigned)b);
            }
            if (rounds > 100000) fail_msg("seed %d: %u ends wait for ever", (int)seed, left);
        }
        assert_int_equal(fake_nccl.live, RANKS);
        assert_true(fake_nccl.groups < fake_nccl.in_groups); /* some did go together */
        close_all();
        assert_int_equal(fake_nccl.aborted, 0); /* each had its end in peace */
    }
}

static pst_status run_one(uint64_t sent, uint64_t expected, char said[2][512]) {
    static uint8_t mem[2][MOST];
    uint64_t id[2], at;
    pst_status status[2] = {PST_BUSY, PST_BUSY};
    const pst_transfer send = {
        .kind = PST_TRANSFER_SEND, .peer = 1, .channel = 2, .seq = 3, .mem = mem[0], .bytes = sent};
    const pst_transfer recv = {
        .kind = PST_TRANSFER_RECV, .channel = 2, .seq = 3, .mem = mem[1], .bytes = expected};
    assert_int_equal(t[0]->ops->post(t[0], &send, &id[0]), PST_OK);
    assert_int_equal(t[1]->ops->post(t[1], &recv, &id[1]), PST_OK);
    for (int round = 0; round < 1000 && (status[0] == PST_BUSY || status[1] == PST_BUSY); round++) {
        progress_all();
        for (int k = 0; k < 2; k++)
            if (status[k] == PST_BUSY && (status[k] = t[k]->ops->test(t[k], id[k], &at)) > PST_BUSY)
                snprintf(said[k], 512, "%s", pst_error());
    }
    assert_int_equal(status[0], status[1]);
    return status[0];
}

static void ends_disagree(void **state) {
    (void)state;
    char said[2][512];
    open_all(1);
    assert_int_equal(run_one(100, 60, said), PST_EINPUT);
    for (int k = 0; k < 2; k++)
        assert_string_equal(said[k],
                            "rank 0 sent 100 bytes, rank 1 expects 60 (message 3 on channel 2)");
    close_all();
}

static void connection_dies(void **state) {
    (void)state;
    char said[2][512];
    open_all(1);
    fake_nccl.fails_at = 1;
    assert_int_equal(run_one(100, 100, said), PST_EPEER);
    assert_string_equal(
        said[0],
        "sending a message to rank 1: NCCL: messages: queueing: remote error: the cable is out");
    assert_non_null(strstr(said[1], "receiving a message from rank 0: NCCL: "));
    close_all();
    open_all(0);
    uint64_t id, at;
    uint8_t byte = 1;
    const pst_transfer send = {.kind = PST_TRANSFER_SEND, .peer = 1, .mem = &byte, .bytes = 1};
    assert_int_equal(t[0]->ops->post(t[0], &send, &id), PST_OK);
    t[1]->ops->abort(t[1]);
    progress_all();
    assert_int_equal(t[0]->ops->test(t[0], id, &at), PST_EPEER);
    close_all();
}

/* What was queued waits on the device; NCCL learns of the failure by itself. Both ends name the
 * other, and whoever gives up aborts all communicators. */
static void link_dies_under_way(void **state) {
    (void)state;
    static uint8_t mem[2][100];
    uint64_t id[2], at;
    open_all(0);
    fake_nccl.holds = 1;
    for (uint32_t k = 0; k < 2; k++) {
        const pst_transfer half = {.kind = k ? PST_TRANSFER_RECV : PST_TRANSFER_SEND,
                                   .peer = 1 - k,
                                   .mem = mem[k],
                                   .bytes = 100};
        assert_int_equal(t[k]->ops->post(t[k], &half, &id[k]), PST_OK);
    }
    for (int round = 0; round < 50; round++) progress_all();
    for (int k = 0; k < 2; k++) assert_int_equal(t[k]->ops->test(t[k], id[k], &at), PST_BUSY);
    fake_nccl.dies = 1;
    progress_all();
    assert_int_equal(t[0]->ops->test(t[0], id[0], &at), PST_EPEER);
    assert_string_equal(
        pst_error(),
        "sending a message to rank 1: NCCL: messages: in flight: remote error: the cable is out");
    assert_int_equal(t[1]->ops->test(t[1], id[1], &at), PST_EPEER);
    assert_string_equal(pst_error(), "receiving a message from rank 0: NCCL: messages: in flight: "
                                     "remote error: the cable is out");
    for (int k = 0; k < 2; k++) t[k]->ops->abort(t[k]);
    assert_int_equal(fake_nccl.aborted, 2);
    fake_nccl.dies = 0;
    close_all();
}

/* A peer that does not finish is not waited for without end; after a failure nobody waits. */
static void other_end_is_gone(void **state) {
    (void)state;
    char said[2][512];
    open_all(1);
    assert_int_equal(run_one(100, 100, said), PST_OK);
    fake_nccl.deaf = 1;
    fake.tick = 100000000;
    close_all();
    assert_int_equal(fake_nccl.aborted, RANKS);
    fake.tick = 0;
    open_all(1);
    assert_int_equal(run_one(100, 100, said), PST_OK);
    fake_nccl.fails_at = 1;
    assert_int_equal(run_one(100, 100, said), PST_EPEER);
    close_all();
    assert_int_equal(fake_nccl.aborted, 2);
}

/* --- what the order is for -------------------------------------------------------------------- */

/* The halves of three messages in a circle of three ranks, each rank's in two groups or in one. */
static int circle(int together) {
    enum { CIRCLE = 3 };
    const char *why;
    const pst_nccl *nccl = pst_nccl_get(&why);
    ncclComm_t comm[CIRCLE];
    cudaStream_t stream[CIRCLE];
    ncclUniqueId id;
    ncclResult_t now;
    uint8_t mem[CIRCLE][2] = {{1}, {2}, {3}};
    fake_reset();
    fake_nccl_reset();
    nccl->unique_id(&id);
    for (int r = 0; r < CIRCLE; r++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        cudaStreamCreateWithFlags(&stream[r], cudaStreamNonBlocking);
        nccl->init(&comm[r], CIRCLE, id, r, &config);
    }
    for (int r = 0; r < CIRCLE; r++) {
        if (together) nccl->group_start();
        nccl->send(&mem[r][0], 1, ncclInt8, (r + 1) % CIRCLE, comm[r], stream[r]);
        nccl->recv(&mem[r][1], 1, ncclInt8, (r + CIRCLE - 1) % CIRCLE, comm[r], stream[r]);
        if (together) nccl->group_end();
    }
    int waiting = fake_nccl_waiting();
    for (int r = 0; r < CIRCLE; r++) {
        nccl->state(comm[r], &now);
        if (!waiting) assert_int_equal(mem[r][1], mem[(r + CIRCLE - 1) % CIRCLE][0]);
        nccl->abort(comm[r]);
        cudaStreamDestroy(stream[r]);
    }
    return waiting;
}

/* The library that is made up does hang where NCCL would. */
static void circles_hang(void **state) {
    (void)state;
    assert_int_equal(circle(0), 6);
    assert_int_equal(circle(1), 0);
}

/* Of a pipeline under 1F1B: each rank sends to the next one and gets from it, and posts the two in
 * the order that leads into a circle. */
static void both_ways(void **state) {
    (void)state;
    static uint8_t mem[RANKS][4][100];
    uint64_t id[RANKS][4], at;
    open_all(0);
    int n_group = fake_nccl.groups;
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t way = r & 1 ? k ^ 2 : k; /* to the next, from it; to the one before, from it */
            const pst_transfer half = {.kind = way & 1 ? PST_TRANSFER_RECV : PST_TRANSFER_SEND,
                                       .peer = (r + (way < 2 ? 1 : RANKS - 1)) % RANKS,
                                       .channel = way == 0 || way == 3 ? 1 : 2,
                                       .mem = mem[r][way],
                                       .bytes = 100};
            memset(mem[r][way], (int)(10 * r + way), 100);
            assert_int_equal(t[r]->ops->post(t[r], &half, &id[r][k]), PST_OK);
        }
    for (int round = 0; round < 100; round++) progress_all();
    for (uint32_t r = 0; r < RANKS; r++) {
        for (int k = 0; k < 4; k++) assert_int_equal(t[r]->ops->test(t[r], id[r][k], &at), PST_OK);
        assert_int_equal(mem[r][1][99], 10 * ((r + 1) % RANKS) + 2);
        assert_int_equal(mem[r][3][99], 10 * ((r + RANKS - 1) % RANKS));
    }
    assert_int_equal(fake_nccl_waiting(), 0);
    assert_true(fake_nccl.groups - n_group < 4 * RANKS);
    close_all();
}

/* --- communicators ---------------------------------------------------------------------------- */

/* Ranks that are said not to talk are not connected; what connecting takes is known. */
static void memory_is_known(void **state) {
    (void)state;
    const uint8_t talks[RANKS] = {1, 0, 1, 0}; /* of rank 0 and 2; the others' own word is 0 */
    uint64_t bytes[RANKS];
    for (int slow = 0; slow < 3; slow++) {
        begin_all(slow, 0, NULL);
        connect_all(bytes);
        assert_int_equal(fake_nccl.most_ctas, PST_NCCL_CTAS);
        for (int i = 0; i < RANKS; i++) assert_true(bytes[i] >= (RANKS - 1) * TAKES);
        close_all();
    }
    fake_reset();
    fake_nccl_reset();
    fake.count = 2;
    fake_nccl.takes = TAKES;
    assert_int_equal(pst_self_hub_open(RANKS, NULL, &hub), PST_OK);
    for (uint32_t i = 0; i < RANKS; i++) {
        device[i] = (pst_cuda_device){.processors = 40};
        const uint8_t none[RANKS] = {0};
        const pst_direct_config config = {.inner = pst_self_hub_endpoint(hub, i),
                                          .device = &device[i].base,
                                          .talks = i % 2 ? none : talks};
        assert_int_equal(pst_direct_nccl.open(&config, &t[i]), PST_OK);
    }
    uint64_t before = fake.free_bytes;
    connect_all(bytes);
    assert_int_equal(before - fake.free_bytes, 2 * TAKES);
    assert_int_equal(fake_nccl.most_ctas, 5); /* an eighth of a small GPU */
    for (int i = 0; i < RANKS; i++) t[i]->ops->close(t[i]);
    pst_self_hub_close(hub);
    assert_int_equal(fake.live + fake_nccl.unlike + fake_nccl.live, 0);
}

static void a_group_exchanges(void **state) {
    (void)state;
    uint64_t bytes[RANKS];
    for (int slow = 0; slow < 2; slow++) {
        float part[RANKS][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, other[RANKS][2] = {0},
              sum[RANKS] = {0};
        begin_all(slow, 2, NULL);
        connect_all(bytes);
        assert_int_equal(fake_nccl.live, 2 * RANKS);
        for (int i = 0; i < RANKS; i++) {
            pst_swap_part parts[2] = {0};
            parts[1 - i % 2] = (pst_swap_part){part[i], other[i], sizeof *part, sizeof *part};
            const pst_swap swap = {parts, 2};
            assert_int_equal(pst_direct_nccl.swap(t[i], &swap), PST_OK);
        }
        for (int i = 0; i < RANKS; i++) assert_memory_equal(other[i], part[i ^ 1], sizeof *part);
        for (int i = 0; i < RANKS; i++) {
            const pst_group_sum scatter = {part[i], &sum[i], 1, PST_F32, 1};
            assert_int_equal(pst_direct_nccl.sum(t[i], &scatter), PST_OK);
        }
        for (int i = 0; i < RANKS; i++)
            assert_true(sum[i] == part[i & 2][i % 2] + part[i | 1][i % 2]);
        for (int i = 0; i < RANKS; i++) {
            const pst_group_sum all = {part[i], other[i], 2, PST_F32, 0};
            assert_int_equal(pst_direct_nccl.sum(t[i], &all), PST_OK);
        }
        for (int i = 0; i < RANKS; i++) assert_true(other[i][1] == part[i & 2][1] + part[i | 1][1]);
        assert_int_equal(fake_nccl_waiting(), 0);
        close_all();
    }
}

static void one_gpu_each(void **state) {
    (void)state;
    fake_reset();
    assert_null(pst_direct_nccl.reject(1));
    assert_string_equal(pst_direct_nccl.reject(2),
                        "2 ranks of this host share 1 GPU, but NCCL needs one GPU per rank; use "
                        "parallel.transport=ucx");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order),           cmocka_unit_test(ends_disagree),
        cmocka_unit_test(connection_dies),     cmocka_unit_test(other_end_is_gone),
        cmocka_unit_test(link_dies_under_way), cmocka_unit_test(one_gpu_each),
        cmocka_unit_test(circles_hang),        cmocka_unit_test(both_ways),
        cmocka_unit_test(memory_is_known),     cmocka_unit_test(a_group_exchanges)};
    pst_log_set_level(PST_LOG_WARN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return SKIPPED("built without NCCL"); }
#endif
