/* test: wrap=pst_monotonic_ns
 * The NCCL transport with a library that is made up (fake_nccl.h), over transport self: messages in
 * any order of posting, ends that disagree, a communicator that dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "skip.h"
#ifdef PST_NCCL
#include "comm/transport/transport.h"
#include "cuda/fake.h"
#include "cuda/fake_nccl.h"
#include "kernels/cuda/nccl.h"
#include "penstock/status.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, MESSAGES = 400, MOST = 3000 };

static pst_self_hub *hub;
static pst_cuda_device device[RANKS];
static pst_transport *t[RANKS];

static void open_all(int slow) {
    fake_reset();
    fake_nccl = (fake_nccl_state){.slow = slow};
    fake.count = RANKS;
    assert_int_equal(pst_self_hub_open(RANKS, NULL, &hub), PST_OK);
    for (int i = 0; i < RANKS; i++) {
        device[i] = (pst_cuda_device){.ordinal = i};
        assert_int_equal(
            pst_direct_nccl.open(pst_self_hub_end(hub, (uint32_t)i), &device[i].base, &t[i]),
            PST_OK);
    }
}

static void close_all(void) {
    for (int i = 0; i < RANKS; i++) t[i]->ops->close(t[i]);
    pst_self_hub_close(hub);
    assert_int_equal(fake_nccl.live, 0);
    assert_int_equal(fake_nccl.unlike, 0);
    assert_int_equal(fake.live, 0);
}

static void progress_all(void) {
    for (int i = 0; i < RANKS; i++) t[i]->ops->progress(t[i]);
    fake.now += 1000;
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

/* Half the ends are posted before anything moves, the others one by one, in an order of chance. */
static void any_order(void **state) {
    (void)state;
    static end ends[2 * MESSAGES];
    for (uint64_t seed = 1; seed <= 6; seed++) {
        uint64_t chance = seed * 0x9e3779b97f4a7c15;
        open_all((int)(seed % 3));
        for (uint32_t m = 0; m < MESSAGES; m++) {
            uint32_t from = (uint32_t)(draw(&chance) % RANKS),
                     to = (from + 1 + (uint32_t)(draw(&chance) & 1)) % RANKS;
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
            progress_all();
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
        assert_int_equal(fake_nccl.live, 2 * RANKS * (RANKS - 1));
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
    assert_string_equal(said[0],
                        "NCCL: sending to rank 1: ncclSend: remote error: the cable is out");
    assert_non_null(strstr(said[1], "NCCL: receiving from rank 0: "));
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
    assert_string_equal(pst_error(),
                        "NCCL: sending to rank 1: under way: remote error: the cable is out");
    assert_int_equal(t[1]->ops->test(t[1], id[1], &at), PST_EPEER);
    assert_string_equal(pst_error(),
                        "NCCL: receiving from rank 0: under way: remote error: the cable is out");
    for (int k = 0; k < 2; k++) t[k]->ops->abort(t[k]);
    assert_int_equal(fake_nccl.aborted, 2);
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
    assert_int_equal(fake_nccl.aborted, 2);
    open_all(1);
    assert_int_equal(run_one(100, 100, said), PST_OK);
    fake_nccl.fails_at = 1;
    assert_int_equal(run_one(100, 100, said), PST_EPEER);
    close_all();
    assert_int_equal(fake_nccl.aborted, 2);
}

static void one_gpu_each(void **state) {
    (void)state;
    fake_reset();
    assert_null(pst_direct_nccl.reject(1));
    assert_string_equal(
        pst_direct_nccl.reject(2),
        "2 ranks of this host share 1 GPU, and NCCL wants one for each; transport ucx does not");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order),           cmocka_unit_test(ends_disagree),
        cmocka_unit_test(connection_dies),     cmocka_unit_test(other_end_is_gone),
        cmocka_unit_test(link_dies_under_way), cmocka_unit_test(one_gpu_each)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return SKIPPED("built without NCCL"); }
#endif
