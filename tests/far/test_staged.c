/* test: label=quick timeout=30 isa=any
 * Messages from and to memory that the host cannot reach: chunks, more messages than pairs, posted
 * in any order at either end, empty ones; sizes that differ and ends that leave are said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backends/module.h"
#include "comm/transport/transport.h"
#include "rank/staged.h"
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, CHUNK = 64, LARGEST = 1000, MESSAGES = 40, MOST_ROUNDS = 10000000 };

typedef struct {
    pst_device *device;
    pst_transport *t;
    uint8_t *memory;
} end;

static pst_self_hub *hub;
static end ends[RANKS];

static int open_all(void **state) {
    (void)state;
    const pst_module *m = pst_module_get();
    if (!m || pst_self_hub_open(RANKS, NULL, &hub) != PST_OK) return -1;
    for (uint32_t r = 0; r < RANKS; r++) {
        void *memory;
        end *e = &ends[r];
        if (m->device->open(&(pst_device_config){.threads = 1}, &e->device) != PST_OK) return -1;
        if (m->device->memory(e->device, 2 * MESSAGES * LARGEST, &memory) != PST_OK) return -1;
        e->memory = memory;
        if (pst_staged_open(pst_self_hub_endpoint(hub, r), e->device, LARGEST, CHUNK, &e->t) !=
            PST_OK)
            return -1;
    }
    return 0;
}

static int close_all(void **state) {
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++) {
        ends[r].t->ops->close(ends[r].t);
        ends[r].device->ops->close(ends[r].device);
    }
    pst_self_hub_close(hub);
    return 0;
}

static uint64_t bytes_of(uint32_t k) {
    static const uint64_t sizes[] = {0,         1,         CHUNK - 1,     CHUNK,
                                     CHUNK + 1, 2 * CHUNK, 5 * CHUNK + 3, LARGEST};
    return sizes[k % 8];
}

static uint8_t byte_of(uint32_t from, uint32_t k, uint64_t i) {
    return (uint8_t)(from * 91 + k * 7 + i * 13 + i / 256);
}

static void copy(end *e, void *to, const void *from, uint64_t bytes) {
    assert_int_equal(e->device->ops->copy(e->device, PST_Q_COMPUTE, to, from, bytes, NULL), PST_OK);
}

static uint64_t post(uint32_t rank, pst_transfer_kind kind, uint32_t peer, uint32_t k,
                     uint64_t bytes) {
    end *e = &ends[rank];
    uint32_t place = kind == PST_TRANSFER_SEND ? k : MESSAGES + k;
    uint64_t request;
    const pst_transfer t = {.kind = kind,
                            .peer = peer,
                            .channel = 5,
                            .seq = k,
                            .mem = e->memory + place * LARGEST,
                            .bytes = bytes};
    assert_int_equal(e->t->ops->post(e->t, &t, &request), PST_OK);
    return request;
}

/* Until all n requests of every rank are done. */
static void drive(uint64_t request[RANKS][2 * MESSAGES], uint32_t n) {
    uint8_t done[RANKS][2 * MESSAGES] = {{0}};
    uint32_t left = RANKS * n;
    for (int round = 0; left && round < MOST_ROUNDS; round++)
        for (uint32_t r = 0; r < RANKS; r++) {
            ends[r].t->ops->progress(ends[r].t);
            for (uint32_t i = 0; i < n; i++) {
                pst_status status =
                    done[r][i] ? PST_BUSY : ends[r].t->ops->test(ends[r].t, request[r][i], NULL);
                if (status == PST_BUSY) continue;
                assert_int_equal(status, PST_OK);
                done[r][i] = 1;
                left--;
            }
        }
    assert_int_equal(left, 0);
}

/* Every rank sends to the next one, in order; order: whether that one receives in the same order,
 * or backwards. */
static void round_trip(int backwards) {
    uint64_t request[RANKS][2 * MESSAGES];
    uint8_t host[LARGEST];
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t k = 0; k < MESSAGES; k++) {
            uint32_t other = backwards ? MESSAGES - 1 - k : k;
            for (uint64_t i = 0; i < LARGEST; i++) host[i] = byte_of(r, k, i);
            copy(&ends[r], ends[r].memory + k * LARGEST, host, LARGEST);
            memset(host, 0xee, LARGEST);
            copy(&ends[r], ends[r].memory + (MESSAGES + k) * LARGEST, host, LARGEST);
            request[r][2 * k] = post(r, PST_TRANSFER_SEND, (r + 1) % RANKS, k, bytes_of(k));
            request[r][2 * k + 1] =
                post(r, PST_TRANSFER_RECV, (r + RANKS - 1) % RANKS, other, bytes_of(other));
        }
    drive(request, 2 * MESSAGES);
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t k = 0; k < MESSAGES; k++) {
            copy(&ends[r], host, ends[r].memory + (MESSAGES + k) * LARGEST, LARGEST);
            for (uint64_t i = 0; i < LARGEST; i++)
                assert_int_equal(host[i],
                                 i < bytes_of(k) ? byte_of((r + RANKS - 1) % RANKS, k, i) : 0xee);
        }
}

static void any_order(void **state) {
    (void)state;
    round_trip(0);
    round_trip(1);
}

static pst_status until_said(uint32_t rank, uint64_t request) {
    pst_status status = PST_BUSY;
    for (int round = 0; status == PST_BUSY && round < MOST_ROUNDS; round++) {
        for (uint32_t r = 0; r < RANKS; r++) ends[r].t->ops->progress(ends[r].t);
        status = ends[rank].t->ops->test(ends[rank].t, request, NULL);
    }
    return status;
}

/* The last words on these ends. */
static void other_sizes(void **state) {
    (void)state;
    uint64_t sent = post(0, PST_TRANSFER_SEND, 1, 3, 100),
             received = post(1, PST_TRANSFER_RECV, 0, 3, 90);
    assert_int_equal(until_said(1, received), PST_EINPUT);
    assert_string_equal(pst_error(),
                        "rank 0 sent 100 bytes, rank 1 expects 90 (message 3 on channel 5)");
    assert_int_equal(until_said(0, sent), PST_EINPUT);
}

static void a_rank_leaves(void **state) {
    (void)state;
    uint64_t received = post(2, PST_TRANSFER_RECV, 1, 8, 90);
    ends[1].t->ops->abort(ends[1].t);
    assert_int_equal(until_said(2, received), PST_EPEER);
}

int main(void) {
    setenv("PENSTOCK_MODULE", FAR_MODULE, 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_order), cmocka_unit_test(other_sizes),
                                       cmocka_unit_test(a_rank_leaves)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
