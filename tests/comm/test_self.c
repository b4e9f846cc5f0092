/* test: label=quick */
/* Transport self and the fault wrapper around it: matching, sizes, leaving, and what the wrapper
 * does to a post. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "comm/fault.h"
#include "comm/transfer.h"
#include "comm/transport/transport.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pst_status post(pst_transport *t, pst_transfer transfer, uint64_t *request) {
    return t->ops->post(t, &transfer, request);
}

static pst_status test(pst_transport *t, uint64_t request) {
    uint64_t end_ns = 0;
    return t->ops->test(t, request, &end_ns);
}

static void a_message_moves_when_both_are_there(void **state) {
    (void)state;
    pst_self_hub *hub;
    assert_int_equal(pst_self_hub_open(2, NULL, &hub), PST_OK);
    pst_transport *a = pst_self_hub_endpoint(hub, 0), *b = pst_self_hub_endpoint(hub, 1);
    int sent = 42, got = 0;
    uint64_t send, recv;
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 3, 7, &sent, sizeof sent), &send),
                     PST_OK);
    assert_int_equal(test(a, send), PST_BUSY);
    assert_int_equal(b->ops->progress(b), 0);
    assert_int_equal(post(b, transfer_of(PST_TRANSFER_RECV, 0, 3, 7, &got, sizeof got), &recv),
                     PST_OK);
    assert_int_equal(a->ops->progress(a), 1);
    assert_int_equal(a->ops->progress(a), 1); /* until it is tested */
    assert_int_equal(test(a, send), PST_OK);
    assert_int_equal(a->ops->progress(a), 0);
    assert_int_equal(test(b, recv), PST_OK);
    assert_int_equal(got, 42);
    pst_self_hub_close(hub);
}

static void other_channels_numbers_and_sources_do_not_match(void **state) {
    (void)state;
    pst_self_hub *hub;
    assert_int_equal(pst_self_hub_open(3, NULL, &hub), PST_OK);
    pst_transport *b = pst_self_hub_endpoint(hub, 1);
    int value[4] = {10, 11, 12, 13}, got = 0;
    uint64_t send, recv;
    assert_int_equal(post(b, transfer_of(PST_TRANSFER_RECV, 0, 5, 1, &got, sizeof got), &recv),
                     PST_OK);
    pst_transport *a = pst_self_hub_endpoint(hub, 0), *c = pst_self_hub_endpoint(hub, 2);
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 4, 1, &value[0], sizeof got), &send),
                     PST_OK);
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 5, 2, &value[1], sizeof got), &send),
                     PST_OK);
    assert_int_equal(post(c, transfer_of(PST_TRANSFER_SEND, 1, 5, 1, &value[2], sizeof got), &send),
                     PST_OK);
    assert_int_equal(test(b, recv), PST_BUSY);
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 5, 1, &value[3], sizeof got), &send),
                     PST_OK);
    assert_int_equal(test(b, recv), PST_OK);
    assert_int_equal(got, 13);
    pst_self_hub_close(hub);
}

static void a_wrong_size_is_told_to_both(void **state) {
    (void)state;
    pst_self_hub *hub;
    assert_int_equal(pst_self_hub_open(2, NULL, &hub), PST_OK);
    pst_transport *a = pst_self_hub_endpoint(hub, 0), *b = pst_self_hub_endpoint(hub, 1);
    char sent[8] = {0}, got[8];
    uint64_t send, recv;
    assert_int_equal(post(b, transfer_of(PST_TRANSFER_RECV, 0, 0, 0, got, 4), &recv), PST_OK);
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 0, 0, sent, 8), &send), PST_OK);
    assert_int_equal(test(a, send), PST_EINPUT);
    assert_int_equal(test(b, recv), PST_EINPUT);
    assert_non_null(strstr(pst_error(), "sent 8 bytes, rank 1 expects 4"));
    pst_self_hub_close(hub);
}

static void leaving_wakes_those_who_wait(void **state) {
    (void)state;
    pst_self_hub *hub;
    assert_int_equal(pst_self_hub_open(3, NULL, &hub), PST_OK);
    pst_transport *a = pst_self_hub_endpoint(hub, 0), *b = pst_self_hub_endpoint(hub, 1),
                  *c = pst_self_hub_endpoint(hub, 2);
    int x = 1, y = 0, z = 0;
    uint64_t from_b, from_c, mine, again;
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_RECV, 1, 0, 0, &y, sizeof y), &from_b),
                     PST_OK);
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_RECV, 2, 0, 0, &z, sizeof z), &from_c),
                     PST_OK);
    assert_int_equal(post(b, transfer_of(PST_TRANSFER_SEND, 2, 0, 0, &x, sizeof x), &mine), PST_OK);
    b->ops->abort(b);
    assert_int_equal(test(b, mine), PST_EPEER);
    assert_int_equal(test(a, from_b), PST_EPEER);
    assert_int_equal(test(a, from_c), PST_BUSY);
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 0, 1, &x, sizeof x), &again),
                     PST_EPEER);
    assert_int_equal(post(c, transfer_of(PST_TRANSFER_SEND, 0, 0, 0, &x, sizeof x), &again),
                     PST_OK);
    assert_int_equal(test(a, from_c), PST_OK);
    pst_self_hub_close(hub);
}

/* Many messages in random order of posting arrive with their own content. */
static void random_orders_match(void **state) {
    (void)state;
    enum { RANKS = 5, MESSAGES = 400 };
    uint64_t key = pst_rng_key(20240, "self");
    printf("seed 20240\n");
    pst_self_hub *hub;
    assert_int_equal(pst_self_hub_open(RANKS, NULL, &hub), PST_OK);
    static uint32_t sent[MESSAGES], got[MESSAGES];
    static uint64_t request[2 * MESSAGES];
    uint32_t from[MESSAGES], to[MESSAGES];
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint32_t word[4];
        pst_rng_words(key, 0, i, word);
        from[i] = word[0] % RANKS;
        to[i] = word[1] % RANKS;
        sent[i] = word[2];
        got[i] = 0;
    }
    for (uint32_t j = 0; j < 2 * MESSAGES; j++) { /* halves in random order */
        uint64_t half = pst_rng_permute(key, 2 * MESSAGES, j), i = half / 2;
        int is_send = half % 2 == 0;
        pst_transport *t = pst_self_hub_endpoint(hub, is_send ? from[i] : to[i]);
        assert_int_equal(post(t,
                              transfer_of(is_send ? PST_TRANSFER_SEND : PST_TRANSFER_RECV,
                                          is_send ? to[i] : from[i], (uint32_t)i % 7, (uint32_t)i,
                                          is_send ? &sent[i] : &got[i], 4),
                              &request[half]),
                         PST_OK);
    }
    for (uint32_t half = 0; half < 2 * MESSAGES; half++) {
        pst_transport *t =
            pst_self_hub_endpoint(hub, half % 2 == 0 ? from[half / 2] : to[half / 2]);
        assert_int_equal(test(t, request[half]), PST_OK);
    }
    assert_memory_equal(sent, got, sizeof sent);
    pst_self_hub_close(hub);
}

static void the_wrapper_drops_fails_and_delays(void **state) {
    (void)state;
    pst_self_hub *hub;
    assert_int_equal(pst_self_hub_open(2, NULL, &hub), PST_OK);
    pst_transport *b = pst_self_hub_endpoint(hub, 1), *a = NULL;
    pst_fault_spec spec = {.fail_post = 2, .drop_post = 3, .delay_polls = 4};
    assert_int_equal(pst_transport_fault_open(pst_self_hub_endpoint(hub, 0), &spec, &a), PST_OK);
    int sent = 5, got = 0, never = 0;
    uint64_t send, dropped, recv, lost;
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 0, 0, &sent, sizeof sent), &send),
                     PST_OK);
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 0, 1, &sent, sizeof sent), &dropped),
                     PST_EPEER);
    assert_int_equal(post(a, transfer_of(PST_TRANSFER_SEND, 1, 0, 2, &sent, sizeof sent), &dropped),
                     PST_OK);
    assert_int_equal(post(b, transfer_of(PST_TRANSFER_RECV, 0, 0, 0, &got, sizeof got), &recv),
                     PST_OK);
    assert_int_equal(post(b, transfer_of(PST_TRANSFER_RECV, 0, 0, 2, &never, sizeof never), &lost),
                     PST_OK);
    int fd;
    assert_int_equal(a->ops->arm(a, &fd), PST_BUSY);
    for (int polls = 0; polls < 3; polls++) {
        assert_true(a->ops->progress(a) > 0);
        assert_int_equal(test(b, recv), PST_BUSY);
    }
    assert_true(a->ops->progress(a) > 0);
    assert_int_equal(test(a, send), PST_OK);
    assert_int_equal(test(b, recv), PST_OK);
    assert_int_equal(got, 5);
    for (int polls = 0; polls < 50; polls++) {
        a->ops->progress(a);
        assert_int_equal(test(a, dropped), PST_BUSY);
    }
    assert_int_equal(test(b, lost), PST_BUSY);
    a->ops->close(a);
    pst_self_hub_close(hub);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_moves_when_both_are_there),
        cmocka_unit_test(other_channels_numbers_and_sources_do_not_match),
        cmocka_unit_test(a_wrong_size_is_told_to_both),
        cmocka_unit_test(leaving_wakes_those_who_wait),
        cmocka_unit_test(random_orders_match),
        cmocka_unit_test(the_wrapper_drops_fails_and_delays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
